//! How `noised record` ends, what it loses, and who may use it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Outcome, Process, Socketed, binary, run, run_noised};
use noise_tests::disk::{LoopDevice, ScratchFile};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::Worker;
use noise_tests::needed;
use noise_tests::recorded::{Recording, recorded};
use noise_tests::rights::UNPRIVILEGED;
use noise_tests::scratch::{self, Folder};
use noise_tests::task::{cpus, is_emulated, monotonic_ns, sched_stat};
use serde_json::Value;

use crate::lifecycle::PublicCopy;
use crate::record::{Recorder, ensure_babeltrace};
use crate::record_judged;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("record_of_a_command", record_of_a_command),
    ("record_that_is_killed", record_that_is_killed),
    ("record_counts_what_it_loses", record_counts_what_it_loses),
    ("record_on_a_full_disk", record_on_a_full_disk),
    ("record_on_a_disk_that_goes_read_only", record_on_a_disk_that_goes_read_only),
    ("record_beyond_a_file_limit", record_beyond_a_file_limit),
    ("record_where_another_user_interferes", record_where_another_user_interferes),
    ("record_that_keeps_the_latest", record_that_keeps_the_latest),
    ("record_as_a_member_of_the_group", record_as_a_member_of_the_group),
];

/// Longer than anything here should take on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A buffer for each CPU, and more events than it has room for: one takes 32 bytes.
const BUFFER: (&str, u64) = ("2M", 2 << 20);
const STORED: u64 = BUFFER.1 / 32;
/// The group `daemon`, which may ask the daemon of the test.
const DAEMON: u32 = 1;

/// Two processes that wake each other without a pause.
fn busy() -> Result<Worker> {
    let last = (cpus() - 1).to_string();
    Worker::start("pipe", &["0", &last, "0"])
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "{what}: not within {} s", TIMEOUT.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The usual scheduling policy, more threads than there are CPUs, reads past the page cache, and an exit code; a few thousand events.
const COMMAND: &str = "[ $(cut -d' ' -f41 /proc/self/stat) = 0 ] || exit 8
for thread in 1 2 3 4 5 6 7 8; do
    (count=0; while [ $count -lt 30000 ]; do count=$((count + 1)); done) &
done
for block in 0 1 2 3 4 5 6 7 8 9; do
    dd if=$0 of=/dev/null bs=4k count=8 skip=$((block * 8)) iflag=direct 2>/dev/null
    sleep 0.01
done
wait
exit 7";

fn record_of_a_command() -> Result<()> {
    let (folder, place) = (Folder::new("record")?, Folder::new("blocks")?);
    let (path, blocks) = (folder.argument()?, place.path().join("blocks"));
    fs::write(&blocks, vec![1; 512 << 10])?;
    File::open(&blocks)?.sync_all()?;
    let blocks = scratch::argument(&blocks)?;
    let others = Others::start()?;
    let outcome = run_noised(&["record", "--own", "-o", path, "--", "sh", "-c", COMMAND, blocks])?;
    ensure!(outcome.code == 7, "{outcome:?}");
    ensure!(outcome.stderr.contains("none lost"), "{}", outcome.stderr);
    let stretch = recorded(folder.path())?.stretch;
    ensure!(stretch.events.iter().any(|event| event.words.starts_with("wakeup_new")), "no start");
    for (name, mode) in
        [("kernel", 0o700), ("kernel/metadata", 0o600), ("kernel/channel0_0", 0o600)]
    {
        let found = fs::metadata(folder.path().join(name))?.permissions().mode() & 0o7777;
        ensure!(found == mode, "{name} has mode {found:o}");
    }
    let outcome = run_noised(&["record", "-o", path, "--duration", "1s"])?;
    ensure!(outcome.code == 2 && outcome.stderr.contains("has files in it"), "{outcome:?}");
    if let Some(others) = others {
        others.ensure_selected(path)?;
    }
    record_judged::judge(folder.path())
}

/// A shell in a cgroup of its own that creates processes all the time.
struct Others {
    shell: Process,
    // Behind its process, which goes first.
    group: Group,
}

impl Others {
    fn start() -> Result<Option<Self>> {
        if !Group::is_possible(Hierarchy::Cpu)? {
            println!("there are no cgroups");
            return Ok(None);
        }
        let group = Group::new("recorded", &[Hierarchy::Cpu])?;
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do (sleep 0.01); done"]);
        group.admit(&mut command)?;
        let shell = Process::start(command)?;
        Ok(Some(Self { shell, group }))
    }

    /// By their cgroup a reader selects the shell and what it created meanwhile, and nothing else.
    fn ensure_selected(mut self, recording: &str) -> Result<()> {
        self.shell.signal(libc::SIGKILL)?;
        self.shell.wait()?;
        // The last one is on its own.
        wait_until("an empty cgroup", || Ok(self.group.threads()?.is_empty()))?;
        let label = self.group.label();
        let delays = ["trace", "delays", "--json", "--cgroup", &label, recording];
        let delays: Value = run_noised(&delays)?.json()?;
        let threads = delays["threads"].as_array().context("no threads")?;
        let (mut shells, mut created) = (0, 0);
        for thread in threads {
            let comm = thread["comm"].as_str().context("no name")?;
            // In a guest both are busybox, by any of its names.
            let is_known = ["sh", "sleep"].contains(&comm) || is_emulated();
            ensure!(is_known, "{thread} is not of {label}");
            match thread["tid"].as_u64() == Some(self.shell.pid().into()) {
                true => shells += 1,
                false => created += 1,
            }
        }
        println!("{label}: {created} threads were created");
        ensure!(shells == 1 && created > 2, "{threads:?}");
        Ok(())
    }
}

fn record_that_is_killed() -> Result<()> {
    let mut recorder = Recorder::start(&["--own"])?;
    let load = busy()?;
    thread::sleep(Duration::from_millis(300));
    recorder.process.signal(libc::SIGKILL)?;
    recorder.process.wait()?;
    load.stop()?;
    let recording = recorded(recorder.folder.path())?;
    println!("{} events", recording.stretch.events.len());
    ensure!(recording.stretch.events.len() > 1000, "next to nothing is there");
    ensure_babeltrace(recorder.folder.path(), &recording)?;
    Ok(())
}

/// What is lost while the recorder gets no turn is counted where it is missing.
fn record_counts_what_it_loses() -> Result<()> {
    let mut recorder = Recorder::start(&["--own", "--buffer", BUFFER.0])?;
    let load = Worker::start("pipe", &["0", "0", "0"])?;
    thread::sleep(Duration::from_millis(50));
    let stat = fs::read_to_string(format!("/proc/{}/stat", recorder.process.pid()))?;
    // Behind its name, which may have spaces.
    let policy = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38));
    ensure!(policy == Some("2"), "the reader has no real-time priority: {stat}");
    recorder.process.signal(libc::SIGSTOP)?;
    let stopped_ns = monotonic_ns()?;
    // So long that the store overflows: each of these switches to it goes with one away.
    wait_until("enough switches", || Ok(sched_stat(load.pid())?.runs > STORED))?;
    load.stop()?;
    let continued_ns = monotonic_ns()?;
    recorder.process.signal(libc::SIGCONT)?;
    recorder.stop(libc::SIGTERM)?;
    println!("{}", recorder.process.stderr()?);
    let recording = recorded(recorder.folder.path())?;
    let Recording { stretch, losses, .. } = &recording;
    ensure!(stretch.missing > 0, "nothing was lost");
    let said = format!(", {} lost", stretch.missing);
    ensure!(recorder.process.stderr()?.contains(&said), "{}", recorder.process.stderr()?);
    let remedy = format!("the buffer of each CPU had {} KiB: a larger --buffer", BUFFER.1 / 1024);
    ensure!(recorder.process.stderr()?.contains(&remedy), "{}", recorder.process.stderr()?);
    let outcome = run_noised(&["trace", "events", "--summary", recorder.folder.argument()?])?;
    println!("{}", outcome.stdout);
    ensure!(outcome.stdout.contains("The buffer of each CPU had 2048 KiB"), "{}", outcome.stdout);
    let largest = losses.iter().max_by_key(|loss| loss.events).context("no loss")?;
    println!("{largest:?} while it was stopped from {stopped_ns} to {continued_ns}");
    ensure!(
        largest.from_ns < continued_ns && largest.to_ns > stopped_ns,
        "{largest:?} is not where the recorder was stopped"
    );
    let of_its_cpu = || stretch.events.iter().filter(|event| event.cpu == largest.cpu);
    let gap = largest.from_ns + 1..largest.to_ns;
    let inside = of_its_cpu().filter(|event| gap.contains(&event.time_ns)).count() as u64;
    // Programs that interrupted others have a place of their own.
    ensure!(inside < largest.events / 100, "{inside} events are inside of {largest:?}");
    ensure!(of_its_cpu().any(|event| event.time_ns <= largest.from_ns), "nothing before it");
    ensure!(of_its_cpu().any(|event| event.time_ns >= largest.to_ns), "nothing behind it");
    ensure_babeltrace(recorder.folder.path(), &recording)?;
    Ok(())
}

/// A file system that goes when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(place: &Path, options: &[&str]) -> Result<Self> {
        let path = scratch::argument(place)?;
        let status = Command::new("mount").args(options).arg(path).status()?;
        ensure!(status.success(), "mount {options:?} {path} ended with {status}");
        Ok(Self(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The surroundings are looked at behind each test.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// It ended by what happened to the disk, and said so in a sentence; what is there can be read.
fn ensure_ended_early(outcome: &Outcome, folder: &Path, reason: &str) -> Result<Recording> {
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 1, "{outcome:?}");
    ensure!(outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    ensure!(outcome.stderr.contains("the recording ended early, and can be read up to there"));
    ensure!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    let recording = recorded(folder)?;
    let events = recording.stretch.events.len();
    let said = format!("({events} events in ");
    ensure!(events > 1000 && outcome.stderr.contains(&said), "{events}: {}", outcome.stderr);
    ensure_babeltrace(folder, &recording)?;
    Ok(recording)
}

fn record_on_a_full_disk() -> Result<()> {
    let place = Folder::new("full")?;
    let _mounted = Mounted::new(place.path(), &["-t", "tmpfs", "-o", "size=2m", "noised-test"])?;
    let folder = place.path().join("recording");
    let path = scratch::argument(&folder)?;
    let load = busy()?;
    let outcome = run_noised(&["record", "--own", "-o", path, "--duration", "30s"])?;
    load.stop()?;
    let recording = ensure_ended_early(&outcome, &folder, "No space left on device")?;
    // What did not fit is counted at the end.
    let Recording { stretch, losses, .. } = &recording;
    ensure!(stretch.missing > 0, "nothing is counted as lost");
    let said = format!(", {} lost, ", stretch.missing);
    ensure!(outcome.stderr.contains(&said), "{} in {}", stretch.missing, outcome.stderr);
    for loss in losses {
        let mut later = stretch.events.iter().filter(|event| event.time_ns >= loss.to_ns);
        ensure!(later.all(|event| event.cpu != loss.cpu), "there are events behind {loss:?}");
    }
    Ok(())
}

fn record_on_a_disk_that_goes_read_only() -> Result<()> {
    needed::needs(&["mke2fs"])?;
    let backing = ScratchFile::new("goes", 64)?;
    let device = LoopDevice::attach(&backing)
        .map_err(|error| Impossible(format!("no loop device: {error:#}")))?;
    let made = Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", &device.path()]).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let place = Folder::new("goes")?;
    let options = ["-t", "ext4", "-o", "errors=remount-ro", &device.path()];
    let _mounted = Mounted::new(place.path(), &options)?;
    let trigger = PathBuf::from(format!("/sys/fs/ext4/{}/trigger_fs_error", device.name));
    let folder = place.path().join("recording");
    let path = scratch::argument(&folder)?.to_owned();
    let load = busy()?;
    let recording =
        thread::spawn(move || run_noised(&["record", "--own", "-o", &path, "--duration", "30s"]));
    let first = folder.join("kernel/channel0_0");
    let tripped = wait_until("a recording of some size", || match fs::metadata(&first) {
        Ok(file) => Ok(file.len() > 500_000),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    })
    .and_then(|()| fs::write(&trigger, "noised-test").context("trigger_fs_error"));
    let outcome = recording.join().ok().context("the thread panicked")??;
    load.stop()?;
    tripped?;
    ensure_ended_early(&outcome, &folder, "Read-only file system")?;
    // Nothing could be counted there, either.
    ensure!(outcome.stderr.contains("of them not counted in the files"), "{}", outcome.stderr);
    Ok(())
}

/// No file may have more than a MiB: a write beyond it is an error, not the end of the process.
fn record_beyond_a_file_limit() -> Result<()> {
    let place = Folder::new("limited")?;
    let folder = place.path().join("recording");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 2048; exec \"$0\" \"$@\""]).arg(binary()?);
    command.args(["record", "--own", "--duration", "60s", "-o"]).arg(&folder);
    let load = busy()?;
    let outcome = run(command)?;
    load.stop()?;
    ensure_ended_early(&outcome, &folder, "may write files of at most 1048576 bytes")?;
    Ok(())
}

/// Root records where another user may write: nothing is written but into the folder that was made.
fn record_where_another_user_interferes() -> Result<()> {
    let (place, precious) = (Folder::new("theirs")?, Folder::new("precious")?);
    fs::create_dir(precious.path().join("kernel"))?;
    let kept = ["kernel/metadata", "kernel/.reserve", "kernel/channel0_0"];
    for name in kept {
        fs::write(precious.path().join(name), "old")?;
    }
    for (name, mode) in [("theirs", 0o700), ("shared", 0o1777)] {
        let path = place.path().join(name);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    for path in [place.path().to_owned(), place.path().join("theirs")] {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    }
    for (name, words) in [("theirs", "belongs to another user"), ("shared", "may write to it")] {
        let path = place.path().join(name);
        let options = ["record", "--own", "--duration", "1s", "-o", scratch::argument(&path)?];
        let outcome = run_noised(&options)?;
        ensure!(outcome.code == 2 && outcome.stderr.contains(words), "{name}: {outcome:?}");
        ensure!(fs::read_dir(&path)?.count() == 0, "{name} has something in it");
    }
    let path = place.path().join("new");
    let argument = scratch::argument(&path)?.to_owned();
    let options = ["record", "--own", "--duration", "2s", "-o"].map(str::to_owned);
    let recording = thread::spawn(move || {
        let mut command = Command::new(binary()?);
        command.args(options).arg(argument);
        run(command)
    });
    wait_until("the folder", || Ok(path.join("kernel/metadata").exists()))?;
    // What its owner may do in the folder above.
    fs::rename(&path, place.path().join("moved"))?;
    symlink(precious.path(), &path)?;
    let outcome = recording.join().ok().context("the thread panicked")??;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 0, "{outcome:?}");
    for name in kept {
        ensure!(fs::read(precious.path().join(name))? == b"old", "{name} was written to");
    }
    ensure!(fs::read_dir(precious.path().join("kernel"))?.count() == kept.len(), "there is more");
    let recording = recorded(&place.path().join("moved"))?;
    ensure!(!recording.stretch.events.is_empty(), "no event");
    Ok(())
}

/// Bytes of all files of a recording, while it is made.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder.join("kernel"))? {
        // One may be removed meanwhile.
        bytes += entry?.metadata().map_or(0, |file| file.len());
    }
    Ok(bytes)
}

fn record_that_keeps_the_latest() -> Result<()> {
    const MOST: u64 = 4 << 20;
    let outcome = run_noised(&["record", "--max-size", "2M", "--max-files", "3"])?;
    ensure!(outcome.code == 2 && outcome.stderr.contains("--max-size 3M"), "{outcome:?}");
    let outcome = run_noised(&["record", "--max-files", "3"])?;
    ensure!(outcome.code == 2 && outcome.stderr.contains("--max-size"), "{outcome:?}");
    let mut recorder = Recorder::start(&["--own", "--max-size", "4M", "--max-files", "4"])?;
    let begin_ns = monotonic_ns()?;
    let load = busy()?;
    let path = recorder.folder.path().to_owned();
    let mut largest = 0;
    // The files of the fourth turn: the first ones are gone by then.
    wait_until("files of a fourth turn", || {
        largest = largest.max(size(&path)?);
        let second = path.join("kernel/channel0_0_1");
        Ok(path.join("kernel/channel0_0_4").exists() && !second.exists())
    })?;
    load.stop()?;
    recorder.stop(libc::SIGINT)?;
    let end = size(&path)?;
    let said = recorder.process.stderr()?;
    println!("{said}at most {largest} bytes, {end} in the end");
    ensure!(largest.max(end) <= MOST, "{largest} bytes, {end} in the end");
    ensure!(said.contains("of them removed with the oldest files"), "{said}");
    let recording = recorded(&path)?;
    let first = recording.stretch.events.first().context("no event")?;
    ensure!(first.time_ns > begin_ns, "the first event is from before the load");
    ensure!(recording.dumped > 0, "no file says who there is");
    ensure_babeltrace(&path, &recording)?;
    // Without other files it ends there.
    let folder = Folder::new("record")?;
    let load = busy()?;
    let options = ["record", "--own", "-o", folder.argument()?, "--max-size", "1M"];
    let outcome = run_noised(&options)?;
    load.stop()?;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 0 && outcome.stderr.contains("ended by --max-size"), "{outcome:?}");
    let end = size(folder.path())?;
    // What does not fit is left out, and no more than that.
    ensure!((1 << 19..=1 << 20).contains(&end), "{end} bytes");
    recorded(folder.path())?;
    Ok(())
}

fn record_as_a_member_of_the_group() -> Result<()> {
    let copy = PublicCopy::new()?;
    let daemon = Socketed::start(&["--socket.group=daemon"])?;
    let socket = daemon.socket.to_str().context("a path that is not UTF-8")?;
    // Their way to the socket.
    let way = daemon.socket.parent().context("no folder")?;
    fs::set_permissions(way, fs::Permissions::from_mode(0o755))?;
    let place = Folder::new("theirs")?;
    chown(place.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    let record = |name: &str, group: u32| {
        let path = place.path().join(name);
        let mut command = Command::new(copy.path());
        command.args(["record", "--connect", socket, "--duration", "300ms", "-o"]).arg(path);
        command.current_dir("/").uid(UNPRIVILEGED).gid(group);
        run(command)
    };
    let outcome = record("member", DAEMON)?;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 0, "{outcome:?}");
    let path = place.path().join("member");
    let recording = recorded(&path)?;
    ensure!(!recording.stretch.events.is_empty(), "no event");
    ensure_babeltrace(&path, &recording)?;
    let outcome = record("outsider", UNPRIVILEGED)?;
    println!("{}", outcome.stderr);
    ensure!(outcome.code == 3, "{outcome:?}");
    ensure!(outcome.stderr.contains("sudo adduser"), "{}", outcome.stderr);
    ensure!(!place.path().join("outsider").exists(), "a folder was made for nothing");
    Ok(())
}

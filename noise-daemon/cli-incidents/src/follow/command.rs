//! The command that is run with each incident that opens or closes: one at a time, in a thread of its own, so that a
//! slow one delays neither what is printed nor what is seen. What waits is bounded, and so is the time of one.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use noise_command::output;

/// Events that wait for the command.
const MOST_WAITING: usize = 64;
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is checked whether the command has ended.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// What a command is run with.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// What became of the incident: `opened`, `closed`, …
    pub event: &'static str,
    /// The number of the incident.
    pub id: u64,
    /// It in a sentence.
    pub sentence: String,
    /// All of it: JSON.
    pub document: String,
}

impl Occurrence {
    fn name(&self) -> String {
        format!("incident {} ({})", self.id, self.event)
    }
}

pub struct Runner {
    waiting: Option<SyncSender<Occurrence>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    dropped: u64,
}

impl Runner {
    /// Starts a thread that runs a command of the shell, each time for so long at most. What fails is said by `complain`.
    /// Errors: where there can be no thread.
    pub fn start(command: String, timeout: Duration, complain: fn(&str)) -> anyhow::Result<Self> {
        let (waiting, occurrences) = sync_channel(MOST_WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("exec".to_owned())
            .spawn(move || work(&occurrences, &command, timeout, &is_over, complain))
            .context("cannot start a thread for the command")?;
        Ok(Self { waiting: Some(waiting), thread: Some(thread), stop, dropped: 0 })
    }

    /// Has the command run, when those before are done. Where too many wait, it is not: why is returned.
    pub fn run(&mut self, occurrence: Occurrence) -> Result<(), String> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        match waiting.try_send(occurrence) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) => {
                self.dropped += 1;
                Err(format!(
                    "the command is not run for {}: {MOST_WAITING} wait for it ({} left out so far)",
                    lost.name(),
                    self.dropped
                ))
            }
        }
    }

    /// Waits for the command that runs, and leaves out those that wait.
    pub fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waiting = None;
        if let Some(thread) = self.thread.take() {
            // It ends in time: the command does.
            let _ = thread.join();
        }
    }
}

fn work(
    occurrences: &Receiver<Occurrence>,
    command: &str,
    timeout: Duration,
    is_over: &AtomicBool,
    complain: fn(&str),
) {
    let mut left_out = 0_u64;
    while let Ok(occurrence) = occurrences.recv() {
        if is_over.load(Ordering::Relaxed) {
            left_out += 1;
        } else if let Err(error) = run(&occurrence, command, timeout) {
            complain(&format!("the command failed for {}: {error:#}", occurrence.name()));
        }
    }
    if left_out > 0 {
        complain(&format!("the command was not run for the last {left_out} that waited for it"));
    }
}

/// A file in memory: a command that does not read its input holds up no one.
fn input(document: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"incident", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(document.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Runs the command once.
fn run(occurrence: &Occurrence, command: &str, timeout: Duration) -> anyhow::Result<()> {
    let input = input(&occurrence.document).context("cannot pass it on")?;
    // What it prints must not get between our own lines.
    let output = output::standard_error().context("cannot pass standard error on")?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("NOISED_EVENT", occurrence.event)
        .env("NOISED_INCIDENT", occurrence.id.to_string())
        .env("NOISED_SENTENCE", &occurrence.sentence)
        .stdin(input)
        .stdout(Stdio::from(output))
        .process_group(0)
        .spawn()
        .context("cannot run /bin/sh")?;
    let in_time = wait(&child, timeout)?;
    if !in_time {
        end(&child)?;
    }
    let status = child.wait().context("cannot wait for it")?;
    anyhow::ensure!(in_time, "it took longer than {timeout:?}, and was ended ({status})");
    anyhow::ensure!(status.success(), "{status}");
    Ok(())
}

fn pid(child: &Child) -> anyhow::Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}

/// Whether it ends within that time. Until it is waited for in another way, its number is its own.
fn wait(child: &Child, timeout: Duration) -> anyhow::Result<bool> {
    let deadline = Instant::now() + timeout;
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        if waitid(Id::Pid(pid(child)?), flags).context("cannot wait for it")?
            != WaitStatus::StillAlive
        {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(CHECK_EVERY);
    }
}

/// Ends it with all that it started and that is still in its process group.
fn end(child: &Child) -> anyhow::Result<()> {
    let group = pid(child)?;
    // There may be none left at either time.
    let _ = killpg(group, Signal::SIGTERM);
    wait(child, GRACE)?;
    let _ = killpg(group, Signal::SIGKILL);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::sync::Mutex;

    fn occurrence(id: u64) -> Occurrence {
        let document = format!("{{\"id\":{id}}}");
        Occurrence { event: "opened", id, sentence: "a of b".to_owned(), document }
    }

    fn once(command: &str, timeout: Duration) -> Result<(), String> {
        run(&occurrence(7), command, timeout).map_err(|error| format!("{error:#}"))
    }

    const LONG: Duration = Duration::from_secs(60);

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn the_incident_is_its_input_and_in_short_in_its_environment() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("got");
        let to = path.display();
        once(
            &format!(
                "cat > {to}; echo \" $NOISED_EVENT $NOISED_INCIDENT $NOISED_SENTENCE\" >> {to}"
            ),
            LONG,
        )
        .unwrap();
        assert_eq!(text(&path), "{\"id\":7} opened 7 a of b\n");
        // Larger than any pipe, and not read.
        let large = Occurrence { document: "x".repeat(1 << 21), ..occurrence(1) };
        run(&large, "true", LONG).unwrap();
        assert_eq!(once("exit 3", LONG).unwrap_err(), "exit status: 3");
        assert_eq!(once("kill -TERM $$", LONG).unwrap_err(), "signal: 15 (SIGTERM)");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_what_it_started() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("children");
        let short = Duration::from_millis(300);
        let script = format!(
            "trap '' TERM; sh -c \"trap '' TERM; sleep 60 & wait\" & echo $! > {}; sleep 60; sleep 60",
            path.display()
        );
        let begin = Instant::now();
        let error = once(&script, short).unwrap_err();
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        assert!(
            error.starts_with("it took longer than 300ms, and was ended (signal: 9"),
            "{error}"
        );
        let child = text(&path).trim().parse::<i32>().unwrap();
        // It is gone, or about to be: no one waits for it but init.
        let state = || text(Path::new(&format!("/proc/{child}/stat")));
        while !state().is_empty() && !state().contains(") Z ") {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}", state());
            thread::sleep(CHECK_EVERY);
        }
        let error = once("sleep 60", short).unwrap_err();
        assert!(error.ends_with("(signal: 15 (SIGTERM))"), "{error}");
    }

    #[test]
    fn one_runs_at_a_time_and_what_waits_is_bounded() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let root = tempfile::tempdir().unwrap();
        let (path, gate) = (root.path().join("got"), root.path().join("gate"));
        let script = format!(
            "while ! test -e {0}; do sleep 0.01; done; echo begin >> {1}; sleep 0.01; echo $NOISED_INCIDENT end >> {1}; exit 1",
            gate.display(),
            path.display()
        );
        let complain = |sentence: &str| SAID.lock().unwrap().push(sentence.to_owned());
        let mut runner = Runner::start(script, LONG, complain).unwrap();
        let most = MOST_WAITING as u64;
        // The first is taken at some time, and makes room for one more.
        let (mut taken, mut left_out) = (Vec::new(), Vec::new());
        for id in 0..most + 10 {
            match runner.run(occurrence(id)) {
                Ok(()) => taken.push(id),
                Err(error) => left_out.push(error),
            }
        }
        assert!((9..=10).contains(&left_out.len()), "{left_out:?}");
        assert!(left_out[0].ends_with("64 wait for it (1 left out so far)"), "{left_out:?}");
        fs::write(&gate, "").unwrap();
        let due = taken.len();
        let begin = Instant::now();
        while text(&path).lines().count() < 2 * due {
            assert!(begin.elapsed() < LONG, "{}", text(&path));
            thread::sleep(CHECK_EVERY);
        }
        runner.finish();
        let text = text(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (id, pair) in taken.iter().zip(lines.chunks(2)) {
            assert_eq!(pair, ["begin".to_owned(), format!("{id} end")], "{text}");
        }
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), due);
        assert_eq!(said[0], "the command failed for incident 0 (opened): exit status: 1");
    }

    #[test]
    fn what_still_waits_at_the_end_is_left_out_and_said_to_be() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let complain = |sentence: &str| SAID.lock().unwrap().push(sentence.to_owned());
        let mut runner = Runner::start("sleep 0.3".to_owned(), LONG, complain).unwrap();
        (0..3).for_each(|id| runner.run(occurrence(id)).unwrap());
        thread::sleep(Duration::from_millis(100));
        runner.finish();
        let said = SAID.lock().unwrap();
        assert_eq!(*said, ["the command was not run for the last 2 that waited for it"]);
    }
}

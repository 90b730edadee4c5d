//! A machine of its own: a clean Debian that boots under systemd-nspawn, with this host's kernel.
//!
//! It has process ids, mounts, cgroups and a network of its own, and the privileges that loading BPF
//! programs needs. Nothing of it outlives the value: the folder, the processes and the cgroups go.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::daemon::{Outcome, Process, run};
use crate::http::{self, Response};
use crate::namespace::in_network_of;
use crate::needed::{Impossible, needs};
use crate::scratch::Folder;

/// Longer than a boot takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// What Debian has to have inside, beside what is essential.
const INSIDE: &str = "systemd,systemd-sysv,dbus";

/// Calls that a service of a host has and one of a machine has not: with them the daemon loads and confines itself.
const SYSTEM_CALLS: &str = "--system-call-filter=bpf landlock_create_ruleset landlock_add_rule \
                            landlock_restrict_self";

/// Commands of this host that are needed.
const NEEDED: [&str; 4] = ["systemd-nspawn", "nsenter", "tar", "mmdebstrap"];

/// Requires this host to be able to boot a machine.
/// Errors: as [`Impossible`]; another one if the host cannot be asked.
pub fn ensure_possible() -> Result<()> {
    needs(&NEEDED)?;
    let base = base()?;
    if !base.is_file() {
        let none = |error| Impossible(format!("no clean Debian can be had: {error:#}"));
        bootstrap(&base).map_err(none)?;
    }
    Ok(())
}

/// Where the clean root is kept, for the next run too.
fn base() -> Result<PathBuf> {
    // target/<profile>/deps/<this program>
    let program = env::current_exe()?;
    let target = program.ancestors().nth(3).context("this program lies in no target folder")?;
    Ok(target.join("nspawn").join("bookworm.tar"))
}

/// Downloads it.
fn bootstrap(file: &Path) -> Result<()> {
    fs::create_dir_all(file.parent().context("no folder")?)?;
    // Whole or not at all.
    let part = file.with_extension("part.tar");
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--variant=minbase", "--include", INSIDE, "bookworm"])
        .arg(&part)
        .env("TMPDIR", file.parent().context("no folder")?);
    let mut process = Process::start(command)?;
    let status = process.wait_for(Duration::from_secs(600))?;
    ensure!(status.success(), "mmdebstrap ended with {status}: {}", process.stderr()?.trim());
    fs::rename(part, file)?;
    Ok(())
}

/// Cgroups that the machine's own lie below; the init inside makes many.
#[derive(Debug)]
struct Groups(Vec<PathBuf>);

impl Groups {
    /// One in each hierarchy that systemd would use.
    fn new() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut groups = Self(Vec::new());
        for line in mounts.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let is_used = back.starts_with("cgroup2 ") || back.contains("name=systemd");
            if let Some(point) = front.split(' ').nth(4).filter(|_| is_used) {
                let path =
                    Path::new(point).join(format!("noised-test-{}-nspawn", std::process::id()));
                fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
                groups.0.push(path);
            }
        }
        Ok(groups)
    }

    fn admit(&self, command: &mut Command) -> Result<()> {
        for group in &self.0 {
            let door = OpenOptions::new().write(true).open(group.join("cgroup.procs"))?;
            // SAFETY: write is async-signal-safe; the file was opened before the fork.
            unsafe { command.pre_exec(move || (&door).write_all(b"0")) };
        }
        Ok(())
    }
}

fn remove_group(path: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

impl Drop for Groups {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        for group in &self.0 {
            // Processes that were killed leave a little later.
            while group.exists() && remove_group(group).is_err() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A machine that has booted.
#[derive(Debug)]
pub struct Machine {
    // Dropped in this order: first the processes, then what they used.
    process: Process,
    /// The init, as this host counts.
    init: u32,
    name: String,
    _groups: Groups,
    folder: Folder,
}

impl Machine {
    /// Boots a clean one; see [`ensure_possible`] first.
    pub fn boot() -> Result<Self> {
        let folder = Folder::new("nspawn")?;
        let mut unpack = Command::new("tar");
        unpack.args(["--numeric-owner", "--extract", "--preserve-permissions", "--file"]);
        unpack.arg(base()?).arg("--directory").arg(folder.path());
        let outcome = run(unpack)?;
        ensure!(outcome.code == 0, "unpacking the clean root: {}", outcome.stderr);
        let groups = Groups::new()?;
        let name = format!("noised-test-{}", std::process::id());
        let mut command = Command::new("systemd-nspawn");
        command
            .args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"])
            .args(["--console=pipe", "--link-journal=no", "--machine", &name, "--directory"])
            .arg(folder.path())
            .args(["--capability=CAP_BPF,CAP_PERFMON", SYSTEM_CALLS])
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1");
        groups.admit(&mut command)?;
        let process = Process::start(command)?;
        let mut machine = Self { process, init: 0, name, _groups: groups, folder };
        machine.wait_until_up()?;
        Ok(machine)
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        let mut answer = String::from("it has no init");
        while Instant::now() < deadline {
            if let Some(status) = self.process.ended()? {
                bail!("the machine ended with {status}: {}", self.process.stderr()?.trim());
            }
            let own = self.process.pid();
            let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
            if let Some(init) = children.split_whitespace().next() {
                self.init = init.parse()?;
                let outcome = self.run("systemctl is-system-running")?;
                answer = format!("{}{}", outcome.stdout.trim(), outcome.stderr.trim());
                if ["running", "degraded"].contains(&answer.as_str()) {
                    return Ok(());
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("the machine does not come up: {answer}; {}", self.process.stdout()?)
    }

    /// Its root folder, as this host sees it.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a line of shell inside, to its end.
    pub fn run(&self, line: &str) -> Result<Outcome> {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.to_string(), "--mount", "--uts", "--ipc", "--net"])
            .args(["--pid", "--cgroup", "sh", "-c", line])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir("/");
        run(command)
    }

    /// As [`Self::run`]; the line must succeed. Returns what it prints, without the last line's end.
    pub fn output(&self, line: &str) -> Result<String> {
        let outcome = self.run(line)?;
        if outcome.code != 0 {
            let journal = self.run("journalctl --unit noised --no-pager --lines 30")?.stdout;
            bail!(
                "`{line}` ended with {}: {}{}\n{journal}",
                outcome.code,
                outcome.stdout,
                outcome.stderr
            );
        }
        Ok(outcome.stdout.trim_end().to_owned())
    }

    /// Waits until a line of shell inside succeeds.
    pub fn wait_for(&self, line: &str) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while self.run(line)?.code != 0 {
            if Instant::now() > deadline {
                self.output(line)?;
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// A property of the service, as `systemctl show` prints it.
    pub fn property(&self, name: &str) -> Result<String> {
        self.output(&format!("systemctl show --property {name} --value noised.service"))
    }

    /// The number that this host has for a process inside.
    pub fn on_host(&self, pid: &str) -> Result<u32> {
        let space = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        for entry in fs::read_dir("/proc")? {
            let Ok(host) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
            // It may have ended meanwhile.
            let status = fs::read_to_string(format!("/proc/{host}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            if numbers.and_then(|numbers| numbers.split_whitespace().last()) == Some(pid)
                && space(host) == space(self.init)
            {
                return Ok(host);
            }
        }
        bail!("there is no process {pid} inside")
    }

    /// Fetches a page in the machine's network.
    pub fn get(&self, address: SocketAddr, path: &str) -> Result<Response> {
        in_network_of(self.init, || http::get(address, path, &[]))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Ok(init) = i32::try_from(self.init)
            && init > 1
        {
            // With its init everything inside ends.
            // SAFETY: no memory argument; nspawn has not reaped its child, for it is still there.
            unsafe { libc::kill(init, libc::SIGKILL) };
            // It then removes what it made on this host.
            let _ = self.process.wait_for(Duration::from_secs(10));
        }
        // An empty folder where /run is no file system of its own.
        let _ = fs::remove_dir(format!("/run/systemd/nspawn/propagate/{}", self.name));
    }
}

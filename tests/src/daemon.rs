//! The daemon under test, as a child process.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::http;
use crate::prom::Scrape;
use crate::scratch::{Folder, argument};
use crate::task::status_bytes;

/// Longer than any start or stop should take on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The option that names where the daemon keeps its state.
pub const STATE_DIRECTORY: &str = "--state.directory";

/// The option that names the socket for `noised top`.
pub const SOCKET_PATH: &str = "--socket.path";

/// A configuration with a baseline in seconds instead of minutes. It does not know what the machine does now and then, such as reclaim or the
/// hypervisor, which was seen to cost quiet work 0.008 to 0.025 s/s for some seconds: below 0.05 s/s nothing is an
/// incident here. What is planted costs more, except interrupts, which have a threshold of their own.
pub const QUICK_INCIDENTS: &[u8] = b"[incidents]\nwarmup-windows = 20\nminimum-lost = 0.05\n\
    recent-windows = 8\nclosing-windows = 6\n";

/// Gives the flight recorder a fixed size: else a start takes two seconds to measure how fast it fills.
pub const FIXED_RECORDER: [&str; 2] = ["--recorder.kibibytes-per-cpu", "1024"];

/// The daemon's path: `NOISED_BIN`, or the workspace's release build.
/// Errors: if there is no such file.
pub fn binary() -> Result<PathBuf> {
    let path = env::var_os("NOISED_BIN").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release/noised"),
        PathBuf::from,
    );
    fs::canonicalize(&path).with_context(|| {
        format!("there is no daemon at {}: build it, or name it in NOISED_BIN", path.display())
    })
}

/// An address on loopback that was free a moment ago.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A nameless file that collects what a process prints.
pub fn capture() -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(env::temp_dir())
        .context("creating a temporary file")
}

/// A nameless file with that content, and the path by which other processes read it for as long as it is open.
pub fn nameless(content: &[u8]) -> Result<(File, String)> {
    let mut file = capture()?;
    file.write_all(content)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, path))
}

/// What is in a file by now. Its position is shared with the process that writes, and stays where it is.
fn captured(file: &File) -> Result<String> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len())?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process of ours, with what it prints; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Process {
    /// Starts a command. It dies with this process, whatever happens.
    pub fn start(mut command: Command) -> Result<Self> {
        let (stdout, stderr) = (capture()?, capture()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        // SAFETY: prctl is async-signal-safe and touches no memory.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self { child, stdout, stderr })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed to standard error.
    pub fn stderr(&self) -> Result<String> {
        captured(&self.stderr)
    }

    /// What it has printed to standard output.
    pub fn stdout(&self) -> Result<String> {
        captured(&self.stdout)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let pid = i32::try_from(self.pid())?;
        // SAFETY: no memory argument; the child is not reaped yet, so the id is still its own.
        let result = unsafe { libc::kill(pid, signal) };
        ensure!(result == 0, "kill: {}", std::io::Error::last_os_error());
        Ok(())
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.wait_for(TIMEOUT)
    }

    /// Waits for its end, no longer than this.
    pub fn wait_for(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "process {} does not end", self.pid());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The outcome of a command that ends by itself.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit code; a fatal signal as a shell reports it, 128 and more.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// What it printed.
    /// Errors: if it did not end well.
    pub fn printed(self) -> Result<String> {
        ensure!(self.code == 0, "exit code {}: {}", self.code, self.stderr);
        Ok(self.stdout)
    }

    /// As [`Self::printed`], of JSON.
    pub fn json<T: DeserializeOwned>(self) -> Result<T> {
        serde_json::from_str(&self.printed()?).context("no JSON")
    }
}

/// Resident memory of a process, bytes.
/// Errors: if there is no such process.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS")
}

/// Runs a command to its end.
pub fn run(command: Command) -> Result<Outcome> {
    let mut process = Process::start(command)?;
    let status = process.wait()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(Outcome { code, stdout: process.stdout()?, stderr: process.stderr()? })
}

/// Runs the daemon's binary with these arguments to its end.
pub fn run_noised(arguments: &[&str]) -> Result<Outcome> {
    let mut command = Command::new(binary()?);
    command.args(arguments);
    run(command)
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts the daemon on a free port and waits until it is ready.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a daemon with further options. It keeps no state unless they name a directory,
    /// and has no socket unless they name one.
    pub fn start_with(options: &[&str]) -> Result<Self> {
        let (command, address) = Self::command(options)?;
        Self::start_command(command, address)
    }

    /// Starts a daemon with further options, and waits until `is_ready` says so of its address.
    pub fn start_until(options: &[&str], is_ready: impl Fn(SocketAddr) -> bool) -> Result<Self> {
        let (command, address) = Self::command(options)?;
        Self::start_command_until(command, address, is_ready)
    }

    /// What starts a daemon with further options, and where it will listen.
    pub(crate) fn command(options: &[&str]) -> Result<(Command, SocketAddr)> {
        let address = free_address()?;
        let mut command = Command::new(binary()?);
        command.args(["run", "--web.listen-address", &address.to_string()]).args(options);
        if !options.contains(&STATE_DIRECTORY) {
            command.args([STATE_DIRECTORY, ""]);
        }
        if !options.contains(&SOCKET_PATH) {
            command.args([SOCKET_PATH, ""]);
        }
        let chooses =
            |option: &&str| option.starts_with("--recorder.") || *option == "--config.file";
        if !options.iter().any(chooses) {
            command.args(FIXED_RECORDER);
        }
        Ok((command, address))
    }

    /// Starts a daemon that folds next to nothing into the rest, however many cgroups there are.
    pub fn start_unfolded() -> Result<Self> {
        let (_file, path) =
            nameless(b"[limits]\ninterference = 10000\npreemptions = 10000\ncgroups = 10000\n")?;
        Self::start_configured(&path)
    }

    /// Starts a daemon with this file, which says nothing of the flight recorder.
    pub fn start_configured(file: &str) -> Result<Self> {
        let options = [&["--config.file", file][..], &FIXED_RECORDER].concat();
        Self::start_with(&options)
    }

    /// Starts a daemon by a command that makes it listen on `address`.
    pub fn start_command(command: Command, address: SocketAddr) -> Result<Self> {
        Self::start_command_until(command, address, |address| {
            http::get(address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 200)
        })
    }

    /// As [`Daemon::start_command`], until `is_ready` says so of its address.
    pub fn start_command_until(
        command: Command,
        address: SocketAddr,
        is_ready: impl Fn(SocketAddr) -> bool,
    ) -> Result<Self> {
        let mut daemon = Self { process: Process::start(command)?, address };
        daemon.wait_until(is_ready)?;
        Ok(daemon)
    }

    fn wait_until(&mut self, is_ready: impl Fn(SocketAddr) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process.ended()? {
                bail!("the daemon ended with {status}: {}", self.process.stderr()?);
            }
            if is_ready(self.address) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the daemon does not become ready: {}", self.process.stderr()?);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.ended()
    }

    /// The text of `/metrics`.
    pub fn metrics(&self) -> Result<String> {
        let answer = http::get(self.address, "/metrics", &[])?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Ok(answer.text()?.to_owned())
    }

    /// `/metrics`, parsed.
    pub fn scrape(&self) -> Result<Scrape> {
        Scrape::parse(&self.metrics()?).context("parsing /metrics")
    }

    /// The same in OpenMetrics, which says when each counter began.
    pub fn scrape_with_begins(&self) -> Result<Scrape> {
        let headers = [("Accept", "application/openmetrics-text;version=1.0.0")];
        let answer = http::get(self.address, "/metrics", &headers)?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Scrape::parse(answer.text()?).context("parsing /metrics")
    }

    /// Its resident memory, bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(self.process.pid())
    }

    /// Its resident memory but for what it maps: pages of a BPF array are resident as long as that is mapped, all of them at
    /// once, and are the kernel's.
    pub fn anonymous_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        status_bytes(&status, "RssAnon")
    }

    /// Ends it by a signal and returns its status and what it printed to standard error.
    pub fn stop(mut self, signal: i32) -> Result<(ExitStatus, String)> {
        self.process.signal(signal)?;
        let status = self.process.wait()?;
        Ok((status, self.process.stderr()?))
    }
}

/// A daemon with a socket of its own.
pub struct Socketed {
    /// The daemon.
    pub daemon: Daemon,
    /// Where its socket is.
    pub socket: PathBuf,
    _folder: Folder,
}

impl Socketed {
    /// Starts one with further options.
    /// Errors: those of [`Daemon::start_with`].
    pub fn start(options: &[&str]) -> Result<Self> {
        let folder = Folder::new("socket")?;
        let socket = folder.path().join("noised.sock");
        let options = [&[SOCKET_PATH, argument(&socket)?], options].concat();
        Ok(Self { daemon: Daemon::start_with(&options)?, socket, _folder: folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_prints_is_read_while_it_prints() {
        let mut command = Command::new("seq");
        command.arg("200000");
        let mut process = Process::start(command).unwrap();
        while process.ended().unwrap().is_none() {
            process.stdout().unwrap();
        }
        let said = process.stdout().unwrap();
        assert!(said.lines().eq((1..=200_000).map(|line| line.to_string())));
    }
}

//! Files that block who opens them, or are far too large: neither the start nor a running daemon waits
//! for them, and no message and no memory grows with them.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, Process, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run_noised,
};
use noise_tests::http::exchange;
use noise_tests::namespace::configure;
use noise_tests::scratch::Folder;

use crate::Test;
use crate::configuration::reload;
use crate::https::{Site, TLS, text};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("the_start_refuses_files_that_block_or_are_huge", the_start_refuses),
    ("a_running_daemon_passes_over_files_that_block_or_are_huge", a_running_daemon_passes_over),
];

/// Longer than a start or an end takes on a loaded machine, unless something blocks it.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest line about a file that cannot be used.
const LINE_BYTES: usize = 1000;
/// What the daemon may grow by; a file of [`HUGE_BYTES`] does not fit into it.
const GROWTH_BYTES: u64 = 16 << 20;
const HUGE_BYTES: u64 = 100 << 20;

/// The files that a daemon reads, by what they are called in the site's folder.
const FILES: [&str; 5] = ["noised.toml", "web.yml", "a.crt", "a.key", "ca.crt"];

/// What is put in a file's place.
#[derive(Clone, Copy, Debug)]
enum Instead {
    Fifo,
    Nuls,
}

impl Instead {
    const ALL: [Self; 2] = [Self::Fifo, Self::Nuls];

    fn words(self) -> &'static str {
        match self {
            Self::Fifo => "it is a FIFO, not a regular file",
            Self::Nuls => "it is longer than 1048576 bytes",
        }
    }

    fn make(self, path: &Path) -> Result<()> {
        match self {
            Self::Fifo => configure("mkfifo", &[text(path)?]),
            Self::Nuls => Ok(File::create(path)?.set_len(HUGE_BYTES)?),
        }
    }
}

/// Another file in the place of one of the daemon's, which is back when this is dropped.
struct Replaced<'a> {
    path: &'a Path,
    kept: PathBuf,
}

impl<'a> Replaced<'a> {
    fn new(path: &'a Path, instead: Instead) -> Result<Self> {
        let kept = path.with_extension("kept");
        fs::rename(path, &kept)?;
        let replaced = Self { path, kept };
        instead.make(path)?;
        Ok(replaced)
    }
}

impl Drop for Replaced<'_> {
    fn drop(&mut self) {
        let _ = fs::rename(&self.kept, self.path);
    }
}

/// A site with every kind of file.
fn site() -> Result<Site> {
    let site = Site::new(&format!(
        "{TLS}  client_ca_file: ca.crt\n  client_auth_type: VerifyClientCertIfGiven\n"
    ))?;
    site.directory.write("ca.crt", &site.authority.pem())?;
    let config = format!("[web]\nconfig.file = \"{}\"\n", site.file.display());
    site.directory.write("noised.toml", &config)?;
    Ok(site)
}

fn the_start_refuses() -> Result<()> {
    let site = site()?;
    let config = site.directory.path().join("noised.toml");
    for file in FILES {
        for instead in Instead::ALL {
            let path = site.directory.path().join(file);
            let _replaced = Replaced::new(&path, instead)?;
            let mut command = Command::new(binary()?);
            command.args(["run", "--web.listen-address", &free_address()?.to_string()]);
            command.args([STATE_DIRECTORY, "", SOCKET_PATH, "", "--config.file", text(&config)?]);
            let mut process = Process::start(command)?;
            let status =
                process.wait_for(TIMEOUT).with_context(|| format!("{file}: {instead:?}"))?;
            let said = process.stderr()?;
            println!("{file}: {}", said.trim_end());
            ensure!(status.code() == Some(2), "{file} as {instead:?}: {status}");
            ensure!(said.contains(file) && said.contains(instead.words()), "{file}: {said}");
            ensure!(said.len() < LINE_BYTES, "{file}: {} bytes", said.len());
        }
    }
    // One that is no larger than it may be, and says nothing that makes sense.
    fs::write(&config, vec![0; 1 << 20])?;
    let said = run_noised(&["run", "--config.file", text(&config)?])?;
    ensure!(said.code == 2 && said.stderr.len() < LINE_BYTES, "{} bytes", said.stderr.len());
    // State that cannot be kept ends no start.
    let state = Folder::new("state")?;
    for name in ["lock", "incidents.json"] {
        Instead::Fifo.make(&state.path().join(name))?;
    }
    let daemon = Daemon::start_with(&[STATE_DIRECTORY, state.argument()?])?;
    let log = ended(daemon)?;
    ensure!(log.contains("lock") && log.contains("no regular file"), "{log}");
    ensure!(!log.contains("will not survive"), "{log}");
    Ok(())
}

fn ended(daemon: Daemon) -> Result<String> {
    let begin = Instant::now();
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success() && begin.elapsed() < TIMEOUT, "{status} after {:?}", begin.elapsed());
    Ok(log)
}

/// Whether it answers over TLS and at its socket.
fn ensure_answers(site: &Site, daemon: &Daemon) -> Result<()> {
    let answer = site.client()?.get(daemon.address, "/-/ready", &[])?;
    let mut stream = UnixStream::connect(socket(site))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let local = exchange(&mut stream, daemon.address, "/-/ready", &[])?;
    ensure!((answer.status, local.status) == (200, 200), "{} and {}", answer.status, local.status);
    Ok(())
}

fn socket(site: &Site) -> PathBuf {
    site.directory.path().join("noised.sock")
}

/// Asks for a reload; what the daemon says of it.
fn reloaded(daemon: &Daemon, site: &Site, words: &str) -> Result<String> {
    let new = reload(daemon, &[words])?;
    ensure_answers(site, daemon)?;
    Ok(new)
}

fn a_running_daemon_passes_over() -> Result<()> {
    let site = site()?;
    let (client, config) = (site.client()?, site.directory.path().join("noised.toml"));
    let socket = socket(&site);
    let options = ["--config.file", text(&config)?, SOCKET_PATH, text(&socket)?];
    let options = [&options[..], &FIXED_RECORDER].concat();
    let daemon = Daemon::start_until(&options, |address| {
        client.get(address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 200)
    })?;
    reloaded(&daemon, &site, "configuration unchanged")?;
    let before = daemon.resident_bytes()?;
    for file in FILES {
        for instead in Instead::ALL {
            let path = site.directory.path().join(file);
            let _replaced = Replaced::new(&path, instead)?;
            let new = reloaded(&daemon, &site, instead.words())
                .with_context(|| format!("{file} as {instead:?}"))?;
            let longest = new.lines().map(str::len).max().unwrap_or_default();
            ensure!(longest < LINE_BYTES, "{file} as {instead:?}: a line of {longest} bytes");
        }
    }
    reloaded(&daemon, &site, "configuration unchanged")?;
    let after = daemon.resident_bytes()?;
    println!("resident: {} KiB before, {} KiB after", before >> 10, after >> 10);
    ensure!(after < before + GROWTH_BYTES, "grew from {before} to {after} bytes");
    // It also ends while one of them is there.
    let _replaced = Replaced::new(&config, Instead::Fifo)?;
    daemon.process().signal(libc::SIGHUP)?;
    ended(daemon)?;
    Ok(())
}

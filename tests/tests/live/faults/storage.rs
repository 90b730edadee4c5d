//! A state directory on a disk that is full, or may not be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, free_address};
use noise_tests::load::{Worker, figure};
use noise_tests::scratch::Folder;
use noise_tests::toll::Toll;

use super::ensure_switches;
use crate::Test;
use crate::lifecycle::in_private_mounts;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_full_disk", a_full_disk),
    ("no_inodes", no_inodes),
    ("a_read_only_disk", a_read_only_disk),
];

/// A folder of ours as a daemon in mounts of its own sees it.
fn seen_by(daemon: &Daemon, point: &Folder) -> Result<PathBuf> {
    let root = PathBuf::from(format!("/proc/{}/root", daemon.process().pid()));
    Ok(root.join(point.path().strip_prefix("/").context("a path that is not absolute")?))
}

/// A daemon whose state directory is `point`, in mounts of its own that `shell` makes.
fn start(shell: &str, point: &Folder) -> Result<Daemon> {
    let mut command = in_private_mounts(shell)?;
    let address = free_address()?;
    command.args(["run", "--web.listen-address", &address.to_string(), SOCKET_PATH, ""]);
    command.args([STATE_DIRECTORY, point.argument()?]).args(FIXED_RECORDER);
    Daemon::start_command(command, address)
}

fn warnings(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(" WARN ") && line.contains("state")).collect()
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn a_full_disk() -> Result<()> {
    filled("size=2m", "{ head -c 4000000 /dev/zero >filler 2>/dev/null || true; }")
}

/// There is room for bytes, and for no further file: one for the folder, one for each of three.
fn no_inodes() -> Result<()> {
    filled("size=2m,nr_inodes=4", "(umask 077; touch lock filler)")
}

/// A state directory on a disk that `fill` leaves no room on, with a file that makes room when it goes.
fn filled(options: &str, fill: &str) -> Result<()> {
    let point = Folder::new("full")?;
    let old = r#"{"format":1,"incidents":[],"outliers":[]}"#;
    let path = point.argument()?;
    let shell = format!(
        "mount -t tmpfs -o mode=700,{options} none {path} && cd {path} && \
         printf %s '{old}' >incidents.json && {fill} && cd /"
    );
    // Twice: one that ends on a full disk, and one that finds room again.
    for room in [false, true] {
        let daemon = start(&shell, &point)?;
        let toll = Toll::begin(&daemon)?;
        let seen = seen_by(&daemon, &point)?;
        // Long waits, so that there is something to write.
        let load = [Worker::start("burn", &["0"])?, Worker::start("burn", &["0"])?];
        let pipe = Worker::start("pipe", &["0", "0", "0"])?;
        thread::sleep(Duration::from_millis(1500));
        for worker in load {
            worker.stop()?;
        }
        let rounds = figure(&pipe.stop()?, "rounds")?;
        let bill = toll.end(&daemon)?;
        ensure_switches(&toll, &bill, rounds)?;
        bill.ensure_bounded(16 << 20)?;
        if room {
            fs::remove_file(seen.join("filler"))?;
        }
        // What is in its mounts goes with it: hold the folder.
        let held = fs::File::open(&seen)?;
        let (status, log) = daemon.stop(libc::SIGTERM)?;
        let warned = warnings(&log);
        println!("room {room}: {warned:?}");
        ensure!(status.success(), "ended with {status}: {log}");
        let folder = {
            use std::os::fd::AsRawFd as _;
            PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
        };
        let text = fs::read_to_string(folder.join("incidents.json"))?;
        println!("{:?}, {} bytes of state", names(&folder)?, text.len());
        if room {
            // What happens while the disk is full is worth a try, and one warning.
            ensure!(warned.len() <= 1, "{} warnings: {log}", warned.len());
            serde_json::from_str::<serde_json::Value>(&text)?;
            ensure!(text != old, "nothing was written");
        } else {
            ensure!(warned.len() == 1, "{} warnings: {log}", warned.len());
            ensure!(text == old, "the old state was damaged: {text}");
            ensure!(!names(&folder)?.iter().any(|name| name.ends_with(".new")), "a rest was left");
        }
    }
    Ok(())
}

fn a_read_only_disk() -> Result<()> {
    let point = Folder::new("read-only")?;
    let path = point.argument()?;
    let shell = format!("mount -t tmpfs -o ro,mode=700 none {path}");
    let daemon = start(&shell, &point)?;
    let toll = Toll::begin(&daemon)?;
    let pipe = Worker::start("pipe", &["0", "0", "0"])?;
    thread::sleep(Duration::from_millis(500));
    let rounds = figure(&pipe.stop()?, "rounds")?;
    ensure_switches(&toll, &toll.end(&daemon)?, rounds)?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    let warned = warnings(&log);
    println!("{warned:?}");
    ensure!(status.success() && warned.len() == 1, "{status}, {log}");
    ensure!(warned.iter().all(|line| line.contains(path)), "the warning does not name {path}");
    Ok(())
}

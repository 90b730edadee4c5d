//! What outlives the daemon, and `noised incidents`.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, Process, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run,
    run_noised,
};
use noise_tests::http::get;
use noise_tests::prom::label_set;
use noise_tests::rights::UNPRIVILEGED;
use noise_tests::scratch::Folder;

use crate::Test;
use crate::lifecycle::{PublicCopy, ensure_refused_in_a_line};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("incidents_of_the_local_socket", incidents_of_the_local_socket),
    ("incidents_from_the_daemon_and_what_it_left", incidents_from_the_daemon_and_what_it_left),
    ("unusable_state_is_kept_aside", unusable_state_is_kept_aside),
    ("unusable_directory_is_no_obstacle", unusable_directory_is_no_obstacle),
    ("other_users_are_kept_out", other_users_are_kept_out),
    ("neither_daemon_nor_state", neither_daemon_nor_state),
    ("a_file_limit_is_no_obstacle", a_file_limit_is_no_obstacle),
];

/// A daemon that may not write files goes on, and leaves the state as it was.
fn a_file_limit_is_no_obstacle() -> Result<()> {
    let directory = Folder::new("state")?;
    Daemon::start_with(&[STATE_DIRECTORY, directory.argument()?])?.stop(libc::SIGTERM)?;
    let file = directory.path().join("incidents.json");
    let before = fs::read(&file)?;
    let address = free_address()?;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(binary()?);
    command.args(["run", "--web.listen-address", &address.to_string()]);
    command.args([STATE_DIRECTORY, directory.argument()?, SOCKET_PATH, ""]).args(FIXED_RECORDER);
    // A log that is a file would have the limit, too.
    let daemon = command.stderr(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    while get(address, "/metrics", &[]).is_err() && begin.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: a signal to a process that was started here, and was not waited for.
    unsafe { libc::kill(daemon.id().cast_signed(), libc::SIGTERM) };
    let ended = daemon.wait_with_output()?;
    let log = String::from_utf8_lossy(&ended.stderr);
    println!("{log}");
    ensure!(ended.status.success(), "{}", ended.status);
    let said = log.matches("may write files of at most 0 bytes").count();
    ensure!(said == 1 && warnings(&log) == 1, "said {said} times");
    ensure!(fs::read(&file)? == before, "the state was replaced");
    ensure!(!directory.path().join("incidents.json.new").exists(), "half a file is left");
    Ok(())
}

fn warnings(text: &str) -> usize {
    text.lines().filter(|line| line.contains(" WARN ") && line.contains("state")).count()
}

fn incidents_from_the_daemon_and_what_it_left() -> Result<()> {
    let directory = Folder::new("state")?;
    let daemon = Daemon::start_with(&[STATE_DIRECTORY, directory.argument()?])?;
    for (route, key) in [("incidents", "incidents"), ("outliers", "outliers")] {
        let answer = get(daemon.address, &format!("/api/v1/{route}"), &[])?;
        let kind = answer.header("content-type").unwrap_or_default();
        ensure!(answer.status == 200 && kind == "application/json", "{route}: {answer:?}");
        let document: serde_json::Value = serde_json::from_slice(&answer.body)?;
        ensure!(document["version"] == 1 && document[key].is_array(), "{route}: {document}");
    }
    let address = daemon.address.to_string();
    let document: serde_json::Value =
        run_noised(&["incidents", "--json", "--web.address", &address])?.json()?;
    ensure!(document["incidents"].is_array(), "{document}");
    // Signals without incidents are there as well.
    let disk = label_set(&[("signal", "block_queue_wait")]);
    let opened = daemon.scrape()?.value("noised_incidents_total", &disk);
    ensure!(opened == Some(0.0), "incidents of the disk: {opened:?}");
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success() && warnings(&log) == 0, "{status}: {log}");
    // There is no answer any more; what was left is read, by default and as the only source.
    let options = ["incidents", "--outliers", STATE_DIRECTORY, directory.argument()?];
    let left = run_noised(&options)?;
    ensure!(left.code == 0 && left.stderr.contains("this is what a noised left in"), "{left:?}");
    let left = run_noised(&[&options[..], &["--web.address", &address]].concat())?;
    ensure!(left.code == 0 && left.stderr.contains("no noised answers"), "{left:?}");
    Ok(())
}

/// Who is in the group of the socket reads incidents there; who is not learns what to do.
fn incidents_of_the_local_socket() -> Result<()> {
    let folder = Folder::new("socket")?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let socket = folder.path().join("noised.sock").display().to_string();
    let copy = PublicCopy::new()?;
    let ask = |options: &[&str]| {
        run(copy.as_unprivileged(&[&["incidents", "--connect", &socket], options].concat()))
    };
    for (mode, words) in [("0666", None), ("0600", Some("not allowed to use"))] {
        let daemon = Daemon::start_with(&[SOCKET_PATH, &socket, "--socket.mode", mode])?;
        let outcome = ask(&["--json"])?;
        match words {
            None => {
                let document: serde_json::Value = outcome.json()?;
                ensure!(document["incidents"].is_array(), "{document}");
                ask(&["--outliers"])?.printed()?;
            }
            Some(words) => ensure_refused_in_a_line(&outcome, 1, &[words, &socket, "sudo"])?,
        }
        let (status, _) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success(), "ended with {status}");
    }
    ensure_refused_in_a_line(&ask(&[])?, 1, &["no noised answers", &socket, "noised run"])?;
    Ok(())
}

fn unusable_state_is_kept_aside() -> Result<()> {
    let directory = Folder::new("state")?;
    let name = Path::new(directory.argument()?).join("incidents.json");
    for (number, text) in
        [&b"\0garbage"[..], b"{\"format\":1,\"incidents\":[{", b"{\"format\":1000}"]
            .into_iter()
            .enumerate()
    {
        fs::write(&name, text)?;
        let daemon = Daemon::start_with(&[STATE_DIRECTORY, directory.argument()?])?;
        let (status, log) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success() && warnings(&log) == 1, "{status}: {log}");
        let kept = name.with_extension(format!("json.bad-{}", number + 1));
        ensure!(fs::read(&kept)? == text, "{} is not what was there", kept.display());
        let fresh: serde_json::Value = serde_json::from_slice(&fs::read(&name)?)?;
        ensure!(fresh["format"] == 1, "the fresh state is {fresh}");
    }
    Ok(())
}

fn unusable_directory_is_no_obstacle() -> Result<()> {
    let directory = Folder::new("state")?;
    let first = Daemon::start_with(&[STATE_DIRECTORY, directory.argument()?])?;
    for unusable in [directory.argument()?, "/proc/noised"] {
        let daemon = Daemon::start_with(&[STATE_DIRECTORY, unusable])?;
        let (status, log) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success() && warnings(&log) == 1, "{status}: {log}");
        ensure!(log.contains(unusable), "the warning does not name {unusable}: {log}");
    }
    first.stop(libc::SIGTERM)?;
    Ok(())
}

/// Runs a daemon that was given this umask, until its state is written; its log.
fn run_with_umask(mask: libc::mode_t, directory: &Path) -> Result<String> {
    let address = free_address()?;
    let mut command = Command::new(binary()?);
    command.args(["run", "--web.listen-address", &address.to_string(), SOCKET_PATH, ""]);
    command.arg(STATE_DIRECTORY).arg(directory).args(FIXED_RECORDER);
    // SAFETY: umask is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::umask(mask);
            Ok(())
        });
    }
    let (status, log) = Daemon::start_command(command, address)?.stop(libc::SIGTERM)?;
    ensure!(status.success() && !log.contains("will not survive"), "{status}: {log}");
    for (name, expected) in [("", 0o700), ("lock", 0o600), ("incidents.json", 0o600)] {
        let mode = fs::symlink_metadata(directory.join(name))?.mode();
        ensure!(mode & 0o777 == expected, "umask {mask:03o}: {name:?} has mode {mode:o}");
    }
    Ok(log)
}

/// Modes do not depend on the umask; a lock that another user holds, or that leads elsewhere, is no
/// obstacle, even in a folder that an earlier daemon left open to all.
fn other_users_are_kept_out() -> Result<()> {
    let folder = Folder::new("kept")?;
    run_with_umask(0, &folder.path().join("new"))?;

    let (old, lock) = (folder.path().join("old"), folder.path().join("old/lock"));
    fs::create_dir(&old)?;
    fs::write(&lock, "")?;
    for (path, mode) in [(&old, 0o755), (&lock, 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    let mut command = Command::new("flock");
    command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).arg("-F").arg(&lock).args(["sleep", "600"]);
    let _stranger = Process::start(command)?;
    let own = File::open(&lock)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while own.try_lock().is_ok() {
        own.unlock()?;
        ensure!(Instant::now() < deadline, "the other user does not lock {}", lock.display());
        thread::sleep(Duration::from_millis(20));
    }
    let log = run_with_umask(0o077, &old)?;
    ensure!(log.contains("other users could hold it"), "{log}");

    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "precious")?;
    fs::remove_file(&lock)?;
    symlink(&elsewhere, &lock)?;
    let log = run_with_umask(0o777, &old)?;
    ensure!(log.contains("it was no regular file"), "{log}");
    ensure!(fs::read_to_string(&elsewhere)? == "precious", "written through a link");
    Ok(())
}

fn neither_daemon_nor_state() -> Result<()> {
    let unused = free_address()?.to_string();
    let outcome = run_noised(&["incidents", "--web.address", &unused])?;
    ensure!(outcome.code == 1 && outcome.stderr.contains("noised run"), "{outcome:?}");
    let outcome = run_noised(&["incidents", STATE_DIRECTORY, "/nonexistent"])?;
    ensure!(outcome.code == 1 && outcome.stderr.contains("/nonexistent"), "{outcome:?}");
    for wrong in [["--since", "soon"], ["--web.address", "nowhere"]] {
        let outcome = run_noised(&[&["incidents"][..], &wrong].concat())?;
        ensure!(outcome.code == 2 && outcome.stderr.contains(wrong[0]), "{outcome:?}");
    }
    Ok(())
}

//! Mistakes in the arguments and the configuration file.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::process::Command;

use anyhow::{Result, ensure};
use noise_tests::daemon::{
    Daemon, FIXED_RECORDER, SOCKET_PATH, STATE_DIRECTORY, binary, free_address, run_noised,
};
use noise_tests::http::get;
use noise_tests::scratch::TextFile;

use crate::Test;
use crate::lifecycle::ensure_refused;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("unknown_option", unknown_option),
    ("malformed_address", malformed_address),
    ("unknown_key", unknown_key),
    ("malformed_file", malformed_file),
    ("missing_file", missing_file),
    ("no_file", no_file),
    ("all_mistakes_at_once", all_mistakes_at_once),
    ("addresses_of_the_server", addresses_of_the_server),
    ("help_and_version", help_and_version),
];

fn unknown_option() -> Result<()> {
    ensure_refused(&run_noised(&["run", "--no-such-option"])?, 2, &["--no-such-option"])?;
    ensure_refused(&run_noised(&["no-such-command"])?, 2, &["no-such-command"])?;
    Ok(())
}

fn malformed_address() -> Result<()> {
    for address in ["127.0.0.1:99999", "nowhere", "127.0.0.1", "[::1:80"] {
        let outcome = run_noised(&["run", "--web.listen-address", address])?;
        ensure_refused(&outcome, 2, &[address, "--web.listen-address"])?;
    }
    Ok(())
}

fn unknown_key() -> Result<()> {
    let file = TextFile::new("noised.toml", "# A comment.\n\nno_such_key = 1\n")?;
    for extra in [&[][..], &["--config.check"][..]] {
        let arguments = [&["run", "--config.file", file.argument()?], extra].concat();
        let outcome = run_noised(&arguments)?;
        ensure_refused(&outcome, 2, &[file.argument()?, "no_such_key", "3"])?;
    }
    Ok(())
}

fn malformed_file() -> Result<()> {
    let file = TextFile::new("noised.toml", "[[[\n")?;
    let outcome = run_noised(&["run", "--config.file", file.argument()?])?;
    ensure_refused(&outcome, 2, &[file.argument()?])?;
    Ok(())
}

fn missing_file() -> Result<()> {
    let path = "/nonexistent/noised.toml";
    ensure_refused(&run_noised(&["run", "--config.file", path])?, 2, &[path])?;
    Ok(())
}

/// An empty name stands for no file.
fn no_file() -> Result<()> {
    for none in [&["--config.file", ""][..], &["--config.file="]] {
        let outcome = run_noised(&[&["run", "--config.check"], none].concat())?;
        ensure!(outcome.code == 0, "{none:?}: {}", outcome.stderr);
    }
    Ok(())
}

fn all_mistakes_at_once() -> Result<()> {
    let text = "[limits]\ncgroup = 7\npreemptions = \"many\"\n[incidents]\nenabled = 1\n";
    let file = TextFile::new("noised.toml", text)?;
    let outcome = run_noised(&["run", "--config.file", file.argument()?, "--config.check"])?;
    let words = [
        "3 mistakes in",
        "line 2 (`cgroup = 7`)",
        "did you mean `cgroups`?",
        "line 3 (`preemptions = \"many\"`)",
        "expected a whole number",
        "line 5 (`enabled = 1`)",
        "expected true or false",
    ];
    ensure_refused(&outcome, 2, &words)?;
    Ok(())
}

fn addresses_of_the_server() -> Result<()> {
    let version_6 = TcpListener::bind("[::1]:0").is_ok();
    for host in ["", "localhost"] {
        let address = free_address()?;
        let port = address.port();
        let mut command = Command::new(binary()?);
        command.args(["run", "--web.listen-address", &format!("{host}:{port}")]);
        command.args([SOCKET_PATH, "", STATE_DIRECTORY, "", "--config.file", ""]);
        command.args(FIXED_RECORDER);
        let daemon = Daemon::start_command(command, address)?;
        if version_6 {
            let answer = get(SocketAddr::from((Ipv6Addr::LOCALHOST, port)), "/-/ready", &[]);
            // A host may have no such address for its own name.
            let is_named =
                || ("localhost", port).to_socket_addrs().map(|mut all| all.any(|a| a.is_ipv6()));
            ensure!(answer.is_ok() || (host == "localhost" && !is_named()?), "{host}: {answer:?}");
        }
        let (status, stderr) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success() && stderr.contains("listening on"), "{status}: {stderr}");
    }
    let quiet = [SOCKET_PATH, "", STATE_DIRECTORY, ""];
    let nowhere = ["run", "--web.listen-address", "name.invalid:1"];
    let outcome = run_noised(&[&nowhere[..], &quiet].concat())?;
    ensure_refused(&outcome, 1, &["name.invalid:1", "cannot be resolved", "--web.listen-address"])?;
    Ok(())
}

fn help_and_version() -> Result<()> {
    let help = run_noised(&["--help"])?;
    ensure!(help.code == 0 && help.stdout.contains("run"), "--help: {help:?}");
    let help = run_noised(&["run", "--help"])?;
    for option in
        ["--web.listen-address", "--config.file", "--config.check", STATE_DIRECTORY, SOCKET_PATH]
    {
        ensure!(help.stdout.contains(option), "run --help does not name {option}");
    }
    let version = run_noised(&["--version"])?;
    ensure!(version.code == 0 && version.stdout.starts_with("noised "), "--version: {version:?}");
    Ok(())
}

//! Mistakes in the arguments and the configuration file.

use anyhow::{Result, ensure};
use noise_tests::daemon::{SOCKET_PATH, STATE_DIRECTORY, run_noised};
use noise_tests::scratch::TextFile;

use crate::lifecycle::ensure_refused;
use crate::{Test, Verdict};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("unknown_option", unknown_option),
    ("malformed_address", malformed_address),
    ("unknown_key", unknown_key),
    ("malformed_file", malformed_file),
    ("missing_file", missing_file),
    ("help_and_version", help_and_version),
];

fn unknown_option() -> Result<Verdict> {
    ensure_refused(&run_noised(&["run", "--no-such-option"])?, 2, &["--no-such-option"])?;
    ensure_refused(&run_noised(&["no-such-command"])?, 2, &["no-such-command"])?;
    Ok(Verdict::Passed)
}

fn malformed_address() -> Result<Verdict> {
    for address in ["127.0.0.1:99999", "nowhere", "127.0.0.1", "[::1:80"] {
        let outcome = run_noised(&["run", "--web.listen-address", address])?;
        ensure_refused(&outcome, 2, &[address, "--web.listen-address"])?;
    }
    Ok(Verdict::Passed)
}

fn unknown_key() -> Result<Verdict> {
    let file = TextFile::new("noised.toml", "# A comment.\n\nno_such_key = 1\n")?;
    for extra in [&[][..], &["--config.check"][..]] {
        let arguments = [&["run", "--config.file", file.argument()?], extra].concat();
        let outcome = run_noised(&arguments)?;
        ensure_refused(&outcome, 2, &[file.argument()?, "no_such_key", "3"])?;
    }
    Ok(Verdict::Passed)
}

fn malformed_file() -> Result<Verdict> {
    let file = TextFile::new("noised.toml", "[[[\n")?;
    let outcome = run_noised(&["run", "--config.file", file.argument()?])?;
    ensure_refused(&outcome, 2, &[file.argument()?])?;
    Ok(Verdict::Passed)
}

fn missing_file() -> Result<Verdict> {
    let path = "/nonexistent/noised.toml";
    ensure_refused(&run_noised(&["run", "--config.file", path])?, 2, &[path])?;
    Ok(Verdict::Passed)
}

fn help_and_version() -> Result<Verdict> {
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
    Ok(Verdict::Passed)
}

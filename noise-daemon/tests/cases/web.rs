//! Web configuration files, certificates and keys.

use std::fs;
use std::process::Command;

use super::{Case, Printed};

/// The case in a folder where files may be made.
fn copied(case: &Case) -> Result<(tempfile::TempDir, Case), String> {
    let wrong = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(wrong)?;
    for entry in fs::read_dir(&case.folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let text = fs::read(entry.path()).map_err(wrong)?;
        fs::write(folder.path().join(entry.file_name()), text).map_err(wrong)?;
    }
    let made = Case { folder: folder.path().to_owned() };
    Ok((folder, made))
}

fn run(case: &Case, command: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(command);
    let output = command.args(arguments).current_dir(&case.folder).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn checked(case: &Case, file: &str) -> Result<Printed, String> {
    case.noised(&["run", "--config.check", "--web.config.file", file])
}

/// Refused in a sentence with these words, and none of the source's.
fn ensure_refused(case: &Case, file: &str, words: &[&str]) -> Result<(), String> {
    let Printed { stderr, code, .. } = checked(case, file)?;
    let is_worded = words.iter().all(|words| stderr.contains(words));
    let is_debug = ["Other(", "UnsupportedCertVersion", "failed to parse"];
    match code == Some(2) && is_worded && !is_debug.iter().any(|debug| stderr.contains(debug)) {
        true => Ok(()),
        false => Err(format!("{file}: exit code {code:?}, not {words:?}: {stderr}")),
    }
}

fn ensure_taken(case: &Case, file: &str, words: &str) -> Result<(), String> {
    let Printed { stderr, code, .. } = checked(case, file)?;
    match code == Some(0) && stderr.contains(words) {
        true => Ok(()),
        false => Err(format!("{file}: exit code {code:?}: {stderr}")),
    }
}

pub(super) fn certificate_v1(case: &Case) -> Result<(), String> {
    let (_folder, case) = copied(case)?;
    run(&case, "sh", &["make.sh"])?;
    ensure_refused(&case, "web-server-v1.yml", &["server-v1.crt", "of version 1", "-extfile"])?;
    ensure_refused(&case, "web-p521.yml", &["p521.crt", "P-521", "prime256v1"])?;
    ensure_refused(&case, "web-rsa1024.yml", &["rsa1024.crt", "1024 bits", "prime256v1"])?;
    ensure_taken(&case, "web-client-v1.yml", "")
}

pub(super) fn web_config_of_others(case: &Case) -> Result<(), String> {
    let (_folder, case) = copied(case)?;
    let make = "req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 30 -subj /CN=localhost \
                -addext subjectAltName=DNS:localhost";
    run(&case, "openssl", &make.split(' ').collect::<Vec<_>>())?;
    ensure_taken(&case, "curve-p521.yml", "CurveP521")?;
    ensure_refused(&case, "verify-if-given.yml", &["client_ca_file", "authorities"])?;
    ensure_refused(&case, "cost-18.yml", &["cost 18", "htpasswd"])
}

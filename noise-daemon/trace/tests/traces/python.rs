//! Programs of Python that judge what is computed here, in a virtual environment with pinned packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, process};

use serde_json::Value;

/// Debian's, whose packages the environments see.
const PYTHON: &str = "/usr/bin/python3";

/// Where tests keep files.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn ran(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", said.lines().last().unwrap_or("it failed"))),
    }
}

pub struct Environment {
    /// The name of its folder.
    name: &'static str,
    /// The packages in it, as pip reads them.
    requirements: &'static str,
    /// Its interpreter, or why there is none.
    python: OnceLock<Result<PathBuf, String>>,
}

impl Environment {
    /// One in a folder of that name, with these packages.
    pub const fn new(name: &'static str, requirements: &'static str) -> Self {
        Self { name, requirements, python: OnceLock::new() }
    }

    /// Makes it, once for all runs with these requirements.
    fn make(&self) -> Result<PathBuf, String> {
        if !Path::new(PYTHON).is_file() {
            return Err(format!("there is no {PYTHON}; it comes with: apt-get install python3"));
        }
        let whole = folder().join(self.name);
        let mark = whole.join("requirements.txt");
        if fs::read_to_string(&mark).is_ok_and(|text| text == self.requirements) {
            return Ok(whole.join("bin/python"));
        }
        // Another process may make it at the same time: it gets its name once it is whole.
        let new = folder().join(format!("{}.{}", self.name, process::id()));
        let asked = new.join("requirements.txt");
        let made = ran(Command::new(PYTHON)
            .args(["-m", "venv", "--without-pip", "--system-site-packages"])
            .arg(&new))
        .and_then(|()| {
            fs::write(&asked, self.requirements).unwrap();
            let mut pip = Command::new("pip3");
            pip.arg("--python").arg(new.join("bin/python"));
            pip.args(["install", "--quiet", "--retries=1", "--disable-pip-version-check"]);
            ran(pip.arg("--requirement").arg(&asked))
        });
        if let Err(reason) = made {
            let _ = fs::remove_dir_all(&new);
            return Err(format!("packages of PyPI cannot be installed: {reason}"));
        }
        let _ = fs::remove_dir_all(&whole);
        if let Err(error) = fs::rename(&new, &whole) {
            let _ = fs::remove_dir_all(&new);
            assert!(mark.is_file(), "{error}");
        }
        Ok(whole.join("bin/python"))
    }

    /// Runs a script; the JSON that it prints.
    pub fn run(&self, script: &str, arguments: &[&str]) -> Result<Value, String> {
        let python = self.python.get_or_init(|| self.make()).clone()?;
        let output = Command::new(python).args(["-c", script]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    }
}

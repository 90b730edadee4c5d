//! What babeltrace prints of a trace.

use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::process::Command;

/// Whether one of the two is installed, or what to do about it.
pub fn is_there(command: &str) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    match env::split_paths(&path).any(|folder| folder.join(command).is_file()) {
        true => Ok(()),
        false => Err(format!("there is no {command}; it comes with: apt-get install {command}")),
    }
}

/// Runs one of the two; the lines that it prints, and what it complains about.
pub fn run(command: &str, folder: &Path) -> Result<(Vec<String>, String), String> {
    is_there(command)?;
    let output = Command::new(command).arg("--clock-gmt").arg(folder).output();
    let output = output.map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    Ok((lines, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// A line without the distance from the line before, which depends on the order of events of one time.
fn comparable(line: &str) -> String {
    let (time, rest) = line.split_once(' ').unwrap();
    format!("{time} {}", rest.split_once(' ').unwrap().1)
}

/// Lines of ours that they do not have, with theirs of the same time that we do not have.
pub fn differences(ours: &[String], theirs: &[String]) -> Vec<(String, Option<String>)> {
    let mut left: HashMap<String, usize> = HashMap::new();
    for line in theirs {
        *left.entry(comparable(line)).or_default() += 1;
    }
    let mut missing = Vec::new();
    for line in ours {
        let line = comparable(line);
        match left.get_mut(&line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing.push(line),
        }
    }
    left.retain(|_, count| *count > 0);
    let time = |line: &str| line.split(' ').next().unwrap().to_owned();
    let pair = |line: String| {
        let theirs = left.keys().find(|other| time(other) == time(&line)).cloned();
        (line, theirs)
    };
    missing.into_iter().map(pair).collect()
}

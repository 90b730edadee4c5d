//! Every field of every event, as babeltrace prints it.

use std::collections::HashMap;
use std::env;
use std::process::Command;

use noise_trace::text::TextLines;

use crate::files::Trace;

/// Whether one of the two is installed, or what to do about it.
pub fn is_there(command: &str) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    match env::split_paths(&path).any(|folder| folder.join(command).is_file()) {
        true => Ok(()),
        false => Err(format!("there is no {command}; it comes with: apt-get install {command}")),
    }
}

/// Runs one of the two; the lines that it prints, and what it complains about.
pub fn run(command: &str, trace: &Trace) -> Result<(Vec<String>, String), String> {
    is_there(command)?;
    let output = Command::new(command).arg("--clock-gmt").arg(&trace.folder).output();
    let output = output.map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    Ok((lines, String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn lines(command: &str, trace: &Trace) -> Result<Vec<String>, String> {
    run(command, trace).map(|(lines, _)| lines)
}

/// What we print.
pub fn ours(trace: &Trace) -> Vec<String> {
    let mut text = TextLines::new(trace.layout.env.get("hostname").map_or("", String::as_str));
    let mut all = String::new();
    for record in trace.reader() {
        text.write(&record, &mut all);
    }
    all.lines().map(str::to_owned).collect()
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

/// Version 2 prints what we print, but for texts that are empty: there 2.0.4 repeats the text of the event of
/// that kind before it.
pub fn second(trace: &Trace) -> Result<(), String> {
    let (theirs, ours) = (lines("babeltrace2", trace)?, ours(trace));
    assert_eq!(ours.len(), theirs.len());
    let differences = differences(&ours, &theirs);
    assert!(differences.len() <= 3, "{} lines differ: {differences:#?}", differences.len());
    for (ours, theirs) in &differences {
        assert!(ours.contains("filename = \"\""), "{ours} is {theirs:?}");
    }
    Ok(())
}

/// Version 1 prints what we print, but for a line break in a text, where it begins another line.
pub fn first(trace: &Trace) -> Result<(), String> {
    let (theirs, ours) = (lines("babeltrace", trace)?, ours(trace));
    let theirs: Vec<String> = theirs.into_iter().filter(|line| line.starts_with('[')).collect();
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in differences(&ours, &theirs) {
        assert!(ours.contains("\\n"), "{ours} is {theirs:?}");
    }
    Ok(())
}

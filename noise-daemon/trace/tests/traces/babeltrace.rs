//! Every field of every event, as babeltrace prints it.

use noise_trace::record::Source as _;
use noise_trace::text::TextLines;

use crate::files::Trace;
use crate::printed::{differences, run};

fn lines(command: &str, trace: &Trace) -> Result<Vec<String>, String> {
    run(command, &trace.folder).map(|(lines, _)| lines)
}

pub fn ours(trace: &Trace) -> Vec<String> {
    let host = trace.layout.env.get("hostname").map_or("", String::as_str);
    let mut text = TextLines::new(host);
    let mut all = String::new();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        text.write(&record, &mut all);
    }
    all.lines().map(str::to_owned).collect()
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

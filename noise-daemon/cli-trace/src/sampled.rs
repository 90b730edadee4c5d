//! Recordings to test with.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use flate2::read::ZlibDecoder;
use tempfile::TempDir;

use crate::wire::{Field, Message};

/// A folder with a few events of one CPU.
pub fn small() -> TempDir {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("kernel");
    fs::create_dir(&inside).unwrap();
    fs::copy(fuzz.join("layout.tsdl"), inside.join("metadata")).unwrap();
    fs::copy(fuzz.join("corpus/packets/one"), inside.join("channel0_1")).unwrap();
    fs::write(inside.join(".hidden"), "x").unwrap();
    folder
}

/// A text of ftrace: threads 91 and 92 take turns on a CPU, and behind each event come so many lines that are none.
pub fn with_unread_lines(count: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let event = |at: usize| {
        let (prev, next) = if at.is_multiple_of(2) { (92, 91) } else { (91, 92) };
        format!(
            "t{prev}-{prev} [000] d..2. {at}.0: sched_switch: prev_comm=t{prev} prev_pid={prev} prev_prio=120 \
             prev_state=S ==> next_comm=t{next} next_pid={next} next_prio=120\n{}",
            "no event\n".repeat(count)
        )
    };
    let text: String = (0..10).map(event).collect();
    fs::write(folder.path().join("text"), text).unwrap();
    folder
}

/// A text of ftrace: threads 91 and 92 take turns on a CPU each second; 5 events are lost from second 2 to 3, and 3 from 5
/// to 6.
pub fn with_losses() -> TempDir {
    let folder = with_unread_lines(0);
    let path = folder.path().join("text");
    let mut text = fs::read_to_string(&path).unwrap();
    for (behind, events) in [("3.0", 5), ("6.0", 3)] {
        let line = text.lines().find(|line| line.contains(&format!(" {behind}: "))).unwrap();
        text = text.replace(line, &format!("CPU:0 [LOST {events} EVENTS]\n{line}"));
    }
    fs::write(path, text).unwrap();
    folder
}

/// The packets of a file, all of which are compressed.
pub fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut packets = Vec::new();
    for packet in Message::read(file).messages(1) {
        let Some(Field::Bytes(compressed)) = packet.all(50).next() else { panic!("it is not") };
        ZlibDecoder::new(compressed).read_to_end(&mut packets).unwrap();
    }
    packets
}

//! Recordings, whole and otherwise.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use noise_model::Host;

use super::{MAGIC, Recorder, Recording};
use crate::encode;
use crate::sampled::{host, small};

fn record_all(path: &Path, times: impl IntoIterator<Item = i64>) {
    let mut recorder = Recorder::open(path, &host()).unwrap();
    times.into_iter().for_each(|time| recorder.append(&small(time)).unwrap());
}

fn times(recording: &Recording) -> Vec<i64> {
    let frames = (0..recording.len()).map(|index| recording.frame(index));
    frames.map(|frame| frame.unwrap().time.as_second()).collect()
}

#[test]
fn frames_come_back_and_more_can_follow() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, 1..4);
    record_all(&path, 4..6);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.host, host());
    assert_eq!(times(&recording), [1, 2, 3, 4, 5]);
    assert_eq!(recording.frame(4).unwrap(), small(5));
    assert_eq!(recording.warning(), None);
    assert!(recording.frame(5).is_err());
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_read_and_continued() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, []);
    let begin = std::fs::metadata(&path).unwrap().len() as usize;
    record_all(&path, [1]);
    let first = std::fs::metadata(&path).unwrap().len() as usize;
    record_all(&path, [2, 3]);
    let bytes = std::fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        match Recording::open(&path) {
            Ok(recording) => {
                let times = times(&recording);
                assert!([1, 2, 3].starts_with(&times), "{length}: {times:?}");
                assert_eq!(times.is_empty(), length < first, "{length}");
                let is_whole = [begin, first].contains(&length);
                let torn = recording.warning().is_some();
                assert!(torn || is_whole || times.len() == 2, "{length}");
            }
            Err(error) => assert!(length < begin, "{length}: {error}"),
        }
        record_all(&path, [9]);
        let recording = Recording::open(&path).unwrap();
        assert_eq!(times(&recording).last(), Some(&9), "{length}");
        assert_eq!(recording.warning(), None, "{length}");
    }
}

#[test]
fn a_last_record_of_nothing_is_torn() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, [1, 2]);
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[length - 20..].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(times(&recording), [1]);
    assert!(recording.warning().unwrap().contains("up to frame 1"));
    record_all(&path, [3]);
    assert_eq!(times(&Recording::open(&path).unwrap()), [1, 3]);
}

#[test]
fn damage_is_reported_and_not_written_over() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, 1..4);
    let good = std::fs::read(&path).unwrap();
    let begins = Recording::open(&path).unwrap().frames;
    // In a frame: the others can be read.
    let mut bytes = good.clone();
    bytes[begins[1] as usize + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.len(), 3);
    let error = recording.frame(1).unwrap_err().to_string();
    assert!(error.contains("frame 2") && error.contains("check sum"), "{error}");
    assert_eq!(recording.frame(2).unwrap(), small(3));
    // In a length: the begin of the next record is unknown. One that only leads beyond the end is not taken for one that
    // was cut off, since others follow.
    for (place, value) in [(3, 0xff), (2, 1)] {
        let mut bytes = good.clone();
        bytes[begins[1] as usize + place] = value;
        std::fs::write(&path, &bytes).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(times(&recording), [1]);
        assert!(recording.warning().unwrap().contains("damaged after frame 1"));
        let error = Recorder::open(&path, &host()).unwrap_err().to_string();
        assert!(error.contains("choose another file"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn no_flipped_bit_makes_a_reader_fail_badly() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, [1, 2]);
    let good = std::fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let place = bit / 8;
        // The bit before it is right again.
        let from = place.saturating_sub(1);
        let byte = good[place] ^ (1 << (bit % 8));
        file.write_all_at(&[&good[from..place], &[byte]].concat(), from as u64).unwrap();
        let Ok(recording) = Recording::open(&path) else { continue };
        for index in 0..recording.len() {
            if let Ok(frame) = recording.frame(index) {
                assert!([small(1), small(2)].contains(&frame), "bit {bit}");
            }
        }
    }
}

#[test]
fn files_of_others_are_refused_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    record_all(&path, [1]);
    let other = Host { name: "other".to_owned(), ..host() };
    let error = Recorder::open(&path, &other).unwrap_err().to_string();
    assert!(error.contains("records box, this is other"), "{error}");
    let writer = Recorder::open(&path, &host()).unwrap();
    let error = Recorder::open(&path, &host()).unwrap_err().to_string();
    assert!(error.contains("another noised records"), "{error}");
    drop(writer);
    let mut newer = std::fs::read(&path).unwrap();
    newer[MAGIC.len()] = 9;
    for (bytes, words) in [
        (newer.as_slice(), "version 9, this noised knows 1"),
        (b"some words".as_slice(), "not a recording"),
        (b"precious".as_slice(), "not a recording"),
        (&encode(&small(1)).unwrap(), "not a recording"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let errors = [
            Recording::open(&path).unwrap_err().to_string(),
            Recorder::open(&path, &host()).unwrap_err().to_string(),
        ];
        assert!(errors.iter().all(|error| error.contains(words)), "{errors:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    for none in [root.path(), Path::new("/dev/null"), Path::new("/nonexistent/frames")] {
        let error = Recording::open(none).unwrap_err().to_string();
        assert!(error.contains("cannot use /") && error.contains(none.to_str().unwrap()));
        assert!(Recorder::open(none, &host()).is_err());
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_whole_records() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("frames");
    let mut recorder = Recorder::open(&path, &host()).unwrap();
    recorder.append(&small(1)).unwrap();
    // A file that may not be written stands for a disk that is full.
    let writable = std::mem::replace(&mut recorder.file, File::open(&path).unwrap());
    let error = recorder.append(&small(2)).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    recorder.file = writable;
    recorder.append(&small(3)).unwrap();
    assert_eq!(times(&Recording::open(&path).unwrap()), [1, 3]);
}

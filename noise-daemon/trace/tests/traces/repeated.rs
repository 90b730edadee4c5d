//! What the benchmark of reading reads: a trace several times, as one.

#[path = "../../../../tests/lab/bench/reading/input.rs"]
mod input;

use std::process::Command;

use noise_trace::json;
use noise_trace::record::Source as _;

use crate::files::Trace;
use crate::printed::is_there;

const TIMES: u64 = 3;

/// It has the events of the original, in the order of time, each repetition so much later than the one before, and
/// nothing that a reader complains about.
pub fn one_trace(trace: &Trace) -> Result<(), String> {
    let original = input::Original::open(&trace.folder).unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(original.times_for(TIMES * original.bytes), TIMES);
    original.write(folder.path(), TIMES).unwrap();
    let repeated = Trace::open(folder.path().to_path_buf());
    let mut reader = repeated.reader();
    let (mut events, mut expected, mut found) = (0, String::new(), String::new());
    for time in 0..TIMES {
        let mut once = trace.reader();
        while let Some(before) = once.read() {
            let now = reader.read().unwrap();
            events += 1;
            assert!(now.loss().is_none() && now.name() == before.name(), "{now:?} is {before:?}");
            let shift_ns = time * original.shift;
            assert_eq!((now.time_ns, now.cpu), (before.time_ns + shift_ns, before.cpu));
            if time + 1 < TIMES {
                continue;
            }
            expected.clear();
            found.clear();
            json::fields(&before, &mut expected);
            json::fields(&now, &mut found);
            assert_eq!(found, expected, "{now:?}");
        }
    }
    assert!(reader.read().is_none() && reader.damage().is_none(), "{}", reader.damage());
    let mut counting = Command::new("babeltrace2");
    counting.arg(folder.path()).args(["--component", "sink.utils.counter"]);
    is_there("babeltrace2")?;
    let output = counting.output().unwrap();
    let (counts, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
    assert!(counts.contains(&format!("{events} Event messages")), "{events}: {counts}");
    Ok(())
}

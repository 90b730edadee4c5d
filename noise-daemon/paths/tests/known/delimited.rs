//! Executions between two events of a real trace: its system calls, whose number and lengths are known.

use noise_paths::build::{Builder, Waker};
use noise_paths::execution::{DelimiterTally, Finder};

use noise_trace::record::Source as _;

use crate::drawn::number;
use crate::files::Trace;

/// Number, shortest and longest of each system call that the file names, as executions.
pub fn system_calls(trace: &Trace) {
    let expected = trace.expected["system_calls"].as_object().unwrap();
    let known: Vec<_> = expected.iter().filter(|(_, figures)| figures["n"].is_u64()).collect();
    assert!(known.len() >= 3, "{expected:?}");
    let mut builder = Builder::new(Waker::Wakeup);
    let finder = |(name, _): &(&String, _)| {
        let wanted = format!("event:sys_{name}..exit_syscall").parse().unwrap();
        Finder::new(&wanted, 0).unwrap()
    };
    let mut finders: Vec<_> = known.iter().map(finder).collect();
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        let event = record.event();
        builder.follow(&event);
        finders.iter_mut().for_each(|finder| finder.follow(&record, &event, &builder));
    }
    for ((name, figures), finder) in known.into_iter().zip(finders) {
        let (all, tally) = finder.finish(builder.graph());
        let lengths: Vec<u64> =
            all.iter().map(|found| found.execution.to_ns - found.execution.from_ns).collect();
        let (shortest, longest) = (lengths.iter().min(), lengths.iter().max());
        assert_eq!(lengths.len() as u64, number(&figures["n"]), "{name}: {tally:?}");
        for (found, of) in [(shortest, "min"), (longest, "max")] {
            if figures[of].is_u64() {
                assert_eq!(found.copied(), Some(number(&figures[of])), "{name}: {of}");
            }
        }
        assert_eq!(
            DelimiterTally { unbegun: 0, unfinished: 0, strangers: 0, ..tally },
            DelimiterTally::default()
        );
    }
}

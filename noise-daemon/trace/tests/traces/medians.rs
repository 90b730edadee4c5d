//! The medians that `expected.json` has, from delays one by one.

use std::collections::BTreeMap;

use noise_common::signals::Signal;
use noise_trace::delays::Delays;
use noise_trace::delays::watch::{Delay, DelaySubject, Run, RunQueueWait, Watch};
use noise_trace::record::Source as _;
use serde_json::Value;

use crate::figures::number;
use crate::files::Trace;

/// Lengths of delays by list and row of the file.
#[derive(Default)]
struct Lengths(BTreeMap<(&'static str, String), Vec<u64>>);

impl Lengths {
    fn add(&mut self, list: &'static str, row: String, from_ns: u64, to_ns: u64) {
        self.0.entry((list, row)).or_default().push(to_ns - from_ns);
    }
}

impl Watch for Lengths {
    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, wait: &RunQueueWait<'_>) {
        self.add("waits", wait.signal.to_owned(), wait.from_ns, wait.to_ns);
    }

    fn delayed(&mut self, delay: &Delay<'_>) {
        let (list, row) = match (delay.signal, delay.subject) {
            (Signal::Hardirq, DelaySubject::Irq(irq, name)) => ("irq", format!("{irq}:{name}")),
            (Signal::Softirq, DelaySubject::Softirq(vector)) => ("softirq", vector.to_string()),
            (Signal::SoftirqRaiseWait, DelaySubject::Softirq(vector)) => {
                ("softirq_raise", vector.to_string())
            }
            (Signal::NetTxWait, _) => ("tx", String::new()),
            _ => return,
        };
        self.add(list, row, delay.from_ns, delay.to_ns);
    }
}

/// Of an even number of them the upper one of the two in the middle, as the file has it.
fn median(lengths: &mut [u64]) -> u64 {
    lengths.sort_unstable();
    lengths[lengths.len() / 2]
}

/// The median of each list and row that has one.
pub fn medians(trace: &Trace) -> Result<(), String> {
    let (mut delays, mut lengths) = (Delays::default(), Lengths::default());
    let mut reader = trace.reader();
    while let Some(record) = reader.read() {
        delays.follow_each(&record.event(), &mut lengths);
    }
    let mut left = 0;
    for list in ["waits", "irq", "softirq", "softirq_raise"] {
        left += trace.expected[list].as_object().unwrap().len();
    }
    left += usize::from(trace.expected.get("tx").is_some());
    for ((list, row), lengths) in &mut lengths.0 {
        let rows = &trace.expected[*list];
        let expected: &Value = if row.is_empty() { rows } else { &rows[row.as_str()] };
        assert_eq!(median(lengths), number(&expected["median"]), "{list} {row}");
        left -= 1;
    }
    assert_eq!(left, 0, "lists of the file that have no delays");
    Ok(())
}

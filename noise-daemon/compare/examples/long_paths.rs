//! Compares generated executions of long paths, and says how long that took and how much memory: what a change of
//! the comparison costs. `cargo run --release -p noise-compare --example long_paths [EXECUTIONS [PARTS]]`.
#![expect(
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a program for developers, which prints what it measures"
)]

use std::time::Instant;

use noise_compare::comparison::{CompareProgress, Settings, compare};
use noise_compare::side::Side;
use noise_paths::document::{Segment, Traced};
use noise_trace::delays::document::Culprit;

/// Numbers without a pattern that matters here (xorshift, by Marsaglia).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// An execution of steps, some of which are preempted or wait; with a fault in its middle.
fn execution(parts: usize, fault_ns: u64, numbers: &mut Numbers) -> Traced {
    let mut path: Vec<Segment> = Vec::new();
    let mut at_ns = 1_000_000;
    let mut add = |state: &'static str, tid: i32, ns: u64, path: &mut Vec<Segment>| {
        let comm = format!("thread-{tid}");
        let culprit = Culprit { tid: 90 + tid, comm: comm.clone(), cause: "thread", ns };
        let culprits =
            if state == "waiting_cpu" || state == "disk" { vec![culprit] } else { Vec::new() };
        let (from_ns, to_ns) = (at_ns, at_ns + ns);
        at_ns = to_ns;
        path.push(Segment { tid, comm, state, from_ns, to_ns, culprits, ..Segment::default() });
    };
    while path.len() < parts {
        let step = path.len();
        add("running", 7, 20_000 + numbers.below(20_000), &mut path);
        match numbers.below(10) {
            0 => add("waiting_cpu", 7, 5_000 + numbers.below(50_000), &mut path),
            1 => add("interrupt", 7, 500 + numbers.below(5_000), &mut path),
            _ => match step / 40 % 4 {
                0 => add("disk", 7, 50_000 + numbers.below(50_000), &mut path),
                1 => add("running", 8, 10_000 + numbers.below(10_000), &mut path),
                2 => add("timer", 7, 60_000, &mut path),
                _ => add("futex", 7, 1_000 + numbers.below(9_000), &mut path),
            },
        }
        if fault_ns > 0 && step < parts / 2 && path.len() >= parts / 2 {
            add("disk", 7, fault_ns, &mut path);
        }
    }
    Traced {
        name: "mark:work".to_owned(),
        tid: 7,
        comm: "thread-7".to_owned(),
        from_ns: 1_000_000,
        to_ns: at_ns,
        span_ns: at_ns - 1_000_000,
        has_begin: true,
        has_end: true,
        path,
        ..Traced::default()
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let (count, parts) = (args.next().unwrap_or(200), args.next().unwrap_or(3_000));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    // As paths are read: those of one recording at a time.
    let mut side = |recording: usize, fault_ns: u64| {
        let all: Vec<Traced> =
            (0..count).map(|_| execution(parts, fault_ns, &mut numbers)).collect();
        let mut side = Side::default();
        side.add(recording, all);
        side
    };
    let (normal, sample) = (side(0, 0), side(1, 40_000_000));
    let begin = Instant::now();
    let mut progress = |progress: CompareProgress| {
        println!("{:5.1} s {progress:?}", begin.elapsed().as_secs_f64());
    };
    let found = compare(&normal, &sample, &Settings::default(), &mut progress).unwrap();
    let first = found.anomalies.first().and_then(|anomaly| anomaly.places.first());
    println!(
        "{count} against {count} executions of {parts} parts: {:.1} s; {} columns; first place {:?}",
        begin.elapsed().as_secs_f64(),
        found.localised.first().map_or(0, |localised| localised.columns),
        first.map(|place| (place.state, place.lost_ns))
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or_default());
}

//! Reports for tests.

use super::{CpuQuanta, FTQ_FORMAT, FWQ_FORMAT, QUANTA_VERSION, QuantaReport, Quantum};
use crate::random::Random;

/// A unit of work of the loops that are imitated, ns.
const UNIT_NS: f64 = 50.0;

/// A report with these samples, CPU for CPU.
pub fn report(quantum: Quantum, samples: Vec<Vec<u64>>) -> QuantaReport {
    let cpus = samples.into_iter().zip(0..);
    let cpus = cpus.map(|(samples, cpu)| CpuQuanta { cpu, start_ns: 77_000_000_000, samples });
    let format = match quantum {
        Quantum::TimeNs(_) => FTQ_FORMAT,
        Quantum::WorkUnits(_) => FWQ_FORMAT,
    };
    QuantaReport {
        format: format.to_owned(),
        version: QUANTA_VERSION,
        host: "node1".to_owned(),
        kernel: "6.18.0".to_owned(),
        started: "2026-11-21T09:41:02Z".parse().unwrap(),
        quantum,
        cpus: cpus.collect(),
    }
}

/// When noise begins and how long it is, ns: a tick of 2 to 4 us, and others of 1 to 20 us.
fn noise(hz: f64, others_hz: f64, seconds: f64, random: &mut Random) -> Vec<(f64, f64)> {
    let mut noise = Vec::new();
    let first = random.uniform();
    for number in 0..(seconds * hz) as u32 {
        let begin = (first + f64::from(number)) / hz + 2e-6 * random.exponential();
        noise.push((begin * 1e9, 2_000.0 + 2_000.0 * random.uniform()));
    }
    let mut at = 0.0;
    while others_hz > 0.0 && at < seconds {
        at += random.exponential() / others_hz;
        noise.push((at * 1e9, 1_000.0 + 19_000.0 * random.uniform()));
    }
    noise.sort_by(|a, b| a.0.total_cmp(&b.0));
    noise
}

/// What FTQ sees of a tick and of others.
pub fn ftq_of(
    hz: f64,
    others_hz: f64,
    seconds: f64,
    quantum_ns: u64,
    random: &mut Random,
) -> QuantaReport {
    let quantum = quantum_ns as f64;
    let mut stolen = vec![0.0; (seconds * 1e9 / quantum) as usize];
    for (begin, length) in noise(hz, others_hz, seconds, random) {
        let (mut begin, end) = (begin, begin + length);
        while begin < end {
            let place = (begin / quantum) as usize;
            let until = end.min((place + 1) as f64 * quantum);
            if let Some(stolen) = stolen.get_mut(place) {
                *stolen += until - begin;
            }
            begin = until;
        }
    }
    let done = |stolen: &f64| ((quantum - stolen) / UNIT_NS + random.uniform()).max(0.0) as u64;
    report(Quantum::TimeNs(quantum_ns), vec![stolen.iter().map(done).collect()])
}

/// What FWQ sees of the same.
pub fn fwq_of(
    hz: f64,
    others_hz: f64,
    seconds: f64,
    work_ns: u64,
    random: &mut Random,
) -> QuantaReport {
    let mut noise = noise(hz, others_hz, seconds, random).into_iter().peekable();
    let mut samples = Vec::new();
    let mut now = 0.0;
    while now < seconds * 1e9 {
        let mut end = now + work_ns as f64 + 20.0 * random.uniform();
        while let Some((_, length)) = noise.next_if(|(begin, _)| *begin < end) {
            end += length;
        }
        samples.push((end - now) as u64);
        now = end;
    }
    report(Quantum::WorkUnits(work_ns / 50), vec![samples])
}

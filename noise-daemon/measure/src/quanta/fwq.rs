//! FWQ: how long each of many equal quanta of work takes.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noise_host::resolve::read_host;
use noise_text::cpulist::CpuList;

use super::{CpuQuanta, FWQ_FORMAT, QUANTA_VERSION, QuantaOptions, QuantaReport, Quantum};
use crate::clock::now_ns;
use crate::error::MeasureError;
use crate::fleet::Fleet;
use crate::work;

/// Work may turn out to take less time than it was calibrated for, down to this part of it, as
/// CPUs differ and change their frequency.
const FASTEST: u64 = 4;

/// Measures. The work is calibrated on the first of the CPUs, and the same on all. `stop` ends it
/// early: the quanta up to then are reported. `progress` gets how much time has passed.
/// Errors: those of [`MeasureError`]; no thread is left pinned.
pub fn fwq(
    options: &QuantaOptions,
    stop: &AtomicBool,
    progress: impl FnMut(Duration),
) -> Result<QuantaReport, MeasureError> {
    let started = jiff::Timestamp::now();
    let priority = options.priority;
    let first: CpuList = options.cpus.iter().take(1).collect();
    let calibrate = |_, _, ()| work::worth(options.quantum_ns);
    let calibrated = Fleet::new(&first, priority).run(|| (), calibrate, |_| {})?;
    let units = calibrated.first().map_or(1, |(_, units)| *units);
    let duration_ns = u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX);
    let time = |_, start_ns, samples| {
        let mut samples: Vec<u64> = samples;
        let until = Until { start_ns, end_ns: start_ns.saturating_add(duration_ns), stop };
        let start_ns = time(&mut samples, units, &until, now_ns);
        (start_ns, samples)
    };
    let prepare = || options.room(options.quantum_ns / FASTEST);
    let cpus = Fleet::new(&options.cpus, priority).run(prepare, time, progress)?;
    let cpus =
        cpus.into_iter().map(|(cpu, (start_ns, samples))| CpuQuanta { cpu, start_ns, samples });
    let host = read_host(Path::new("/"));
    Ok(QuantaReport {
        format: FWQ_FORMAT.to_owned(),
        version: QUANTA_VERSION,
        host: host.name,
        kernel: host.kernel,
        started,
        quantum: Quantum::WorkUnits(units),
        cpus: cpus.collect(),
    })
}

/// From when to when, ns; `stop` ends it earlier.
struct Until<'a> {
    start_ns: u64,
    end_ns: u64,
    stop: &'a AtomicBool,
}

/// Works, and writes how long each quantum took into the room of `samples`; when the first began.
/// One begins when the one before ends: no time is between them.
fn time(samples: &mut Vec<u64>, units: u64, until: &Until<'_>, clock: impl Fn() -> u64) -> u64 {
    while clock() < until.start_ns {
        spin_loop();
    }
    let room = samples.capacity();
    let start_ns = clock();
    let mut state = start_ns;
    let mut last_ns = start_ns;
    while samples.len() < room && last_ns < until.end_ns && !until.stop.load(Ordering::Relaxed) {
        state = work::units(units, state);
        let now_ns = clock();
        samples.push(now_ns.saturating_sub(last_ns));
        last_ns = now_ns;
    }
    black_box(state);
    start_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn timed(room: usize, end_ns: u64, stop: bool) -> (u64, Vec<u64>) {
        let readings = [95, 100, 101, 111, 141, 151, 161, 171];
        let next = Cell::new(0);
        let clock = || {
            next.set(next.get() + 1);
            readings[next.get() - 1]
        };
        let mut samples = Vec::with_capacity(room);
        let stop = AtomicBool::new(stop);
        let start_ns = time(&mut samples, 3, &Until { start_ns: 100, end_ns, stop: &stop }, clock);
        (start_ns, samples)
    }

    #[test]
    fn quanta_of_work_have_no_time_between_them() {
        assert_eq!(timed(10, 160, false), (101, vec![10, 30, 10, 10]));
    }

    #[test]
    fn it_ends_with_the_room_or_when_told_to() {
        assert_eq!(timed(2, 160, false), (101, vec![10, 30]));
        assert_eq!(timed(2, 160, true), (101, vec![]));
    }
}

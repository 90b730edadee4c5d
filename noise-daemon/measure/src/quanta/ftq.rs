//! FTQ: how many units of work are finished in each quantum of time.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noise_host::resolve::read_host;

use super::{CpuQuanta, FTQ_FORMAT, QUANTA_VERSION, QuantaOptions, QuantaReport, Quantum};
use crate::clock::now_ns;
use crate::error::MeasureError;
use crate::fleet::Fleet;
use crate::work;

/// Measures. `stop` ends it early: the quanta up to then are reported. `progress` gets how much
/// time has passed.
/// Errors: those of [`MeasureError`]; no thread is left pinned.
pub fn ftq(
    options: &QuantaOptions,
    stop: &AtomicBool,
    progress: impl FnMut(Duration),
) -> Result<QuantaReport, MeasureError> {
    let started = jiff::Timestamp::now();
    let quantum_ns = options.quantum_ns.max(1);
    let count = |_, start_ns, samples| {
        let mut samples: Vec<u64> = samples;
        let start_ns = count(&mut samples, start_ns, quantum_ns, stop, now_ns);
        (start_ns, samples)
    };
    let prepare = || options.room(quantum_ns);
    let fleet = Fleet { multiple_ns: quantum_ns, ..Fleet::new(&options.cpus, options.priority) };
    let cpus = fleet.run(prepare, count, progress)?;
    let cpus =
        cpus.into_iter().map(|(cpu, (start_ns, samples))| CpuQuanta { cpu, start_ns, samples });
    let host = read_host(Path::new("/"));
    Ok(QuantaReport {
        format: FTQ_FORMAT.to_owned(),
        version: QUANTA_VERSION,
        host: host.name,
        kernel: host.kernel,
        started,
        quantum: Quantum::TimeNs(quantum_ns),
        cpus: cpus.collect(),
    })
}

/// Fills the room of `samples` with units of work that were finished in each quantum; when the
/// first of them began. The quanta begin at `start_ns`, or at the next multiple of their length
/// where that has passed.
///
/// A unit that is being worked on when a quantum ends counts for the quantum in which it is
/// finished; quanta that pass meanwhile have none.
fn count(
    samples: &mut Vec<u64>,
    start_ns: u64,
    quantum_ns: u64,
    stop: &AtomicBool,
    clock: impl Fn() -> u64,
) -> u64 {
    let start_ns = start_ns.max(clock().next_multiple_of(quantum_ns));
    while clock() < start_ns {
        spin_loop();
    }
    let room = samples.capacity();
    let mut boundary_ns = start_ns + quantum_ns;
    let mut state = start_ns;
    let mut finished = 0;
    loop {
        state = work::unit(state);
        let now_ns = clock();
        while now_ns >= boundary_ns {
            samples.push(finished);
            finished = 0;
            boundary_ns += quantum_ns;
            if samples.len() >= room || stop.load(Ordering::Relaxed) {
                black_box(state);
                return start_ns;
            }
        }
        finished += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_unit_counts_where_it_is_finished_and_quanta_never_drift() {
        // Readings of the clock: while waiting for the begin, then behind each unit.
        let readings = [90, 95, 100, 104, 108, 113, 118, 119, 121, 155, 159, 163, 172];
        let next = Cell::new(0);
        let clock = || {
            next.set(next.get() + 1);
            readings[next.get() - 1]
        };
        let mut samples = Vec::with_capacity(7);
        let start_ns = count(&mut samples, 100, 10, &AtomicBool::new(false), clock);
        assert_eq!((start_ns, next.get()), (100, readings.len()));
        // The unit of 121 to 155 is finished in the sixth quantum; 163 falls into the seventh.
        assert_eq!(samples, [2, 3, 1, 0, 0, 2, 1]);
    }

    #[test]
    fn who_comes_late_begins_at_a_later_quantum() {
        let now = Cell::new(123);
        let clock = || {
            now.set(now.get() + 1);
            now.get()
        };
        let mut samples = Vec::with_capacity(3);
        assert_eq!(count(&mut samples, 100, 10, &AtomicBool::new(false), clock), 130);
        assert_eq!(samples, [9, 10, 10]);
    }

    #[test]
    fn it_ends_early_where_it_is_told_to() {
        let now = Cell::new(0);
        let clock = || {
            now.set(now.get() + 1);
            now.get()
        };
        let mut samples = Vec::with_capacity(3);
        count(&mut samples, 100, 10, &AtomicBool::new(true), clock);
        assert_eq!(samples, [9]);
    }
}

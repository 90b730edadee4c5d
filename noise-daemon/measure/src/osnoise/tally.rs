//! What periods add up to, by CPU and source. Pure, but for the names of sources.

use std::collections::BTreeMap;

use super::period::{Counts, PeriodReport};
use crate::naming::Naming;
use crate::source::{Class, GapSource};

/// The shape of a histogram of noise, as rtla has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramShape {
    /// Width of a bucket, ns.
    pub bucket_ns: u64,
    /// Their number; what is longer is counted apart.
    pub entries: usize,
}

/// What one source did on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceTally {
    pub count: u64,
    /// Their net time inside samples, ns; of the hardware, the samples that nothing explains.
    pub noise_ns: u64,
    /// The longest, net, ns.
    pub longest_ns: u64,
}

/// Everything about one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTally {
    pub periods: u64,
    pub runtime_ns: u64,
    /// Time in samples, ns.
    pub noise_ns: u64,
    /// The most noise in one period, ns.
    pub max_noise_ns: u64,
    /// The longest sample, ns.
    pub max_single_ns: u64,
    pub samples: u64,
    /// Events by class, those in no sample included; of the hardware, samples without any event.
    pub counts: Counts,
    /// What is in samples but in no event, where there was an event: the kernel entry/exit overhead, ns.
    pub ways_ns: u64,
    pub histogram: Vec<u64>,
    pub over: u64,
    /// The shortest sample, ns.
    pub shortest_ns: Option<u64>,
    /// By source; threads without their pids.
    pub sources: BTreeMap<GapSource, SourceTally>,
    /// Samples without room; not among the sources.
    pub lost_samples: u64,
    /// Events that were lost.
    pub lost_events: u64,
}

impl CpuTally {
    /// Part of the time that the CPU was available for the thread that measured, in percent; `None`
    /// where nothing was measured.
    pub fn available_percent(&self) -> Option<f64> {
        let left_ns = self.runtime_ns.saturating_sub(self.noise_ns);
        (self.runtime_ns != 0).then(|| 100.0 * left_ns as f64 / self.runtime_ns as f64)
    }

    /// Events of a class; of the hardware, samples.
    pub fn count(&self, class: Class) -> u64 {
        self.counts.of_class(class)
    }
}

#[derive(Debug)]
pub struct Tally {
    shape: HistogramShape,
    naming: Naming,
    cpus: BTreeMap<u32, CpuTally>,
}

/// The source of which all threads of a kind are one.
fn folded(source: GapSource) -> GapSource {
    if source.class == Class::Thread {
        GapSource { name: source.kind_name().to_owned(), id: 0, ..source }
    } else {
        source
    }
}

impl Tally {
    pub fn new(shape: HistogramShape, naming: Naming) -> Self {
        Self { shape, naming, cpus: BTreeMap::new() }
    }

    /// The shape of its histograms.
    pub const fn shape(&self) -> HistogramShape {
        self.shape
    }

    /// The CPUs that were measured.
    pub const fn cpus(&self) -> &BTreeMap<u32, CpuTally> {
        &self.cpus
    }

    /// For the names of sources.
    pub const fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    pub fn add(&mut self, period: &PeriodReport) {
        let cpu = self.cpus.entry(period.cpu).or_default();
        cpu.histogram.resize(self.shape.entries, 0);
        cpu.periods += 1;
        cpu.runtime_ns += period.runtime_ns;
        cpu.noise_ns += period.noise_ns;
        cpu.max_noise_ns = cpu.max_noise_ns.max(period.noise_ns);
        cpu.max_single_ns = cpu.max_single_ns.max(period.longest_ns);
        cpu.samples += period.samples.len() as u64 + period.lost_samples;
        cpu.counts.add(&period.counts);
        cpu.lost_samples += period.lost_samples;
        cpu.lost_events += period.lost_events;
        for event in &period.events {
            cpu.sources.entry(folded(self.naming.source(event))).or_default().count += 1;
        }
        let hardware = GapSource { class: Class::Hardware, name: String::new(), id: 0 };
        for sample in &period.samples {
            let duration_ns = sample.gap.duration_ns;
            cpu.shortest_ns = Some(cpu.shortest_ns.map_or(duration_ns, |ns| ns.min(duration_ns)));
            let bucket = usize::try_from(duration_ns / self.shape.bucket_ns).unwrap_or(usize::MAX);
            match cpu.histogram.get_mut(bucket) {
                Some(count) => *count += 1,
                None => cpu.over += 1,
            }
            if sample.is_hardware() {
                let source = cpu.sources.entry(hardware.clone()).or_default();
                source.count += 1;
                source.noise_ns += duration_ns;
                source.longest_ns = source.longest_ns.max(duration_ns);
                continue;
            }
            cpu.ways_ns += sample.rest_ns();
            for part in &sample.parts {
                let source = cpu.sources.entry(folded(self.naming.source(part))).or_default();
                source.noise_ns += part.net_ns;
                source.longest_ns = source.longest_ns.max(part.net_ns);
            }
        }
    }
}

#[cfg(test)]
pub mod sampled {
    //! A period as it could have been.

    use noise_common::watch::{NoiseEvent, NoiseKind};

    use super::{HistogramShape, Tally};
    use crate::explain::Explained;
    use crate::gaps::LongGap;
    use crate::naming::Naming;
    use crate::osnoise::period::{Counts, PeriodReport};

    /// An event of CPU 1.
    pub fn event(kind: NoiseKind, id: u32, start_ns: u64, net_ns: u64) -> NoiseEvent {
        NoiseEvent {
            start_ns,
            end_ns: start_ns + net_ns,
            net_ns,
            cpu: 1,
            kind: kind as u32,
            id,
            number: if kind == NoiseKind::Vector { 236 } else { 0 },
            comm: [u64::from_le_bytes(*b"kworker/"), u64::from(u32::from_le_bytes(*b"1:0\0"))],
        }
    }

    /// A second of CPU 1: a tick below the threshold, a tick with a softirq, a thread, and a gap that nothing explains.
    pub fn period() -> PeriodReport {
        let tick = event(NoiseKind::Vector, 0, 5_789_857_529_929, 1_845);
        let softirq = event(NoiseKind::Softirq, 1, 5_789_857_532_000, 2_300);
        let thread = event(NoiseKind::Thread, 77, 5_789_900_000_000, 40_000);
        let small = event(NoiseKind::Vector, 0, 5_789_100_000_000, 900);
        let sample = |start_ns, duration_ns, parts: &[NoiseEvent]| Explained {
            gap: LongGap { start_ns, duration_ns },
            parts: parts.to_vec(),
            unseen: 0,
        };
        let samples = vec![
            sample(5_789_857_529_000, 6_000, &[tick, softirq]),
            sample(5_789_899_998_000, 45_000, &[thread]),
            sample(5_789_950_000_000, 12_000, &[]),
        ];
        let events = vec![small, tick, softirq, thread];
        PeriodReport {
            cpu: 1,
            thread: 961,
            start_ns: 5_789_000_000_000,
            runtime_ns: 1_000_000_000,
            noise_ns: 6_000 + 45_000 + 12_000,
            longest_ns: 45_000,
            counts: Counts::of(&samples, &events),
            samples,
            events,
            lost_samples: 0,
            lost_events: 0,
            stopped: None,
        }
    }

    pub fn tally() -> Tally {
        let shape = HistogramShape { bucket_ns: 10_000, entries: 3 };
        let mut tally = Tally::new(shape, Naming::new(std::path::Path::new("/nonexistent")));
        tally.add(&period());
        tally.add(&period());
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_add_up() {
        let tally = sampled::tally();
        let cpu = &tally.cpus()[&1];
        assert_eq!((cpu.periods, cpu.runtime_ns, cpu.noise_ns), (2, 2_000_000_000, 126_000));
        assert_eq!((cpu.max_noise_ns, cpu.max_single_ns), (63_000, 45_000));
        assert_eq!((cpu.samples, cpu.count(Class::Hardware)), (6, 2));
        assert_eq!(cpu.count(Class::Irq), 4);
        assert_eq!((cpu.count(Class::Softirq), cpu.count(Class::Thread)), (2, 2));
        assert_eq!((cpu.histogram.as_slice(), cpu.over), ([2, 2, 0].as_slice(), 2));
        assert_eq!(cpu.shortest_ns, Some(6_000));
        assert_eq!(cpu.available_percent(), Some(99.9937));
        // 6000 - 1845 - 2300, and 45000 - 40000, twice.
        assert_eq!(cpu.ways_ns, 2 * (1_855 + 5_000));
    }

    #[test]
    fn sources_count_all_events_and_the_time_in_samples() {
        let tally = sampled::tally();
        let named: Vec<String> = tally.cpus()[&1]
            .sources
            .iter()
            .map(|(source, own)| format!("{source} {} {}", own.count, own.noise_ns))
            .collect();
        assert_eq!(
            named,
            [
                "hardware 2 24000",
                "irq local_timer:236 4 3690",
                "softirq timer:1 2 4600",
                "thread kworker:0 2 80000",
            ]
        );
    }
}

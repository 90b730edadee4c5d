//! PURE: the tracer's lines, put together to periods.

use std::collections::BTreeMap;

use noise_common::signals::VECTORS;
use noise_common::watch::{NoiseEvent, NoiseKind};

use super::line::{Item, Line, Noise, Sums};
use crate::explain::{Explained, explain};
use crate::gaps::{LongGap, Stopped};
use crate::osnoise::period::{Counts, PeriodReport};
use crate::source::Class;

/// Events and samples of a CPU that are kept until its period is over.
const KEPT_MAX: usize = 1_000_000;
const NS_PER_US: u64 = 1_000;

/// Lines that belong to periods which are not over.
#[derive(Debug)]
pub struct Periods {
    /// When the tracer was started, CLOCK_MONOTONIC, ns.
    start_ns: u64,
    stop_single_ns: u64,
    stop_total_ns: u64,
    cpus: BTreeMap<u32, CurrentPeriod>,
}

/// A CPU's period that is not over.
#[derive(Debug, Default)]
struct CurrentPeriod {
    /// End of the period before it, ns.
    begin_ns: Option<u64>,
    /// The thread that measures.
    thread: u32,
    samples: Vec<(LongGap, u64)>,
    events: Vec<NoiseEvent>,
    lost: u64,
}

impl Periods {
    /// Nothing yet. A gap or a period's noise longer than these ended the tracing.
    pub const fn new(start_ns: u64, stop_single_ns: u64, stop_total_ns: u64) -> Self {
        Self { start_ns, stop_single_ns, stop_total_ns, cpus: BTreeMap::new() }
    }

    /// Takes the next line; `irq` gets the names of irqs. Returns the period that it ends.
    pub fn take(&mut self, line: Line, irq: &mut dyn FnMut(u32, &str)) -> Option<PeriodReport> {
        let (cpu, thread, time_ns, item) = match line {
            Line::Lost { cpu, entries } => {
                self.cpus.entry(cpu).or_default().lost += entries.max(1);
                return None;
            }
            Line::Entry { cpu, thread, time_ns, item } => (cpu, thread, time_ns, item),
        };
        if item == Item::Other {
            return None;
        }
        let open = self.cpus.entry(cpu).or_default();
        match item {
            Item::Sample { start_ns, duration_ns, interferences } => {
                open.thread = thread;
                if open.samples.len() < KEPT_MAX {
                    open.samples.push((LongGap { start_ns, duration_ns }, interferences));
                } else {
                    open.lost += 1;
                }
            }
            Item::Noise(noise) => {
                if noise.kind == NoiseKind::Hardirq {
                    irq(noise.number, &noise.name);
                }
                if open.events.len() < KEPT_MAX {
                    open.events.push(interference(cpu, &noise));
                } else {
                    open.lost += 1;
                }
            }
            Item::Period(sums) => {
                let last = open.samples.last().map(|(gap, _)| *gap);
                let mut report = open.end(cpu, thread, time_ns, &sums);
                if report.noise_ns > self.stop_total_ns {
                    let gap = last.unwrap_or_default();
                    report.stopped = Some(Stopped::Total(report.noise_ns, gap));
                }
                return Some(report);
            }
            Item::Unreadable => open.lost += 1,
            Item::Other => {}
        }
        None
    }

    /// After tracing has stopped by itself: the unfinished period with the gap that did it.
    pub fn stopped(mut self) -> Option<PeriodReport> {
        let longest = |open: &CurrentPeriod| {
            open.samples.iter().map(|(gap, _)| *gap).max_by_key(|gap| gap.duration_ns)
        };
        let (cpu, gap) = self
            .cpus
            .iter()
            .filter_map(|(cpu, open)| Some((*cpu, longest(open)?)))
            .max_by_key(|(_, gap)| gap.duration_ns)
            .filter(|(_, gap)| gap.duration_ns > self.stop_single_ns)?;
        let open = self.cpus.remove(&cpu)?;
        Some(open.broken_off(cpu, gap, self.start_ns))
    }
}

impl CurrentPeriod {
    /// The period is over; the next one begins.
    fn end(&mut self, cpu: u32, thread: u32, time_ns: u64, sums: &Sums) -> PeriodReport {
        let Self { samples, mut events, lost, .. } =
            std::mem::replace(self, Self { begin_ns: Some(time_ns), ..Self::default() });
        let samples = explained(&samples, &mut events);
        let runtime_ns = sums.runtime_us.saturating_mul(NS_PER_US);
        PeriodReport {
            cpu,
            thread,
            start_ns: time_ns.saturating_sub(runtime_ns),
            runtime_ns,
            noise_ns: sums.noise_us.saturating_mul(NS_PER_US),
            longest_ns: sums.longest_us.saturating_mul(NS_PER_US),
            counts: counts(sums),
            samples,
            events,
            lost_samples: 0,
            lost_events: lost,
            stopped: None,
        }
    }

    /// The period ended by one gap, at the end of which tracing stopped: the tracer did not write its sums any more.
    fn broken_off(mut self, cpu: u32, gap: LongGap, start_ns: u64) -> PeriodReport {
        let start_ns = self.begin_ns.unwrap_or(start_ns);
        let samples = explained(&self.samples, &mut self.events);
        let first_ns = samples.first().map_or(gap.start_ns, |sample| sample.gap.start_ns);
        PeriodReport {
            cpu,
            thread: self.thread,
            start_ns,
            runtime_ns: gap.end_ns().saturating_sub(first_ns),
            noise_ns: samples.iter().map(|sample| sample.gap.duration_ns).sum(),
            longest_ns: gap.duration_ns,
            counts: Counts::of(&samples, &self.events),
            samples,
            events: self.events,
            lost_samples: 0,
            lost_events: self.lost,
            stopped: Some(Stopped::Single(gap)),
        }
    }
}

fn counts(sums: &Sums) -> Counts {
    Counts::default()
        .with(Class::Hardware, sums.hardware)
        .with(Class::Nmi, sums.nmi)
        .with(Class::Irq, sums.irq)
        .with(Class::Softirq, sums.softirq)
        .with(Class::Thread, sums.thread)
}

/// The kernel says how many events a sample had, so that one whose events were lost is not
/// attributed to the hardware.
fn explained(samples: &[(LongGap, u64)], events: &mut [NoiseEvent]) -> Vec<Explained> {
    let gaps: Vec<LongGap> = samples.iter().map(|(gap, _)| *gap).collect();
    let mut all = explain(&gaps, events);
    for (sample, (_, interferences)) in all.iter_mut().zip(samples) {
        sample.unseen = interferences.saturating_sub(sample.parts.len() as u64);
    }
    all
}

/// The event as noised's own programs would have reported it, on the tracer's clock.
fn interference(cpu: u32, noise: &Noise) -> NoiseEvent {
    let (id, number) = match noise.kind {
        NoiseKind::Vector => {
            let index = VECTORS.iter().position(|vector| *vector == noise.name).unwrap_or(0);
            (u32::try_from(index).unwrap_or(0), noise.number)
        }
        _ => (noise.number, 0),
    };
    let comm = if noise.kind == NoiseKind::Thread { comm(&noise.name) } else { [0; 2] };
    NoiseEvent {
        start_ns: noise.start_ns,
        end_ns: noise.start_ns.saturating_add(noise.net_ns),
        net_ns: noise.net_ns,
        comm,
        cpu,
        kind: noise.kind as u32,
        id,
        number,
    }
}

fn comm(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    for (byte, own) in bytes.iter_mut().zip(name.bytes()) {
        *byte = own;
    }
    bytemuck::cast(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::line::parse;
    use super::*;

    /// Recorded on 6.1 with PREEMPT_RT, but for the last line, which is made to fit.
    const PERIOD: &str = "
       osnoise/0-155     [000] .......    71.928540: sample_threshold: start 159.903077306 duration 12228 ns interference 0
       osnoise/0-155     [000] dn.h1..    71.932978: irq_noise: local_timer:236 start 159.907579071 duration 113029 ns
       ktimers/0-15      [000] d...3..    71.934046: thread_noise: ktimers/0:15 start 159.907811938 duration 969737 ns
              sh-109     [000] d...3..    71.934889: thread_noise:       sh:109 start 159.908861774 duration 808156 ns
       osnoise/0-155     [000] .......    71.934903: sample_threshold: start 159.907011835 duration 2673788 ns interference 3
       osnoise/1-156     [001] .......    71.937249: sample_threshold: start 159.912028017 duration 1772 ns interference 0
            ping-150     [001] d..h111    71.948710: irq_noise: ttyS1:3 start 159.923487379 duration 2213 ns
       osnoise/0-155     [000] .......    71.946381: 23131       2686  88.38788    2673      1      0      1      0      2
";

    fn read(periods: &mut Periods, text: &str) -> Vec<PeriodReport> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| parse(line.as_bytes()).unwrap());
        let mut irqs = Vec::new();
        let reports = lines
            .filter_map(|line| {
                periods.take(line, &mut |irq, name| irqs.push((irq, name.to_owned())))
            })
            .collect();
        assert!(irqs.iter().all(|irq| *irq == (3, "ttyS1".to_owned())));
        reports
    }

    fn unbounded() -> Periods {
        Periods::new(71_900_000_000, u64::MAX, u64::MAX)
    }

    #[test]
    fn a_period_has_its_sums_its_samples_and_what_was_in_them() {
        let reports = read(&mut unbounded(), PERIOD);
        let [report] = reports.as_slice() else { unreachable!() };
        assert_eq!((report.cpu, report.thread, report.stopped), (0, 155, None));
        assert_eq!((report.start_ns, report.runtime_ns), (71_923_250_000, 23_131_000));
        assert_eq!((report.noise_ns, report.longest_ns), (2_686_000, 2_673_000));
        let count = |class| report.counts.of_class(class);
        assert_eq!((count(Class::Hardware), count(Class::Irq), count(Class::Thread)), (1, 1, 2));
        assert_eq!((report.samples.len(), report.events.len()), (2, 3));
        assert!(report.samples[0].is_hardware());
        let parts: Vec<u64> = report.samples[1].parts.iter().map(|part| part.net_ns).collect();
        assert_eq!(parts, [113_029, 969_737, 808_156]);
        assert_eq!(report.samples[1].unseen, 0);
        assert_eq!(
            (report.events[0].kind, report.events[0].number),
            (NoiseKind::Vector as u32, 236)
        );
    }

    #[test]
    fn a_sample_whose_events_were_lost_is_not_the_hardwares() {
        let kept = |line: &&str| !line.contains("[000]") || !line.contains("_noise");
        let mut text: String =
            PERIOD.lines().skip(1).filter(kept).map(|line| format!("{line}\n")).collect();
        text.insert_str(0, "CPU:0 [LOST 2 EVENTS]\nCPU:0 [LOST EVENTS]\n");
        let reports = read(&mut unbounded(), &text);
        let report = &reports[0];
        assert_eq!(report.lost_events, 3);
        assert_eq!((report.samples[1].parts.len(), report.samples[1].unseen), (0, 3));
        assert!(!report.samples[1].is_hardware());
        assert_eq!(report.counts.of_class(Class::Thread), 2);
    }

    #[test]
    fn the_gap_that_stopped_the_tracer_is_reported_with_what_there_was() {
        let unfinished = PERIOD.lines().skip(1).take(7).collect::<Vec<_>>().join("\n");
        let mut periods = Periods::new(71_900_000_000, 2_000_000, u64::MAX);
        assert_eq!(read(&mut periods, &unfinished), []);
        let report = periods.stopped().unwrap();
        let Some(Stopped::Single(gap)) = report.stopped else { unreachable!() };
        assert_eq!((report.cpu, report.thread, gap.duration_ns), (0, 155, 2_673_788));
        assert_eq!(report.noise_ns, 12_228 + 2_673_788);
        assert_eq!(report.counts.of_class(Class::Thread), 2);
        // From the first sample's begin to the end of the last.
        assert_eq!(report.runtime_ns, 6_608_317);

        let mut periods = Periods::new(0, 3_000_000, u64::MAX);
        read(&mut periods, &unfinished);
        assert_eq!(periods.stopped(), None);
    }

    #[test]
    fn a_period_with_too_much_noise_is_reported_as_that() {
        let mut periods = Periods::new(0, u64::MAX, 2_685_999);
        let reports = read(&mut periods, PERIOD);
        let Some(Stopped::Total(2_686_000, gap)) = reports[0].stopped else { unreachable!() };
        assert_eq!(gap.duration_ns, 2_673_788);
    }
}

//! PURE: how much of the detours each source made.
//!
//! The time of a detour belongs to its parts; what is in no part is kernel entry/exit overhead (entry and
//! exit code, caches that have to be filled again), or the hardware where there is no part at all.
//! As a count, a detour is one: it is apportioned to its parts by their time, so that the counts
//! of all sources sum to the count of detours.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Class, Detour, DetourReport, GapSource, SourceKey};

/// What one source, or all threads of one name, made of the detours.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SourceShare {
    /// Its kind; `None` for kernel entry/exit overhead.
    pub class: Option<Class>,
    /// Its name, without the CPU that a kernel thread is bound to; may be empty.
    pub name: String,
    /// Its events; for hardware, and for kernel entry/exit overhead, the detours that have them.
    pub events: u64,
    pub detours: f64,
    /// Of all detours, 0 to 1.
    pub detours_share: f64,
    pub time_ns: u64,
    /// Of the time of all detours, 0 to 1.
    pub time_share: f64,
    /// Its longest event, net, ns.
    pub max_ns: u64,
}

/// What all sources made of the detours.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SourceShares {
    /// The sources, those with most time first, kernel entry/exit overhead last.
    pub sources: Vec<SourceShare>,
    pub detours: u64,
    /// Those with at least one event of the kernel.
    pub explained: u64,
}

#[derive(Default)]
struct DetourTotals {
    events: u64,
    detours: f64,
    time_ns: u64,
    max_ns: u64,
}

impl DetourTotals {
    fn add(&mut self, detours: f64, time_ns: u64) {
        self.events += 1;
        self.detours += detours;
        self.time_ns += time_ns;
        self.max_ns = self.max_ns.max(time_ns);
    }
}

type DetourSource = (Option<Class>, String);

impl SourceShares {
    /// Of all detours of a report.
    pub fn of(report: &DetourReport) -> Self {
        let keys: Vec<DetourSource> = report.sources.iter().map(key).collect();
        let mut sums: BTreeMap<&DetourSource, DetourTotals> = BTreeMap::new();
        let hardware = (Some(Class::Hardware), String::new());
        let ways = (None, String::new());
        let (mut detours, mut explained, mut all_ns) = (0, 0, 0);
        for detour in report.cpus.iter().flat_map(|cpu| &cpu.detours) {
            detours += 1;
            all_ns += detour.duration_ns;
            explained += u64::from(!detour.parts.is_empty());
            if detour.parts.is_empty() {
                sums.entry(&hardware).or_default().add(1.0, detour.duration_ns);
                continue;
            }
            if detour.rest_ns() > 0 {
                sums.entry(&ways).or_default().add(0.0, detour.rest_ns());
            }
            for (part, weight) in detour.parts.iter().zip(weights(detour)) {
                if let Some(key) = keys.get(part.source) {
                    sums.entry(key).or_default().add(weight, part.duration_ns);
                }
            }
        }
        let of_detours = (detours as f64).max(1.0);
        let of_time = (all_ns as f64).max(1.0);
        let share = |((class, name), sum): (&DetourSource, DetourTotals)| SourceShare {
            class: *class,
            name: name.clone(),
            events: sum.events,
            detours: sum.detours,
            detours_share: sum.detours / of_detours,
            time_ns: sum.time_ns,
            time_share: sum.time_ns as f64 / of_time,
            max_ns: sum.max_ns,
        };
        let mut sources: Vec<_> = sums.into_iter().map(share).collect();
        sources.sort_by_key(|share| (share.class.is_none(), u64::MAX - share.time_ns));
        Self { sources, detours, explained }
    }
}

/// The key of a source: sources of one key are shown as one.
fn key(source: &GapSource) -> DetourSource {
    let SourceKey { class, name } = source.into();
    (Some(class), name)
}

/// How much of one detour each of its parts is, by time; all alike where they took none.
fn weights(detour: &Detour) -> impl Iterator<Item = f64> {
    let sum: u64 = detour.parts.iter().map(|part| part.duration_ns).sum();
    let alike = 1.0 / detour.parts.len() as f64;
    let weight = move |ns: u64| if sum == 0 { alike } else { ns as f64 / sum as f64 };
    detour.parts.iter().map(move |part| weight(part.duration_ns))
}

impl fmt::Display for SourceShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.class, self.name.as_str()) {
            (None, "") => formatter.write_str("kernel entry/exit overhead"),
            (None, name) => formatter.write_str(name),
            (Some(class), "") => formatter.write_str(class.name()),
            (Some(class), name) => write!(formatter, "{class} {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generated::{any_report, report};
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn a_detour_is_apportioned_to_its_parts() {
        let shares = SourceShares::of(&report());
        let rows: Vec<_> = shares
            .sources
            .iter()
            .map(|share| (share.to_string(), share.events, share.detours, share.time_ns))
            .collect();
        assert_eq!(
            rows,
            [
                ("thread kworker".to_owned(), 2, 1.0, 18_000),
                ("irq local_timer".to_owned(), 2, 1.75, 8_000),
                ("hardware".to_owned(), 1, 1.0, 6_000),
                ("softirq timer".to_owned(), 1, 0.25, 2_000),
                ("kernel entry/exit overhead".to_owned(), 1, 0.0, 2_000),
            ]
        );
        assert_eq!((shares.detours, shares.explained), (4, 3));
        assert_eq!(shares.sources[1].detours_share, 1.75 / 4.0);
        assert_eq!(shares.sources[0].time_share, 0.5);
        assert_eq!(shares.sources[0].max_ns, 10_000);
    }

    proptest! {
        #[test]
        fn nothing_is_charged_twice_or_lost(report in any_report()) {
            let shares = SourceShares::of(&report);
            let detours: f64 = shares.sources.iter().map(|share| share.detours).sum();
            prop_assert!((detours - shares.detours as f64).abs() < 1e-6);
            let time_ns: u64 = shares.sources.iter().map(|share| share.time_ns).sum();
            prop_assert_eq!(time_ns, report.cpus.iter().map(|cpu| cpu.detours_ns()).sum::<u64>());
        }
    }
}

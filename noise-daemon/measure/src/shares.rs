//! PURE: what each source took of a detour, with sources folded that differ in their ids alone.
//!
//! A detour's parts are net and leave a rest: the ways into and out of the kernel. The rest is
//! apportioned in proportion to the parts, so that the shares of a detour sum to its length. A
//! detour without parts belongs to the hardware (or the hypervisor) altogether.

use std::fmt;

use noise_text::clean::clean;

use super::report::{Detour, DetourReport};
use super::source::{Class, GapSource};

/// A source without its ids: what a person would call one cause.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SourceKey {
    pub class: Class,
    /// Its name; empty where the class says it all.
    pub name: String,
}

/// One source's share of a detour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetourShare {
    /// Place in [`Shares::keys`].
    pub key: usize,
    /// Its part of the detour's length, 0..=1.
    pub of_detour: f64,
    /// How many parts it has; 1 for the hardware.
    pub events: u64,
}

/// The folded sources of one report.
#[derive(Clone, Debug)]
pub struct Shares {
    keys: Vec<SourceKey>,
    /// Place in `keys`, for each source of the report.
    places: Vec<usize>,
    hardware: usize,
}

impl SourceKey {
    /// The hardware, or the hypervisor.
    pub const fn hardware() -> Self {
        Self { class: Class::Hardware, name: String::new() }
    }
}

impl From<&GapSource> for SourceKey {
    /// Drops the id. Threads that the kernel numbers (`ksoftirqd/3`, `kworker/1:2-events`) lose
    /// the number too: which of them did the work is chance, and differs from run to run.
    fn from(source: &GapSource) -> Self {
        Self { class: source.class, name: source.kind_name().to_owned() }
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.class.name())?;
        if !self.name.is_empty() {
            // Threads are named by those who start them.
            write!(formatter, " {}", clean(&self.name))?;
        }
        Ok(())
    }
}

impl Shares {
    /// Folds the sources of a report.
    pub fn of(report: &DetourReport) -> Self {
        let of_sources: Vec<SourceKey> = report.sources.iter().map(SourceKey::from).collect();
        let mut keys = of_sources.clone();
        keys.push(SourceKey::hardware());
        keys.sort();
        keys.dedup();
        let place = |key: &SourceKey| keys.binary_search(key).unwrap_or_default();
        let places = of_sources.iter().map(place).collect();
        let hardware = place(&SourceKey::hardware());
        Self { keys, places, hardware }
    }

    /// The folded sources, in order; the hardware is always among them.
    pub fn keys(&self) -> &[SourceKey] {
        &self.keys
    }

    /// The shares of a detour, one for each source that it has; they sum to 1. Parts of no length
    /// at all share the detour evenly.
    pub fn shares(&self, detour: &Detour) -> Vec<DetourShare> {
        if detour.parts.is_empty() {
            return vec![DetourShare { key: self.hardware, of_detour: 1.0, events: 1 }];
        }
        let mut sums: Vec<(usize, u64, u64)> = Vec::with_capacity(detour.parts.len());
        for part in &detour.parts {
            let key = self.places.get(part.source).copied().unwrap_or(self.hardware);
            match sums.iter_mut().find(|(known, ..)| *known == key) {
                Some((_, ns, events)) => {
                    *ns += part.duration_ns;
                    *events += 1;
                }
                None => sums.push((key, part.duration_ns, 1)),
            }
        }
        let whole_ns: u64 = sums.iter().map(|(_, ns, _)| ns).sum();
        let parts = detour.parts.len() as f64;
        let share = |(key, ns, events): (usize, u64, u64)| {
            let of_detour =
                if whole_ns > 0 { ns as f64 / whole_ns as f64 } else { events as f64 / parts };
            DetourShare { key, of_detour, events }
        };
        sums.into_iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DetourPart;

    fn source(class: Class, name: &str, id: u32) -> GapSource {
        GapSource { class, name: name.to_owned(), id }
    }

    fn detour(parts: &[(usize, u64)]) -> Detour {
        let part = |&(source, duration_ns)| DetourPart { source, start_ns: 0, duration_ns };
        Detour { start_ns: 0, duration_ns: 1_000, parts: parts.iter().map(part).collect() }
    }

    fn shares() -> Shares {
        Shares::of(&DetourReport {
            format: String::new(),
            version: 1,
            host: String::new(),
            kernel: String::new(),
            started: jiff::Timestamp::UNIX_EPOCH,
            sources: vec![
                source(Class::Thread, "worker", 7),
                source(Class::Irq, "local_timer", 236),
                source(Class::Thread, "worker", 8),
            ],
            cpus: Vec::new(),
        })
    }

    #[test]
    fn names_lose_numbers_that_are_chance() {
        let name = |class, name| SourceKey::from(&source(class, name, 3)).to_string();
        assert_eq!(name(Class::Thread, "kworker/1:2-events"), "thread kworker");
        assert_eq!(name(Class::Thread, "kworker/u8:0"), "thread kworker");
        assert_eq!(name(Class::Thread, "ksoftirqd/3"), "thread ksoftirqd");
        assert_eq!(name(Class::Thread, "jbd2/vda1-8"), "thread jbd2/vda1-8");
        assert_eq!(name(Class::Irq, "nvme0/1"), "irq nvme0/1");
        assert_eq!(name(Class::Hardware, ""), "hardware");
        assert_eq!(name(Class::Thread, "a\u{1b}[2J"), r"thread a\x1b[2J");
    }

    #[test]
    fn shares_are_in_proportion_and_sum_to_one() {
        let shares = shares();
        let names: Vec<String> = shares.keys().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["hardware", "irq local_timer", "thread worker"]);
        let of = |parts: &[(usize, u64)]| -> Vec<(usize, f64, u64)> {
            let of = shares.shares(&detour(parts));
            of.iter().map(|share| (share.key, share.of_detour, share.events)).collect()
        };
        assert_eq!(of(&[]), [(0, 1.0, 1)]);
        assert_eq!(of(&[(0, 100), (1, 300), (2, 200)]), [(2, 0.5, 2), (1, 0.5, 1)]);
        assert_eq!(of(&[(1, 333)]), [(1, 1.0, 1)]);
        assert_eq!(of(&[(1, 0), (0, 0)]), [(1, 0.5, 1), (2, 0.5, 1)]);
    }
}

//! How much of a trace is known: how many events were lost, and which CPUs are known later than it begins, or end earlier
//! than it does, in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::event::LostEvents;
use crate::follow::MAX_CPUS;

/// Tracers close the buffers of all CPUs one after the other, while others may still have events: on any snapshot some CPUs
/// end microseconds before others. What is so short is not said of a CPU.
const CLEAR_NS: u64 = 1_000_000;

/// Times in nanoseconds since the epoch, by CPU.
type CpuTimestamps = BTreeMap<u32, u64>;

/// From when on CPUs are known whose older events were overwritten while those of others were not: these losses come
/// before all events. And up to when CPUs are known whose events end before those of others: no event of such a CPU
/// comes behind that loss.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reach {
    #[serde(skip)]
    first_ns: Option<u64>,
    #[serde(skip)]
    has_begun: bool,
    #[serde(rename = "known_from_ns", skip_serializing_if = "CpuTimestamps::is_empty")]
    from_ns: CpuTimestamps,
    #[serde(rename = "known_to_ns", skip_serializing_if = "CpuTimestamps::is_empty")]
    to_ns: CpuTimestamps,
    /// Up to when the others are known.
    #[serde(skip)]
    end_ns: u64,
    /// Events, or packets, that were lost.
    #[serde(skip)]
    discarded: u64,
    /// Of these, the latest of each CPU: up to when, and how many.
    #[serde(skip)]
    latest_lost: BTreeMap<u32, (u64, u64)>,
}

impl Reach {
    /// That of a recording which begins then, and is read from a later time on.
    pub fn since(begin_ns: u64) -> Self {
        Self { first_ns: Some(begin_ns), ..Self::default() }
    }

    /// Takes what was lost, or else an event.
    #[inline]
    pub fn follow(&mut self, time_ns: u64, cpu: u32, loss: Option<&LostEvents>) {
        match loss {
            Some(loss) => self.note(cpu, loss),
            None if self.has_begun && self.to_ns.is_empty() => {}
            None => {
                self.first_ns.get_or_insert(time_ns);
                self.has_begun = true;
                self.to_ns.remove(&cpu);
            }
        }
    }

    #[cold]
    fn note(&mut self, cpu: u32, loss: &LostEvents) {
        // What was counted was lost on the way.
        let counted = loss.events.max(loss.packets);
        self.discarded = self.discarded.saturating_add(counted);
        if cpu as usize >= MAX_CPUS {
            return;
        }
        if counted > 0 {
            self.latest_lost.insert(cpu, (loss.to_ns, counted));
            return;
        }
        if loss.to_ns <= loss.from_ns {
            return;
        }
        if self.has_begun {
            if loss.to_ns - loss.from_ns > CLEAR_NS {
                self.to_ns.entry(cpu).or_insert(loss.from_ns);
                self.end_ns = loss.to_ns.max(self.end_ns);
            }
        } else {
            let known_from_ns = self.from_ns.entry(cpu).or_default();
            *known_from_ns = loss.to_ns.max(*known_from_ns);
        }
    }

    /// How many events, or packets, were lost, as far as that is known.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Only what lies behind that time is asked for. What was lost up to a later time may lie there.
    pub fn begin(&mut self, from_ns: u64) {
        let under_way = self.latest_lost.values().filter(|(to_ns, _)| *to_ns > from_ns);
        self.discarded = under_way.fold(0, |sum, (_, lost)| sum.saturating_add(*lost));
        self.from_ns.retain(|_, known_from_ns| *known_from_ns > from_ns);
    }

    /// The sentences as a line of their own, or nothing.
    pub fn line(&self) -> String {
        if self.is_whole() { String::new() } else { format!("{self}\n") }
    }

    /// Whether all CPUs are known from the begin to the end.
    pub fn is_whole(&self) -> bool {
        self.from_ns.is_empty() && self.to_ns.is_empty()
    }

    /// As documents have it: what is not empty, by its name.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, &CpuTimestamps)> {
        let lists = [("known_from_ns", &self.from_ns), ("known_to_ns", &self.to_ns)];
        lists.into_iter().filter(|(_, times)| !times.is_empty())
    }

    fn seconds(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9
    }
}

/// One sentence, or one each for begins and ends; nothing where all CPUs are known from the begin to the end.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((cpu, last_ns)) = self.from_ns.iter().max_by_key(|(_, from_ns)| **from_ns) {
            let seconds = self.seconds(*last_ns);
            match self.from_ns.len() {
                1 => write!(
                    f,
                    "CPU {cpu} is known from +{seconds:.6}s on: its older events were overwritten or are in another file"
                )?,
                count => write!(
                    f,
                    "{count} CPUs are known later than the recording begins, the last one (CPU {cpu}) from +{seconds:.6}s \
                     on: their older events were overwritten or are in other files"
                )?,
            }
        }
        let Some((cpu, first_ns)) = self.to_ns.iter().min_by_key(|(_, to_ns)| **to_ns) else {
            return Ok(());
        };
        if !self.from_ns.is_empty() {
            f.write_str("; ")?;
        }
        let seconds = self.seconds(*first_ns);
        let earlier = self.end_ns.saturating_sub(*first_ns) as f64 / 1e9;
        match self.to_ns.len() {
            1 => write!(
                f,
                "CPU {cpu} is known up to +{seconds:.6}s only, {earlier:.6}s before the recording ends: what ran there \
                 afterwards is not seen, as its later events are missing or in another file"
            ),
            count => write!(
                f,
                "{count} CPUs are not known up to the end of the recording, the first one (CPU {cpu}) up to \
                 +{seconds:.6}s, {earlier:.6}s before it: what ran there afterwards is not seen, as their later events \
                 are missing or in other files"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(from_ns: u64, to_ns: u64) -> LostEvents {
        LostEvents { events: 0, packets: 0, from_ns, to_ns }
    }

    /// Takes losses at their begin.
    fn follow(reach: &mut Reach, losses: &[(u32, LostEvents)]) {
        for (cpu, loss) in losses {
            reach.follow(loss.from_ns, *cpu, Some(loss));
        }
    }

    #[test]
    fn cpus_that_are_known_later_are_named() {
        let known = |begins: &[(u32, LostEvents)]| {
            let mut reach = Reach::default();
            follow(&mut reach, begins);
            reach.follow(1_000_000_000, 0, None);
            reach
        };
        let reach = known(&[]);
        assert_eq!((reach.to_string(), reach.is_whole()), (String::new(), true));
        // What was lost before the first event is no begin.
        let (first, third) =
            ((1, loss(900_000_000, 1_300_000_000)), (3, loss(1_000_000_000, 1_000_000_000)));
        let reach = known(&[first, third]);
        let one = "CPU 1 is known from +0.300000s on: its older events were overwritten or are in another file";
        assert_eq!(reach.to_string(), one);
        let begin = loss(1_000_000_000, 6_000_000_000);
        let lost = LostEvents { events: 1, to_ns: 7_000_000_000, ..begin };
        let mut reach = known(&[first, third, (2, begin), (4, lost)]);
        let two = "2 CPUs are known later than the recording begins, the last one (CPU 2) from +5.000000s on: their \
                   older events were overwritten or are in other files";
        assert_eq!(reach.to_string(), two);
        let written = serde_json::to_string(&reach).unwrap();
        assert_eq!(written, r#"{"known_from_ns":{"1":1300000000,"2":6000000000}}"#);
        reach.begin(1_300_000_000);
        assert_eq!(serde_json::to_string(&reach).unwrap(), r#"{"known_from_ns":{"2":6000000000}}"#);
    }

    #[test]
    fn cpus_that_end_earlier_are_named() {
        let mut reach = Reach::default();
        reach.follow(1_000_000_000, 0, None);
        // Counted, so lost on the way; and one that another event of its CPU comes behind.
        let lost = loss(2_000_000_000, 9_000_000_000);
        follow(&mut reach, &[(2, LostEvents { events: 1, ..lost }), (0, lost)]);
        assert!(!reach.is_whole());
        reach.follow(2_500_000_000, 0, None);
        assert_eq!(
            reach,
            Reach {
                first_ns: Some(1_000_000_000),
                has_begun: true,
                end_ns: 9_000_000_000,
                discarded: 1,
                latest_lost: BTreeMap::from([(2, (9_000_000_000, 1))]),
                ..Reach::default()
            }
        );
        follow(&mut reach, &[(3, loss(3_000_000_000, 9_000_000_000))]);
        reach.follow(4_000_000_000, 0, None);
        let one = "CPU 3 is known up to +2.000000s only, 6.000000s before the recording ends: what ran there \
                   afterwards is not seen, as its later events are missing or in another file";
        assert_eq!(reach.to_string(), one);
        // That of one, as any snapshot has it, is not said.
        let short = loss(9_000_000_000 - CLEAR_NS, 9_000_000_000);
        follow(&mut reach, &[(1, loss(5_000_000_000, 9_000_000_000)), (4, short)]);
        let two = "2 CPUs are not known up to the end of the recording, the first one (CPU 3) up to +2.000000s, \
                   6.000000s before it: what ran there afterwards is not seen, as their later events are missing or in \
                   other files";
        assert_eq!(reach.to_string(), two);
        reach.begin(8_000_000_000);
        assert_eq!(reach.discarded(), 1, "it may have been lost behind that time");
        let written = serde_json::to_string(&reach).unwrap();
        assert_eq!(written, r#"{"known_to_ns":{"1":5000000000,"3":3000000000}}"#);
        let lists: Vec<_> = reach.lists().map(|(name, _)| name).collect();
        assert_eq!(lists, ["known_to_ns"]);
        reach.begin(9_000_000_000);
        assert_eq!(reach.discarded(), 0);
    }

    #[test]
    fn what_is_read_from_a_later_time_on_is_counted_from_the_begin() {
        let mut reach = Reach::since(1_000_000_000);
        reach.follow(5_000_000_000, 0, None);
        follow(&mut reach, &[(1, loss(6_000_000_000, 9_000_000_000))]);
        let said = reach.to_string();
        assert!(said.starts_with("CPU 1 is known up to +5.000000s only, "), "{said}");
    }

    #[test]
    fn both_are_said() {
        let mut reach = Reach::default();
        follow(&mut reach, &[(1, loss(1, 1_000_000_001))]);
        reach.follow(1, 0, None);
        follow(&mut reach, &[(0, loss(2_000_000_001, 3_000_000_001))]);
        let said = reach.line();
        assert!(said.starts_with("CPU 1 is known from +1.000000s on: "), "{said}");
        assert!(said.contains("; CPU 0 is known up to +2.000000s only, "), "{said}");
    }
}

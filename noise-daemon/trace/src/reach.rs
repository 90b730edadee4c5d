//! Which CPUs are known later than a trace begins, in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::event::Loss;
use crate::threads::MAX_CPUS;

/// From when on CPUs are known whose older events were overwritten while those of others were not. These losses come
/// before all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    from_ns: u64,
    cpus: BTreeMap<u32, u64>,
    is_over: bool,
}

impl Reach {
    /// Takes what was lost, or else an event.
    #[inline]
    pub fn follow(&mut self, cpu: u32, loss: Option<&Loss>) {
        if self.is_over {
            return;
        }
        match loss {
            Some(loss) => self.note(cpu, loss),
            None => self.is_over = true,
        }
    }

    #[cold]
    fn note(&mut self, cpu: u32, loss: &Loss) {
        // What was counted was lost on the way.
        let is_counted = loss.events > 0 || loss.packets > 0;
        if is_counted || loss.to_ns <= loss.from_ns || cpu as usize >= MAX_CPUS {
            return;
        }
        if self.cpus.is_empty() {
            self.from_ns = loss.from_ns;
        }
        let known_from_ns = self.cpus.entry(cpu).or_default();
        *known_from_ns = loss.to_ns.max(*known_from_ns);
    }

    /// Only what lies behind that time is asked for.
    pub fn begin(&mut self, from_ns: u64) {
        self.cpus.retain(|_, known_from_ns| *known_from_ns > from_ns);
    }

    /// The sentence as a line of its own, or nothing.
    pub fn line(&self) -> String {
        if self.is_whole() { String::new() } else { format!("{self}\n") }
    }

    /// Whether all CPUs are known from the begin on.
    pub fn is_whole(&self) -> bool {
        self.cpus.is_empty()
    }
}

/// One sentence; nothing where all CPUs are known from the begin on.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((cpu, last_ns)) =
            self.cpus.iter().max_by_key(|(_, known_from_ns)| **known_from_ns)
        else {
            return Ok(());
        };
        let seconds = last_ns.saturating_sub(self.from_ns) as f64 / 1e9;
        match self.cpus.len() {
            1 => write!(
                f,
                "CPU {cpu} is known from +{seconds:.6}s on: its older events were overwritten or are in another file"
            ),
            count => write!(
                f,
                "{count} CPUs are known later than the recording begins, the last one (CPU {cpu}) from +{seconds:.6}s \
                 on: their older events were overwritten or are in other files"
            ),
        }
    }
}

/// As documents have it: nanoseconds since the epoch, by CPU.
impl Serialize for Reach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.cpus.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(from_ns: u64, to_ns: u64) -> Loss {
        Loss { events: 0, packets: 0, from_ns, to_ns }
    }

    #[test]
    fn cpus_that_are_known_later_are_named() {
        let mut reach = Reach::default();
        assert_eq!((reach.to_string(), reach.is_whole()), (String::new(), true));
        reach.follow(1, Some(&loss(1_000_000_000, 1_300_000_000)));
        reach.follow(3, Some(&loss(1_000_000_000, 1_000_000_000)));
        let one = "CPU 1 is known from +0.300000s on: its older events were overwritten or are in another file";
        assert_eq!(reach.to_string(), one);
        reach.follow(2, Some(&loss(1_000_000_000, 6_000_000_000)));
        reach.follow(4, Some(&Loss { events: 1, ..loss(1_000_000_000, 7_000_000_000) }));
        // What is lost behind an event is lost on the way.
        reach.follow(0, None);
        reach.follow(0, Some(&loss(2_000_000_000, 9_000_000_000)));
        let two = "2 CPUs are known later than the recording begins, the last one (CPU 2) from +5.000000s on: their \
                   older events were overwritten or are in other files";
        assert_eq!(reach.to_string(), two);
        let written = serde_json::to_string(&reach).unwrap();
        assert_eq!(written, r#"{"1":1300000000,"2":6000000000}"#);
        reach.begin(1_300_000_000);
        assert_eq!(serde_json::to_string(&reach).unwrap(), r#"{"2":6000000000}"#);
    }
}

//! Where events were lost.

use std::cmp::Reverse;

use serde::Serialize;

use crate::event::LostEvents;

/// Losses that are listed; of more, the worst ones are.
const MOST: usize = 65_536;

/// Events of a CPU that were lost between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    pub cpu: u32,
    /// Not before then, nanoseconds since the epoch of the trace's clock.
    pub from_ns: u64,
    /// Not after then.
    pub to_ns: u64,
    pub events: u64,
    /// Whole packets, each with an unknown number of events.
    pub packets: u64,
}

impl Loss {
    /// The worse, the less. A packet has thousands of events.
    const fn rank(&self) -> Reverse<(u64, u64)> {
        Reverse((self.packets, self.events))
    }
}

/// All losses of which the tracer says how many events, or packets, they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// In the order of time.
    #[serde(rename = "losses")]
    listed: Vec<Loss>,
    /// How many more there are.
    #[serde(rename = "losses_left_out", skip_serializing_if = "is_none")]
    left_out: u64,
}

const fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Losses {
    pub fn add(&mut self, cpu: u32, loss: &LostEvents) {
        let LostEvents { events, packets, from_ns, to_ns } = *loss;
        if events == 0 && packets == 0 {
            return;
        }
        self.listed.push(Loss { cpu, from_ns, to_ns: to_ns.max(from_ns), events, packets });
        if self.listed.len() >= 2 * MOST {
            self.bound();
        }
    }

    fn bound(&mut self) {
        if self.listed.len() > MOST {
            self.listed.sort_by_key(Loss::rank);
            self.left_out += (self.listed.len() - MOST) as u64;
            self.listed.truncate(MOST);
        }
    }

    /// Puts them into the order of time.
    pub fn finish(&mut self) {
        self.bound();
        self.listed.sort_by_key(|loss| (loss.from_ns, loss.cpu));
    }

    /// How many there are.
    pub const fn count(&self) -> u64 {
        self.listed.len() as u64 + self.left_out
    }

    /// The worst ones, up to so many.
    pub fn worst(&self, most: usize) -> Vec<Loss> {
        let mut worst = self.listed.clone();
        worst.sort_by_key(Loss::rank);
        worst.truncate(most);
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_are_known_and_the_others_counted() {
        let mut losses = Losses::default();
        let count = 3 * MOST as u64;
        for number in 0..count {
            let (from_ns, events) = (10 * (count - number), number % 1000);
            let loss = LostEvents { events, packets: 0, from_ns, to_ns: from_ns + 5 };
            losses.add(3, &loss);
        }
        let packets = LostEvents { events: 0, packets: 1, from_ns: 7, to_ns: 6 };
        losses.add(1, &packets);
        losses.finish();
        // One in a thousand had nothing.
        assert_eq!(losses.count(), count - count.div_ceil(1000) + 1);
        assert_eq!(losses.listed.len(), MOST);
        assert!(losses.listed.is_sorted_by_key(|loss| loss.from_ns));
        let worst = losses.worst(2);
        assert_eq!(worst[0], Loss { cpu: 1, from_ns: 7, to_ns: 7, events: 0, packets: 1 });
        assert_eq!((worst[1].events, worst.len()), (999, 2));
        let json = serde_json::to_value(&losses).unwrap();
        assert_eq!(json["losses_left_out"], count - count.div_ceil(1000) + 1 - MOST as u64);
        assert_eq!(json["losses"][0]["packets"], 1);
    }
}

//! When events of all CPUs are there, and when not.
//!
//! While events of one CPU are lost, a thread may run there, sleep and be woken, and none of it is seen on the
//! others. So what a thread did meanwhile that did not run on another CPU is not known. A CPU is seen again when
//! its loss is over, or with its next switch if that is earlier: of a loss that was counted at the end of a packet it
//! is known only that it was over by then.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{Event, TraceKind};
use crate::follow::MAX_CPUS;

/// Gaps that are kept apart; older ones are joined.
const MAX_GAPS: usize = 4096;

/// A time in which events of some CPU are lost, ns: from the first on, before the second.
pub type UnseenGap = (u64, u64);

/// Follows which CPUs are seen.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// CPUs that are not, and until when at most.
    lost: BTreeMap<u32, u64>,
    /// Since when that is so.
    since_ns: u64,
    /// Gaps that are over, the oldest first.
    gaps: VecDeque<UnseenGap>,
    losses: u32,
}

impl Sight {
    /// Takes the next event. A gap that is over by then.
    pub fn follow(&mut self, event: &Event<'_>) -> Option<UnseenGap> {
        let over = match self.lost.is_empty() {
            true => None,
            false => self.regain(event),
        };
        let TraceKind::Lost(loss) = &event.kind else { return over };
        self.losses = self.losses.wrapping_add(1);
        if loss.to_ns > event.time_ns && (event.cpu as usize) < MAX_CPUS {
            if self.lost.is_empty() {
                self.since_ns = event.time_ns;
            }
            let until_ns = self.lost.entry(event.cpu).or_default();
            *until_ns = loss.to_ns.max(*until_ns);
        }
        over
    }

    /// Whether events of all CPUs are there at the moment.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty()
    }

    /// How often events of any CPU were lost, or of all were there again: where the number is the same at two times and all
    /// CPUs are seen, nothing is missing between them.
    pub const fn losses(&self) -> u32 {
        self.losses
    }

    /// The gaps that a time has a part of, the oldest first; the one that is not over lasts until its end.
    pub fn gaps(&self, from_ns: u64, to_ns: u64) -> Vec<UnseenGap> {
        let first = self.gaps.partition_point(|(_, end_ns)| *end_ns <= from_ns);
        let over = self.gaps.range(first..).copied();
        let open = (!self.is_whole()).then_some((self.since_ns, to_ns.max(self.since_ns)));
        over.chain(open).filter(|(begin_ns, _)| *begin_ns < to_ns).collect()
    }

    fn regain(&mut self, event: &Event<'_>) -> Option<UnseenGap> {
        let now_ns = event.time_ns;
        let mut end_ns = 0;
        if matches!(event.kind, TraceKind::SchedSwitch { .. })
            && let Some(until_ns) = self.lost.remove(&event.cpu)
        {
            end_ns = until_ns.min(now_ns);
        }
        self.lost.retain(|_, until_ns| {
            let is_over = *until_ns <= now_ns;
            end_ns = if is_over { end_ns.max(*until_ns) } else { end_ns };
            !is_over
        });
        if !self.lost.is_empty() {
            return None;
        }
        // One that ended earlier, while another went on, is part of it.
        let gap = (self.since_ns, end_ns.max(self.since_ns));
        if self.gaps.len() >= MAX_GAPS
            && let (Some(first), Some(second)) = (self.gaps.pop_front(), self.gaps.front_mut())
        {
            second.0 = first.0;
        }
        self.gaps.push_back(gap);
        self.losses = self.losses.wrapping_add(1);
        Some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LostEvents;
    use crate::fixtures;

    fn lost(time_ns: u64, cpu: u32, to_ns: u64) -> Event<'static> {
        let loss = LostEvents { events: 1, packets: 0, from_ns: time_ns, to_ns };
        Event { time_ns, cpu, kind: TraceKind::Lost(loss) }
    }

    fn switch(time_ns: u64, cpu: u32) -> Event<'static> {
        Event { time_ns, cpu, kind: fixtures::switch(0, 0, 0) }
    }

    #[test]
    fn a_gap_lasts_until_each_cpu_is_seen_again() {
        let mut sight = Sight::default();
        assert_eq!(sight.follow(&lost(10, 0, 50)), None);
        assert_eq!(sight.follow(&lost(20, 1, 90)), None);
        assert_eq!((sight.follow(&switch(60, 2)), sight.is_whole()), (None, false));
        assert_eq!(sight.gaps(0, 65), [(10, 65)]);
        // A switch on the CPU itself.
        assert_eq!((sight.follow(&switch(70, 1)), sight.is_whole()), (Some((10, 70)), true));
        // One that is over when another event comes, and one that takes no time.
        assert_eq!(sight.follow(&lost(80, 0, 85)), None);
        assert_eq!(sight.follow(&switch(99, 2)), Some((80, 85)));
        assert_eq!((sight.follow(&lost(100, 0, 100)), sight.is_whole()), (None, true));
        assert_eq!(sight.gaps(0, 200), [(10, 70), (80, 85)]);
        assert_eq!(sight.gaps(70, 80), []);
        assert_eq!(sight.gaps(70, 81), [(80, 85)]);
        // Four losses, after two of which all CPUs were seen again.
        assert_eq!(sight.losses(), 6);
    }

    #[test]
    fn of_too_many_the_oldest_are_joined() {
        let mut sight = Sight::default();
        for at in 0..2 * MAX_GAPS as u64 {
            sight.follow(&lost(10 * at, 0, 10 * at + 5));
            sight.follow(&switch(10 * at + 7, 1));
        }
        let gaps = sight.gaps(0, u64::MAX);
        assert_eq!((gaps.len(), gaps[0].0), (MAX_GAPS, 0));
        assert_eq!(gaps[1].1 - gaps[1].0, 5);
    }
}

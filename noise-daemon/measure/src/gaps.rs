//! The loop that watches the clock: a gap between two readings is time that was taken from it.

use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::now_ns;

/// A gap that was as long as the threshold, or longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongGap {
    /// The last reading before it, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// Up to the first reading behind it, ns: one undisturbed pass of the loop included.
    pub duration_ns: u64,
}

impl LongGap {
    /// The first reading behind it, ns.
    pub const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub runtime_ns: u64,
    /// Length from which on a gap is kept, ns.
    pub threshold_ns: u64,
    /// A gap of this length ends it, ns.
    pub stop_single_ns: u64,
    /// So much time in gaps ends it, ns.
    pub stop_total_ns: u64,
    /// Ends it from outside.
    pub stop: &'a AtomicBool,
}

/// Why watching ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// By a single gap.
    Single(LongGap),
    /// By the sum of all gaps, ns, with the last gap.
    Total(u64, LongGap),
    Asked,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The first reading, ns.
    pub start_ns: u64,
    /// The last reading, ns.
    pub end_ns: u64,
    /// Readings behind the first one.
    pub passes: u64,
    /// The gaps, in order of time.
    pub gaps: Vec<LongGap>,
    /// Gaps for which there was no room.
    pub lost: u64,
    /// Time of all gaps, those without room included, ns.
    pub noise_ns: u64,
    /// The longest one, ns.
    pub longest_ns: u64,
    /// Why it ended early.
    pub stopped: Option<Stopped>,
}

impl Gaps {
    /// Room for that many gaps, of which every page has been written to.
    pub fn with_room(gaps: usize) -> Self {
        let mut room = vec![LongGap { start_ns: 1, duration_ns: 1 }; gaps];
        room.clear();
        Self { gaps: room, ..Self::default() }
    }

    /// Watches the clock. Nothing is allocated and no page is touched for the first time meanwhile,
    /// and every moment between the first and the last reading is in exactly one pass.
    pub fn watch(&mut self, plan: &Plan<'_>) {
        self.gaps.clear();
        let room = self.gaps.capacity();
        let (mut lost, mut noise_ns, mut longest_ns, mut passes) = (0, 0, 0, 0);
        let mut stopped = None;
        let start_ns = now_ns();
        let until_ns = start_ns.saturating_add(plan.runtime_ns);
        let mut last_ns = start_ns;
        loop {
            let reading_ns = now_ns();
            passes += 1;
            let duration_ns = reading_ns.saturating_sub(last_ns);
            if duration_ns >= plan.threshold_ns {
                let gap = LongGap { start_ns: last_ns, duration_ns };
                noise_ns += duration_ns;
                longest_ns = duration_ns.max(longest_ns);
                if self.gaps.len() < room {
                    self.gaps.push(gap);
                } else {
                    lost += 1;
                }
                if duration_ns >= plan.stop_single_ns {
                    stopped = Some(Stopped::Single(gap));
                } else if noise_ns >= plan.stop_total_ns {
                    stopped = Some(Stopped::Total(noise_ns, gap));
                }
            }
            last_ns = reading_ns;
            if reading_ns >= until_ns || stopped.is_some() {
                break;
            }
            if plan.stop.load(Ordering::Relaxed) {
                stopped = Some(Stopped::Asked);
                break;
            }
        }
        (self.start_ns, self.end_ns) = (start_ns, last_ns);
        (self.passes, self.lost, self.stopped) = (passes, lost, stopped);
        (self.noise_ns, self.longest_ns) = (noise_ns, longest_ns);
    }

    /// How long it was watched, ns.
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What the loop itself needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// One undisturbed pass: the shortest mean of a block of passes, ns.
    pub pass_ns: f64,
    /// The smallest step between two readings that differ, ns.
    pub resolution_ns: u64,
}

/// Passes of one block of a calibration, and how many blocks.
const BLOCK_PASSES: u32 = 500;
const BLOCKS: u32 = 2000;

impl Calibration {
    /// Runs the loop for some milliseconds.
    pub fn measure() -> Self {
        let (mut shortest_ns, mut resolution_ns) = (u64::MAX, u64::MAX);
        for _ in 0..BLOCKS {
            let start_ns = now_ns();
            let mut last_ns = start_ns;
            for _ in 0..BLOCK_PASSES {
                let reading_ns = now_ns();
                let step_ns = reading_ns.saturating_sub(last_ns);
                if step_ns != 0 && step_ns < resolution_ns {
                    resolution_ns = step_ns;
                }
                last_ns = reading_ns;
            }
            shortest_ns = shortest_ns.min(last_ns.saturating_sub(start_ns));
        }
        Self { pass_ns: shortest_ns as f64 / f64::from(BLOCK_PASSES), resolution_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn plan(stop: &AtomicBool) -> Plan<'_> {
        Plan {
            runtime_ns: 2_000_000,
            threshold_ns: 1,
            stop_single_ns: u64::MAX,
            stop_total_ns: u64::MAX,
            stop,
        }
    }

    #[test]
    fn with_a_threshold_below_everything_all_time_is_in_gaps() {
        let mut watched = Gaps::with_room(1_000_000);
        watched.watch(&plan(&NEVER));
        assert!(watched.duration_ns() >= 2_000_000);
        assert_eq!(watched.noise_ns, watched.duration_ns());
        assert_eq!(watched.gaps.iter().map(|gap| gap.duration_ns).max(), Some(watched.longest_ns));
        assert_eq!((watched.stopped, watched.lost), (None, 0));
        assert!(watched.gaps.windows(2).all(|two| two[0].end_ns() <= two[1].start_ns));
    }

    #[test]
    fn gaps_without_room_are_counted_with_their_time() {
        let mut watched = Gaps::with_room(10);
        watched.watch(&plan(&NEVER));
        assert_eq!(watched.gaps.len(), 10);
        assert!(watched.lost > 0);
        assert_eq!(watched.noise_ns, watched.duration_ns());
    }

    #[test]
    fn it_ends_early_where_it_is_told_to() {
        let stop = AtomicBool::new(true);
        let mut watched = Gaps::with_room(1);
        watched.watch(&plan(&stop));
        assert_eq!((watched.stopped, watched.passes), (Some(Stopped::Asked), 1));
        watched.watch(&Plan { stop_single_ns: 1, ..plan(&NEVER) });
        assert!(matches!(watched.stopped, Some(Stopped::Single(gap)) if gap.duration_ns >= 1));
        watched.watch(&Plan { stop_total_ns: 500, ..plan(&NEVER) });
        assert!(matches!(watched.stopped, Some(Stopped::Total(500.., _))));
    }

    #[test]
    fn a_pass_takes_some_time() {
        let calibration = Calibration::measure();
        assert!(calibration.pass_ns > 0.0 && calibration.resolution_ns > 0, "{calibration:?}");
    }
}

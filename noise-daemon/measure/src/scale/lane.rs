//! How long one CPU's noise delays work of a given length that begins at a given moment.
//!
//! Work of length g that begins at t is finished at the first moment by which the CPU has computed
//! undisturbed for g since t; its delay is the time of detours between t and then. A detour that
//! begins before the work is finished prolongs it, also one that comes while it is delayed; one
//! that begins just as the work is finished does not. Where t lies in a detour, its rest counts.
//!
//! In *undisturbed time*, the time that has passed less that of detours, a detour is a point with a
//! mass, and the delay of work that begins at u is the mass in [u, u + g). The measurement is
//! closed to a ring, so that no start is too late: what follows its end is its begin.

/// Detours of one CPU on a ring of time. Times are in ns.
#[derive(Clone, Debug)]
pub struct Lane {
    starts: Vec<f64>,
    /// The same in undisturbed time.
    at: Vec<f64>,
    /// Time of all detours before each, and, at the end, of all.
    before: Vec<f64>,
    length: f64,
}

/// A stretch of starts over which the delay changes in one way. Pieces follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// When it ends; it begins where the one before ends.
    pub end: f64,
    /// Delay of work that begins with the piece.
    pub delay: f64,
    /// The piece is a detour: who begins a nanosecond later is delayed for a nanosecond less.
    /// Otherwise all starts of the piece have the same delay.
    pub in_detour: bool,
}

impl Lane {
    /// Of detours (begin, length) in order of time that do not overlap, on a ring of this length.
    /// None where nothing undisturbed is left.
    pub fn new(detours: impl IntoIterator<Item = (f64, f64)>, length: f64) -> Option<Self> {
        let (mut starts, mut at, mut before) = (Vec::new(), Vec::new(), vec![0.0]);
        let mut sum = 0.0;
        for (start, duration) in detours.into_iter().filter(|(_, duration)| *duration > 0.0) {
            starts.push(start);
            at.push(start - sum);
            sum += duration;
            before.push(sum);
        }
        (length > sum).then_some(Self { starts, at, before, length })
    }

    /// Length of the ring.
    pub const fn length(&self) -> f64 {
        self.length
    }

    /// Time of all detours.
    pub fn detours_ns(&self) -> f64 {
        self.before.last().copied().unwrap_or_default()
    }

    /// Undisturbed time of the ring.
    pub fn free_ns(&self) -> f64 {
        self.length - self.detours_ns()
    }

    fn duration(&self, index: usize) -> f64 {
        self.before[index + 1] - self.before[index]
    }

    /// First detour that ends after `start`, which lies on the ring, and whether it has begun.
    fn next(&self, start: f64) -> (usize, bool) {
        // Ends ascend as starts do.
        let mut index = self.starts.partition_point(|begin| *begin <= start);
        let begun = index > 0 && start - self.starts[index - 1] < self.duration(index - 1);
        index -= usize::from(begun);
        (index, begun)
    }

    /// Whether the CPU is in a detour at `start`, which lies on the ring.
    pub fn is_disturbed(&self, start: f64) -> bool {
        self.next(start).1
    }

    /// Delay of `work` that begins at `start`, which lies on the ring.
    pub fn delay(&self, start: f64, work: f64) -> f64 {
        let (index, begun) = self.next(start);
        let position = if begun { self.at[index] } else { start - self.before[index] };
        // All of the detours up to the end of the work, less what was over at its start.
        let over = if begun { start - self.starts[index] } else { 0.0 } + self.before[index];
        let (laps, rest) = self.laps(position + work);
        let last = self.at.partition_point(|at| *at < rest);
        laps * self.detours_ns() + self.before[last] - over
    }

    fn laps(&self, position: f64) -> (f64, f64) {
        let laps = (position / self.free_ns()).floor();
        (laps, (position - laps * self.free_ns()).max(0.0))
    }

    /// The delays of `work` that begins at all moments of the ring.
    pub fn pieces(&self, work: f64) -> Pieces<'_> {
        let (laps, rest) = self.laps(work);
        let reached = self.at.partition_point(|at| *at < rest);
        Pieces { lane: self, work, position: 0.0, next: 0, laps, reached, done: false }
    }
}

#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    lane: &'a Lane,
    work: f64,
    /// Where the next piece begins, in undisturbed time.
    position: f64,
    /// First detour that is not over there.
    next: usize,
    /// First detour at or after the end of the work: so many rounds on, the one of this number.
    laps: f64,
    reached: usize,
    done: bool,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let lane = self.lane;
        let (count, free) = (lane.starts.len(), lane.free_ns());
        while !self.done {
            let begin = lane.at.get(self.next).copied().unwrap_or(free);
            if count > 0 && self.reached == count {
                (self.laps, self.reached) = (self.laps + 1.0, 0);
            }
            let delay =
                self.laps * lane.detours_ns() + lane.before[self.reached] - lane.before[self.next];
            // Where the work no longer ends before a further detour begins.
            let further = match lane.at.get(self.reached) {
                Some(at) => at + self.laps * free - self.work,
                None => f64::INFINITY,
            };
            let until = begin.min(further);
            if until > self.position {
                self.position = until;
                let end = until + lane.before[self.next];
                return Some(Piece { end, delay, in_detour: false });
            }
            // A detour that begins as the work ends is outside of it: the own one comes first.
            if begin > further {
                self.reached += 1;
            } else if self.next < count {
                let end = lane.starts[self.next] + lane.duration(self.next);
                self.next += 1;
                return Some(Piece { end, delay, in_detour: true });
            } else {
                self.done = true;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn work_is_delayed_by_what_begins_before_it_is_finished() {
        // Undisturbed: 0-10, 13-20, 25-100.
        let lane = Lane::new([(10.0, 3.0), (20.0, 5.0)], 100.0).unwrap();
        for (start, work, delay) in [
            (0.0, 10.0, 0.0),
            (0.0, 10.5, 3.0),
            (0.0, 17.0, 3.0),
            (0.0, 18.0, 8.0),
            (5.0, 6.0, 3.0),
            (10.0, 1.0, 3.0),
            (12.0, 1.0, 1.0),
            (12.0, 7.0, 1.0),
            (12.0, 7.5, 6.0),
            (13.0, 1.0, 0.0),
            (99.0, 12.0, 3.0),
            (13.0, 92.0, 8.0 - 3.0),
            (13.0, 93.0, 8.0),
            (13.0, 92.0 * 3.0, 8.0 * 3.0 - 3.0),
        ] {
            let got = lane.delay(start, work);
            assert!((got - delay).abs() < 1e-9, "{start} {work}: {got}, not {delay}");
        }
        assert!(lane.is_disturbed(10.0) && !lane.is_disturbed(13.0) && !lane.is_disturbed(9.0));
    }

    #[test]
    fn a_cpu_that_never_computes_has_no_delays() {
        assert!(Lane::new([(0.0, 10.0)], 10.0).is_none());
        assert!(Lane::new([], 0.0).is_none());
        let quiet = Lane::new([], 10.0).unwrap();
        assert_eq!(quiet.delay(3.0, 1e9), 0.0);
        let pieces: Vec<_> = quiet.pieces(3.0).collect();
        assert_eq!(pieces, [Piece { end: 10.0, delay: 0.0, in_detour: false }]);
    }

    proptest! {
        /// The pieces cover the ring, agree with the delays of single starts, and have the mean
        /// that must come out: undisturbed starts meet each detour for `work` of them.
        #[test]
        fn pieces_are_the_delays_of_all_starts(
            gaps in prop::collection::vec((0u32..50, 1u32..40), 0..30),
            tail in 1u32..100,
            work in 1u32..2_000,
        ) {
            let mut time = 0;
            let mut detours = Vec::new();
            for (gap, duration) in gaps {
                detours.push((f64::from(time + gap), f64::from(duration)));
                time += gap + duration;
            }
            let length = f64::from(time + tail);
            let work = f64::from(work);
            let lane = Lane::new(detours, length).unwrap();
            let (mut begin, mut sum) = (0.0, 0.0);
            for piece in lane.pieces(work) {
                prop_assert!(piece.end > begin);
                let middle = (begin + piece.end) / 2.0;
                let passed = if piece.in_detour { middle - begin } else { 0.0 };
                prop_assert_eq!(lane.is_disturbed(middle), piece.in_detour);
                prop_assert!((lane.delay(middle, work) - (piece.delay - passed)).abs() < 1e-6);
                if piece.in_detour {
                    prop_assert!((lane.delay(begin, work) - piece.delay).abs() < 1e-6);
                } else {
                    sum += piece.delay * (piece.end - begin);
                }
                begin = piece.end;
            }
            prop_assert!((begin - length).abs() < 1e-6);
            let expected = work * lane.detours_ns();
            prop_assert!((sum - expected).abs() <= 1e-9 * expected, "{} {}", sum, expected);
        }
    }
}

//! The clocks of two machines, brought together by the packets that they exchanged: no packet arrives before it is
//! sent.
//!
//! Each packet from one machine to the other bounds how far the one clock is ahead at that moment from below, each one
//! back from above. Of these bounds only the convex hulls matter; the line of offset and drift that is taken lies between
//! them, in the middle of the steepest and the flattest line that do so.

pub mod traffic;

use thiserror::Error;

/// Clocks of machines that keep the time by network drift less apart than this; the kernel adjusts its clock by half
/// of it at most.
const MAX_DRIFT: f64 = 1e-3;
/// Steps of each search; the drift is found to a part in 2^60 of the range.
const STEPS: u32 = 120;
/// Bounds after which those that do not matter are forgotten.
const MANY: usize = 1 << 16;

/// Why clocks cannot be brought together.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ClocksError {
    #[error("no packet that one of them sent is seen to arrive in the other one")]
    NoPackets,
    /// All go in one direction.
    #[error(
        "packets are seen in one direction only, which does not say how far the clocks are apart"
    )]
    OneWay,
    #[error("packets contradict each other: by any steady clock, some arrive before they are sent")]
    Contradiction,
}

/// How times of one clock become those of a reference clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockLine {
    /// A time of that clock, nanoseconds.
    base_ns: u64,
    /// What is added at that time, nanoseconds.
    offset_ns: i64,
    /// What is added for each nanosecond since then.
    drift: f64,
    /// How far off it may be between the packets, nanoseconds.
    pub error_ns: u64,
}

impl ClockLine {
    pub const SAME: Self = Self { base_ns: 0, offset_ns: 0, drift: 0.0, error_ns: 0 };

    /// The same where that reference clock's times become another one's by `next`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        let offset = i128::from(next.to_reference(self.to_reference(self.base_ns)))
            - i128::from(self.base_ns);
        Self {
            base_ns: self.base_ns,
            offset_ns: i64::try_from(offset).unwrap_or(i64::MAX),
            drift: (1.0 + self.drift) * (1.0 + next.drift) - 1.0,
            error_ns: self.error_ns.saturating_add(next.error_ns),
        }
    }

    /// A time of that clock by the reference clock.
    pub fn to_reference(&self, time_ns: u64) -> u64 {
        let since = i128::from(time_ns) - i128::from(self.base_ns);
        let drifted = (self.drift * since as f64).round() as i128;
        let time = i128::from(time_ns) + i128::from(self.offset_ns) + drifted;
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }
}

/// A bound of the offset at a time, both as distances from the first ones.
type Bound = (f64, f64);

#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The first packet's time by the clock, and its offset.
    base: Option<(u64, i64)>,
    lower: Vec<Bound>,
    upper: Vec<Bound>,
}

impl Exchange {
    /// A packet came from the reference: sent by its clock, received by the other one, nanoseconds.
    pub fn received(&mut self, sent_ns: u64, received_ns: u64) {
        let bound = self.bound(received_ns, sent_ns);
        self.lower.push(bound);
        if self.lower.len() >= MANY {
            self.lower = hull(std::mem::take(&mut self.lower), 1.0);
        }
    }

    /// A packet went to the reference: sent by the other clock, received by the reference, nanoseconds.
    pub fn sent(&mut self, sent_ns: u64, received_ns: u64) {
        let bound = self.bound(sent_ns, received_ns);
        self.upper.push(bound);
        if self.upper.len() >= MANY {
            self.upper = hull(std::mem::take(&mut self.upper), -1.0);
        }
    }

    /// Distances of less than 2^53 ns, a hundred days, are exact.
    fn bound(&mut self, time_ns: u64, reference_ns: u64) -> Bound {
        let offset = i128::from(reference_ns) - i128::from(time_ns);
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        let (base_ns, base_offset) = *self.base.get_or_insert((time_ns, offset));
        let since = i128::from(time_ns) - i128::from(base_ns);
        (since as f64, (i128::from(offset) - i128::from(base_offset)) as f64)
    }

    /// The line between the bounds.
    /// Errors: those of [`ClocksError`].
    pub fn line(&self) -> Result<ClockLine, ClocksError> {
        let (base_ns, base_offset) = self.base.ok_or(ClocksError::NoPackets)?;
        if self.lower.is_empty() || self.upper.is_empty() {
            return Err(ClocksError::OneWay);
        }
        let (lower, upper) = (hull(self.lower.clone(), 1.0), hull(self.upper.clone(), -1.0));
        // What a drift leaves free between the bounds; it has one maximum.
        let free = |drift: f64| {
            let rest = |(time, offset): &Bound| offset - drift * time;
            let from = lower.iter().map(rest).fold(f64::NEG_INFINITY, f64::max);
            let to = upper.iter().map(rest).fold(f64::INFINITY, f64::min);
            (from, to)
        };
        let width = |drift: f64| {
            let (from, to) = free(drift);
            to - from
        };
        let (mut left, mut right) = (-MAX_DRIFT, MAX_DRIFT);
        for _ in 0..STEPS {
            let third = (right - left) / 3.0;
            match width(left + third) < width(right - third) {
                true => left += third,
                false => right -= third,
            }
        }
        let widest = f64::midpoint(left, right);
        if width(widest) < 0.0 {
            return Err(ClocksError::Contradiction);
        }
        let edge = |outside: f64| {
            let (mut inside, mut outside) = (widest, outside);
            if width(outside) >= 0.0 {
                return outside;
            }
            for _ in 0..STEPS {
                let middle = f64::midpoint(inside, outside);
                match width(middle) >= 0.0 {
                    true => inside = middle,
                    false => outside = middle,
                }
            }
            inside
        };
        let drift = f64::midpoint(edge(-MAX_DRIFT), edge(MAX_DRIFT));
        let (from, to) = free(drift);
        let offset = base_offset.saturating_add(f64::midpoint(from, to).round() as i64);
        let error_ns = ((to - from) / 2.0).ceil() as u64;
        Ok(ClockLine { base_ns, offset_ns: offset, drift, error_ns })
    }
}

/// The bounds that matter: the hull above (`side` 1) or below (-1).
fn hull(mut bounds: Vec<Bound>, side: f64) -> Vec<Bound> {
    bounds.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut hull: Vec<Bound> = Vec::new();
    for bound in bounds {
        while let [.., one, other] = hull.as_slice() {
            let turn =
                (other.0 - one.0) * (bound.1 - one.1) - (other.1 - one.1) * (bound.0 - one.0);
            if side * turn < 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(bound);
    }
    hull
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

    /// A clock with a known offset and drift, by the time of the reference since the epoch above.
    fn clock(since_ns: u64, offset_ns: i64, drift: f64) -> u64 {
        let time = i128::from(EPOCH_NS + since_ns) - i128::from(offset_ns);
        u64::try_from(time - (drift * since_ns as f64).round() as i128).unwrap()
    }

    proptest! {
        #[test]
        fn a_known_skew_is_found(
            offset_ns in -3_600_000_000_000..3_600_000_000_000i64,
            ppm in -200.0..200.0f64,
            packets in prop::collection::vec((0..60_000_000_000u64, 5_000..200_000u64, any::<bool>()), 40..400),
        ) {
            let drift = ppm * 1e-6;
            let mut exchange = Exchange::default();
            let mut points: [Vec<u64>; 2] = Default::default();
            for (sent, latency, comes) in &packets {
                let (sent_ns, received_ns) = (EPOCH_NS + sent, EPOCH_NS + sent + latency);
                match comes {
                    true => exchange.received(sent_ns, clock(sent + latency, offset_ns, drift)),
                    false => exchange.sent(clock(*sent, offset_ns, drift), received_ns),
                }
                points[usize::from(*comes)].push(*sent);
            }
            proptest::prop_assume!(points.iter().all(|points| points.len() > 1));
            let line = exchange.line().unwrap();
            for (sent, latency, comes) in &packets {
                // Rounding takes a nanosecond or two.
                let (sent_ns, received_ns) = match comes {
                    true => (EPOCH_NS + sent, line.to_reference(clock(sent + latency, offset_ns, drift))),
                    false => (line.to_reference(clock(*sent, offset_ns, drift)), EPOCH_NS + sent + latency),
                };
                prop_assert!(sent_ns <= received_ns + 3, "{sent_ns} {received_ns}");
            }
            // Between the packets of both directions it is never further off than the longest way.
            let first = points.iter().map(|points| *points.iter().min().unwrap()).max().unwrap();
            let last = points.iter().map(|points| *points.iter().max().unwrap()).min().unwrap();
            for since_ns in [first, first.midpoint(last), last] {
                let found = line.to_reference(clock(since_ns, offset_ns, drift));
                let off = found.abs_diff(EPOCH_NS + since_ns);
                prop_assert!(first >= last || off <= 210_000, "{off} ns off");
            }
        }
    }

    #[test]
    fn what_does_not_say_enough_is_said() {
        let mut exchange = Exchange::default();
        assert_eq!(exchange.line(), Err(ClocksError::NoPackets));
        exchange.received(1_000, 500);
        assert_eq!(exchange.line(), Err(ClocksError::OneWay));
        exchange.sent(500, 1_100);
        assert!(exchange.line().is_ok());
        // It would have to arrive 900 ns before it is sent.
        exchange.sent(500, 100);
        assert_eq!(exchange.line(), Err(ClocksError::Contradiction));
    }

    #[test]
    fn one_exchange_gives_the_middle() {
        let mut exchange = Exchange::default();
        exchange.received(10_000, 5_100);
        exchange.sent(5_100, 10_300);
        let line = exchange.line().unwrap();
        assert_eq!((line.to_reference(5_100), line.error_ns), (10_150, 150));
        assert_eq!(ClockLine::SAME.to_reference(77), 77);
    }
}

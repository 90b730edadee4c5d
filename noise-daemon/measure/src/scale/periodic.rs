//! Periodic noise in closed form: a detour of length d in every period T, nodes at random phases.
//!
//! Between detours a node computes for T - d. Work g meets either k or k + 1 of them, where k + 1
//! is g / (T - d) rounded up, and f = g / (T - d) - k, 0 < f <= 1:
//!
//! - begun while the node computes ([`Start::Running`]): k + 1 detours with probability f, else k;
//!   thus E\[largest of N\] = d (k + 1 - (1 - f)^N). Of one node it is g d / (T - d).
//! - begun at any time ([`Start::Anytime`]): with probability (T - d)/T as before; with d/T amid a
//!   detour, of which a rest r, uniform in (0, d), is waited for, and then k more follow. A delay
//!   of at least k d + x, 0 < x < d, thus has probability (f (T - d) + d - x) / T, whose largest of
//!   N has the mean k d + the integral over x of 1 - (1 - that)^N.
//!
//! With N both approach (k + 1) d: a slowdown of (d / g) ceil(g / (T - d)).

use super::lane::Lane;
use super::node::{Node, Start};
use super::spread::any;

/// Noise of one length at one distance.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Periodic {
    period_ns: f64,
    length_ns: f64,
}

impl Periodic {
    /// None unless 0 < length < period.
    pub fn new(period_ns: f64, length_ns: f64) -> Option<Self> {
        let valid = length_ns > 0.0 && length_ns < period_ns && period_ns.is_finite();
        valid.then_some(Self { period_ns, length_ns })
    }

    /// Distance of begins, ns.
    pub const fn period_ns(&self) -> f64 {
        self.period_ns
    }

    /// Length of each, ns.
    pub const fn length_ns(&self) -> f64 {
        self.length_ns
    }

    /// Share of time that it takes, 0..1.
    pub fn overhead(&self) -> f64 {
        self.length_ns / self.period_ns
    }

    /// A node with this noise, to be played.
    pub fn node(&self) -> Option<Node> {
        let lane = Lane::new([(0.0, self.length_ns)], self.period_ns)?;
        Node::new(vec![lane])
    }

    const fn free_ns(&self) -> f64 {
        self.period_ns - self.length_ns
    }

    /// k and f of the module's head.
    fn hits(&self, work_ns: f64) -> (f64, f64) {
        let hits = work_ns / self.free_ns();
        let fewest = (hits.ceil() - 1.0).max(0.0);
        (fewest, hits - fewest)
    }

    /// Probability that a phase of this length is delayed on one node, 0..=1.
    pub fn hit(&self, work_ns: f64, start: Start) -> f64 {
        let (fewest, more) = self.hits(work_ns);
        match start {
            _ if fewest > 0.0 => 1.0,
            Start::Running => more,
            Start::Anytime => (more * self.free_ns() + self.length_ns) / self.period_ns,
        }
    }

    /// Expected delay of a phase of the slowest of N nodes over the length of the phase.
    pub fn slowdown(&self, work_ns: f64, nodes: u64, start: Start) -> f64 {
        let (fewest, more) = self.hits(work_ns);
        let nodes = nodes as f64;
        let beyond_ns = match start {
            Start::Running => self.length_ns * any(more, nodes),
            Start::Anytime => {
                let share = |rest_ns: f64| (more * self.free_ns() + rest_ns) / self.period_ns;
                // The integral of (1 - share)^N over the detour.
                let none = any(share(self.length_ns), nodes + 1.0) - any(share(0.0), nodes + 1.0);
                self.length_ns - self.period_ns * none / (nodes + 1.0)
            }
        };
        (fewest * self.length_ns + beyond_ns) / work_ns
    }

    /// The same for nodes without number.
    pub fn limit(&self, work_ns: f64) -> f64 {
        let (fewest, _) = self.hits(work_ns);
        (fewest + 1.0) * self.length_ns / work_ns
    }

    /// The same where all nodes are hit at once, whatever their number.
    pub fn co_scheduled(&self) -> f64 {
        self.length_ns / self.free_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    const STARTS: [Start; 2] = [Start::Running, Start::Anytime];

    fn close(got: f64, expected: f64, within: f64) {
        assert!((got - expected).abs() <= within, "{got}, not {expected}");
    }

    #[test]
    fn known_values_come_out() {
        let seldom = Periodic::new(100e6, 2.5e6).unwrap();
        close(seldom.limit(100e3), 25.0, 1e-9);
        close(seldom.slowdown(100e3, 100, Start::Anytime), 16.7, 0.05);
        close(seldom.slowdown(100e3, 100, Start::Running), 2.44, 0.005);
        for start in STARTS {
            close(seldom.slowdown(100e3, 10_000_000, start), 25.0, 1e-2);
        }
        let often = Periodic::new(1e6, 25e3).unwrap();
        close(often.limit(100e3), 0.25, 1e-12);
        close(often.slowdown(100e3, 1, Start::Running), 25.0 / 975.0, 1e-12);
        close(often.co_scheduled(), 25.0 / 975.0, 1e-12);
        close(often.hit(100e3, Start::Anytime), 0.125, 1e-12);
    }

    #[test]
    fn what_is_no_noise_is_refused() {
        for (period, length) in [(1.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0)] {
            assert_eq!(Periodic::new(period, length), None);
        }
    }

    proptest! {
        #[test]
        fn the_closed_form_is_what_windows_of_a_trace_give(
            free in 1u32..1_000,
            length in 1u32..1_000,
            work in 1u32..5_000,
            power in 0u32..8,
        ) {
            let (free, length, work) = (f64::from(free), f64::from(length), f64::from(work));
            let nodes = 10u64.pow(power);
            let periodic = Periodic::new(free + length, length).unwrap();
            let node = periodic.node().unwrap();
            for start in STARTS {
                let delays = node.delays(work, start).unwrap();
                let measured = delays.spread.expected_largest(nodes) / work;
                let closed = periodic.slowdown(work, nodes, start);
                prop_assert!((measured - closed).abs() <= 1e-6 * closed, "{measured} {closed}");
                prop_assert!((delays.spread.hit() - periodic.hit(work, start)).abs() < 1e-9);
                prop_assert!(closed <= periodic.limit(work) * (1.0 + 1e-9));
            }
            let alone = periodic.slowdown(work, 1, Start::Running);
            prop_assert!((alone - periodic.co_scheduled()).abs() <= 1e-9 * alone);
        }
    }
}

//! The figure that says most about an incident: of those that rose, the one that rose most. A figure that fell while
//! the signal was disturbed says the opposite of the incident, and is none.

use std::cmp::Ordering;

use noise_text::units;

use super::level::Level;
use super::report::Episode;
use super::watched::Watched;

/// A figure, before and while the signal was disturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headline {
    pub figure: Figure,
    /// Before, in the unit of the figure; `None` where there was nothing.
    pub before: Option<f64>,
    /// While it was disturbed.
    pub during: f64,
}

noise_common::named! {
    /// What figures there are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Figure {
        /// Half of the delays are shorter, ns.
        Median = "median",
        /// 99 of 100 delays are shorter, ns.
        P99 = "p99",
        /// Mean delay, ns.
        Mean = "mean",
        /// Time that is taken, of one CPU's.
        Taken = "taken",
        /// Delay above normal, ns: where no other figure rose.
        Excess = "excess delay",
    }
}

impl Figure {
    /// So much of it, with its unit.
    pub fn amount(self, amount: f64) -> String {
        match self {
            Self::Taken => units::share(amount),
            _ => units::duration(amount),
        }
    }
}

impl Headline {
    /// How many times as much as before; `None` where there was nothing.
    pub fn times(&self) -> Option<f64> {
        self.before.filter(|before| *before > 0.0).map(|before| self.during / before)
    }

    /// `p99 660 µs -> 4.19 ms, 6.4x`
    pub fn text(&self) -> String {
        let (name, during) = (self.figure.name(), self.figure.amount(self.during));
        match (self.figure, self.times()) {
            (Figure::Excess, _) => format!("{during} {name}"),
            (_, None) => format!("{name} {during}, nothing before"),
            (_, Some(times)) => {
                let before = self.figure.amount(self.before.unwrap_or_default());
                format!("{name} {before} -> {during}, {}", factor(times))
            }
        }
    }

    /// What rose, in a sentence: `p99 660 µs -> 4.19 ms (6.4x)`. A mean is not named: it is what people take a time for.
    pub fn rise(&self) -> String {
        let during = self.figure.amount(self.during);
        let name = match self.figure {
            Figure::Median | Figure::P99 => format!("{} ", self.figure.name()),
            Figure::Mean | Figure::Taken => String::new(),
            Figure::Excess => return format!("{during} more than usual"),
        };
        match self.times() {
            None => format!("{name}{during} (nothing before)"),
            Some(times) => {
                let before = self.figure.amount(self.before.unwrap_or_default());
                format!("{name}{before} -> {during} ({})", factor(times))
            }
        }
    }

    /// `p99 6.4x`, or how much is above normal.
    pub fn short(&self) -> String {
        match self.times() {
            Some(times) => format!("{} {}", self.figure.name(), factor(times)),
            None => format!("{} {}", self.figure.name(), self.figure.amount(self.during)),
        }
    }
}

/// `6.4x`
fn factor(times: f64) -> String {
    let decimals = match times {
        _ if times < 1.995 => 2,
        _ if times < 9.95 => 1,
        _ => 0,
    };
    format!("{times:.decimals$}x")
}

/// The delays that a level knows.
fn delays(level: &Level) -> [(Figure, Option<f64>); 3] {
    // Of those that rose alike, the last one is named: people know best what a p99 is.
    [
        (Figure::Median, level.p50_ns.map(|ns| ns as f64)),
        (Figure::Mean, level.mean_ns),
        (Figure::P99, level.p99_ns.map(|ns| ns as f64)),
    ]
}

impl Episode {
    /// The figure that says most; `None` where none rose.
    pub fn headline(&self) -> Option<Headline> {
        let (before, after) = (&self.before, &self.after);
        if self.signal == Watched::Interruption {
            let taken =
                Headline { figure: Figure::Taken, before: Some(before.lost), during: after.lost };
            return (after.lost > before.lost).then_some(taken);
        }
        let rose =
            |((figure, before), (_, after)): ((Figure, Option<f64>), (Figure, Option<f64>))| {
                let during = after.filter(|after| *after > before.unwrap_or(0.0))?;
                Some(Headline { figure, before, during })
            };
        let figures = delays(before).into_iter().zip(delays(after)).filter_map(rose);
        // Where there was none before, that each is short says nothing: there may be very many. And where there were
        // delays before, a figure without a value then lies above all bounds.
        let known = figures.filter(|headline| headline.before.is_some());
        let factor = |headline: &Headline| headline.times().unwrap_or(f64::INFINITY);
        let by_factor = |one: &Headline, other: &Headline| {
            factor(one).partial_cmp(&factor(other)).unwrap_or(Ordering::Equal)
        };
        let excess =
            Headline { figure: Figure::Excess, before: None, during: self.lost_seconds * 1e9 };
        known.max_by(by_factor).or((self.lost_seconds > 0.0).then_some(excess))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use proptest::prelude::{any, prop_assert, proptest};
    use proptest::strategy::Strategy;

    fn level(p50_ns: u64, mean_ns: f64, p99_ns: u64) -> Level {
        Level {
            p50_ns: Some(p50_ns),
            p99_ns: Some(p99_ns),
            mean_ns: Some(mean_ns),
            rate: 1.0,
            lost: 0.1,
        }
    }

    const NOTHING: Level =
        Level { p50_ns: None, p99_ns: None, mean_ns: None, rate: 0.0, lost: 0.0 };

    fn text(before: Level, after: Level) -> Option<String> {
        let episode = Episode { before, after, ..made::episode() };
        episode.headline().map(|headline| headline.text())
    }

    #[test]
    fn what_rose_most_is_named_and_nothing_that_fell() {
        for (before, after, expected) in [
            (
                level(14_300, 91_400.0, 655_360),
                level(10_200, 467_000.0, 4_194_304),
                "p99 655 µs -> 4.19 ms, 6.4x",
            ),
            (
                level(14_300, 91_400.0, 3_150_000),
                level(10_200, 467_000.0, 6_290_000),
                "mean 91.4 µs -> 467 µs, 5.1x",
            ),
            (
                level(10_000, 10_000.0, 10_000),
                level(2_140_000, 30_000.0, 20_000),
                "median 10.0 µs -> 2.14 ms, 214x",
            ),
            (
                level(10_000, 10_000.0, 10_000),
                level(12_600, 12_600.0, 12_600),
                "p99 10.0 µs -> 12.6 µs, 1.26x",
            ),
            (NOTHING, level(1_000, 2_000.0, 4_000), "1.00 s excess delay"),
            // All fell: the incident is that there was more above normal all the same.
            (level(10_000, 10_000.0, 10_000), level(9_000, 9_000.0, 9_000), "1.00 s excess delay"),
        ] {
            assert_eq!(text(before, after).as_deref(), Some(expected));
        }
        // Above all bounds before: that it has a value now is no rise.
        let before = Level { p99_ns: None, ..level(10, 10.0, 10) };
        assert_eq!(text(before, level(9, 9.0, 99)).as_deref(), Some("1.00 s excess delay"));
    }

    #[test]
    fn what_is_taken_is_a_share() {
        let mut episode = made::episode();
        episode.signal = Watched::Interruption;
        (episode.before.lost, episode.after.lost) = (0.004, 0.31);
        let headline = episode.headline().unwrap();
        assert_eq!(headline.text(), "taken 0.40 % -> 31.0 %, 78x");
        assert_eq!(headline.short(), "taken 78x");
        episode.after.lost = 0.003;
        assert_eq!(episode.headline(), None);
    }

    proptest! {
        #[test]
        fn no_headline_contradicts_the_incident(
            before in any_level(), after in any_level(), lost_seconds in -1.0..1.0,
        ) {
            let episode = Episode { before, after, lost_seconds, ..made::episode() };
            if let Some(headline) = episode.headline() {
                prop_assert!(headline.during > headline.before.unwrap_or(0.0), "{headline:?}");
                prop_assert!(headline.times().is_none_or(|times| times > 1.0), "{headline:?}");
            }
        }
    }

    fn any_level() -> impl Strategy<Value = Level> {
        let ns = || proptest::option::of(0_u64..100);
        (ns(), ns(), proptest::option::of(0.0..100.0), any::<u8>()).prop_map(
            |(p50_ns, p99_ns, mean_ns, rate)| Level {
                p50_ns,
                p99_ns,
                mean_ns,
                rate: rate.into(),
                lost: 0.0,
            },
        )
    }
}

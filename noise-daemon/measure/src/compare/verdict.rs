//! One figure in both reports: the difference, the ratio, how sure they are, and what that means.

use super::bootstrap::middle;

/// Slices that a report needs at least for intervals: 5 s. Of fewer, too few runs are drawn.
pub const FEWEST_SLICES: usize = 50;
/// Events that both reports together need at least for a verdict: where one has none, as many on
/// the other side have a chance of 1 in 500 when nothing differs.
pub const FEWEST_EVENTS: f64 = 10.0;

/// What the samples show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleVerdict {
    Less,
    More,
    /// The interval has zero in it.
    NoDifference,
    /// Unknown: a report is too short for intervals.
    UnknownTooShort,
    /// Unknown: it happened too seldom.
    UnknownTooFewEvents,
}

impl SampleVerdict {
    /// Whether there is none.
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::UnknownTooShort | Self::UnknownTooFewEvents)
    }

    /// As people read it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::NoDifference => "no difference that this sample shows",
            Self::UnknownTooShort => "unknown: too short a sample",
            Self::UnknownTooFewEvents => "unknown: too few events",
        }
    }
}

/// A number, and its interval at the chosen confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    pub value: f64,
    /// None where it is not known.
    pub interval: Option<[f64; 2]>,
}

/// One rate in both reports, per second of one CPU.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// In the first report.
    pub a: f64,
    /// In the second one.
    pub b: f64,
    pub difference: Estimate,
    /// B / A; None where A has none.
    pub ratio: Option<Estimate>,
    pub verdict: SampleVerdict,
}

/// What lies behind a [`Figure`].
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The rates as drawn again, of A and B; empty where a report is too short.
    pub drawn: &'a [(f64, f64)],
    /// Events in both reports.
    pub events: f64,
    /// Of the intervals, 0..1.
    pub confidence: f64,
}

impl Figure {
    /// Of the rates as measured, with the evidence for them.
    pub fn new(a: f64, b: f64, evidence: Evidence<'_>) -> Self {
        let Evidence { drawn, events, confidence } = evidence;
        let enough = events >= FEWEST_EVENTS;
        let drawn = if enough { drawn } else { &[] };
        let differences = drawn.iter().map(|(a, b)| b - a).collect();
        let difference = Estimate { value: b - a, interval: middle(differences, confidence) };
        let quotient = |&(a, b): &(f64, f64)| if a > 0.0 { b / a } else { f64::INFINITY };
        let finite = |[low, high]: &[f64; 2]| low.is_finite() && high.is_finite();
        let quotients = || middle(drawn.iter().map(quotient).collect(), confidence);
        let ratio =
            (a > 0.0).then(|| Estimate { value: b / a, interval: quotients().filter(finite) });
        let verdict = match difference.interval {
            None if !enough => SampleVerdict::UnknownTooFewEvents,
            None => SampleVerdict::UnknownTooShort,
            Some([low, _]) if low > 0.0 => SampleVerdict::More,
            Some([_, high]) if high < 0.0 => SampleVerdict::Less,
            Some(_) => SampleVerdict::NoDifference,
        };
        Self { a, b, difference, ratio, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(drawn: &[(f64, f64)], events: f64) -> Figure {
        Figure::new(2.0, 3.0, Evidence { drawn, events, confidence: 0.95 })
    }

    #[test]
    fn verdicts_follow_the_interval() {
        assert_eq!(figure(&[(2.0, 2.5), (2.0, 3.5)], 99.0).verdict, SampleVerdict::More);
        assert_eq!(figure(&[(2.0, 1.5), (2.0, 1.0)], 99.0).verdict, SampleVerdict::Less);
        assert_eq!(figure(&[(2.0, 1.5), (2.0, 2.5)], 99.0).verdict, SampleVerdict::NoDifference);
        assert_eq!(figure(&[(2.0, 2.0)], 99.0).verdict, SampleVerdict::NoDifference);
        let short = figure(&[], 99.0);
        assert_eq!(
            (short.verdict, short.difference.interval),
            (SampleVerdict::UnknownTooShort, None)
        );
        let few = figure(&[(2.0, 2.5)], 9.0);
        assert_eq!(
            (few.verdict, few.difference.interval),
            (SampleVerdict::UnknownTooFewEvents, None)
        );
    }

    #[test]
    fn ratios_are_numbers_or_none() {
        let ratio = figure(&[(1.0, 2.0), (1.0, 2.0)], 99.0).ratio.unwrap();
        assert_eq!(ratio, Estimate { value: 1.5, interval: Some([2.0, 2.0]) });
        let seldom = figure(&[(0.0, 2.0), (1.0, 2.0)], 99.0).ratio.unwrap();
        assert_eq!(seldom.interval, None);
        let new = Figure::new(0.0, 3.0, Evidence { drawn: &[], events: 99.0, confidence: 0.9 });
        assert_eq!(new.ratio, None);
    }
}

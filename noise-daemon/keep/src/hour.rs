//! PURE: of which incidents of the last hour events are kept: of few, so that what comes and goes does not replace all
//! others, and of the worst.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Most incidents of an hour whose events are kept.
const MOST: usize = 6;
/// Most of an hour that give way to worse ones: to keep events costs time.
const MOST_REPLACED: usize = 6;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Why nothing is kept of an incident that others are worse than.
pub const BY_WORSE: &str = "the limit of 6 an hour was used by worse ones";
const BY_OTHERS: &str = "the limit of 6 an hour was used, and 6 others have given way already";

/// Why nothing is kept of an incident after so many were worked for in vain.
const BY_GONE: &str = "the events of 12 incidents of the last hour were kept, or could not be";

#[derive(Clone, Debug)]
pub struct Hour {
    /// When incidents opened whose events are kept, and their numbers.
    kept: VecDeque<(Timestamp, u64)>,
    /// When others opened that gave way or are no more, or gave way: they have cost time, too.
    replaced: VecDeque<Timestamp>,
}

impl Hour {
    /// After these were kept.
    pub fn after(kept: impl Iterator<Item = (Timestamp, u64)>) -> Self {
        Self { kept: kept.collect(), replaced: VecDeque::new() }
    }

    /// An incident opened: which one gives way to it, if one has to. `severity` is that of each, 0 to 1.
    /// Errors: why nothing is kept of it.
    pub fn admit(
        &mut self,
        now: Timestamp,
        id: u64,
        severity: impl Fn(u64) -> f64,
    ) -> Result<Option<u64>, &'static str> {
        let is_recent = |at: Timestamp| now.duration_since(at).abs() < HOUR;
        self.kept.retain(|(at, _)| is_recent(*at));
        self.replaced.retain(|at| is_recent(*at));
        let mut least = None;
        if self.kept.len() >= MOST {
            // Of equal ones the first stays.
            let by_severity = |one: &(usize, u64), other: &(usize, u64)| {
                severity(one.1).total_cmp(&severity(other.1)).then(other.0.cmp(&one.0))
            };
            let kept = self.kept.iter().map(|(_, id)| *id).enumerate();
            let Some((place, other)) = kept.min_by(by_severity) else { return Err(BY_WORSE) };
            if severity(id) <= severity(other) {
                return Err(BY_WORSE);
            }
            if self.replaced.len() >= MOST_REPLACED {
                return Err(BY_OTHERS);
            }
            self.kept.remove(place);
            self.replaced.push_back(now);
            least = Some(other);
        } else if self.kept.len() + self.replaced.len() >= MOST + MOST_REPLACED {
            return Err(BY_GONE);
        }
        self.kept.push_back((now, id));
        Ok(least)
    }

    /// Makes room for others: nothing is kept of these any more, but it took time.
    pub fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        let (gone, kept) = self.kept.iter().partition(|(_, id)| is_gone(*id));
        self.kept = kept;
        let gone: VecDeque<(Timestamp, u64)> = gone;
        self.replaced.extend(gone.into_iter().map(|(at, _)| at));
    }

    /// The same of one that waited, and took none.
    pub fn withdraw(&mut self, id: u64) {
        self.kept.retain(|(_, one)| *one != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_worse_incident_replaces_the_least_one() {
        let severity = |id: u64| [0.0, 0.3, 0.1, 0.5, 0.4, 0.2, 0.6, 0.05, 0.15, 0.9][id as usize];
        let mut hour = Hour::after((1..=6).map(|id| (at(0), id)));
        assert_eq!(hour.admit(at(1), 7, severity), Err(BY_WORSE));
        assert_eq!(hour.admit(at(2), 8, severity), Ok(Some(2)));
        assert_eq!(hour.admit(at(3), 9, severity), Ok(Some(8)));
        // An hour later, there is room for anyone.
        assert_eq!(hour.admit(at(3_600), 7, severity), Ok(None));
    }

    #[test]
    fn no_more_than_so_many_give_way() {
        let mut hour = Hour::after(std::iter::empty());
        let mut admit = |second: u64| hour.admit(at(second as i64), second, |id| id as f64);
        let admitted = (0..100).filter(|second| admit(*second).is_ok()).count();
        assert_eq!(admitted, MOST + MOST_REPLACED);
        assert_eq!(admit(100), Err(BY_OTHERS));
    }

    #[test]
    fn what_is_gone_takes_no_place_but_counts() {
        let mut hour = Hour::after((1..=6).map(|id| (at(0), id)));
        assert_eq!(hour.admit(at(1), 7, |_| 0.0), Err(BY_WORSE));
        hour.forget(|id| id < 3);
        assert_eq!(hour.admit(at(2), 8, |_| 0.0), Ok(None));
        assert_eq!(hour.admit(at(3), 9, |_| 0.0), Ok(None));
        assert_eq!(hour.admit(at(4), 10, |_| 0.0), Err(BY_WORSE));
        hour.withdraw(9);
        assert_eq!(hour.admit(at(5), 11, |_| 0.0), Ok(None));
        // What opens and is gone at once is bounded as well.
        let admitted = (20..100).filter(|id| {
            hour.forget(|_| true);
            hour.admit(at(6), *id, |_| 0.0).is_ok()
        });
        assert_eq!(admitted.count(), MOST + MOST_REPLACED - 8);
        assert_eq!(hour.admit(at(7), 101, |_| 0.0), Err(BY_GONE));
    }

    proptest! {
        #[test]
        fn it_stays_small_and_keeps_the_worst(opened in proptest::collection::vec((0..200_i64, 0..9_u8), 1..100)) {
            let severities: Vec<f64> = opened.iter().map(|(_, severity)| f64::from(*severity)).collect();
            let mut hour = Hour::after(std::iter::empty());
            let mut now = 0;
            for (id, (seconds, _)) in opened.iter().enumerate() {
                now += seconds;
                let admitted = hour.admit(at(now), id as u64, |id| severities[id as usize]);
                prop_assert!(hour.kept.len() <= MOST && hour.replaced.len() <= MOST_REPLACED);
                match admitted {
                    Ok(Some(other)) => prop_assert!(severities[other as usize] < severities[id]),
                    Err(why) if why == BY_WORSE => {
                        let kept = hour.kept.iter().map(|(_, id)| severities[*id as usize]);
                        prop_assert!(kept.fold(f64::INFINITY, f64::min) >= severities[id]);
                    }
                    _ => {}
                }
            }
        }
    }
}

//! PURE: of which incidents of the last hour events are kept: of few, so that what comes and goes does not replace all
//! others, and of the worst.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Most incidents of an hour whose events are kept.
const MOST: usize = 6;
/// So many of an hour are kept, or gave way, before the next one has to be far worse: to keep events costs time.
const BUDGET: usize = 12;
/// How many times as bad it has to be then, which few can be one after the other.
const FAR_WORSE: f64 = 2.0;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Why nothing is kept of an incident that others are worse than.
pub const BY_WORSE: &str = "the limit of 6 an hour was used by worse ones";
/// Why nothing is kept of one that is hardly worse than the least of those.
const BY_OTHERS: &str = "those of 12 incidents or more of the last hour were kept, or could not be, and it is not twice as bad";

#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Timestamp,
    id: u64,
    /// How bad it was then.
    gravity: f64,
}

#[derive(Clone, Debug)]
pub struct Hour {
    /// Incidents whose events are kept.
    kept: VecDeque<Admitted>,
    /// Others that gave way, or are no more: they have cost time, too.
    gone: VecDeque<Admitted>,
}

impl Hour {
    /// After these were kept.
    pub fn after(kept: impl Iterator<Item = (Timestamp, u64)>) -> Self {
        let kept = kept.map(|(at, id)| Admitted { at, id, gravity: 0.0 });
        Self { kept: kept.collect(), gone: VecDeque::new() }
    }

    /// An incident opened: which one gives way to it, if one has to. `gravity` says how bad each is.
    /// Errors: why nothing is kept of it.
    pub fn admit(
        &mut self,
        now: Timestamp,
        id: u64,
        gravity: impl Fn(u64) -> f64,
    ) -> Result<Option<u64>, &'static str> {
        let is_recent = |one: &Admitted| now.duration_since(one.at).abs() < HOUR;
        self.kept.retain(is_recent);
        self.gone.retain(is_recent);
        let own = gravity(id);
        let is_spent = self.kept.len() + self.gone.len() >= BUDGET;
        let mut least = None;
        if self.kept.len() >= MOST {
            // Of equal ones the first stays.
            let by_gravity = |one: &(usize, Admitted), other: &(usize, Admitted)| {
                gravity(one.1.id).total_cmp(&gravity(other.1.id)).then(other.0.cmp(&one.0))
            };
            let kept = self.kept.iter().copied().enumerate();
            let Some((place, other)) = kept.min_by(by_gravity) else { return Err(BY_WORSE) };
            if own <= gravity(other.id) {
                return Err(BY_WORSE);
            }
            // What an incident seems to be when it opens may be more than it proves to be.
            if is_spent && own <= FAR_WORSE * gravity(other.id).max(other.gravity) {
                return Err(BY_OTHERS);
            }
            self.kept.remove(place);
            self.gone.push_back(other);
            least = Some(other.id);
        } else if is_spent {
            let worst = self.gone.iter().map(|one| one.gravity).fold(0.0, f64::max);
            if own <= FAR_WORSE * worst {
                return Err(BY_OTHERS);
            }
        }
        self.kept.push_back(Admitted { at: now, id, gravity: own });
        Ok(least)
    }

    /// Makes room for others: nothing is kept of these any more, but it took time.
    pub fn forget(&mut self, is_gone: impl Fn(u64) -> bool) {
        let (gone, kept) = self.kept.iter().partition(|one| is_gone(one.id));
        self.kept = kept;
        let gone: VecDeque<Admitted> = gone;
        self.gone.extend(gone);
    }

    /// The same of one that waited, and took none.
    pub fn withdraw(&mut self, id: u64) {
        self.kept.retain(|one| one.id != id);
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
        let gravity = |id: u64| [0.0, 0.3, 0.1, 0.5, 0.4, 0.2, 0.6, 0.05, 0.15, 0.9][id as usize];
        let mut hour = Hour::after((1..=6).map(|id| (at(0), id)));
        assert_eq!(hour.admit(at(1), 7, gravity), Err(BY_WORSE));
        assert_eq!(hour.admit(at(2), 8, gravity), Ok(Some(2)));
        assert_eq!(hour.admit(at(3), 9, gravity), Ok(Some(8)));
        // An hour later, there is room for anyone.
        assert_eq!(hour.admit(at(3_600), 7, gravity), Ok(None));
    }

    #[test]
    fn the_worst_is_kept_however_many_lesser_ones_came_before_and_few_are_in_an_hour() {
        let mut hour = Hour::after(std::iter::empty());
        let gravity = |id: u64| id as f64;
        let mut admit = |id: u64| hour.admit(at(id as i64), id, gravity);
        let admitted = (0..100).filter(|id| admit(*id).is_ok()).count();
        assert!((BUDGET..=BUDGET + 4 * MOST).contains(&admitted), "{admitted}");
        // One that is hardly worse than the least, and one that is by far the worst.
        assert_eq!(admit(100), Err(BY_OTHERS));
        assert!(admit(1_000).is_ok());
        // What opens as bad, and proves to be little, again and again.
        let mut hour = Hour::after(std::iter::empty());
        let admitted = (0..100).filter(|id| {
            let gravity = |one: u64| if one == *id { 5.0 } else { 0.1 };
            hour.admit(at(*id as i64), *id, gravity).is_ok()
        });
        assert_eq!(admitted.count(), BUDGET);
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
        // What opens and is gone at once is bounded as well, as incidents that turn out to be one.
        let admitted = (20..100).filter(|id| {
            hour.forget(|_| true);
            hour.admit(at(6), *id, |_| 0.5).is_ok()
        });
        assert_eq!(admitted.count(), BUDGET - 8);
        assert_eq!(hour.admit(at(7), 101, |_| 0.9), Err(BY_OTHERS));
        assert_eq!(hour.admit(at(7), 102, |_| 1.1), Ok(None), "it is worse than all of these");
    }

    proptest! {
        #[test]
        fn it_stays_small_and_keeps_the_worst(opened in proptest::collection::vec((0..200_i64, 0..9_u8), 1..100)) {
            let gravities: Vec<f64> = opened.iter().map(|(_, gravity)| f64::from(*gravity)).collect();
            let gravity = |id: u64| gravities[id as usize];
            let mut hour = Hour::after(std::iter::empty());
            let mut now = 0;
            for (id, (seconds, _)) in opened.iter().enumerate() {
                now += seconds;
                let admitted = hour.admit(at(now), id as u64, gravity);
                // From 1 to 8, there are three doublings.
                prop_assert!(hour.kept.len() <= MOST && hour.gone.len() <= BUDGET + 3 * MOST);
                let least = hour.kept.iter().map(|one| gravity(one.id)).fold(f64::INFINITY, f64::min);
                match admitted {
                    Ok(Some(other)) => prop_assert!(gravity(other) < gravities[id]),
                    Err(why) if why == BY_WORSE => prop_assert!(least >= gravities[id]),
                    Err(_) if hour.kept.len() == MOST => prop_assert!(2.0 * least >= gravities[id]),
                    _ => {}
                }
            }
        }
    }
}

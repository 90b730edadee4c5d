//! PURE: how many datagrams of whom are looked at. So many a second are taken of all users together, and each that sends
//! has an equal share of them: one that floods leaves the others theirs. One user may have
//! 65,536 others as subordinate ids, so those have one share together.

use std::collections::BTreeMap;

/// Marks a second that are taken, and how many at once.
pub const RATE: u64 = 10_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How often it is looked who sent nothing.
const LOOK_NS: u64 = SECOND_NS / 100;
/// Users with a share of their own; more have one together.
const MOST_USERS: usize = 64;
/// Whose share that is: no user has this number.
const OTHERS: Sharer = Sharer(u32::MAX);
/// Ids from here on have one share for each block of so many. Below are users and services, including those whose ids
/// systemd chooses (61184 to 65519).
const SUBORDINATE: u32 = 1 << 16;

/// What has a share of its own: a user, or a block of subordinate ids, or all senders that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sharer(u32);

impl Sharer {
    pub fn of(user: Option<u32>) -> Self {
        // No block begins with the number of those that are not known.
        Self(user.map_or(u32::MAX - 1, |user| {
            if user < SUBORDINATE { user } else { user - user % SUBORDINATE }
        }))
    }
}

/// What a user may still send.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    /// Marks times a second in nanoseconds, so that nothing is lost in between.
    held: u64,
    filled_ns: u64,
}

/// The users that sent of late, and when it was looked for those that did not.
#[derive(Debug, Default)]
pub struct Shares(BTreeMap<Sharer, TokenBucket>, u64);

impl Shares {
    /// Whether one more datagram of this user may be taken now.
    pub fn take(&mut self, user: Sharer, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.1) >= LOOK_NS {
            self.1 = now_ns;
            // Who sent nothing for a second has all of its share again, and takes none from others.
            self.0.retain(|_, bucket| now_ns.saturating_sub(bucket.filled_ns) < SECOND_NS);
        }
        let has_room = self.0.contains_key(&user) || self.0.len() < MOST_USERS;
        let user = if has_room { user } else { OTHERS };
        let users = self.0.len() as u64 + u64::from(!self.0.contains_key(&user));
        let share = RATE / users.max(1);
        let full = share * SECOND_NS;
        let bucket = self.0.entry(user).or_insert(TokenBucket { held: full, filled_ns: now_ns });
        let passed_ns = now_ns.saturating_sub(bucket.filled_ns);
        bucket.held = bucket.held.saturating_add(passed_ns.saturating_mul(share)).min(full);
        bucket.filled_ns = now_ns.max(bucket.filled_ns);
        let left = bucket.held.checked_sub(SECOND_NS);
        bucket.held = left.unwrap_or(bucket.held);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: u32) -> Sharer {
        Sharer::of(Some(user))
    }

    #[test]
    fn subordinate_ids_have_one_share_and_others_their_own() {
        assert!(
            of(65_536) == of(131_071) && of(165_535) == of(131_072) && of(131_072) != of(100_000)
        );
        for own in [61_184, 65_519, 65_534, 65_535] {
            assert!(of(own) != of(own - 1), "{own}");
        }
        assert!([of(u32::MAX - 2), of(4_000_000_000)].iter().all(|one| *one != OTHERS));
        assert!(Sharer::of(None) != OTHERS && Sharer::of(None) != of(u32::MAX - 1));
        let mut shares = Shares::default();
        // All of them, in each millisecond of a second, and a user who sends a mark.
        let mut quiet = 0;
        for millisecond in 0..1_000 {
            let now_ns = 5 * SECOND_NS + millisecond * 1_000_000;
            (100_000..100_100).for_each(|user| _ = shares.take(of(user), now_ns));
            quiet += usize::from(shares.take(of(1000), now_ns));
        }
        assert_eq!((quiet, shares.0.len()), (1_000, 2));
    }

    #[test]
    fn one_that_floods_leaves_others_their_share() {
        let mut shares = Shares::default();
        let (mut flood, mut quiet) = (0, 0);
        // Ten seconds: one sends 100 in each millisecond, another one, in turn.
        for millisecond in 0..10_000 {
            let now_ns = millisecond * 1_000_000;
            flood += (0..100).filter(|_| shares.take(of(1000), now_ns)).count();
            quiet += usize::from(shares.take(of(1001), now_ns));
        }
        assert_eq!(quiet, 10_000);
        let share = RATE as usize / 2;
        assert!((10 * share..=12 * share + RATE as usize).contains(&flood), "{flood}");
    }

    #[test]
    fn all_of_it_is_for_one_that_is_alone_and_users_are_bounded() {
        let mut shares = Shares::default();
        let taken = |shares: &mut Shares, user, now_ns| {
            (0..2 * RATE).filter(|_| shares.take(of(user), now_ns)).count() as u64
        };
        assert_eq!(taken(&mut shares, 7, 0), RATE);
        assert_eq!(taken(&mut shares, 7, SECOND_NS / 2), RATE / 2);
        assert_eq!(taken(&mut shares, 7, 10 * SECOND_NS), RATE);
        let taken = (0..1_000).filter(|user| shares.take(of(*user), 20 * SECOND_NS)).count();
        assert!((MOST_USERS..500).contains(&taken), "{taken}");
        assert!(shares.0.len() <= MOST_USERS + 1);
    }
}

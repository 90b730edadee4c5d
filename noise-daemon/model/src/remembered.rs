//! PURE: the amounts of series that are not exported at present, for when they come back.
//!
//! To Prometheus, a counter that is lower than before has begun anew: it counts all that the counter has
//! as new. It compares what it finds within the time that a query looks back. So a series comes
//! back with what it had, or stays away for [`COMPARED_NS`].
//!
//! Amounts are remembered within a bound. Of those that are forgotten before that time is over, a few
//! bits remain, in constant memory (a Bloom filter of 32 KiB for each twenty minutes): enough to keep
//! the series away. From some twenty thousand of them within twenty minutes on, one in a hundred others
//! is kept away with them, and then more: counted with the rest, as all for which there is no room.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use lru::LruCache;

/// For how long a series that is not exported must not come back lower than it was, ns: queries
/// seldom look back further than an hour.
pub const COMPARED_NS: u64 = 3_600_000_000_000;

/// How long the same bits are used, ns. They are forgotten together.
const SPAN_NS: u64 = COMPARED_NS / 3;
/// Bits of one span.
const BITS: u64 = 1 << 18;
/// Bits of one key.
const PROBES: u64 = 4;

#[derive(Debug)]
struct Memory<V> {
    amount: V,
    at_ns: u64,
}

/// What series had when they were last exported.
#[derive(Debug)]
pub struct Remembered<K: Hash + Eq, V> {
    /// The one that was exported last comes first.
    kept: LruCache<K, Memory<V>>,
    away: Away,
}

impl<K: Hash + Eq, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { kept: LruCache::unbounded(), away: Away::default() }
    }
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    /// Number of amounts.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there is nothing that a series may have to do with when it comes back.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.away.is_empty()
    }

    /// A series is exported no more. Times must not run backwards.
    pub fn insert(&mut self, key: K, amount: V, at_ns: u64) {
        self.kept.put(key, Memory { amount, at_ns });
    }

    /// What a series that comes back had, if that is remembered.
    pub fn take(&mut self, key: &K) -> Option<V> {
        self.kept.pop(key).map(|memory| memory.amount)
    }

    /// Until when a series must not be exported; 0 = it may be.
    pub fn away_until_ns(&self, key: &K) -> u64 {
        if self.away.is_empty() || self.kept.contains(key) { 0 } else { self.away.until(key) }
    }

    /// Forgets the oldest amounts but so many. Those that have to stay away, and until when.
    pub fn trim(&mut self, most: usize, now_ns: u64) -> Vec<(K, u64)> {
        self.away.forget(now_ns);
        let mut away = Vec::new();
        while self.kept.len() > most {
            let Some((key, Memory { at_ns, .. })) = self.kept.pop_lru() else { break };
            if at_ns.saturating_add(COMPARED_NS) > now_ns {
                let until_ns = self.away.add(&key, at_ns);
                away.push((key, until_ns));
            }
        }
        away
    }

    /// Every amount.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.kept.iter().map(|(key, memory)| (key, &memory.amount))
    }
}

/// Bits of the series that left within one span.
#[derive(Debug)]
struct Span {
    began_ns: u64,
    bits: Box<[u64]>,
}

impl Span {
    /// When the last of its series may be exported again.
    fn until_ns(&self) -> u64 {
        self.began_ns.saturating_add(SPAN_NS + COMPARED_NS)
    }

    fn word(at: u64) -> (usize, u64) {
        ((at / u64::from(u64::BITS)) as usize, 1 << (at % u64::from(u64::BITS)))
    }

    fn has(&self, hash: u64) -> bool {
        probes(hash)
            .map(Self::word)
            .all(|(word, bit)| self.bits.get(word).is_some_and(|word| word & bit != 0))
    }

    fn add(&mut self, hash: u64) {
        for (word, bit) in probes(hash).map(Self::word) {
            if let Some(word) = self.bits.get_mut(word) {
                *word |= bit;
            }
        }
    }
}

fn probes(hash: u64) -> impl Iterator<Item = u64> {
    let (first, step) = (hash >> 32, hash | 1);
    (0..PROBES).map(move |probe| first.wrapping_add(step.wrapping_mul(probe)) % BITS)
}

fn hash_of(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Series that have to stay away, the earliest span first.
#[derive(Debug, Default)]
struct Away(VecDeque<Span>);

impl Away {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn forget(&mut self, now_ns: u64) {
        while self.0.front().is_some_and(|span| span.until_ns() <= now_ns) {
            self.0.pop_front();
        }
    }

    /// Keeps away what was last exported then. Until when.
    fn add(&mut self, key: &impl Hash, at_ns: u64) -> u64 {
        if self.0.back().is_none_or(|span| span.began_ns.saturating_add(SPAN_NS) <= at_ns) {
            let bits = vec![0; (BITS / u64::from(u64::BITS)) as usize].into_boxed_slice();
            self.0.push_back(Span { began_ns: at_ns, bits });
        }
        let Some(span) = self.0.back_mut() else { return 0 };
        span.add(hash_of(key));
        span.until_ns()
    }

    fn until(&self, key: &impl Hash) -> u64 {
        let hash = hash_of(key);
        self.0.iter().rev().find(|span| span.has(hash)).map_or(0, Span::until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn what_is_forgotten_stays_away_for_an_hour() {
        let mut remembered = Remembered::default();
        for minute in 0..200_u64 {
            let now = minute * MINUTE;
            remembered.insert(minute, minute, now);
            for (key, until) in remembered.trim(10, now) {
                assert_eq!(key, minute - 10);
                assert!(until >= key * MINUTE + COMPARED_NS);
                assert!(until <= key * MINUTE + COMPARED_NS + SPAN_NS);
            }
            for key in 0..=minute {
                let from = remembered.away_until_ns(&key);
                let is_kept = key + 10 > minute;
                assert_eq!(is_kept, remembered.kept.contains(&key));
                assert!(!is_kept || from == 0, "{key} is remembered");
                let is_recent = key * MINUTE + COMPARED_NS > now;
                assert!(is_kept || !is_recent || from > now, "{key} may come back at {minute}");
                let is_old = key * MINUTE + COMPARED_NS + SPAN_NS <= now;
                assert!(!is_old || from <= now, "{key} has to stay away at {minute}");
            }
            assert!(remembered.away.0.len() <= 5);
        }
        assert_eq!((remembered.take(&199), remembered.take(&5)), (Some(199), None));
    }

    #[test]
    fn what_was_exported_long_ago_may_come_back() {
        let mut remembered = Remembered::default();
        remembered.insert('a', 1, 0);
        assert!(remembered.trim(0, COMPARED_NS).is_empty());
        assert_eq!(remembered.away_until_ns(&'a'), 0);
        assert!(remembered.away.is_empty());
    }

    #[test]
    fn others_are_seldom_kept_away() {
        let mut remembered = Remembered::default();
        for number in 0..20_000_u32 {
            remembered.insert(format!("/system.slice/run-{number}.scope"), (), 0);
            remembered.trim(0, 0);
        }
        let kept_away = |number: &u32| remembered.away_until_ns(&format!("/other-{number}")) > 0;
        let others = (0..20_000).filter(kept_away).count();
        assert!(others < 200, "{others} of 20,000 others");
    }
}

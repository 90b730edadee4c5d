//! PURE: delays of one step, small: there are thousands of them, and few of their buckets have any.

use noise_common::hist::BUCKETS;

use crate::model::Totals;

/// Bits of a count; the bucket is above them.
const COUNT_BITS: u32 = 56;
const MOST: u64 = (1 << COUNT_BITS) - 1;
const _: () = assert!(BUCKETS <= 1 << (u64::BITS - COUNT_BITS));

/// Delays of one signal and subject in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Bucket and count in one, by bucket.
    counts: Box<[u64]>,
    /// Exact sum, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Delta {
    fn new(counts: impl Iterator<Item = u64>, sum_ns: u64, max_ns: u64) -> Self {
        let buckets = (0_u64..).zip(counts).filter(|(_, count)| *count > 0);
        let counts = buckets.map(|(bucket, count)| bucket << COUNT_BITS | count.min(MOST));
        Self { counts: counts.collect(), sum_ns, max_ns }
    }

    /// All of these.
    pub fn of(totals: &Totals, max_ns: u64) -> Self {
        Self::new(totals.buckets.iter().copied(), totals.sum_ns, max_ns)
    }

    /// What came since an earlier reading.
    pub fn since(now: &Totals, earlier: &Totals, max_ns: u64) -> Self {
        let both = now.buckets.iter().zip(&earlier.buckets);
        let counts = both.map(|(now, earlier)| now.saturating_sub(*earlier));
        Self::new(counts, now.sum_ns.saturating_sub(earlier.sum_ns), max_ns)
    }

    /// The buckets that have any, and how many, in order.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().map(|both| ((both >> COUNT_BITS) as usize, both & MOST))
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.counts().map(|(_, count)| count).sum()
    }

    /// Adds these to others.
    pub fn add_to(&self, totals: &mut Totals) {
        for (bucket, count) in self.counts() {
            if let Some(own) = totals.buckets.get_mut(bucket) {
                *own += count;
            }
        }
        totals.sum_ns += self.sum_ns;
    }

    /// These, as they are added up.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.add_to(&mut totals);
        totals
    }

    /// Adds others.
    pub fn add(&mut self, more: &Self) {
        let mut totals = self.totals();
        more.add_to(&mut totals);
        *self = Self::of(&totals, self.max_ns.max(more.max_ns));
    }
}

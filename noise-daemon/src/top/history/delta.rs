//! PURE: delays of one step, small: there are thousands of them, and few of their buckets have any.

use noise_common::hist::BUCKETS;

use crate::model::Totals;

/// Bits of a count; the bucket is above them.
const COUNT_BITS: u32 = 56;
const MOST: u64 = (1 << COUNT_BITS) - 1;
const _: () = assert!(BUCKETS <= 1 << (u64::BITS - COUNT_BITS));

/// Delays of one signal and subject in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta<'a> {
    /// Bucket and count in one, by bucket.
    pub(super) counts: &'a [u64],
    /// Exact sum, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Delta<'_> {
    /// The buckets that have any, and how many, in order.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().map(|both| ((both >> COUNT_BITS) as usize, both & MOST))
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
}

/// Puts what came since an earlier reading behind the counts of others; gives its sum, ns.
pub(super) fn put(counts: &mut Vec<u64>, now: &Totals, earlier: Option<&Totals>) -> u64 {
    let mut put = |bucket: usize, count: u64| {
        if count > 0 {
            counts.push((bucket as u64) << COUNT_BITS | count.min(MOST));
        }
    };
    let all = now.buckets.iter().enumerate();
    let Some(earlier) = earlier else {
        all.for_each(|(bucket, count)| put(bucket, *count));
        return now.sum_ns;
    };
    for ((bucket, count), before) in all.zip(&earlier.buckets) {
        put(bucket, count.saturating_sub(*before));
    }
    now.sum_ns.saturating_sub(earlier.sum_ns)
}

/// Delays of one signal and subject, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// By length.
    pub totals: Totals,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Delays {
    /// Adds those of a step.
    pub fn add(&mut self, more: Delta<'_>) {
        more.add_to(&mut self.totals);
        self.max_ns = self.max_ns.max(more.max_ns);
    }
}

//! PURE: what counters count.

use noise_common::charge::Charged;

/// All of these together. Figures of another host may be of any size, so sums saturate.
pub fn total(amounts: impl IntoIterator<Item = u64>) -> u64 {
    amounts.into_iter().fold(0, u64::saturating_add)
}

/// What is counted; it only grows.
pub trait Amount: Default + Clone {
    /// Adds more of it. Sums saturate.
    fn add(&mut self, more: &Self);

    /// What came since an earlier reading.
    fn since(&self, earlier: &Self) -> Self;

    /// Whether nothing of it is less than in an earlier reading. If something is, counting began anew.
    fn reaches(&self, earlier: &Self) -> bool;
}

impl Amount for u64 {
    fn add(&mut self, more: &Self) {
        *self = self.saturating_add(*more);
    }

    fn since(&self, earlier: &Self) -> Self {
        self.saturating_sub(*earlier)
    }

    fn reaches(&self, earlier: &Self) -> bool {
        self >= earlier
    }
}

impl Amount for Charged {
    fn add(&mut self, more: &Self) {
        Amount::add(&mut self.ns, &more.ns);
        Amount::add(&mut self.count, &more.count);
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { ns: self.ns.since(&earlier.ns), count: self.count.since(&earlier.count) }
    }

    fn reaches(&self, earlier: &Self) -> bool {
        self.ns >= earlier.ns && self.count >= earlier.count
    }
}

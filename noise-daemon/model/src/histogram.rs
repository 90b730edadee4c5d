//! PURE: delays by length: the one histogram of the daemon.
//!
//! Of 114 buckets a series uses a dozen or two, and one second of it two or three. So only those
//! that hold something are kept, with a bit for each bucket that says whether it is among them.

use noise_common::hist::{BUCKETS, bucket_of, upper_bound_ns};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amount::{Amount, total};

/// Bits in a word of those that say which buckets are used.
const WORD: usize = u64::BITS as usize;
const _: () = assert!(BUCKETS <= 2 * WORD);

/// Counts of delays by bucket, with their exact sum. All sums saturate.
///
/// `C` is where the counts are: its own, or those of a step, which has the counts of all
/// its histograms in one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram<C = Vec<u64>> {
    /// A bit for each bucket that holds something.
    used: [u64; 2],
    /// Of these buckets, in order.
    counts: C,
    pub sum_ns: u64,
    /// The longest, ns; 0 where it is not known, as of totals since attach.
    pub max_ns: u64,
}

impl<C: AsRef<[u64]>> Histogram<C> {
    /// The buckets that hold something, and how many, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut words = self.used;
        self.counts.as_ref().iter().filter_map(move |count| {
            let word = words.iter().position(|word| *word != 0)?;
            let bits = words.get_mut(word)?;
            let bucket = word * WORD + bits.trailing_zeros() as usize;
            *bits &= *bits - 1;
            Some((bucket, *count))
        })
    }

    /// How many delays are in a bucket.
    pub fn bucket(&self, bucket: usize) -> u64 {
        self.place(bucket).and_then(|place| self.counts.as_ref().get(place)).copied().unwrap_or(0)
    }

    pub fn count(&self) -> u64 {
        total(self.counts.as_ref().iter().copied())
    }

    pub fn is_empty(&self) -> bool {
        self.used == [0; 2]
    }

    /// The bucket of the longest delay.
    pub fn last_bucket(&self) -> Option<usize> {
        let word = self.used.iter().rposition(|word| *word != 0)?;
        Some(word * WORD + self.used.get(word)?.ilog2() as usize)
    }

    /// Upper bound of the bucket that holds the quantile, ns; `None` where there is no delay or it
    /// lies beyond the last bound.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0u64;
        for (bucket, count) in self.buckets() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return upper_bound_ns(bucket);
            }
        }
        None
    }

    /// Whether nothing of it is less than in an earlier reading. If something is, counting began anew.
    pub fn reaches<D: AsRef<[u64]>>(&self, earlier: &Histogram<D>) -> bool {
        if self.sum_ns < earlier.sum_ns {
            return false;
        }
        if self.used == earlier.used {
            let mut both = self.counts.as_ref().iter().zip(earlier.counts.as_ref());
            return both.all(|(now, before)| now >= before);
        }
        earlier.buckets().all(|(bucket, before)| self.bucket(bucket) >= before)
    }

    /// What came since an earlier reading. The longest is this one's.
    pub fn since<D: AsRef<[u64]>>(&self, earlier: &Histogram<D>) -> Histogram {
        let mut counts = Vec::new();
        let Histogram { used, sum_ns, max_ns, .. } = self.since_among(Some(earlier), &mut counts);
        Histogram { used, counts, sum_ns, max_ns }
    }

    /// The same, or all of it where there was none, with its counts behind those of others.
    pub(super) fn since_among<D: AsRef<[u64]>>(
        &self,
        earlier: Option<&Histogram<D>>,
        counts: &mut Vec<u64>,
    ) -> Histogram<Among> {
        let start = counts.len();
        let mut used = [0; 2];
        // Mostly no bucket is new, and those of both are side by side.
        let alike = earlier.filter(|earlier| earlier.used == self.used);
        let alike = alike.map_or(&[][..], |earlier| earlier.counts.as_ref());
        for (place, (bucket, now)) in self.buckets().enumerate() {
            let before = alike.get(place).copied();
            let before = before.or_else(|| Some(earlier?.bucket(bucket))).unwrap_or(0);
            let came = now.saturating_sub(before);
            if came > 0
                && let Some(bits) = used.get_mut(bucket / WORD)
            {
                counts.push(came);
                *bits |= 1 << (bucket % WORD);
            }
        }
        let sum_ns = self.sum_ns.saturating_sub(earlier.map_or(0, |earlier| earlier.sum_ns));
        Histogram { used, counts: Among { start }, sum_ns, max_ns: self.max_ns }
    }

    /// Where the counts of a bucket are, if it holds something.
    fn place(&self, bucket: usize) -> Option<usize> {
        let own = self.used.get(bucket / WORD)? >> (bucket % WORD) & 1;
        (own == 1).then(|| self.used_below(bucket))
    }

    /// How many buckets before one hold something.
    fn used_below(&self, bucket: usize) -> usize {
        let [first, second] = self.used;
        let below = |bits: u64, end: usize| (bits & ((1 << end) - 1)).count_ones() as usize;
        match bucket.checked_sub(WORD) {
            None => below(first, bucket),
            Some(bucket) => first.count_ones() as usize + below(second, bucket % WORD),
        }
    }
}

impl Histogram<&[u64]> {
    pub fn owned(&self) -> Histogram {
        let Self { used, counts, sum_ns, max_ns } = *self;
        Histogram { used, counts: counts.to_vec(), sum_ns, max_ns }
    }
}

impl Histogram {
    /// That many delays in each of these buckets. Buckets that do not exist are left out.
    pub fn new(sum_ns: u64, counts: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let counts = counts.into_iter();
        let own = Vec::with_capacity(counts.size_hint().0.min(BUCKETS));
        let mut histogram = Self { counts: own, ..Self::default() };
        histogram.add_counts(sum_ns, counts);
        histogram
    }

    /// Each of these delays, ns.
    pub fn of(values_ns: &[u64]) -> Self {
        let mut histogram = Self::default();
        values_ns.iter().for_each(|ns| histogram.record(*ns, 1));
        histogram
    }

    /// The same with its longest delay, ns.
    #[must_use]
    pub fn with_longest(self, max_ns: u64) -> Self {
        Self { max_ns, ..self }
    }

    /// Adds so many delays of one length.
    pub fn record(&mut self, ns: u64, count: u64) {
        self.put(bucket_of(ns), count);
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(count));
    }

    /// Adds another histogram. The longest of both is the longest.
    pub fn add<C: AsRef<[u64]>>(&mut self, more: &Histogram<C>) {
        if self.is_empty() {
            self.used = more.used;
            self.counts.extend_from_slice(more.counts.as_ref());
        } else {
            more.buckets().for_each(|(bucket, count)| self.put(bucket, count));
        }
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
    }

    /// Adds that many delays in each of these buckets.
    pub fn add_counts(&mut self, sum_ns: u64, counts: impl IntoIterator<Item = (usize, u64)>) {
        counts.into_iter().for_each(|(bucket, count)| self.put(bucket, count));
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    /// Leaves nothing but the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        *self = Self { counts: std::mem::take(&mut self.counts), ..Self::default() };
    }

    /// Half of it. Which half the longest is in is not known.
    pub fn halved(&self) -> Self {
        Self::new(self.sum_ns / 2, self.buckets().map(|(bucket, count)| (bucket, count / 2)))
    }

    fn put(&mut self, bucket: usize, count: u64) {
        if count == 0 || bucket >= BUCKETS {
            return;
        }
        // Mostly counts come in order.
        if self.last_bucket() < Some(bucket) {
            self.counts.push(count);
        } else if let Some(own) = self.place(bucket).and_then(|place| self.counts.get_mut(place)) {
            *own = own.saturating_add(count);
            return;
        } else {
            self.counts.insert(self.used_below(bucket), count);
        }
        if let Some(bits) = self.used.get_mut(bucket / WORD) {
            *bits |= 1 << (bucket % WORD);
        }
    }
}

/// Where the counts of a histogram begin among those of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Among {
    start: usize,
}

impl Histogram<Among> {
    /// The same, to be read.
    pub(super) fn among(self, counts: &[u64]) -> Histogram<&[u64]> {
        let Self { used, counts: Among { start }, sum_ns, max_ns } = self;
        let own: u32 = used.iter().map(|bits| bits.count_ones()).sum();
        let counts = counts.get(start..start + own as usize).unwrap_or_default();
        Histogram { used, counts, sum_ns, max_ns }
    }
}

impl Amount for Histogram {
    fn add(&mut self, more: &Self) {
        Self::add(self, more);
    }

    fn since(&self, earlier: &Self) -> Self {
        Self::since(self, earlier)
    }

    fn reaches(&self, earlier: &Self) -> bool {
        Self::reaches(self, earlier)
    }
}

/// A histogram as it is written.
#[derive(Serialize, Deserialize)]
struct WrittenHistogram {
    sum_ns: u64,
    /// Bucket and count, where there is any.
    counts: Vec<(u8, u64)>,
}

impl Serialize for Histogram {
    /// Writes all but the longest, which totals do not know.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.buckets().map(|(bucket, count)| (bucket as u8, count)).collect();
        WrittenHistogram { sum_ns: self.sum_ns, counts }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenHistogram { sum_ns, counts } = WrittenHistogram::deserialize(deserializer)?;
        Ok(Self::new(sum_ns, counts.into_iter().map(|(bucket, count)| (bucket.into(), count))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    /// Every bucket, whether it holds something or not.
    fn all(histogram: &Histogram) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| histogram.bucket(bucket))
    }

    fn counts() -> impl Strategy<Value = Vec<(usize, u64)>> {
        proptest::collection::vec((0..BUCKETS + 3, 0..1000u64), 0..60)
    }

    fn plain(counts: &[(usize, u64)]) -> [u64; BUCKETS] {
        let mut plain = [0; BUCKETS];
        for (bucket, count) in counts {
            if let Some(own) = plain.get_mut(*bucket) {
                *own += count;
            }
        }
        plain
    }

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let values: Vec<u64> =
            (0..100).map(|number| if number < 50 { 1 << 10 } else { 1 << 20 }).collect();
        let histogram = Histogram::of(&values);
        assert_eq!(histogram.quantile_ns(0.5), Some(1 << 10));
        assert_eq!(histogram.quantile_ns(0.51), Some(1 << 20));
        assert_eq!((histogram.count(), histogram.sum_ns), (100, 50 * ((1 << 10) + (1 << 20))));
        assert_eq!(Histogram::of(&[1 << 40]).quantile_ns(0.5), None);
        assert_eq!(Histogram::of(&[]).quantile_ns(0.5), None);
    }

    #[test]
    fn the_longest_is_that_of_both() {
        let mut sum = Histogram { max_ns: 5, ..Histogram::of(&[5]) };
        sum.add(&Histogram { max_ns: 9, ..Histogram::of(&[9, 2]) });
        assert_eq!((sum.max_ns, sum.count()), (9, 3));
        assert_eq!(sum.since(&Histogram::of(&[5])).max_ns, 9);
    }

    #[test]
    fn sums_saturate() {
        let mut sum = Histogram::new(u64::MAX, [(7, u64::MAX), (8, 1)]);
        assert_eq!(sum.count(), u64::MAX);
        sum.add(&sum.clone());
        assert_eq!((sum.bucket(7), sum.bucket(8), sum.sum_ns), (u64::MAX, 2, u64::MAX));
    }

    #[test]
    fn what_was_cleared_is_as_new_but_for_its_memory() {
        let mut used = Histogram::of(&[5, 1 << 40]).with_longest(1 << 40);
        used.clear();
        assert_eq!(used, Histogram::default());
        assert!(used.counts.capacity() >= 2, "the memory is kept");
        used.record(7, 2);
        assert_eq!(used, Histogram::of(&[7, 7]));
    }

    #[test]
    fn half_of_it_is_half_of_each_bucket() {
        let half = Histogram::new(9, [(3, 5), (7, 1), (100, 4)]).with_longest(9).halved();
        assert_eq!(half, Histogram::new(4, [(3, 2), (100, 2)]));
    }

    #[test]
    fn it_is_written_as_before() {
        let histogram = Histogram { max_ns: 9000, ..Histogram::new(9300, [(113, 2), (1, 5)]) };
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(text, r#"{"sum_ns":9300,"counts":[[1,5],[113,2]]}"#);
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read, Histogram { max_ns: 0, ..histogram });
        let beyond = r#"{"sum_ns":1,"counts":[[114,5],[255,1],[3,0]]}"#;
        assert_eq!(serde_json::from_str::<Histogram>(beyond).unwrap(), Histogram::new(1, []));
    }

    proptest! {
        #[test]
        fn it_holds_what_an_array_would(own in counts(), other in counts()) {
            let (one, two) = (Histogram::new(7, own.clone()), Histogram::new(8, other.clone()));
            prop_assert_eq!(all(&one), plain(&own));
            let mut sum = one.clone();
            sum.add(&two);
            let both: Vec<_> = own.iter().chain(&other).copied().collect();
            prop_assert_eq!(all(&sum), plain(&both));
            prop_assert!(Amount::reaches(&sum, &one) && Amount::reaches(&sum, &two));
            prop_assert_eq!(&Amount::since(&sum, &one), &two);
            prop_assert!(sum.since(&sum).is_empty());
            // The sum of the first is less.
            prop_assert!(!Amount::reaches(&one, &two));
            let no_less = plain(&own).iter().zip(plain(&other)).all(|(a, b)| *a >= b);
            let one = Histogram { sum_ns: two.sum_ns, ..one };
            prop_assert_eq!(Amount::reaches(&one, &two), no_less);
            let least = one.since(&two);
            prop_assert!(one.reaches(&least));
            let last = plain(&own).iter().rposition(|count| *count > 0);
            prop_assert_eq!(one.last_bucket(), last);
            prop_assert_eq!(one.is_empty(), last.is_none());
        }

        #[test]
        fn among_others_it_is_the_same(own in counts(), other in counts(), many in any::<bool>()) {
            let (one, two) = (Histogram::new(7, own), Histogram::new(8, other));
            let mut counts = if many { vec![1, 2, 3] } else { Vec::new() };
            let among = [&one, &two].map(|one| one.since_among(None::<&Histogram>, &mut counts));
            for (histogram, among) in [&one, &two].into_iter().zip(among) {
                let mut read = Histogram::default();
                read.add(&among.among(&counts));
                prop_assert_eq!(&read, histogram);
            }
        }

        #[test]
        fn it_survives_being_written(own in counts(), sum_ns in any::<u64>()) {
            let histogram = Histogram::new(sum_ns, own);
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }
    }
}

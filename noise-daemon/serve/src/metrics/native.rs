//! PURE: delays as a native histogram of Prometheus, schema 2: buckets that end at 2^(k/4) seconds.
//!
//! The programs count in buckets that end at 1, 5/4, 6/4 and 7/4 times a power of two ns, so that `le` of
//! classic histograms is exact. Each native bound lies inside one of them: what is in it is divided, as if
//! it were spread evenly there. Count, sum and the zero bucket (up to 256 ns) are exact; what is longer than
//! the programs tell apart (68.7 s) is in the bucket that ends at +Inf.
//!
//! Each part of a bucket only grows as the bucket does, so no native bucket is ever less than it was.

use noise_common::hist::{BUCKETS, upper_bound_ns};
use noise_model::Histogram;

/// 2^2 buckets to the octave.
pub const SCHEMA: i64 = 2;
/// What is in the zero bucket is at most so long: the first bucket of the programs.
pub const ZERO_THRESHOLD_S: f64 = bound_ns(0) as f64 / 1e9;

/// Buckets to the octave, of the programs and of the schema.
const PER_OCTAVE: usize = 4;
/// 2^(0/4) to 2^(3/4).
const ROOTS: [f64; PER_OCTAVE] =
    [1.0, 1.189_207_115_002_721, std::f64::consts::SQRT_2, 1.681_792_830_507_429];
/// The number of the bucket that ends at +Inf: behind the one that ends at the largest number.
const BEYOND: i32 = f64::MAX_EXP * PER_OCTAVE as i32 + 1;
/// The number of the native bucket that has the upper bound of the programs' bucket 0 in it. That of
/// bucket N is N more.
const FIRST: i32 = first();
/// For each quarter of an octave, which part of a bucket of the programs is below the native bound in it, of 2^32.
const BELOW: [u64; PER_OCTAVE] = below();

/// The upper bound of a bucket of the programs that has one, ns.
const fn bound_ns(bucket: usize) -> u64 {
    match upper_bound_ns(bucket) {
        Some(bound) => bound,
        None => u64::MAX,
    }
}

/// The upper bound of a native bucket, ns.
const fn native_bound_ns(number: i32) -> f64 {
    let octave = number.div_euclid(PER_OCTAVE as i32);
    let root = ROOTS[number.rem_euclid(PER_OCTAVE as i32) as usize];
    // 2^octave: nothing but its exponent.
    let power = f64::from_bits(((f64::MAX_EXP - 1 + octave) as u64) << (f64::MANTISSA_DIGITS - 1));
    1e9 * root * power
}

const fn first() -> i32 {
    // No delay is shorter than 1 ns.
    let mut number = -30 * PER_OCTAVE as i32;
    while native_bound_ns(number) < bound_ns(0) as f64 {
        number += 1;
    }
    number
}

const fn below() -> [u64; PER_OCTAVE] {
    let mut below = [0_u64; PER_OCTAVE];
    let mut bucket = 1;
    while bucket < BUCKETS - 1 {
        let (lower, upper) = (bound_ns(bucket - 1) as f64, bound_ns(bucket) as f64);
        let bound = native_bound_ns(FIRST + bucket as i32 - 1);
        assert!(lower < bound && bound < upper, "exactly one native bound lies in each bucket");
        assert!(upper <= native_bound_ns(FIRST + bucket as i32));
        let part = ((bound - lower) / (upper - lower) * (1_u64 << 32) as f64 + 0.5) as u64;
        let quarter = (bucket - 1) % PER_OCTAVE;
        // The same in each octave, but for the last digit.
        assert!(below[quarter] == 0 || below[quarter].abs_diff(part) <= 1);
        below[quarter] = part;
        bucket += 1;
    }
    below
}

/// The native buckets of a histogram that hold something. Filled again and again, so that its memory serves
/// all histograms.
#[derive(Debug, Default)]
pub struct Native {
    /// Delays in the zero bucket.
    pub zero: u64,
    /// The number of each bucket and what it holds, in order.
    pub buckets: Vec<(i32, u64)>,
}

impl Native {
    /// Takes a histogram in place of the one before.
    pub fn fill(&mut self, histogram: &Histogram) {
        self.zero = 0;
        self.buckets.clear();
        for (bucket, count) in histogram.buckets() {
            match bucket.checked_sub(1) {
                None => self.zero = count,
                Some(_) if bucket == BUCKETS - 1 => self.put(BEYOND, count),
                Some(before) => {
                    let part = BELOW.get(before % PER_OCTAVE).copied().unwrap_or(0);
                    // To the nearest: as the count grows by one, one of both parts does.
                    let low = (u128::from(count) * u128::from(part) + (1 << 31)) >> 32;
                    let low = low as u64;
                    self.put(FIRST + before as i32, low);
                    self.put(FIRST + bucket as i32, count - low);
                }
            }
        }
    }

    /// Adds to the last bucket, or to one behind it.
    fn put(&mut self, number: i32, count: u64) {
        match self.buckets.last_mut() {
            _ if count == 0 => {}
            Some((last, own)) if *last == number => *own = own.saturating_add(count),
            _ => self.buckets.push((number, count)),
        }
    }

    /// Runs of buckets without a gap: how many numbers are left out before it (for the first: its first
    /// number), and how many there are.
    pub fn spans(&self) -> impl Iterator<Item = (i32, u32)> {
        let (mut rest, mut next) = (self.buckets.as_slice(), 0);
        std::iter::from_fn(move || {
            let (start, _) = *rest.first()?;
            let run = rest.iter().zip(start..).take_while(|((number, _), at)| number == at);
            let length = run.count();
            let offset = start - next;
            next = start + length as i32;
            rest = rest.get(length..)?;
            Some((offset, length as u32))
        })
    }

    /// What each bucket holds more than the one before.
    pub fn deltas(&self) -> impl Iterator<Item = i64> {
        let mut before = 0_u64;
        self.buckets.iter().map(move |(_, count)| {
            let delta = count.wrapping_sub(before).cast_signed();
            before = *count;
            delta
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

    fn native(histogram: &Histogram) -> Native {
        let mut native = Native::default();
        native.fill(histogram);
        native
    }

    fn counts() -> impl Strategy<Value = Vec<(usize, u64)>> {
        proptest::collection::vec((0..BUCKETS, 0..1_000_u64), 0..60)
    }

    /// The upper bound of a native bucket as Prometheus computes it, ns.
    fn ends_at(number: i32) -> f64 {
        2_f64.powf(f64::from(number) / 4.0) * 1e9
    }

    #[test]
    fn bounds_are_those_of_the_schema() {
        for number in -100..40 {
            let ratio = native_bound_ns(number) / ends_at(number);
            assert!((ratio - 1.0).abs() < 1e-12, "{number}: {ratio}");
        }
        assert_eq!(native_bound_ns(0), 1e9);
        assert_eq!(ZERO_THRESHOLD_S, 256e-9);
        // Prometheus' largest finite bound is the largest number, at 4096.
        assert_eq!(BEYOND, 4097);
    }

    #[test]
    fn a_bucket_of_the_programs_is_in_the_two_that_it_reaches_into() {
        for bucket in 1..BUCKETS - 1 {
            let (lower, upper) = (bound_ns(bucket - 1) as f64, bound_ns(bucket) as f64);
            let native = native(&Histogram::new(0, [(bucket, 1_000_000)]));
            let [(low, some), (high, more)] = native.buckets[..] else { panic!("{native:?}") };
            assert_eq!((high - low, some + more), (1, 1_000_000));
            assert!(ends_at(low - 1) <= lower && lower < ends_at(low), "{bucket}");
            assert!(ends_at(low) < upper && upper <= ends_at(high), "{bucket}");
            let part = (ends_at(low) - lower) / (upper - lower);
            assert!((some as f64 - part * 1e6).abs() <= 1.0, "{bucket}: {some} of {part}");
        }
    }

    #[test]
    fn ends_of_the_range_have_buckets_of_their_own() {
        let native = native(&Histogram::of(&[0, 1, 256, 1 << 40, u64::MAX]));
        assert_eq!((native.zero, &native.buckets[..]), (3, &[(4097, 2)][..]));
        assert_eq!(native.spans().collect::<Vec<_>>(), [(4097, 1)]);
    }

    #[test]
    fn gaps_are_left_out() {
        let buckets = vec![(-88, 5), (-87, 3), (-80, 3), (4097, 9)];
        let gaps = Native { zero: 0, buckets };
        assert_eq!(gaps.spans().collect::<Vec<_>>(), [(-88, 2), (6, 1), (4176, 1)]);
        assert_eq!(gaps.deltas().collect::<Vec<_>>(), [5, -2, 0, 6]);
        let nothing = native(&Histogram::default());
        assert_eq!((nothing.spans().count(), nothing.deltas().count()), (0, 0));
    }

    proptest! {
        #[test]
        fn all_delays_are_there_once_and_in_order(counts in counts()) {
            let histogram = Histogram::new(1, counts);
            let native = native(&histogram);
            let sum: u64 = native.buckets.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(native.zero + sum, histogram.count());
            prop_assert!(native.buckets.is_sorted_by(|(one, _), (next, _)| one < next));
            prop_assert!(native.buckets.iter().all(|(_, count)| *count > 0));
            // As a reader puts it together again.
            let (mut number, mut count, mut deltas) = (0, 0, native.deltas());
            let mut read = Vec::new();
            for (offset, length) in native.spans() {
                number += offset;
                for _ in 0..length {
                    count += deltas.next().unwrap();
                    read.push((number, count as u64));
                    number += 1;
                }
            }
            drop(deltas);
            prop_assert_eq!(read, native.buckets);
        }

        #[test]
        fn no_bucket_is_less_than_it_was(before in counts(), more in counts()) {
            let earlier = Histogram::new(1, before);
            let mut later = earlier.clone();
            later.add_counts(1, more);
            let (earlier, later) = (native(&earlier), native(&later));
            prop_assert!(later.zero >= earlier.zero);
            for (number, count) in earlier.buckets {
                let now = later.buckets.iter().find(|(own, _)| *own == number);
                prop_assert!(now.is_some_and(|(_, now)| *now >= count), "{} of {:?}", number, later);
            }
        }

        /// What lies at or below a bound of the programs is counted at least up to the native bound before
        /// it and at most up to the one behind it.
        #[test]
        fn it_is_off_by_less_than_a_bucket(counts in counts(), bucket in 1..BUCKETS - 1) {
            let histogram = Histogram::new(1, counts);
            let native = native(&histogram);
            let within = |limit: f64| -> u64 {
                let below = native.buckets.iter().filter(|(number, _)| ends_at(*number) <= limit);
                native.zero + below.map(|(_, count)| count).sum::<u64>()
            };
            let own = histogram.buckets().filter(|(at, _)| *at <= bucket);
            let exact: u64 = own.map(|(_, count)| count).sum();
            let bound = bound_ns(bucket) as f64;
            prop_assert!(within(bound) <= exact && exact <= within(bound * 2_f64.powf(0.25)));
        }
    }
}

//! Log-linear histogram buckets, four to the octave from 256 ns to 68.7 s (2^36 ns).
//!
//! Bucket 0 holds values up to and including 256 ns; bucket `i` holds values in
//! `(upper_bound(i - 1), upper_bound(i)]`; the last one holds all that is longer than 2^36 ns.
//! Bounds are upper-inclusive, as Prometheus' `le` is: a value of exactly 2^k ns is counted at
//! `le` = 2^k ns.

/// log2 of the upper bound of the first bucket, in ns.
const FIRST_EXPONENT: u32 = 8;
/// log2 of the last finite upper bound, in ns.
const LAST_EXPONENT: u32 = 36;
/// Buckets to the octave.
const PER_OCTAVE: usize = 4;

/// Number of buckets, the underflow and the overflow bucket included.
pub const BUCKETS: usize = (LAST_EXPONENT - FIRST_EXPONENT) as usize * PER_OCTAVE + 2;

/// The bucket of a duration in ns.
///
/// Written with shifts by constants because BPF has no count-leading-zeros instruction: what
/// LLVM makes of `leading_zeros` there is longer, and loses the bounds check behind it.
#[inline(always)]
pub const fn bucket_of(value_ns: u64) -> usize {
    // Upper-inclusive bounds: shift the value by one and use the exclusive ones.
    let below = value_ns.wrapping_sub(1);
    if value_ns <= 1 << FIRST_EXPONENT {
        return 0;
    }
    if below >= 1 << LAST_EXPONENT {
        return BUCKETS - 1;
    }
    // 2^6 is a quarter of the first octave's lower bound, so `scaled` starts with the octave's
    // leading bit at position 2 and the two bits behind it name the quarter.
    let mut scaled = below >> (FIRST_EXPONENT - 2);
    let mut octave = 0;
    if scaled >= 1 << 18 {
        scaled >>= 16;
        octave += 16;
    }
    if scaled >= 1 << 10 {
        scaled >>= 8;
        octave += 8;
    }
    if scaled >= 1 << 6 {
        scaled >>= 4;
        octave += 4;
    }
    if scaled >= 1 << 4 {
        scaled >>= 2;
        octave += 2;
    }
    if scaled >= 1 << 3 {
        scaled >>= 1;
        octave += 1;
    }
    octave * PER_OCTAVE + (scaled & 3) as usize + 1
}

/// The inclusive upper bound of a bucket in ns, or `None` for the last one, which has none.
pub const fn upper_bound_ns(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKETS {
        return None;
    }
    if bucket == 0 {
        return Some(1 << FIRST_EXPONENT);
    }
    let octave = (bucket - 1) / PER_OCTAVE;
    let quarter = ((bucket - 1) % PER_OCTAVE) as u64;
    Some((5 + quarter) << (FIRST_EXPONENT as usize - 2 + octave))
}

/// Number of buckets whose values are all at most 2^`exponent` ns.
///
/// Cumulative counts at powers of two are therefore exact.
pub const fn buckets_within(exponent: u32) -> usize {
    if exponent < FIRST_EXPONENT {
        return 0;
    }
    if exponent > LAST_EXPONENT {
        return BUCKETS;
    }
    (exponent - FIRST_EXPONENT) as usize * PER_OCTAVE + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn powers_of_two_are_upper_inclusive() {
        for exponent in FIRST_EXPONENT..=LAST_EXPONENT {
            let bound = 1u64 << exponent;
            assert_eq!(upper_bound_ns(bucket_of(bound)), Some(bound));
            assert_eq!(bucket_of(bound + 1), bucket_of(bound) + 1);
            assert_eq!(buckets_within(exponent), bucket_of(bound) + 1);
        }
    }

    #[test]
    fn every_bound_falls_into_its_own_bucket() {
        for bucket in 0..BUCKETS - 1 {
            let bound = upper_bound_ns(bucket).unwrap();
            assert_eq!(bucket_of(bound), bucket, "bound {bound}");
            assert_eq!(bucket_of(bound + 1), bucket + 1, "bound {bound} + 1");
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(1), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_bound_ns(BUCKETS - 1), None);
        assert_eq!(buckets_within(7), 0);
        assert_eq!(buckets_within(64), BUCKETS);
    }

    proptest! {
        #[test]
        fn a_value_lies_between_its_bounds(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let bucket = bucket_of(value);
            prop_assert!(bucket < BUCKETS);
            if let Some(upper) = upper_bound_ns(bucket) {
                prop_assert!(value <= upper);
            }
            if bucket > 0 {
                prop_assert!(value > upper_bound_ns(bucket - 1).unwrap());
            }
        }
    }
}

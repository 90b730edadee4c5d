//! Reading integers of any size at any bit of a packet, in either byte order.
//!
//! CTF numbers bits from the least significant one of a byte where integers are little-endian, and from
//! the most significant one where they are big-endian.

/// `size` bits (1 to 64) from bit `at` on; none where they do not all lie before the end of `bytes`.
#[inline(always)]
pub fn read(bytes: &[u8], at: u64, size: u32, big: bool) -> Option<u64> {
    let first = (at / 8) as usize;
    let shift = (at % 8) as u32;
    if let Some(window) = bytes.get(first..first + 8).and_then(<[u8]>::first_chunk)
        && shift + size <= 64
    {
        return Some(if big {
            (u64::from_be_bytes(*window) << shift) >> (64 - size)
        } else {
            (u64::from_le_bytes(*window) << (64 - size - shift)) >> (64 - size)
        });
    }
    read_at_end(bytes, first, shift, size, big)
}

#[inline(always)]
pub const fn mask(size: u32) -> u64 {
    if size >= 64 { u64::MAX } else { (1 << size) - 1 }
}

/// As [`read`], byte by byte.
#[cold]
fn read_at_end(bytes: &[u8], first: usize, shift: u32, size: u32, big: bool) -> Option<u64> {
    let count = (shift + size).div_ceil(8) as usize;
    let bytes = bytes.get(first..first.checked_add(count)?)?;
    // Nine bytes at most: 64 bits that begin within a byte.
    let mut wide = 0_u128;
    for (place, &byte) in bytes.iter().enumerate() {
        wide |= if big {
            u128::from(byte) << (8 * (count - 1 - place))
        } else {
            u128::from(byte) << (8 * place)
        };
    }
    let below = if big { 8 * count as u32 - shift - size } else { shift };
    Some((wide >> below) as u64 & mask(size))
}

/// A number of `size` bits as a signed one.
#[inline(always)]
pub const fn signed(value: u64, size: u32) -> i64 {
    let unused = 64 - size;
    ((value << unused) as i64) >> unused
}

/// The next place that is a multiple of `align` bits, a power of two.
#[inline(always)]
pub const fn aligned(at: u64, align: u64) -> u64 {
    (at.wrapping_add(align - 1)) & !(align - 1)
}

/// The same of a place that types claim; none beyond 64 bits.
pub const fn claimed(at: u64, align: u64) -> Option<u64> {
    match at.checked_add(align - 1) {
        Some(most) => Some(most & !(align - 1)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, as the standard numbers them.
    fn slowly(bytes: &[u8], at: u64, size: u32, big: bool) -> Option<u64> {
        let mut value = 0;
        for number in 0..u64::from(size) {
            let bit = at + number;
            let byte = *bytes.get((bit / 8) as usize)?;
            let (place, weight) = match big {
                true => (7 - bit % 8, u64::from(size) - 1 - number),
                false => (bit % 8, number),
            };
            value |= u64::from(byte >> place & 1) << weight;
        }
        Some(value)
    }

    proptest! {
        #[test]
        fn integers_lie_where_the_standard_says(
            bytes in proptest::collection::vec(any::<u8>(), 0..24),
            at in 0..200_u64,
            size in 1..=64_u32,
            big: bool,
        ) {
            prop_assert_eq!(read(&bytes, at, size, big), slowly(&bytes, at, size, big));
        }
    }

    #[test]
    fn signs_are_those_of_the_topmost_bit() {
        assert_eq!(signed(0b111, 3), -1);
        assert_eq!(signed(0b011, 3), 3);
        assert_eq!(signed(u64::MAX, 64), -1);
        assert_eq!((aligned(0, 8), aligned(1, 8), aligned(9, 64)), (0, 8, 64));
    }
}

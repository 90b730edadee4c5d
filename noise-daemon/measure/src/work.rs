//! Work that takes always the same time: arithmetic in registers, without memory or system calls.

use std::hint::black_box;

use super::clock::now_ns;

/// Steps of one unit: enough that reading the clock is the smaller part.
const STEPS: u32 = 16;
/// Units of one block of a calibration, and how many blocks.
const BLOCK_UNITS: u32 = 1_000;
const BLOCKS: u32 = 300;

/// One unit of work, some ten ns: each step needs the result of the one before.
#[inline(always)]
pub fn unit(state: u64) -> u64 {
    let mut state = state;
    for _ in 0..STEPS {
        // Marsaglia's xorshift and a multiplication; the compiler cannot foresee the result.
        state = (state ^ (state >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    black_box(state)
}

#[inline(always)]
pub fn units(count: u64, state: u64) -> u64 {
    (0..count).fold(state, |state, _| unit(state))
}

/// How many units take so long, at least one: derived from the shortest of some hundred blocks, so
/// that noise does not count. Runs for some milliseconds.
pub fn worth(ns: u64) -> u64 {
    let mut state = 1;
    let mut shortest_ns = u64::MAX;
    for _ in 0..BLOCKS {
        let start_ns = now_ns();
        state = units(u64::from(BLOCK_UNITS), state);
        shortest_ns = shortest_ns.min(now_ns().saturating_sub(start_ns));
    }
    black_box(state);
    let count = u128::from(ns) * u128::from(BLOCK_UNITS) / u128::from(shortest_ns.max(1));
    u64::try_from(count).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_depends_on_what_was_done_before() {
        assert_ne!(unit(1), unit(2));
        assert_eq!(units(3, 7), unit(unit(unit(7))));
    }

    #[test]
    fn more_time_is_worth_more_work() {
        assert!(worth(10_000_000) > worth(1_000));
        assert!(worth(0) == 1);
    }
}

//! The bytes of one event, whatever it is about: as it lies in the store, and before it has a place there.

use super::kind::EventKind;

/// One event. The programs write it, see [`crate::store::writing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct StoredEvent {
    /// When, ns on CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Low bits of its number in its part.
    pub number: u32,
    /// Number of its [`EventKind`]; 0 where nothing was written yet.
    pub kind: u8,
    pub small: u8,
    pub detail: u16,
    pub words: [u64; 2],
}

/// What an event is before it has a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// When, ns on CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Its kind, and what is smaller than a word.
    pub(super) head: u64,
    pub(super) words: [u64; 2],
}

/// Two numbers in one word.
#[inline(always)]
pub(super) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[inline(always)]
pub(super) const fn low(word: u64) -> u32 {
    word as u32
}

#[inline(always)]
pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Body {
    #[inline(always)]
    pub(super) const fn new(
        kind: EventKind,
        small: u8,
        detail: u16,
        words: [u64; 2],
        time_ns: u64,
    ) -> Self {
        let head = (kind as u64) << 32 | (small as u64) << 40 | (detail as u64) << 48;
        Self { time_ns, head, words }
    }
}

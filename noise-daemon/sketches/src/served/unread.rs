//! When bytes came that no call has read yet, of each connection.

use std::collections::VecDeque;

use crate::input::Bytes;

/// Arrivals at one connection.
pub(super) const MAX_ARRIVALS: usize = if cfg!(test) { 64 } else { 1 << 16 };
/// Arrivals at all of them: as many as take 128 MiB at most.
pub(super) const MAX_ARRIVALS_IN_ALL: usize = if cfg!(test) { 256 } else { 1 << 21 };
/// Bytes that arrived are at most so far ahead of those that are read.
const MAX_UNREAD: u32 = 1 << 26;
/// Room that is not worth giving back.
const SMALL: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct UnreadBytes {
    /// The place behind them, and when.
    all: VecDeque<(u32, u64)>,
    /// Of those before that place, it is forgotten.
    blind_to: Option<u32>,
}

/// Whether a place lies behind another one, not too far.
const fn is_behind(place: u32, other: u32) -> bool {
    let ahead = place.wrapping_sub(other);
    ahead > 0 && ahead <= MAX_UNREAD
}

impl UnreadBytes {
    pub(super) fn add(&mut self, place: u32, time_ns: u64) {
        self.all.push_back((place, time_ns));
        if self.all.len() > MAX_ARRIVALS {
            self.forget();
        }
    }

    /// When the first of those that are there came.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.all.front().map(|(_, time_ns)| *time_ns)
    }

    pub(super) fn held(&self) -> usize {
        self.all.len()
    }

    fn forget(&mut self) {
        let all = std::mem::take(&mut self.all);
        self.blind_to = all.back().map(|(place, _)| *place).or(self.blind_to);
    }

    /// Forgets what was read up to a place; when what lies behind it came.
    fn skip_to(&mut self, at: u32) -> Option<u64> {
        while self.all.front().is_some_and(|(place, _)| !is_behind(*place, at)) {
            self.all.pop_front();
        }
        // A queue that was long once takes no memory for ever.
        let room = self.all.capacity();
        if room > SMALL && self.all.len() <= room / 4 {
            self.all.shrink_to(room / 2);
        }
        self.all.front().map(|(_, time_ns)| *time_ns)
    }

    /// Whether it is forgotten when the first of these bytes came.
    pub(super) fn is_forgotten(&self, bytes: Bytes) -> bool {
        let (Some(to), Some(at)) = (self.blind_to, bytes.at) else { return false };
        is_behind(to, at)
    }

    /// These bytes are read: when the first of them came.
    pub(super) fn read(&mut self, bytes: Bytes) -> Option<u64> {
        let at = bytes.at?;
        let is_blind = self.is_forgotten(bytes);
        let came_ns = self.skip_to(at).filter(|_| !is_blind);
        self.skip_to(at.wrapping_add(bytes.length as u32));
        if !is_blind {
            self.blind_to = None;
        }
        came_ns
    }
}

/// Leaves no more arrivals than that, and says how many: connections that hold their share of them, or more, forget theirs,
/// so that one that nothing reads takes nothing from the others.
pub(super) fn keep_within(most: usize, mut all: Vec<&mut UnreadBytes>) -> usize {
    all.retain(|unread| unread.held() > 0);
    let held = |all: &[&mut UnreadBytes]| all.iter().map(|unread| unread.held()).sum();
    if held(&all) > most {
        let share = (most / all.len()).max(1);
        all.iter_mut().filter(|unread| unread.held() >= share).for_each(|unread| unread.forget());
    }
    held(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bytes(at: usize, length: u64) -> Bytes {
        Bytes { at: Some(at as u32), length }
    }

    fn of(count: usize) -> UnreadBytes {
        let mut unread = UnreadBytes::default();
        (1..=count).for_each(|place| unread.add(place as u32, place as u64));
        unread
    }

    #[test]
    fn too_many_of_one_connection_are_forgotten() {
        let mut unread = of(MAX_ARRIVALS + 1);
        unread.add(2_000, 7);
        assert!(unread.is_forgotten(bytes(0, 1)));
        assert_eq!(unread.read(bytes(0, MAX_ARRIVALS as u64)), None);
        assert_eq!(unread.read(bytes(MAX_ARRIVALS, 1)), None);
        assert!(!unread.is_forgotten(bytes(MAX_ARRIVALS + 1, 1)));
        assert_eq!(unread.read(bytes(MAX_ARRIVALS + 1, 1)), Some(7));
    }

    #[test]
    fn places_begin_again_at_0() {
        let mut unread = UnreadBytes::default();
        unread.add(5, 7);
        assert_eq!(unread.read(Bytes { at: Some(u32::MAX - 4), length: 10 }), Some(7));
    }

    #[test]
    fn what_was_read_gives_its_room_back() {
        let mut unread = of(MAX_ARRIVALS);
        assert_eq!(unread.read(bytes(0, MAX_ARRIVALS as u64)), Some(1));
        for place in MAX_ARRIVALS..MAX_ARRIVALS + 10 {
            unread.add(place as u32 + 1, 7);
            assert_eq!(unread.read(bytes(place, 1)), Some(7));
        }
        assert!(unread.all.capacity() <= SMALL, "{}", unread.all.capacity());
    }

    #[test]
    fn only_those_with_their_share_or_more_forget() {
        let mut all = [of(1), of(40), of(20), of(0), of(60)];
        assert_eq!(keep_within(121, all.iter_mut().collect()), 121);
        // A share is 25.
        assert_eq!(keep_within(100, all.iter_mut().collect()), 21);
        let forget: Vec<bool> = all.iter().map(|one| one.is_forgotten(bytes(0, 1))).collect();
        assert_eq!(forget, [false, true, false, false, true]);
        // Even where there are more connections than that.
        let mut all: Vec<UnreadBytes> = (0..9).map(|_| of(1)).collect();
        assert_eq!(keep_within(5, all.iter_mut().collect()), 0);
    }
}

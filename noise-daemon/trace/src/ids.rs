//! Sets of ids of threads: a bit for each id, so that all that a kernel can give take half a megabyte.

use crate::threads::MAX_TID;

/// Ids from 0 on, below [`MAX_TID`]; others are never in it.
#[derive(Clone, Debug, Default)]
pub struct Ids(Vec<u64>);

fn place(tid: i32) -> Option<(usize, u64)> {
    let number = usize::try_from(tid).ok().filter(|_| tid < MAX_TID)?;
    Some((number / 64, 1 << (number % 64)))
}

impl Ids {
    /// Whether it was not in it yet.
    pub fn insert(&mut self, tid: i32) -> bool {
        let Some((place, bit)) = place(tid) else { return false };
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        let Some(bits) = self.0.get_mut(place) else { return false };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    /// Whether it was in it.
    pub fn remove(&mut self, tid: i32) -> bool {
        let found = place(tid).and_then(|(place, bit)| Some((self.0.get_mut(place)?, bit)));
        let Some((bits, bit)) = found else { return false };
        let was_there = *bits & bit != 0;
        *bits &= !bit;
        was_there
    }

    pub fn contains(&self, tid: i32) -> bool {
        let found = place(tid).and_then(|(place, bit)| Some((self.0.get(place)?, bit)));
        found.is_some_and(|(bits, bit)| bits & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_and_go_each_once() {
        let mut ids = Ids::default();
        for tid in [0, 63, 64, MAX_TID - 1] {
            assert_eq!((ids.contains(tid), ids.remove(tid)), (false, false));
            assert_eq!((ids.insert(tid), ids.insert(tid)), (true, false));
            assert_eq!((ids.contains(tid), ids.contains(tid ^ 1)), (true, false));
            assert_eq!((ids.remove(tid), ids.remove(tid)), (true, false));
        }
        for tid in [-1, MAX_TID] {
            assert_eq!((ids.insert(tid), ids.contains(tid)), (false, false));
        }
    }
}

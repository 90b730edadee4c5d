//! PURE: the newest of any number of things.

use std::cmp::Reverse;

/// So many of them, whatever their order is. While they are collected, up to twice as many are in memory.
#[derive(Clone)]
pub struct Newest<T> {
    most: usize,
    time_ns: fn(&T) -> u64,
    all: Vec<T>,
}

impl<T> Newest<T> {
    /// So many at most, by their time.
    pub const fn new(most: usize, time_ns: fn(&T) -> u64) -> Self {
        Self { most, time_ns, all: Vec::new() }
    }

    pub fn add(&mut self, one: T) {
        if self.all.len() >= 2 * self.most {
            self.shorten();
        }
        self.all.push(one);
    }

    fn shorten(&mut self) {
        if self.all.len() > self.most {
            let time_ns = self.time_ns;
            self.all.select_nth_unstable_by_key(self.most, |one| Reverse(time_ns(one)));
            self.all.truncate(self.most);
        }
    }

    /// The newest, in no order.
    pub fn finish(mut self) -> Vec<T> {
        self.shorten();
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_memory_is_bounded() {
        let found = |times: &mut dyn Iterator<Item = u64>| {
            let mut newest = Newest::new(3, |at_ns: &u64| *at_ns);
            for at_ns in times {
                newest.add(at_ns);
                assert!(newest.all.len() <= 6);
            }
            let mut all = newest.finish();
            all.sort_unstable();
            all
        };
        assert!(found(&mut std::iter::empty()).is_empty());
        assert_eq!(found(&mut (0..3)), [0, 1, 2]);
        assert_eq!(found(&mut (0..1_000)), [997, 998, 999]);
        assert_eq!(found(&mut (0..1_000).rev()), [997, 998, 999]);
        assert_eq!(found(&mut (0..999).map(|at| at * 500 % 999)), [996, 997, 998]);
    }
}

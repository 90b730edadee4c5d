//! PURE: one copy of each name. Every frame brings its own, and the steps would keep them all.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Names below which it is not worth looking for those that nobody has any more.
const FEW: usize = 1_024;

/// What there is, once.
#[derive(Debug)]
pub(super) struct Pool<T: ?Sized> {
    kept: HashSet<Arc<T>>,
    /// With how many it is looked through.
    full: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { kept: HashSet::new(), full: FEW }
    }
}

impl<T: ?Sized> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { kept: self.kept.clone(), full: self.full }
    }
}

impl<T: Hash + Eq + ?Sized> Pool<T> {
    /// The copy that is kept.
    pub(super) fn one(&mut self, value: &T) -> Arc<T>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        if let Some(kept) = self.kept.get(value) {
            return Arc::clone(kept);
        }
        if self.kept.len() >= self.full {
            self.kept.retain(|kept| Arc::strong_count(kept) > 1);
            self.full = FEW.max(self.kept.len() * 2);
        }
        let new = Arc::from(value);
        self.kept.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one_and_forgotten_names_go() {
        let mut pool = Pool::<str>::default();
        let first = pool.one("a");
        assert!(Arc::ptr_eq(&first, &pool.one("a")));
        for number in 0..10 * FEW {
            pool.one(&number.to_string());
        }
        assert!(pool.kept.len() <= FEW);
        assert!(Arc::ptr_eq(&first, &pool.one("a")));
    }
}

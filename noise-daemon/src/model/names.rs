//! PURE: one copy of each name. Every frame that is read brings thousands, nearly all of them those
//! of the frame before.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Names below which it is not worth looking for those that nobody has any more.
const FEW: usize = 1_024;

/// What there is, once.
#[derive(Debug)]
struct Pool {
    kept: HashSet<Arc<str>>,
    /// With how many it is looked through.
    full: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self { kept: HashSet::new(), full: FEW }
    }
}

impl Pool {
    /// The copy that is kept.
    fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(kept) = self.kept.get(name) {
            return Arc::clone(kept);
        }
        if self.kept.len() >= self.full {
            self.kept.retain(|kept| Arc::strong_count(kept) > 1);
            self.full = FEW.max(self.kept.len() * 2);
        }
        let new: Arc<str> = Arc::from(name);
        self.kept.insert(Arc::clone(&new));
        new
    }
}

thread_local! {
    /// Of all that this thread reads: deserializing knows no place of its own for them.
    static READ: RefCell<Pool> = RefCell::default();
}

struct Name;

impl Visitor<'_> for Name {
    type Value = Arc<str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Arc<str>, E> {
        Ok(READ.with_borrow_mut(|names| names.one(name)))
    }
}

/// Reads a name; equal ones are one, so that to compare and to drop them is next to nothing.
///
/// # Errors
/// Where it is no text.
pub fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    deserializer.deserialize_str(Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_read_are_one() {
        let read = |json: &str| shared(&mut serde_json::Deserializer::from_str(json));
        let (first, second) = (read("\"a\"").unwrap(), read("\"\\u0061\"").unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(read("7").is_err());
    }

    #[test]
    fn equal_names_are_one_and_forgotten_names_go() {
        let mut pool = Pool::default();
        let first = pool.one("a");
        assert!(Arc::ptr_eq(&first, &pool.one("a")));
        for number in 0..10 * FEW {
            pool.one(&number.to_string());
        }
        assert!(pool.kept.len() <= FEW);
        assert!(Arc::ptr_eq(&first, &pool.one("a")));
    }
}

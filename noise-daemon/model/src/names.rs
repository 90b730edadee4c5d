//! PURE: one copy of each name.

use std::collections::HashSet;
use std::sync::Arc;

use super::Sample;

/// Names below which it is not worth looking for those that are not in use any more.
const FEW: usize = 1_024;

/// One copy of each name, for a reader of samples: every sample brings thousands, nearly all of them
/// those of the sample before. To compare and to keep those that are one is next to nothing.
#[derive(Debug)]
pub struct SharedNames {
    kept: HashSet<Arc<str>>,
    /// With how many it is looked through.
    full: usize,
}

impl Default for SharedNames {
    fn default() -> Self {
        Self { kept: HashSet::new(), full: FEW }
    }
}

impl SharedNames {
    /// Makes the names of a sample those that are kept, where they are equal.
    pub fn share(&mut self, sample: &mut Sample) {
        for one in &mut sample.interference {
            self.each([&mut one.place, &mut one.victim, &mut one.culprit]);
        }
        for one in &mut sample.outliers {
            self.each([&mut one.victim, &mut one.comm, &mut one.made_runnable]);
            for part in &mut one.parts {
                self.each([&mut part.culprit, &mut part.comm]);
            }
        }
    }

    fn each<const N: usize>(&mut self, names: [&mut Arc<str>; N]) {
        names.into_iter().for_each(|name| self.one(name));
    }

    fn one(&mut self, name: &mut Arc<str>) {
        if let Some(kept) = self.kept.get(&**name) {
            *name = Arc::clone(kept);
            return;
        }
        if self.kept.len() >= self.full {
            self.kept.retain(|kept| Arc::strong_count(kept) > 1);
            self.full = FEW.max(self.kept.len() * 2);
        }
        self.kept.insert(Arc::clone(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_read_are_one() {
        let mut names = SharedNames::default();
        let mut read = |json: &str| {
            let mut sample: Sample = serde_json::from_str(json).unwrap();
            names.share(&mut sample);
            sample
        };
        let outlier = |comm: &str| {
            format!(
                r#"{{"outliers": [{{"wait_ns": 1, "victim": "a", "pid": 1, "comm": "{comm}", "cpu": 0,
                "made_runnable": "wakeup", "parts": [], "rest_ns": 1}}]}}"#
            )
        };
        let (first, second) = (read(&outlier("a")), read(&outlier("\\u0061")));
        let [first, second] = [&first, &second].map(|sample| &sample.outliers[0]);
        assert!(Arc::ptr_eq(&first.victim, &first.comm));
        assert!(Arc::ptr_eq(&first.victim, &second.comm));
        assert!(Arc::ptr_eq(&first.made_runnable, &second.made_runnable));
        assert!(serde_json::from_str::<Sample>(&outlier("a").replace("\"a\"", "7")).is_err());
    }

    #[test]
    fn equal_names_are_one_and_forgotten_names_go() {
        let mut names = SharedNames::default();
        let mut one = |name: &str| {
            let mut name = Arc::from(name);
            names.one(&mut name);
            name
        };
        let first = one("a");
        assert!(Arc::ptr_eq(&first, &one("a")));
        for number in 0..10 * FEW {
            one(&number.to_string());
        }
        assert!(Arc::ptr_eq(&first, &one("a")));
        assert!(names.kept.len() <= FEW);
    }
}

//! Fields up to a bound. The parts of an array are shown with their names once for each element: without a bound, one event of a
//! recording that was made to do harm would fill the memory.

use crate::value::{Shape, Value, Visit};

/// What the elements of one event may take when they are shown, in bytes, with the names of all that is around them.
const MOST_SHOWN: usize = 64 << 20;
/// What stands beside a name or a number.
const BESIDE: usize = 24;

/// Hands fields on, and leaves out what is beyond the bound.
pub struct Bounded<'v, V> {
    inner: &'v mut V,
    left: usize,
    /// How many arrays are around.
    arrays: usize,
    /// Lengths of the names of all that is around.
    around: Vec<usize>,
    name: usize,
    is_cut: bool,
    /// How many that were left out have not ended yet.
    skipped: usize,
}

impl<'v, V: Visit> Bounded<'v, V> {
    pub const fn new(inner: &'v mut V) -> Self {
        Self {
            inner,
            left: MOST_SHOWN,
            arrays: 0,
            around: Vec::new(),
            name: 0,
            is_cut: false,
            skipped: 0,
        }
    }

    pub const fn inner(&mut self) -> &mut V {
        self.inner
    }

    /// Whether something was left out.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether there is room for something with such a name.
    fn has_room(&mut self, name: usize) -> bool {
        if self.is_cut {
            return false;
        }
        self.name = self.around.last().copied().unwrap_or(0) + name;
        if self.arrays > 0 {
            let Some(left) = self.left.checked_sub(self.name + BESIDE) else {
                self.is_cut = true;
                return false;
            };
            self.left = left;
        }
        true
    }
}

impl<V: Visit> Visit for Bounded<'_, V> {
    fn name(&mut self, name: &str) {
        if self.has_room(name.len()) {
            self.inner.name(name);
        }
    }

    fn element(&mut self, number: u64) {
        if self.has_room(0) {
            self.inner.element(number);
        }
    }

    fn value(&mut self, value: Value<'_>) {
        if self.is_cut {
            return;
        }
        if let Value::Label { label: Some(label), .. } = value
            && self.arrays > 0
        {
            self.left = self.left.saturating_sub(label.len());
        }
        self.inner.value(value);
    }

    fn begin(&mut self, shape: Shape) {
        if self.is_cut {
            self.skipped += 1;
            return;
        }
        self.arrays += usize::from(shape == Shape::Elements);
        self.around.push(self.name);
        self.inner.begin(shape);
    }

    fn end(&mut self, shape: Shape) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        self.arrays -= usize::from(shape == Shape::Elements);
        self.around.pop();
        self.inner.end(shape);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounded, MOST_SHOWN};
    use crate::value::{Shape, Value, Visit};

    #[derive(Default)]
    struct Counts {
        names: usize,
        bytes: usize,
        values: usize,
        open: i64,
    }

    impl Visit for Counts {
        fn name(&mut self, name: &str) {
            self.names += 1;
            self.bytes += name.len();
        }

        fn value(&mut self, value: Value<'_>) {
            self.values += 1;
            if let Value::Label { label: Some(label), .. } = value {
                self.bytes += label.len();
            }
        }

        fn begin(&mut self, _: Shape) {
            self.open += 1;
        }

        fn end(&mut self, _: Shape) {
            self.open -= 1;
        }
    }

    /// An array of so many elements, each with a field of that name, whose value has that label.
    fn shown(elements: u64, name: &str, label: &str) -> (Counts, bool) {
        let mut counts = Counts::default();
        let mut bounded = Bounded::new(&mut counts);
        let value = || Value::Unsigned { value: 1, base: 10 };
        bounded.name("before");
        bounded.value(value());
        bounded.name("all");
        bounded.begin(Shape::Elements);
        for element in 0..elements {
            bounded.element(element);
            bounded.begin(Shape::Fields);
            bounded.name(name);
            bounded.value(Value::Label { label: Some(label), value: &value() });
            bounded.end(Shape::Fields);
        }
        bounded.end(Shape::Elements);
        bounded.name("behind");
        bounded.value(value());
        let is_cut = bounded.is_cut();
        (counts, is_cut)
    }

    #[test]
    fn what_is_beyond_the_bound_is_left_out_and_all_is_closed() {
        let long = "x".repeat(60_000);
        for (name, label) in [(&*long, "on"), ("field", &*long)] {
            let (counts, is_cut) = shown(1_000_000, name, label);
            assert!(is_cut && counts.bytes <= MOST_SHOWN + long.len(), "{}", counts.bytes);
            assert_eq!((counts.open, counts.values), (0, counts.names - 1), "an array is no value");
            assert!(counts.values > 1_000);
        }
        let (counts, is_cut) = shown(1_000, "field", "on");
        assert_eq!((is_cut, counts.open, counts.values), (false, 0, 1_002));
    }
}

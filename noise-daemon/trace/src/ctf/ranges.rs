//! What numbers stand for, by ranges of them, found by halving: a variant may have as many options as its
//! metadata has room for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ranges of numbers that do not overlap, each with what it stands for.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// First and last number, sorted, and what they stand for.
    sorted: Vec<(i128, i128, u32)>,
}

impl Ranges {
    /// Of ranges that may overlap: where they do, the one with the smallest meaning counts.
    pub fn new(mut given: Vec<(i128, i128, u32)>) -> Self {
        given.retain(|(first, last, _)| first <= last);
        given.sort_unstable();
        let begins = given.iter().map(|(first, ..)| *first);
        let ends = given.iter().filter_map(|(_, last, _)| last.checked_add(1));
        let mut edges: Vec<i128> = begins.chain(ends).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut sorted: Vec<(i128, i128, u32)> = Vec::with_capacity(given.len());
        let mut given = given.into_iter().peekable();
        // Those that began, by their meaning.
        let mut open = BinaryHeap::new();
        let behind = edges.iter().skip(1).map(|edge| edge - 1).chain([i128::MAX]);
        for (first, last) in edges.iter().copied().zip(behind) {
            while let Some((_, last, meaning)) = given.next_if(|(begin, ..)| *begin <= first) {
                open.push(Reverse((meaning, last)));
            }
            while open.peek().is_some_and(|Reverse((_, last))| *last < first) {
                open.pop();
            }
            let Some(Reverse((meaning, _))) = open.peek() else { continue };
            match sorted.last_mut() {
                Some((_, end, before))
                    if before == meaning && end.checked_add(1) == Some(first) =>
                {
                    *end = last;
                }
                _ => sorted.push((first, last, *meaning)),
            }
        }
        sorted.shrink_to_fit();
        Self { sorted }
    }

    #[inline]
    pub fn find(&self, number: i128) -> Option<usize> {
        let place = self.sorted.partition_point(|(_, last, _)| *last < number);
        let (first, _, meaning) = self.sorted.get(place)?;
        (*first <= number).then_some(*meaning as usize)
    }

    /// First and last number of each, in order, and what they stand for.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i128, i128, usize)> {
        self.sorted.iter().map(|(first, last, meaning)| (*first, *last, *meaning as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_range_that_has_a_number_counts(
            given in proptest::collection::vec((-20..20_i128, -2..12_i128), 0..12),
        ) {
            let given: Vec<_> =
                (0..).zip(given).map(|(meaning, (first, more))| (first, first + more, meaning)).collect();
            let ranges = Ranges::new(given.clone());
            for number in -25..40 {
                let fits = |(first, last, _): &&(i128, i128, u32)| (*first..=*last).contains(&number);
                let expected = given.iter().find(fits).map(|(.., meaning)| *meaning as usize);
                prop_assert_eq!(ranges.find(number), expected, "{}", number);
            }
        }
    }

    #[test]
    fn ranges_reach_to_the_largest_number() {
        let ranges = Ranges::new(vec![(5, i128::MAX, 1), (i128::MIN, -5, 0)]);
        let numbers = [i128::MIN, -5, -4, 4, 5, i128::MAX];
        let expected = [Some(0), Some(0), None, None, Some(1), Some(1)];
        assert_eq!(numbers.map(|number| ranges.find(number)), expected);
    }
}

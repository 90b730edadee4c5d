//! What was read and what was sent, both in their order: which of the first the second must be of.

/// Most of either that are compared.
const MOST: usize = 64;

/// For each of so many sends, the only read that it can be of. A read has one send at most, and those of later reads come
/// later. `fit` says how much speaks for a pair, and 0 where it cannot be. Of all ways to join them, those count for
/// which most speaks; what is not the same in all of these is not known.
pub fn pairs(reads: usize, sends: usize, fit: impl Fn(usize, usize) -> u64) -> Vec<Option<usize>> {
    let mut only = vec![None; sends];
    if reads == 0 || sends == 0 || reads > MOST || sends > MOST {
        return only;
    }
    let width = sends + 1;
    let at = |read: usize, send: usize| read * width + send;
    // What speaks at most for pairs of the first ones, and for those of the rest.
    let (mut before, mut after) = (vec![0; (reads + 1) * width], vec![0; (reads + 1) * width]);
    let of = |table: &[u64], place: usize| table.get(place).copied().unwrap_or(0);
    let joined = |rest: u64, fit: u64| if fit == 0 { 0 } else { rest + fit };
    for read in 1..=reads {
        for send in 1..=sends {
            let both = joined(of(&before, at(read - 1, send - 1)), fit(read - 1, send - 1));
            let one = of(&before, at(read - 1, send)).max(of(&before, at(read, send - 1)));
            if let Some(place) = before.get_mut(at(read, send)) {
                *place = both.max(one);
            }
        }
    }
    for read in (0..reads).rev() {
        for send in (0..sends).rev() {
            let both = joined(of(&after, at(read + 1, send + 1)), fit(read, send));
            let one = of(&after, at(read + 1, send)).max(of(&after, at(read, send + 1)));
            if let Some(place) = after.get_mut(at(read, send)) {
                *place = both.max(one);
            }
        }
    }
    let best = of(&after, 0);
    for (send, only) in only.iter_mut().enumerate() {
        let may_be_of = |read: &usize| {
            let fit = fit(*read, send);
            fit > 0
                && of(&before, at(*read, send)) + fit + of(&after, at(read + 1, send + 1)) == best
        };
        let may_be_of_none = (0..=reads)
            .any(|read| of(&before, at(read, send)) + of(&after, at(read, send + 1)) == best);
        let mut found = (0..reads).filter(may_be_of);
        if let (Some(read), None, false) = (found.next(), found.next(), may_be_of_none) {
            *only = Some(read);
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy as _, prop, prop_assert_eq, proptest};

    use super::*;

    /// All ways to join the sends from one on with the reads from one on, and what speaks for each.
    fn ways(fit: &[Vec<u64>], read: usize, sends: usize) -> Vec<(u64, Vec<Option<usize>>)> {
        if sends == 0 {
            return vec![(0, Vec::new())];
        }
        let send = fit[0].len() - sends;
        let mut all = ways(fit, read, sends - 1);
        all.iter_mut().for_each(|(_, way)| way.insert(0, None));
        for (next, row) in fit.iter().enumerate().skip(read) {
            if row[send] > 0 {
                for (sum, mut way) in ways(fit, next + 1, sends - 1) {
                    way.insert(0, Some(next));
                    all.push((sum + row[send], way));
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn a_pair_is_known_where_all_of_the_best_ways_have_it(
            fit in (1..5usize, 1..5usize).prop_flat_map(|(reads, sends)| {
                prop::collection::vec(prop::collection::vec(0..3u64, sends), reads)
            }),
        ) {
            let sends = fit[0].len();
            let all = ways(&fit, 0, sends);
            let best = all.iter().map(|(sum, _)| *sum).max().unwrap();
            let best: Vec<_> = all.iter().filter(|(sum, _)| *sum == best).collect();
            let expected: Vec<Option<usize>> = (0..sends)
                .map(|send| best[0].1[send].filter(|_| best.iter().all(|(_, way)| way[send] == best[0].1[send])))
                .collect();
            prop_assert_eq!(pairs(fit.len(), sends, |read, send| fit[read][send]), expected);
        }
    }

    #[test]
    fn what_can_be_joined_in_two_ways_is_not() {
        assert_eq!(pairs(3, 3, |_, _| 1), [Some(0), Some(1), Some(2)]);
        assert_eq!(pairs(3, 2, |_, _| 1), [None, None]);
        // The second send can only be of the second read, so that the first one is of the first.
        assert_eq!(pairs(3, 2, |read, send| u64::from(send == 0 || read == 1)), [Some(0), Some(1)]);
        assert_eq!(pairs(100, 100, |_, _| 1), vec![None; 100]);
    }
}

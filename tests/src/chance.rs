//! How property tests try what holds for nearly all draws, but not for all. The crates whose tests do so
//! include this file by its path.

use proptest::test_runner::{Config, RngSeed};

/// So many cases, the same ones in every run.
///
/// A claim about chance (a planted change is found, noise has no period) is false for some draws.
/// Tried on others each time, it fails some day without anything being wrong; tried on these, it
/// passes or fails for good.
pub fn same_draws(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::any;
    use proptest::test_runner::TestRunner;

    use super::same_draws;

    #[test]
    fn every_run_draws_the_same() {
        let drawn = || {
            let drawn = RefCell::new(Vec::new());
            let mut runner = TestRunner::new(same_draws(20));
            runner
                .run(&any::<u64>(), |number| {
                    drawn.borrow_mut().push(number);
                    Ok(())
                })
                .unwrap();
            drawn.into_inner()
        };
        let first = drawn();
        assert_eq!(first.len(), 20);
        assert_eq!(drawn(), first);
        assert!(first.iter().any(|number| *number != first[0]), "{first:?}");
    }
}

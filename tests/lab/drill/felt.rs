//! What a client felt: how long its answers took before something was planted, and after.

use anyhow::{Context as _, Result};
use serde::Serialize;

/// From so many times the mean latency of before on, a service was really disturbed.
const DISTURBED_TIMES: f64 = 1.5;
/// Fewer answers than this say nothing.
const LEAST_ANSWERS: usize = 5;

/// Latencies of some answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// How many.
    pub answers: usize,
    /// Their mean, ms.
    pub mean_ms: f64,
    /// 99 % took at most this long, ms.
    pub p99_ms: f64,
}

impl Latencies {
    fn of(mut all_ns: Vec<u64>) -> Self {
        all_ns.sort_unstable();
        let answers = all_ns.len();
        let sum_ns: u64 = all_ns.iter().sum();
        let p99_ns = all_ns.get((answers * 99).div_ceil(100).saturating_sub(1)).copied();
        Self {
            answers,
            mean_ms: sum_ns as f64 / answers.max(1) as f64 / 1e6,
            p99_ms: p99_ns.unwrap_or(0) as f64 / 1e6,
        }
    }
}

/// Both parts of a client's log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Felt {
    /// Of what was answered before.
    pub quiet: Latencies,
    /// Of what was asked after.
    pub planted: Latencies,
}

impl Felt {
    /// Reads a client's log, in which each line has when it asked and how long the answer took, ns.
    /// Errors: if it is no such log.
    pub fn read(log: &str, planted_ns: u64) -> Result<Self> {
        let (mut quiet, mut planted) = (Vec::new(), Vec::new());
        for line in log.lines() {
            let (begin, length) = line.split_once(' ').context("no line of a client's log")?;
            let (begin_ns, length_ns): (u64, u64) = (begin.parse()?, length.parse()?);
            if begin_ns >= planted_ns {
                planted.push(length_ns);
            } else if begin_ns + length_ns <= planted_ns {
                quiet.push(length_ns);
            }
        }
        Ok(Self { quiet: Latencies::of(quiet), planted: Latencies::of(planted) })
    }

    /// Whether both parts have enough answers to say something.
    pub fn is_telling(&self) -> bool {
        self.quiet.answers.min(self.planted.answers) >= LEAST_ANSWERS
    }

    /// How many times as long answers took.
    pub fn times(&self) -> f64 {
        self.planted.mean_ms / self.quiet.mean_ms.max(f64::MIN_POSITIVE)
    }

    /// Whether the service was really disturbed.
    pub fn is_disturbed(&self) -> bool {
        self.times() >= DISTURBED_TIMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(quiet_ns: u64, planted_ns: u64) -> String {
        let line = |number: u64, length_ns| format!("{} {length_ns}\n", number * 1_000);
        let quiet = (0..100).map(|number| line(number, quiet_ns));
        quiet.chain((101..151).map(|number| line(number, planted_ns))).collect()
    }

    #[test]
    fn a_client_felt_what_its_log_says() {
        let felt = Felt::read(&log(2_000_000, 9_000_000), 100_000).unwrap();
        // Asked before and answered after is neither.
        assert_eq!((felt.quiet.answers, felt.planted.answers), (0, 50));
        let felt = Felt::read(&log(500, 9_000), 100_000).unwrap();
        assert_eq!((felt.quiet.answers, felt.planted.answers), (100, 50));
        assert!(felt.is_telling() && felt.is_disturbed() && felt.times() == 18.0);
        assert_eq!((felt.quiet.p99_ms, felt.planted.mean_ms), (0.0005, 0.009));
        let felt = Felt::read(&log(500, 700), 100_000).unwrap();
        assert!(felt.is_telling() && !felt.is_disturbed());
        assert!(!Felt::read(&log(500, 700), 1_000).unwrap().is_telling());
        assert!(Felt::read("1 2 3\n", 0).is_err() && Felt::read("nothing\n", 0).is_err());
    }
}

//! A critical path held against what the recording's own switches and wake-ups say, moment by moment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use super::{Does, Seen};

/// The part of what can be seen that a path may say wrong: threads work on for some microseconds once they have handed on.
const MOST_WRONG: f64 = 0.005;
/// How far time that threads ran by the recording may be from the kernel's account of it. The account is read around the
/// marks, lags by up to a tick for a thread that runs, and has the time between the choice of a thread and the event that
/// says so: beside a build, that was seen to be 1.8 %.
const ACCOUNT: f64 = 0.01;
/// Beyond this, these do not explain it.
const DOUBTFUL: f64 = 0.05;
/// The part of a path that has to be seen for it to be judged.
const LEAST_SEEN: f64 = 0.5;

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its time, ns.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The thread that it is on, if it is known.
    pub tid: Option<i32>,
    /// What it says that this one does.
    pub state: String,
}

/// What of a path can be judged, and what of that is wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// How long the path is, ns.
    pub all_ns: u64,
    /// How much of it nothing can be said of.
    pub unseen_ns: u64,
    /// What it says against what was, where the two are at odds.
    pub wrong_ns: BTreeMap<(String, String), u64>,
}

impl Judged {
    /// Holds the parts of a path against what its recording shows. While the path is on none of its program's own
    /// threads that can go on, none of them may run.
    pub fn of(parts: &[Part], seen: &Seen, own: &BTreeSet<i32>) -> Self {
        let mut judged = Self::default();
        for part in parts {
            judged.add(part, seen, own);
        }
        judged
    }

    fn add(&mut self, part: &Part, seen: &Seen, own: &BTreeSet<i32>) {
        self.all_ns += part.to_ns - part.from_ns;
        let mut now_ns = part.from_ns;
        while now_ns < part.to_ns {
            let (does, mut until_ns) =
                part.tid.map_or((None, u64::MAX), |tid| seen.at(tid, now_ns));
            let mut running = None;
            for &tid in own {
                let (does, to_ns) = seen.at(tid, now_ns);
                until_ns = until_ns.min(to_ns);
                running = running.or((does == Some(Does::Runs)).then_some(tid));
            }
            let until_ns = until_ns.min(part.to_ns);
            let ns = until_ns - now_ns;
            match (part.state.as_str(), does) {
                // Nothing is said, or nothing is known.
                ("unknown", _) | (_, None | Some(Does::Unseen)) => self.unseen_ns += ns,
                ("running", Some(Does::Runs))
                | ("waiting_cpu", Some(Does::Waits | Does::IsOff)) => {}
                ("running" | "waiting_cpu", Some(does)) => {
                    self.wrong(part, format!("{does:?}"), ns)
                }
                (_, Some(Does::Sleeps | Does::IsOff)) => {
                    if let Some(tid) = running {
                        self.wrong(part, format!("{tid} runs"), ns);
                    }
                }
                (_, Some(does)) => self.wrong(part, format!("{does:?}"), ns),
            }
            now_ns = until_ns;
        }
    }

    fn wrong(&mut self, part: &Part, was: String, ns: u64) {
        *self.wrong_ns.entry((part.state.clone(), was)).or_default() += ns;
    }

    /// How much of it is judged, ns.
    pub fn seen_ns(&self) -> u64 {
        self.all_ns - self.unseen_ns
    }

    /// How much of that is wrong: 0 to 1.
    pub fn wrong_part(&self) -> f64 {
        let wrong_ns: u64 = self.wrong_ns.values().sum();
        wrong_ns as f64 / self.seen_ns().max(1) as f64
    }

    /// Requires that it is right in what can be seen.
    /// Errors: if it is not, or if too little can be seen.
    pub fn ensure_right(&self) -> Result<()> {
        let wrong = self.wrong_part();
        ensure!(
            wrong <= MOST_WRONG,
            "{:.2} % of the path is wrong: {:?}",
            100.0 * wrong,
            self.wrong_ns
        );
        let seen = self.seen_ns() as f64 / self.all_ns.max(1) as f64;
        ensure!(
            seen >= LEAST_SEEN,
            "the recording is inconclusive: of the path, {:.0} % can be seen",
            100.0 * seen
        );
        Ok(())
    }
}

/// How long threads ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// By a recording, ns.
    pub seen_ns: u64,
    /// How much longer they may have run unseen.
    pub unseen_ns: u64,
    /// How much of it the hypervisor may have had, which the kernel does not count.
    pub stolen_ns: u64,
}

impl Ran {
    /// Requires that it is what the kernel says, as far as it can be seen.
    /// Errors: if it is less or more, or if that may be the account's fault.
    pub fn ensure_is(&self, kernel_ns: u64) -> Result<()> {
        let is_within = |part: f64| {
            let least = self.seen_ns.saturating_sub(self.stolen_ns) as f64 * (1.0 - part);
            let most = (self.seen_ns + self.unseen_ns) as f64 * (1.0 + part);
            (least..=most).contains(&(kernel_ns as f64))
        };
        ensure!(is_within(DOUBTFUL), "{self:?}, and the kernel says {kernel_ns} ns");
        ensure!(
            is_within(ACCOUNT),
            "the recording is inconclusive: {self:?}, and the kernel says {kernel_ns} ns"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::tests::seen;

    const MS: u64 = 1_000_000;

    fn part(from: u64, to: u64, tid: i32, state: &str) -> Part {
        Part { from_ns: from * MS, to_ns: to * MS, tid: Some(tid), state: state.to_owned() }
    }

    /// Thread 5 runs, waits for a CPU, runs, and has thread 6 run for it; then a hidden one leaves 30 ms dark.
    fn shown() -> Seen {
        let at = |ms: u64, words: &'static str| (ms * MS, 0, words);
        let events = [
            at(0, "switch 0 Runnable 5"),
            at(100, "switch 5 Runnable 9"),
            at(300, "switch 9 Runnable 5"),
            at(399, "waking 6"),
            at(400, "switch 5 Asleep 6"),
            at(599, "waking 5"),
            at(600, "switch 6 Asleep 5"),
            at(900, "switch 5 Runnable 1"),
            at(930, "switch 5 Asleep 0"),
            at(1000, "switch 0 Runnable 5"),
        ];
        seen(&events, &[1])
    }

    fn path() -> Vec<Part> {
        vec![
            part(0, 100, 5, "running"),
            part(100, 300, 5, "waiting_cpu"),
            part(300, 400, 5, "running"),
            part(400, 600, 6, "running"),
            part(600, 900, 5, "running"),
            part(900, 930, 5, "waiting_cpu"),
            part(930, 1000, 5, "timer"),
        ]
    }

    fn judged(parts: &[Part]) -> Judged {
        Judged::of(parts, &shown(), &BTreeSet::from([5, 6]))
    }

    #[test]
    fn a_path_that_is_right_stays_so_whatever_it_says_of_the_dark() {
        let right = judged(&path());
        assert_eq!((right.all_ns, right.unseen_ns), (1000 * MS, 30 * MS));
        assert_eq!(right.wrong_ns, BTreeMap::new());
        assert!(right.ensure_right().is_ok());
        for state in ["running", "unknown", "disk"] {
            let mut other = path();
            other[5].state = state.to_owned();
            assert_eq!(judged(&other).wrong_ns, BTreeMap::new());
        }
    }

    #[test]
    fn a_path_is_wrong_that_is_so_for_a_hundredth_of_what_can_be_seen() {
        // One border 10 of 970 ms too early or too late, then a sleep in the place of work, its own and another's.
        for (moved_ms, at) in [(90, 1), (110, 1), (290, 2), (310, 2)] {
            let mut parts = path();
            parts[at - 1].to_ns = moved_ms * MS;
            parts[at].from_ns = moved_ms * MS;
            let wrong = judged(&parts);
            assert_eq!(wrong.wrong_ns.values().sum::<u64>(), 10 * MS, "{wrong:?}");
            assert!(
                wrong.ensure_right().unwrap_err().to_string().starts_with("1.03 % of the path")
            );
        }
        for (at, tid, state) in
            [(3, 5, "disk"), (3, 6, "waiting_cpu"), (4, 5, "disk"), (4, 6, "running")]
        {
            let mut parts = path();
            parts[at].tid = Some(tid);
            parts[at].state = state.to_owned();
            let error = judged(&parts).ensure_right().unwrap_err().to_string();
            assert!(error.contains("of the path is wrong"), "{error}");
        }
    }

    #[test]
    fn a_path_in_the_dark_is_not_judged_unless_it_is_wrong_elsewhere() {
        let dark = [part(900, 930, 5, "running"), part(930, 940, 5, "timer")];
        let error = judged(&dark).ensure_right().unwrap_err().to_string();
        assert!(error.starts_with("the recording is inconclusive: of the path, 25 %"), "{error}");
        let wrong = [part(900, 930, 5, "running"), part(930, 940, 5, "running")];
        assert!(judged(&wrong).ensure_right().unwrap_err().to_string().contains("wrong"));
    }

    #[test]
    fn time_that_the_kernel_counts_is_seen_or_may_have_been_unseen_or_is_wrong() {
        let ran = |seen_ns, unseen_ns, stolen_ns| Ran { seen_ns, unseen_ns, stolen_ns };
        let said = |ran: Ran, kernel_ns| match ran.ensure_is(kernel_ns) {
            Ok(()) => "right",
            Err(error) if error.to_string().contains("inconclusive") => "doubtful",
            Err(_) => "wrong",
        };
        assert_eq!(said(ran(695, 140, 0), 828), "right");
        assert_eq!(said(ran(695, 80, 0), 828), "wrong");
        assert_eq!(said(ran(828, 0, 0), 822), "right");
        assert_eq!(said(ran(828, 0, 0), 815), "doubtful");
        assert_eq!(said(ran(828, 0, 10), 815), "right");
        assert_eq!(said(ran(828, 0, 0), 840), "doubtful");
        assert_eq!(said(ran(828, 0, 0), 780), "wrong");
        assert_eq!(said(ran(828, 0, 0), 880), "wrong");
    }
}

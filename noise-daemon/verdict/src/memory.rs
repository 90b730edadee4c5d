//! What the pressure of a victim's cgroup says its waits were for: disks, or memory, and what memory was short of.
//!
//! Pages that were thrown out for want of memory come back by a disk. So a wait for a disk is one for memory where the
//! kernel counts the stalls as such (PSI), or, where it does not, where a limit was hit meanwhile and most of what that
//! threw out was needed still.

use noise_common::charge::Cause;
use noise_model::memory::LimitHits;
use noise_model::pressure::{Pressure, ResourcePressure};

use crate::account::Account;
use crate::finding::{Culprit, CulpritKind};

/// Part of the time that a cgroup stalled for disks, from which on that is what its uninterruptible sleeps were for; and of
/// stalls for memory, which disks alone never cause.
const FOR_DISKS: f64 = 0.05;
const FOR_MEMORY: f64 = 0.01;
/// Stalls for memory are stalls for disks as well, where what was thrown out is read again: the part of them from which
/// on it is memory that is short.
const OF_MEMORY: f64 = 0.5;
/// Hits of a limit in a second, from which on that is what memory is short of.
const LEAST_HITS: f64 = 1.0;

/// Of what memory is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A limit of the victim's cgroup, or of one around it, was hit.
    Limit(LimitHits),
    /// None of these limits was hit more than now and then.
    NoLimit,
    /// Whether one was is not known.
    Unknown,
}

impl Shortage {
    /// What memory was short of between the readings of a pressure; `None` where it was not short, or that is not known.
    pub fn of(pressure: &Pressure) -> Option<Self> {
        let hits = pressure.limits.as_deref();
        // The nearest of those that were hit most: one that was hit once is not what holds it up.
        let span_ns = pressure.span_ns.unwrap_or(0);
        let is_often = |one: &&LimitHits| one.hits as f64 >= LEAST_HITS * span_ns as f64 / 1e9;
        let hit = hits.and_then(|hits| {
            let often = hits.iter().rev().filter(is_often);
            often.max_by_key(|one| one.hits).cloned().map(Self::Limit)
        });
        let stalls = CgroupStallTimes::of(pressure);
        match stalls.map(|stalls| stalls.is_for_memory()) {
            Some(false) => None,
            Some(true) => Some(hit.unwrap_or(match hits {
                Some(_) => Self::NoLimit,
                None => Self::Unknown,
            })),
            None => hit.filter(|hit| match hit {
                Self::Limit(hit) => hit.throws_out_what_is_needed() == Some(true),
                Self::NoLimit | Self::Unknown => false,
            }),
        }
    }

    /// The limit that was hit.
    pub const fn limit(&self) -> Option<&LimitHits> {
        match self {
            Self::Limit(limit) => Some(limit),
            Self::NoLimit | Self::Unknown => None,
        }
    }

    /// Who is to blame.
    pub fn culprit(&self) -> Culprit {
        let (kind, name, cause) = match self {
            Self::Limit(limit) => (CulpritKind::Limit, limit.name(), Cause::Own),
            Self::NoLimit | Self::Unknown => {
                (CulpritKind::None, "not known".to_owned(), Cause::Untracked)
            }
        };
        Culprit::named(kind, name, cause)
    }

    /// Why memory was short, as a sentence goes on behind a comma.
    pub fn words(&self) -> String {
        match self {
            Self::Limit(limit) if is_swapping(limit) => {
                format!(
                    "because of {}, which put pages into swap that it needed again",
                    limit.name()
                )
            }
            Self::Limit(limit) => format!("because of {}", limit.name()),
            Self::NoLimit => "and no limit of its memory is the reason".to_owned(),
            Self::Unknown => "and whether a limit of it was hit is not known".to_owned(),
        }
    }
}

/// Whether half or more of the pages that were thrown out and came back came from swap.
const fn is_swapping(limit: &LimitHits) -> bool {
    match (limit.swapped_in, limit.refaulted) {
        (Some(swapped_in), Some(refaulted)) => swapped_in > 0 && swapped_in >= refaulted / 2,
        _ => false,
    }
}

/// How long tasks of a cgroup stalled, as far as the kernel says so, ms.
#[derive(Clone, Copy, Debug)]
struct CgroupStallTimes {
    span_ms: f64,
    for_disks_ms: f64,
    for_memory_ms: f64,
}

impl CgroupStallTimes {
    fn of(pressure: &Pressure) -> Option<Self> {
        let ms = |resource: Option<&ResourcePressure>| resource?.some.stalled_ms;
        Some(Self {
            span_ms: pressure.span_ns? as f64 / 1e6,
            for_disks_ms: ms(pressure.io.as_ref()).unwrap_or(0.0),
            for_memory_ms: ms(pressure.memory.as_ref())?,
        })
    }

    fn is_for_memory(self) -> bool {
        self.for_memory_ms > 0.0
            && self.for_memory_ms >= FOR_MEMORY * self.span_ms
            && self.for_memory_ms >= OF_MEMORY * self.for_disks_ms
    }
}

/// What the uninterruptible sleeps of a cgroup were for, as far as its pressure says so.
pub fn stalled_for(pressure: &Pressure) -> Option<Account> {
    if Shortage::of(pressure).is_some() {
        return Some(Account::Memory);
    }
    let span_ms = pressure.span_ns? as f64 / 1e6;
    let for_disks_ms = pressure.io.as_ref()?.some.stalled_ms?;
    (for_disks_ms >= FOR_DISKS * span_ms).then_some(Account::Disk)
}

#[cfg(test)]
mod tests {
    use noise_model::memory::LimitKind;
    use noise_model::pressure::Stalled;

    use super::*;

    fn hit(of: &str, hits: u64, refaulted: Option<u64>) -> LimitHits {
        LimitHits {
            of: of.to_owned(),
            is_own: of == "shop.service",
            kind: LimitKind::Max,
            bytes: 8 << 20,
            hits,
            refaulted,
            swapped_in: None,
            gone: Some(100),
        }
    }

    /// Of ten seconds: time stalled for disks and for memory, ms, and limits that were hit.
    fn pressure(io_and_memory_ms: Option<(f64, f64)>, limits: Option<Vec<LimitHits>>) -> Pressure {
        let of = |ms| {
            let some = Stalled { avg10_percent: 1.0, stalled_ms: Some(ms) };
            Some(ResourcePressure { some, full: None })
        };
        Pressure {
            span_ns: Some(10_000_000_000),
            io: io_and_memory_ms.and_then(|(io, _)| of(io)),
            memory: io_and_memory_ms.and_then(|(_, memory)| of(memory)),
            limits,
            ..Pressure::default()
        }
    }

    #[test]
    fn a_limit_is_to_blame_where_the_cgroup_stalls_for_memory_meanwhile() {
        let of = |ms, limits| Shortage::of(&pressure(Some(ms), limits));
        let own = hit("shop.service", 400, Some(90));
        let around = hit("web.slice", 2, Some(90));
        let limits = Some(vec![own.clone(), around.clone()]);
        assert_eq!(of((4_000.0, 3_000.0), limits.clone()), Some(Shortage::Limit(own.clone())));
        // A backup that reads through its limit waits for the disk.
        assert_eq!(of((4_000.0, 100.0), limits), None);
        assert_eq!(of((4_000.0, 3_000.0), Some(Vec::new())), Some(Shortage::NoLimit));
        assert_eq!(of((4_000.0, 3_000.0), None), Some(Shortage::Unknown));
        assert_eq!(of((0.0, 50.0), None), None, "too little");
        let now_and_then = Some(vec![hit("shop.service", 9, Some(3))]);
        assert_eq!(of((4_000.0, 3_000.0), now_and_then), Some(Shortage::NoLimit));
        assert_eq!(of((0.0, 0.0), Some(vec![own.clone()])), None);
        // The one that is hit most, and of two that are hit as often the nearest.
        let slice = hit("web.slice", 900, Some(90));
        let limits = Some(vec![own.clone(), slice.clone()]);
        assert_eq!(of((0.0, 3_000.0), limits), Some(Shortage::Limit(slice)));
        let limits = Some(vec![own.clone(), hit("web.slice", 400, None)]);
        assert_eq!(of((0.0, 3_000.0), limits), Some(Shortage::Limit(own)));
    }

    #[test]
    fn without_psi_what_was_thrown_out_and_came_back_decides() {
        let of = |refaulted| {
            Shortage::of(&pressure(None, Some(vec![hit("shop.service", 400, refaulted)])))
        };
        assert!(matches!(of(Some(90)), Some(Shortage::Limit(_))));
        assert_eq!(of(Some(3)), None);
        assert_eq!(of(None), None);
        assert_eq!(Shortage::of(&pressure(None, Some(Vec::new()))), None);
        assert_eq!(Shortage::of(&Pressure::default()), None);
    }

    #[test]
    fn sleeps_are_for_what_the_cgroup_stalls_for() {
        let of = |ms| stalled_for(&pressure(Some(ms), None));
        assert_eq!(of((4_000.0, 3_000.0)), Some(Account::Memory));
        assert_eq!(of((4_000.0, 100.0)), Some(Account::Disk));
        assert_eq!(of((100.0, 0.0)), None);
        assert_eq!(stalled_for(&pressure(None, None)), None);
    }

    #[test]
    fn a_limit_that_swaps_is_said_to() {
        let swapping = |swapped_in, refaulted| {
            let hit = hit("shop.service", 400, refaulted);
            let words = Shortage::Limit(LimitHits { swapped_in, ..hit }).words();
            words.ends_with(", which put pages into swap that it needed again")
        };
        assert!(swapping(Some(60), Some(90)) && swapping(Some(45), Some(90)));
        // Pages of files came back, none did, or it is not known which.
        let others = [(Some(5), Some(90)), (Some(0), Some(0)), (None, Some(90)), (Some(9), None)];
        assert!(others.iter().all(|(swapped_in, refaulted)| !swapping(*swapped_in, *refaulted)));
    }

    #[test]
    fn a_shortage_has_a_culprit_or_says_that_it_has_none() {
        let own = Shortage::Limit(hit("shop.service", 400, None));
        assert_eq!(own.words(), "because of its own memory limit of 8 MiB");
        let culprit = own.culprit();
        assert_eq!(
            (culprit.kind, &*culprit.name),
            (CulpritKind::Limit, "its own memory limit of 8 MiB")
        );
        for none in [Shortage::NoLimit, Shortage::Unknown] {
            assert_eq!(none.culprit().kind, CulpritKind::None);
            assert_eq!(none.limit(), None);
        }
    }
}

//! PURE: pressure stall information (PSI) of a cgroup, how often its CPU quota stopped it, and how often it hit a limit of
//! its memory: readings of the kernel's files, and what came between two of them.
//!
//! `some` is the time in which at least one task of the cgroup waited for the resource, `full` that in which all
//! that had something to do did. What the kernel does not say is not 0: it is `None`, with the reason.

use super::memory::{LimitHits, LimitReading};

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PsiLine {
    avg10_percent: f64,
    total_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    some: PsiLine,
    full: Option<PsiLine>,
}

impl Stalls {
    /// Reads the text of `cpu.pressure`, `io.pressure` or `memory.pressure`.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
            let field = |name: &str| {
                line.split_ascii_whitespace()
                    .find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
            };
            let avg10_percent: f64 = field("avg10")?.parse().ok()?;
            let total_us = field("total")?.parse().ok()?;
            avg10_percent.is_finite().then_some(PsiLine { avg10_percent, total_us })
        };
        // Kernels before 5.13 have no `full` for CPUs.
        Some(Self { some: line("some")?, full: line("full") })
    }
}

/// What `cpu.stat` counts of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttles {
    /// Periods in which it ran.
    pub periods: u64,
    /// Those of them in which its quota stopped it.
    pub throttled_periods: u64,
    /// How long its threads were stopped, by CPU, ns.
    pub throttled_ns: u64,
}

impl Throttles {
    /// Reads the text of `cpu.stat`, of either version of cgroups; `None` where it counts no periods.
    pub fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| -> Option<u64> {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        let ns = field("throttled_usec").map(|us| us.saturating_mul(1_000));
        Some(Self {
            periods: field("nr_periods")?,
            throttled_periods: field("nr_throttled")?,
            throttled_ns: ns.or_else(|| field("throttled_time"))?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Quota {
    /// CPU time in a period, µs; `None` = no limit.
    pub quota_us: Option<u64>,
    pub period_us: u64,
}

impl Quota {
    pub fn parse(text: &str) -> Option<Self> {
        let (quota, period) = text.trim().split_once(' ')?;
        let quota_us = match quota {
            "max" => None,
            number => Some(number.parse().ok()?),
        };
        period
            .trim()
            .parse()
            .ok()
            .filter(|period| *period > 0)
            .map(|period_us| Self { quota_us, period_us })
    }

    /// Reads version 1's `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    pub fn of_two(quota: &str, period: &str) -> Option<Self> {
        let quota: i64 = quota.trim().parse().ok()?;
        let period_us = period.trim().parse().ok().filter(|period: &u64| *period > 0)?;
        // -1 is none.
        Some(Self { quota_us: u64::try_from(quota).ok(), period_us })
    }

    /// Of one CPU: 0.5 = half of it; `None` = no limit.
    pub fn cpus(self) -> Option<f64> {
        self.quota_us.map(|quota_us| quota_us as f64 / self.period_us.max(1) as f64)
    }
}

/// A quota with what it did, of the cgroup that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaReading {
    /// The label of that cgroup.
    pub of: String,
    /// How many levels it is above the cgroup that is read: 0 = that one itself.
    pub above: usize,
    pub quota: Quota,
    /// What it did so far.
    pub counted: Throttles,
}

/// What a cgroup's files say at one time; where they do not, why.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureReading {
    /// When, on the clock of the samples, ns.
    pub at_ns: u64,
    pub cpu: Result<Stalls, String>,
    pub io: Result<Stalls, String>,
    pub memory: Result<Stalls, String>,
    /// Quotas of the cgroup and of those around it, the nearest first; where none of them has one, that is what is
    /// read of the cgroup itself.
    pub quotas: Result<Vec<QuotaReading>, String>,
    /// Limits of its memory and of the cgroups around it, the nearest first.
    pub limits: Result<Vec<LimitReading>, String>,
}

/// One line of a pressure file, with what came since an earlier reading.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Stalled {
    /// The kernel's average of the last ten seconds, percent of time.
    pub avg10_percent: f64,
    /// Growth of its total in the time between the readings, ms; `None` where there is one reading alone.
    pub stalled_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ResourcePressure {
    /// At least one task waited.
    pub some: Stalled,
    /// All tasks waited; `None` where the kernel does not say.
    pub full: Option<Stalled>,
}

/// A quota, with what it did since an earlier reading.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Throttled {
    /// Whose quota it is: the one that stopped the cgroup longest, its own or that of one around it; else the nearest.
    pub of: String,
    /// How many levels that is above the cgroup: 0 = its own.
    #[serde(default)]
    pub above: usize,
    /// Whether there are several, and which of them stopped it is not known.
    #[serde(default)]
    pub is_unclear: bool,
    /// The quota as it is now.
    #[serde(flatten)]
    pub quota: Quota,
    /// Periods in which it ran, between the readings.
    pub periods: Option<u64>,
    /// Those in which the quota stopped it.
    pub throttled_periods: Option<u64>,
    /// How long, ms, threads on different CPUs added up.
    pub throttled_ms: Option<f64>,
}

impl Throttled {
    /// Whether a quota of that cgroup is what stops it.
    pub const fn is_known(&self) -> bool {
        !self.is_unclear && self.quota.quota_us.is_some()
    }

    /// What the quota that stops it is called.
    pub fn name(&self) -> String {
        let of = &self.of;
        match self.above {
            _ if self.is_unclear => "a CPU quota, its own or that of a cgroup around it".to_owned(),
            _ if self.quota.quota_us.is_none() => "the CPU quota of a cgroup in it".to_owned(),
            0 => "its own CPU quota".to_owned(),
            1 => format!("the CPU quota of {of}, its parent"),
            _ => format!("the CPU quota of {of}, which it is in"),
        }
    }
}

/// Pressure of a cgroup: `null` is what the kernel does not say, and `unavailable` why.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// The time between the readings, ns; `None` where there is one reading alone.
    pub span_ns: Option<u64>,
    pub cpu: Option<ResourcePressure>,
    /// For block devices and whatever else makes tasks sleep for I/O.
    pub io: Option<ResourcePressure>,
    pub memory: Option<ResourcePressure>,
    pub quota: Option<Throttled>,
    /// Limits of its memory, and of the cgroups around it, that were hit between the readings, the nearest first; `None`
    /// where that is not known.
    pub limits: Option<Vec<LimitHits>>,
    /// What is not known, and why, a sentence each.
    pub unavailable: Vec<String>,
}

/// Growth of a counter; `None` where it ran backwards: that is another cgroup of the same name.
fn grown(now: u64, before: Option<u64>) -> Option<u64> {
    now.checked_sub(before?)
}

/// What the quota did that stopped a cgroup longest since an earlier reading; without one, or where none did since then, the
/// only one that ever stopped it.
fn throttled(before: &[QuotaReading], now: &[QuotaReading]) -> Option<Throttled> {
    let since = |one: &QuotaReading, of: fn(&Throttles) -> u64| {
        let same = |other: &&QuotaReading| other.of == one.of && other.above == one.above;
        grown(of(&one.counted), before.iter().find(same).map(|earlier| of(&earlier.counted)))
    };
    let stopped_ns = |one: &&QuotaReading| since(one, |one| one.throttled_ns).unwrap_or(0);
    // The nearest of those that stopped it as long.
    let longest = now.iter().rev().max_by_key(stopped_ns).filter(|one| stopped_ns(one) > 0);
    let ever: Vec<_> = now.iter().filter(|one| one.counted.throttled_periods > 0).collect();
    let only = match (longest, now, ever.as_slice()) {
        (Some(longest), ..) => Some(longest),
        (None, [only], _) => Some(only),
        (None, _, [only]) => Some(*only),
        (None, ..) => None,
    };
    let one = only.or_else(|| now.first())?;
    Some(Throttled {
        of: one.of.clone(),
        above: one.above,
        is_unclear: only.is_none(),
        quota: one.quota,
        periods: since(one, |one| one.periods),
        throttled_periods: since(one, |one| one.throttled_periods),
        throttled_ms: since(one, |one| one.throttled_ns).map(|ns| ns as f64 / 1e6),
    })
}

impl Pressure {
    /// What a reading says, with what grew since an earlier one.
    pub fn of(before: Option<&PressureReading>, now: &PressureReading) -> Self {
        let stalled = |now: PsiLine, before: Option<PsiLine>| Stalled {
            avg10_percent: now.avg10_percent,
            stalled_ms: grown(now.total_us, before.map(|line| line.total_us))
                .map(|us| us as f64 / 1e3),
        };
        let resource = |now: &Result<Stalls, String>, before: Option<&Result<Stalls, String>>| {
            let now = now.as_ref().ok()?;
            let before = before.and_then(|before| before.as_ref().ok());
            let full = |now| stalled(now, before.and_then(|before| before.full));
            let some = stalled(now.some, before.map(|before| before.some));
            Some(ResourcePressure { some, full: now.full.map(full) })
        };
        let quota = now.quotas.as_ref().ok().and_then(|quotas| {
            let before = before.and_then(|before| before.quotas.as_ref().ok());
            throttled(before.map_or(&[][..], Vec::as_slice), quotas)
        });
        let limits = || {
            let (earlier, later) = (before?.limits.as_ref().ok()?, now.limits.as_ref().ok()?);
            Some(LimitHits::between(earlier, later))
        };
        Self {
            span_ns: grown(now.at_ns, before.map(|before| before.at_ns)),
            cpu: resource(&now.cpu, before.map(|before| &before.cpu)),
            io: resource(&now.io, before.map(|before| &before.io)),
            memory: resource(&now.memory, before.map(|before| &before.memory)),
            quota,
            limits: limits(),
            unavailable: now.unavailable(),
        }
    }

    /// The resources that something is known of, with their names.
    pub fn resources(&self) -> impl Iterator<Item = (&'static str, &ResourcePressure)> {
        let all = [("cpu", &self.cpu), ("io", &self.io), ("memory", &self.memory)];
        all.into_iter().filter_map(|(name, pressure)| Some((name, pressure.as_ref()?)))
    }
}

impl PressureReading {
    /// What is not known: what has one reason is one sentence.
    fn unavailable(&self) -> Vec<String> {
        let stalls = [("cpu", &self.cpu), ("io", &self.io), ("memory", &self.memory)];
        let mut reasons: Vec<(&String, Vec<&str>)> = Vec::new();
        for (name, why) in
            stalls.iter().filter_map(|(name, read)| Some((*name, read.as_ref().err()?)))
        {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => reasons.push((why, vec![name])),
            }
        }
        let sentence = |(why, names): (&String, Vec<&str>)| {
            format!("pressure of {} is not known: {why}", names.join(", "))
        };
        let quota =
            self.quotas.as_ref().err().map(|why| format!("its CPU quota is not known: {why}"));
        let limits = self.limits.as_ref().err();
        let limits = limits.map(|why| format!("limits of its memory are not known: {why}"));
        reasons.into_iter().map(sentence).chain(quota).chain(limits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "some avg10=3.40 avg60=4.54 avg300=11.64 total=1000\n\
                        full avg10=0.50 avg60=0.00 avg300=0.00 total=200\n";

    fn reading(at_ns: u64, total: u64, counted: Throttles) -> PressureReading {
        let text = FILE.replace("total=1000", &format!("total={total}"));
        let stalls = Stalls::parse(&text).ok_or_else(|| "x".to_owned());
        let quota = Quota { quota_us: Some(50_000), period_us: 100_000 };
        PressureReading {
            at_ns,
            cpu: stalls.clone(),
            io: stalls,
            memory: Err("PSI is off".to_owned()),
            quotas: Ok(vec![QuotaReading { of: "/a".to_owned(), above: 0, quota, counted }]),
            limits: Ok(Vec::new()),
        }
    }

    #[test]
    fn files_are_read() {
        let stalls = Stalls::parse(FILE).unwrap();
        assert_eq!((stalls.some.avg10_percent, stalls.some.total_us), (3.4, 1000));
        assert_eq!(stalls.full.map(|full| full.total_us), Some(200));
        let older = FILE.lines().next().unwrap();
        assert_eq!(Stalls::parse(older).unwrap().full, None);
        for wrong in
            ["", "some", "some avg10=x total=1", "some avg10=1.0", "some avg10=inf total=1"]
        {
            assert_eq!(Stalls::parse(wrong), None, "{wrong}");
        }
        let version_2 =
            "usage_usec 5\nnr_periods 20\nnr_throttled 12\nthrottled_usec 700\nnr_bursts 0\n";
        let version_1 = "nr_periods 20\nnr_throttled 12\nthrottled_time 700000\n";
        let expected = Throttles { periods: 20, throttled_periods: 12, throttled_ns: 700_000 };
        assert_eq!(Throttles::parse(version_2), Some(expected));
        assert_eq!(Throttles::parse(version_1), Some(expected));
        assert_eq!(Throttles::parse("usage_usec 5\n"), None);
    }

    #[test]
    fn quotas_are_read() {
        let half = Quota { quota_us: Some(50_000), period_us: 100_000 };
        assert_eq!(Quota::parse("50000 100000\n"), Some(half));
        assert_eq!(half.cpus(), Some(0.5));
        let none = Quota { quota_us: None, ..half };
        assert_eq!(Quota::parse("max 100000\n"), Some(none));
        assert_eq!(none.cpus(), None);
        assert_eq!(Quota::of_two("50000\n", "100000\n"), Some(half));
        assert_eq!(Quota::of_two("-1\n", "100000\n"), Some(none));
        for wrong in ["", "max", "x 1", "1 0", "1 x"] {
            assert_eq!(Quota::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn growth_is_that_between_two_readings_and_unknown_of_one() {
        let first = reading(1_000, 1000, Throttles::default());
        let counted = Throttles { periods: 20, throttled_periods: 12, throttled_ns: 7_500_000 };
        let second = reading(2_000_001_000, 1_501_000, counted);
        let pressure = Pressure::of(Some(&first), &second);
        assert_eq!(pressure.span_ns, Some(2_000_000_000));
        let cpu = pressure.cpu.unwrap();
        assert_eq!((cpu.some.stalled_ms, cpu.full.unwrap().stalled_ms), (Some(1500.0), Some(0.0)));
        let quota = pressure.quota.clone().unwrap();
        assert_eq!((quota.periods, quota.throttled_periods), (Some(20), Some(12)));
        assert_eq!(quota.throttled_ms, Some(7.5));
        assert_eq!(pressure.limits.as_deref(), Some(&[][..]));
        assert_eq!(pressure.unavailable, ["pressure of memory is not known: PSI is off"]);
        assert_eq!(pressure.resources().map(|(name, _)| name).collect::<Vec<_>>(), ["cpu", "io"]);
        let alone = Pressure::of(None, &second);
        assert_eq!((alone.span_ns, alone.cpu.unwrap().some.stalled_ms), (None, None));
        assert_eq!(alone.quota.unwrap().throttled_periods, None);
        assert_eq!(alone.limits, None, "of one reading, it is not known");
        // Another cgroup of the same name.
        assert_eq!(Pressure::of(Some(&second), &first).cpu.unwrap().some.stalled_ms, None);
    }

    #[test]
    fn the_quota_that_stops_a_cgroup_may_be_that_of_one_around_it() {
        let stopped = |of: &str, above, quota_us, throttled_periods| QuotaReading {
            of: of.to_owned(),
            above,
            quota: Quota { quota_us, period_us: 100_000 },
            counted: Throttles {
                periods: 20,
                throttled_periods,
                throttled_ns: throttled_periods * 1_000_000,
            },
        };
        let both = |own, pod| {
            vec![stopped("web", 0, Some(200_000), own), stopped("pod", 1, Some(100_000), pod)]
        };
        let name = |before: &[QuotaReading], now: &[QuotaReading]| {
            throttled(before, now).map(|one| (one.name(), one.is_known()))
        };
        let own = || Some(("its own CPU quota".to_owned(), true));
        let of_pod = Some(("the CPU quota of pod, its parent".to_owned(), true));
        assert_eq!(name(&both(3, 5), &both(3, 9)), of_pod);
        assert_eq!(name(&both(3, 5), &both(9, 6)), own());
        // Of one reading, the one that ever did.
        assert_eq!(name(&[], &both(0, 9)), of_pod);
        assert_eq!(name(&[], &both(3, 9)).map(|(_, is_known)| is_known), Some(false));
        assert_eq!(name(&[], &both(3, 9)[..1]), own());
        let slice = [stopped("web.slice", 2, Some(100_000), 4)];
        let expected = "the CPU quota of web.slice, which it is in".to_owned();
        assert_eq!(name(&[], &slice), Some((expected, true)));
        let none = [stopped("web", 0, None, 0)];
        assert_eq!(name(&[], &none), Some(("the CPU quota of a cgroup in it".to_owned(), false)));
        assert_eq!(name(&[], &[]), None);
    }

    #[test]
    fn what_has_one_reason_is_one_sentence() {
        let why = || "this kernel has none".to_owned();
        let reading = PressureReading {
            at_ns: 0,
            cpu: Err(why()),
            io: Err(why()),
            memory: Err("it is closed".to_owned()),
            quotas: Err("no controller".to_owned()),
            limits: Err("no controller".to_owned()),
        };
        let pressure = Pressure::of(None, &reading);
        assert_eq!(
            pressure.unavailable,
            [
                "pressure of cpu, io is not known: this kernel has none",
                "pressure of memory is not known: it is closed",
                "its CPU quota is not known: no controller",
                "limits of its memory are not known: no controller",
            ]
        );
        let json = serde_json::to_value(&pressure).unwrap();
        assert!(json["cpu"].is_null() && json["quota"].is_null(), "never 0: {json}");
        let text = serde_json::to_string(&pressure).unwrap();
        assert_eq!(serde_json::from_str::<Pressure>(&text).unwrap(), pressure);
    }
}

//! IO: pressure and limits of the cgroups that wait, kept for a minute, so that what grew of late is known afterwards. The
//! kernel's counters say only what they are now.
//!
//! A cgroup is read while its threads sleep uninterruptibly, at most once a second, and those first that do so longest. A
//! host where nothing sleeps so costs nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use noise_analysis::Name;
use noise_common::signals::Signal;
use noise_host::setup::SetupReader;
use noise_model::Step;
use noise_model::labels::is_one;
use noise_model::pressure::{Pressure, PressureReading};
use noise_verdict::Shortage;

use super::looking::Find;

/// Cgroups that are read at a time, and that are remembered.
const MOST_READ: usize = 4;
const MOST_KEPT: usize = 8;
/// Readings that are kept of each.
const MOST_READINGS: usize = 64;
/// Least time between two of them: of windows of half a second, every second one.
const BETWEEN_NS: u64 = 900_000_000;
/// Part of a window that the threads of a cgroup have to sleep so.
const LEAST_PART: f64 = 0.02;
/// A reading that was taken so long before a time still says how things were when it began.
const BEFORE_NS: u64 = 2_000_000_000;
/// Least time in which something can grow.
const LEAST_NS: u64 = 200_000_000;
/// Time over which a cgroup has to hit its limit, and how old that may be.
const SHORT_NS: u64 = 1_500_000_000;

struct PressureReadings {
    path: PathBuf,
    readings: VecDeque<PressureReading>,
}

/// Reads and keeps them.
pub struct Pressing {
    reader: SetupReader,
    kept: BTreeMap<Name, PressureReadings>,
    /// Those to be read next.
    due: Vec<Name>,
    read_ns: u64,
}

impl Pressing {
    /// With nothing kept yet.
    pub const fn new(reader: SetupReader) -> Self {
        Self { reader, kept: BTreeMap::new(), due: Vec::new(), read_ns: 0 }
    }

    /// Notes which cgroups slept uninterruptibly in a step. What is in none, or in one that is gone, has no limit to be read.
    pub fn note(&mut self, step: &Step) {
        let least_ns = (step.end_ns.saturating_sub(step.start_ns) as f64 * LEAST_PART) as u64;
        let slept = step.delays_of(Signal::UninterruptibleWait);
        let mut slept: Vec<(u64, &str)> = slept
            .into_iter()
            .filter_map(|(labels, delays)| Some((delays.sum_ns, &**labels.first()?)))
            .filter(|(ns, name)| *ns >= least_ns.max(1) && is_one(name))
            .collect();
        slept.sort_by(|one, other| other.cmp(one));
        self.due = slept.into_iter().take(MOST_READ).map(|(_, name)| Name::from(name)).collect();
    }

    /// Reads those that are due, at this time of the samples' clock, ns.
    pub fn look(&mut self, at_ns: u64, find: &mut Find<'_>) {
        if self.due.is_empty() || at_ns.saturating_sub(self.read_ns) < BETWEEN_NS {
            return;
        }
        self.read_ns = at_ns;
        for name in std::mem::take(&mut self.due) {
            let Some(path) = find(&name) else { continue };
            let reading = self.reader.pressure(&path, at_ns);
            let new = PressureReadings { path: path.clone(), readings: VecDeque::new() };
            let kept = self.kept.entry(name).or_insert(new);
            if kept.path != path {
                (kept.path, kept.readings) = (path, VecDeque::new());
            }
            kept.readings.push_back(reading);
            if kept.readings.len() > MOST_READINGS {
                kept.readings.pop_front();
            }
        }
        while self.kept.len() > MOST_KEPT {
            let read_ns =
                |kept: &PressureReadings| kept.readings.back().map_or(0, |reading| reading.at_ns);
            let oldest = self.kept.iter().min_by_key(|(_, kept)| read_ns(kept));
            let Some(oldest) = oldest.map(|(name, _)| Name::clone(name)) else { break };
            self.kept.remove(&oldest);
        }
    }

    /// Those that hit a limit of their memory of late, at this time of the samples' clock, ns.
    pub fn short(&self, at_ns: u64) -> BTreeSet<Name> {
        let is_short = |kept: &PressureReadings| {
            let last = kept.readings.back()?;
            let is_late = at_ns.saturating_sub(last.at_ns) <= SHORT_NS;
            let is_before =
                |one: &&PressureReading| last.at_ns.saturating_sub(one.at_ns) >= SHORT_NS;
            let before = kept.readings.iter().rev().find(is_before).filter(|_| is_late)?;
            Shortage::of(&Pressure::of(Some(before), last))?.limit().map(drop)
        };
        let short = self.kept.iter().filter(|(_, kept)| is_short(kept).is_some());
        short.map(|(name, _)| Name::clone(name)).collect()
    }

    /// What grew from about that time until now in the only one of some cgroups that was read then: a victim has several where
    /// there are others below it, or where its container has a name beside its id. `None` where several were read, or none.
    pub fn since(&self, cgroups: &BTreeSet<Name>, since_ns: u64, at_ns: u64) -> Option<Pressure> {
        let is_read = |name: &&Name| {
            let last = self.kept.get(&***name).and_then(|kept| kept.readings.back());
            last.is_some_and(|last| last.at_ns.saturating_add(BEFORE_NS) >= since_ns)
        };
        let mut read = cgroups.iter().filter(is_read);
        let (only, None) = (read.next()?, read.next()) else { return None };
        let PressureReadings { path, readings } = self.kept.get(only)?;
        let is_then = |reading: &&PressureReading| {
            reading.at_ns <= since_ns && since_ns - reading.at_ns <= BEFORE_NS
        };
        let later = || readings.iter().find(|reading| reading.at_ns > since_ns);
        let before = readings.iter().rev().find(is_then).or_else(later)?;
        let is_long = at_ns.saturating_sub(before.at_ns) >= LEAST_NS;
        is_long.then(|| Pressure::of(Some(before), &self.reader.pressure(path, at_ns)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use noise_host::resolve::cgroup::Mounts;
    use noise_model::{Histogram, Sample, Series};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A cgroup of version 2 that has hit its limit so often.
    fn write(root: &Path, hits: u64) {
        let folder = root.join("shop");
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("memory.max", "8388608".to_owned()),
            ("memory.high", "max".to_owned()),
            ("memory.events.local", format!("high 0\nmax {hits}\n")),
            ("memory.stat", "workingset_refault_file 5\npgsteal 5\n".to_owned()),
            (
                "memory.pressure",
                format!("some avg10=1.00 avg60=0 avg300=0 total={}\n", hits * 1000),
            ),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    fn sample(at_ns: u64, sleeps: &[(&str, u64)]) -> Sample {
        let series = |(name, ns): &(&str, u64)| Series {
            signal: Signal::UninterruptibleWait,
            labels: [(*name).to_owned()].into(),
            totals: Histogram::of(&[*ns]),
            recent_max_ns: 0,
        };
        Sample { at_ns, series: sleeps.iter().map(series).collect(), ..Sample::default() }
    }

    fn pressing(root: &Path) -> Pressing {
        let mut mounts = Mounts::default();
        mounts.unified = Some(root.to_owned());
        Pressing::new(SetupReader::new(mounts, root, root))
    }

    fn slept(names: &[(&str, u64)]) -> Step {
        Step::between(&sample(SECOND_NS, &[]), &sample(2 * SECOND_NS, names))
    }

    #[test]
    fn what_grew_since_a_time_is_known_of_who_slept() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut pressing = pressing(root);
        let mut find = |label: &str| Some(Path::new("/").join(label));
        let step = slept(&[("shop", SECOND_NS / 10), ("calm", SECOND_NS / 100)]);
        for (second, hits) in [(10, 100), (11, 150), (12, 190)] {
            write(root, hits);
            pressing.note(&step);
            pressing.look(second * SECOND_NS, &mut find);
        }
        // It is too soon for another reading.
        pressing.note(&step);
        pressing.look(12 * SECOND_NS + SECOND_NS / 2, &mut find);
        write(root, 200);
        let of = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        let since = |names: &[&str], since_s: u64, at_s: u64| {
            pressing.since(&of(names), since_s * SECOND_NS, at_s * SECOND_NS)
        };
        let hits = |since_s: u64| {
            let pressure = since(&["shop"], since_s, 13)?;
            Some((
                pressure.span_ns?,
                pressure.limits?.first()?.hits,
                pressure.memory?.some.stalled_ms?,
            ))
        };
        assert_eq!(hits(11), Some((2 * SECOND_NS, 50, 50.0)));
        // Of what begins before the first reading, there is a part.
        assert_eq!(hits(1), Some((3 * SECOND_NS, 100, 100.0)));
        assert_eq!(since(&["shop"], 0, 10), None, "nothing can have grown");
        assert_eq!(since(&["shop"], 20, 21), None, "long ago");
        assert_eq!(since(&["calm"], 0, 13), None);
        // It is known of one that has others below it, or two names.
        assert_eq!(since(&["shop", "calm", "docker:shop"], 11, 13), since(&["shop"], 11, 13));
        assert!(since(&["shop", "calm"], 11, 13).is_some());
        let short = |ms: u64| pressing.short(ms * 1_000_000).len();
        assert_eq!((short(12_500), short(14_000)), (1, 0));
    }

    #[test]
    fn of_several_that_were_read_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let mut pressing = pressing(folder.path());
        let mut find = |_: &str| Some(PathBuf::from("/shop"));
        for second in [10, 11, 30, 31] {
            write(folder.path(), second);
            let all = [("a", SECOND_NS), ("b", SECOND_NS)];
            pressing.note(&slept(if second < 20 { &all } else { &all[..1] }));
            pressing.look(second * SECOND_NS, &mut find);
        }
        let both = ["a", "b"].map(Name::from).into();
        assert_eq!(pressing.since(&both, 10 * SECOND_NS, 12 * SECOND_NS), None);
        // The other one has slept no more since then.
        assert!(pressing.since(&both, 30 * SECOND_NS, 32 * SECOND_NS).is_some());
    }

    #[test]
    fn what_is_in_no_cgroup_takes_the_place_of_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut pressing = pressing(folder.path());
        let others = ["/", "~gone", "~other", "~unknown"].map(|name| (name, SECOND_NS));
        let shop = ("shop", SECOND_NS / 10);
        pressing.note(&slept(&[&others[..], &[shop]].concat()));
        assert_eq!(pressing.due, [Name::from("shop")]);
    }

    #[test]
    fn it_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let mut pressing = pressing(folder.path());
        let mut find = |label: &str| Some(Path::new("/").join(label));
        for number in 0..200_u64 {
            let names: Vec<String> = (0..20).map(|one| format!("{}", number % 7 + one)).collect();
            let names: Vec<_> = names.iter().map(|name| (name.as_str(), SECOND_NS)).collect();
            pressing.note(&slept(&names));
            assert!(pressing.due.len() <= MOST_READ);
            pressing.look(number * SECOND_NS, &mut find);
            assert!(pressing.kept.len() <= MOST_KEPT);
        }
        assert!(pressing.kept.values().all(|kept| kept.readings.len() <= MOST_READINGS));
        pressing.note(&slept(&[]));
        let read_ns = pressing.read_ns;
        pressing.look(1_000 * SECOND_NS, &mut find);
        assert_eq!(pressing.read_ns, read_ns, "where nothing sleeps, nothing is read");
    }
}

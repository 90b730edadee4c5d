//! IO: what the host says beside incidents while they are open: pressure and settings of the cgroups that they are
//! about. Looked at when one opens, when another cgroup joins it, from time to time, and when it closes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use noise_analysis::{Beside, IncidentPressure, Name, Parties, Remedy, Report, Side, is_held_up};
use noise_host::setup::{CpuTimes, Meeting, SetupReader};
use noise_model::memory::LimitHits;
use noise_model::pressure::{Pressure, PressureReading, Throttled};
use noise_verdict::{Advice, Shortage, advise};

/// Time from one look to the next: while it is not certain whose doing it is, and after that.
const SOON_NS: u64 = 2_000_000_000;
const LATER_NS: u64 = 10_000_000_000;
/// So long a culprit has to be the first before its settings are looked at, and commands are about it: in its first seconds an
/// incident may blame one that a worse culprit disturbs as well.
const SETTLED_NS: u64 = 5_000_000_000;
/// Incidents that are looked at, at once.
const MOST: usize = 16;

/// Finds the path of a cgroup by its label.
pub type Find<'a> = dyn FnMut(&str) -> Option<PathBuf> + 'a;

/// One that is open.
struct WatchedIncident {
    /// The victim's cgroup, by label and path.
    victim: (Option<Name>, Option<PathBuf>),
    opening: Option<PressureReading>,
    times: CpuTimes,
    next_ns: u64,
    /// Its first culprit, and since when it is that, ns.
    leading: (Option<Name>, u64),
    /// What was found last.
    beside: Beside,
}

/// Looks at the host beside incidents.
pub struct Looking {
    reader: SetupReader,
    open: BTreeMap<u64, WatchedIncident>,
}

impl Looking {
    pub fn start() -> Self {
        Self { reader: SetupReader::of_host(), open: BTreeMap::new() }
    }

    /// Whether something is to be looked at, at this time of the samples' clock, ns.
    pub fn is_due(&self, at_ns: u64) -> bool {
        self.open.values().any(|open| open.next_ns <= at_ns)
    }

    /// Whether commands about a culprit stand at one that is open: these go as soon as it is a victim as well.
    pub fn advises(&self) -> bool {
        self.open.values().any(|open| open.beside.advised_culprit.is_some())
    }

    /// Looks at what is open, as it stands: those that are new, those whose time has come, and those whose commands are about
    /// a culprit that a third one holds up by now. What was found, by number. `may_work` says whether a culprit may be the client of an incident's victim, or what that asks.
    pub fn look(
        &mut self,
        open: &[&Report],
        at_ns: u64,
        find: &mut Find<'_>,
        may_work: &dyn Fn(&Report, &Name) -> bool,
    ) -> Vec<(u64, Beside)> {
        self.open.retain(|id, _| open.iter().any(|report| report.id == *id));
        let mut found = Vec::new();
        for report in open {
            let mut parties = report.main.parties();
            // It may turn out to be about another one than the one that opened it.
            let known = self.open.remove(&report.id).filter(|one| one.victim.0 == parties.victim);
            if known.is_none() && self.open.len() >= MOST {
                continue;
            }
            let mut path = |label: &Option<_>| find(label.as_deref()?);
            let one = self.open.entry(report.id).or_insert(known.unwrap_or_else(|| {
                let victim = path(&parties.victim);
                let opening = victim.as_ref().map(|path| self.reader.pressure(path, at_ns));
                WatchedIncident {
                    victim: (parties.victim.clone(), victim),
                    opening,
                    times: CpuTimes::read(Path::new("/proc")),
                    next_ns: at_ns,
                    leading: (parties.culprit.clone(), at_ns),
                    beside: Beside::default(),
                }
            }));
            let advised = one.beside.advised_culprit.as_ref();
            let is_wrong = advised.is_some_and(|culprit| is_held_up(culprit, report, open));
            if one.next_ns > at_ns && !is_wrong {
                continue;
            }
            let is_settled = one.is_settled(parties.culprit.as_ref(), at_ns);
            one.next_ns = at_ns.saturating_add(if is_settled { LATER_NS } else { SOON_NS });
            parties.culprit = parties.culprit.filter(|culprit| {
                is_settled && !is_held_up(culprit, report, open) && !may_work(report, culprit)
            });
            let culprit = path(&parties.culprit);
            let times = CpuTimes::read(Path::new("/proc"));
            let idle = times.idle_since(&one.times);
            let (pressure, lifted) = one.pressure(&self.reader, at_ns);
            let latest = pressure.as_ref().and_then(|pressure| pressure.latest.as_ref());
            let short = latest.and_then(Shortage::of);
            let paths = (one.victim.1.as_deref(), culprit.as_deref());
            let limit = short.as_ref().and_then(Shortage::limit).filter(|_| !lifted.limit);
            let blamed = (limit, pressure.as_ref().and_then(stopping).filter(|_| !lifted.quota));
            one.beside = Beside {
                advice: Some(advice(&self.reader, report, &parties, paths, (blamed, idle))),
                pressure,
                advised_culprit: parties.culprit.filter(|_| culprit.is_some()),
                advised_interrupt: parties.interrupt,
            };
            one.times = times;
            found.push((report.id, one.beside.clone()));
        }
        found
    }

    /// What is known beside one that closed: settings as they were while it was open, pressure as it is now.
    pub fn close(&mut self, id: u64, at_ns: u64) -> Option<Beside> {
        let one = self.open.remove(&id)?;
        let (pressure, lifted) = one.pressure(&self.reader, at_ns);
        Some(closed(one.beside, pressure, lifted))
    }
}

/// What held the victim up and is lifted since: it did so all the same, and is not raised any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LiftedLimits {
    /// A limit of memory.
    limit: bool,
    quota: bool,
}

/// Keeps what is lifted since the look before.
fn keep_lifted(latest: &mut Pressure, before: Option<&Pressure>) -> LiftedLimits {
    LiftedLimits {
        limit: keep_lifted_limit(latest, before),
        quota: keep_lifted_quota(latest, before),
    }
}

/// A quota that stopped the victim for longer than the one that is left, or that stopped it where none is left.
fn keep_lifted_quota(latest: &mut Pressure, before: Option<&Pressure>) -> bool {
    let stopped_ms = |quota: &Throttled| quota.throttled_ms.unwrap_or(0.0);
    let before = before.and_then(|before| before.quota.as_ref());
    let Some(before) = before.filter(|one| one.is_known() && stopped_ms(one) > 0.0) else {
        return false;
    };
    let is_there = latest.quota.as_ref().is_some_and(|now| {
        let is_same = now.of == before.of && now.above == before.above;
        now.is_known() && (is_same || stopped_ms(now) > stopped_ms(before))
    });
    if !is_there {
        latest.quota = Some(before.clone());
    }
    !is_there
}

/// A limit that was hit, where none of those that are left holds the victim up.
fn keep_lifted_limit(latest: &mut Pressure, before: Option<&Pressure>) -> bool {
    if Shortage::of(latest).is_some_and(|short| short.limit().is_some()) {
        return false;
    }
    let is_there = |one: &&LimitHits| {
        let mut now = latest.limits.iter().flatten();
        now.any(|other| other.of == one.of && other.kind == one.kind)
    };
    let before = before.iter().flat_map(|before| before.limits.iter().flatten());
    let lifted: Vec<_> = before.filter(|one| !is_there(one)).cloned().collect();
    let is_lifted = !lifted.is_empty();
    if is_lifted {
        latest.limits.get_or_insert_default().extend(lifted);
    }
    is_lifted
}

/// The label of the cgroup whose CPU quota stops the victim, where that is known.
fn stopping(pressure: &IncidentPressure) -> Option<&str> {
    let quota = pressure.latest.as_ref().unwrap_or(&pressure.opening).quota.as_ref();
    quota.filter(|quota| quota.is_known()).map(|quota| &*quota.of)
}

/// What was found last, with the pressure at the close. Another limit or quota may be to blame by then than the one that
/// commands raise, or that limit may be lifted.
fn closed(mut beside: Beside, pressure: Option<IncidentPressure>, lifted: LiftedLimits) -> Beside {
    let blamed = |pressure: &Option<IncidentPressure>| {
        let short = Shortage::of(pressure.as_ref()?.latest.as_ref()?)?;
        short.limit().map(|limit| (limit.of.clone(), limit.kind))
    };
    if (lifted.limit || blamed(&pressure) != blamed(&beside.pressure))
        && let Some(advice) = &mut beside.advice
    {
        advice.retain(|one| one.remedy != Remedy::MemoryLimits);
    }
    let stops = |pressure: &Option<IncidentPressure>| {
        pressure.as_ref().and_then(stopping).map(str::to_owned)
    };
    if (lifted.quota || stops(&pressure) != stops(&beside.pressure))
        && let Some(advice) = &mut beside.advice
    {
        advice.retain(|one| one.remedy != Remedy::RaiseQuota);
    }
    Beside { pressure, ..beside }
}

impl WatchedIncident {
    /// Whether its first culprit has been that for long enough, at this time, ns.
    fn is_settled(&mut self, culprit: Option<&Name>, at_ns: u64) -> bool {
        if self.leading.0.as_ref() != culprit {
            self.leading = (culprit.cloned(), at_ns);
        }
        at_ns.saturating_sub(self.leading.1) >= SETTLED_NS
    }

    /// What pressure there was since the incident opened, and what in it is lifted since.
    fn pressure(
        &self,
        reader: &SetupReader,
        at_ns: u64,
    ) -> (Option<IncidentPressure>, LiftedLimits) {
        let mut lifted = LiftedLimits::default();
        let (Some(opening), Some(path)) = (&self.opening, &self.victim.1) else {
            return (None, lifted);
        };
        let later = (opening.at_ns < at_ns).then(|| reader.pressure(path, at_ns));
        let latest = later.map(|later| Pressure::of(Some(opening), &later));
        // Of a cgroup that is gone, what was seen last counts.
        let is_known = |latest: &Pressure| {
            latest.resources().next().is_some() || latest.quota.is_some() || latest.limits.is_some()
        };
        let before = || self.beside.pressure.as_ref().and_then(|before| before.latest.clone());
        let latest = latest.filter(is_known).map(|mut latest| {
            lifted = keep_lifted(&mut latest, before().as_ref());
            latest
        });
        let latest = latest.or_else(before);
        (Some(IncidentPressure { opening: Pressure::of(None, opening), latest }), lifted)
    }
}

/// The memory limit and the CPU quota that are to blame.
type BlamedLimits<'a> = (Option<&'a LimitHits>, Option<&'a str>);

fn advice(
    reader: &SetupReader,
    report: &Report,
    parties: &Parties,
    (victim, culprit): (Option<&Path>, Option<&Path>),
    (blamed, idle): (BlamedLimits<'_>, Vec<(u32, f64)>),
) -> Vec<Advice> {
    let (limit, quota) = blamed;
    let mut remedies = report.main.remedies.clone();
    if limit.is_some() && !remedies.contains(&Remedy::MemoryLimits) {
        remedies.push(Remedy::MemoryLimits);
    }
    let thread_of = |culprit: &Name| {
        let mut threads = report.threads_of(Side::Culprit, (&report.main.subject, culprit));
        threads.find(|one| one.pid > 0).map(|one| one.pid)
    };
    let meeting = Meeting {
        victim,
        culprit,
        culprit_tid: parties.culprit.as_ref().and_then(thread_of),
        interrupt: parties.interrupt.as_deref(),
        quota,
        memory: limit.map(|limit| (limit.kind, &*limit.of)),
        disk: parties.disk.as_deref(),
        is_write: parties.is_write,
        ..Meeting::default()
    };
    advise(&remedies, &reader.setup(&meeting, idle))
}

#[cfg(test)]
mod tests {
    use noise_analysis::{Episode, Process, Time, made};
    use noise_common::charge::Cause;
    use noise_host::resolve::cgroup::Mounts;
    use noise_model::memory::LimitKind;
    use noise_model::pressure::{ResourcePressure, Stalled};

    use super::*;

    #[test]
    fn a_limit_that_is_not_to_blame_at_the_close_is_not_raised() {
        let pressure = |hits: [(&str, LimitKind, u64); 2]| {
            let hit = |(of, kind, hits): (&str, LimitKind, u64)| LimitHits {
                of: of.to_owned(),
                is_own: of == "web.service",
                kind,
                bytes: 64 << 20,
                hits,
                refaulted: None,
                swapped_in: None,
                gone: None,
            };
            let some = Stalled { avg10_percent: 50.0, stalled_ms: Some(5_000.0) };
            let latest = Pressure {
                span_ns: Some(10_000_000_000),
                memory: Some(ResourcePressure { some, full: None }),
                limits: Some(hits.map(hit).into()),
                ..Pressure::default()
            };
            Some(IncidentPressure { opening: Pressure::default(), latest: Some(latest) })
        };
        let of = |own, slice| {
            let own = ("web.service", LimitKind::High, own);
            pressure([own, ("web.slice", LimitKind::Max, slice)])
        };
        let raise = Advice {
            commands: vec!["systemctl set-property web.slice MemoryMax=128M".to_owned()],
            ..Advice::plain(Remedy::MemoryLimits)
        };
        let advice = vec![raise, Advice::plain(Remedy::FasterDevice)];
        let none = LiftedLimits::default();
        let looked_at =
            Beside { pressure: of(90, 100), advice: Some(advice.clone()), ..Beside::default() };
        assert_eq!(
            closed(looked_at.clone(), of(100, 110), none).advice.as_deref(),
            Some(&advice[..])
        );
        let other = closed(looked_at.clone(), of(120, 110), none);
        assert_eq!((other.advice.as_deref(), &other.pressure), (Some(&advice[1..]), &of(120, 110)));
        assert_eq!(closed(looked_at.clone(), None, none).advice.as_deref(), Some(&advice[1..]));
        // One that was lifted meanwhile has no reading any more, and is not to be set again.
        let lifted = |slice| {
            let mut latest = of(0, slice).unwrap().latest.unwrap();
            latest.limits.as_mut().unwrap().remove(0);
            let is_lifted = keep_lifted_limit(&mut latest, of(90, 100).unwrap().latest.as_ref());
            let hits: Vec<_> = latest.limits.iter().flatten().map(|one| one.hits).collect();
            (is_lifted, hits)
        };
        assert_eq!(lifted(3), (true, vec![3, 90]));
        assert_eq!(lifted(110), (false, vec![110]), "another one is hit now");
        let lifted = LiftedLimits { limit: true, quota: false };
        assert_eq!(closed(looked_at, of(100, 110), lifted).advice.as_deref(), Some(&advice[1..]));
    }

    #[test]
    fn a_quota_that_was_lifted_stays_the_cause_and_is_not_raised_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let write = |cgroup: &str, quota: &str, throttled_us: u64| {
            let cgroup = path.join(cgroup);
            std::fs::create_dir_all(&cgroup).unwrap();
            std::fs::write(cgroup.join("cpu.max"), format!("{quota} 100000\n")).unwrap();
            let stat = format!("nr_periods 90\nnr_throttled 80\nthrottled_usec {throttled_us}\n");
            std::fs::write(cgroup.join("cpu.stat"), stat).unwrap();
            std::fs::write(cgroup.parent().unwrap().join("cgroup.subtree_control"), "cpu").unwrap();
        };
        let mut mounts = Mounts::default();
        mounts.unified = Some(path.to_owned());
        let reader = SetupReader::new(mounts, path, path);
        let mut looking = Looking { reader, open: BTreeMap::new() };
        let mut report = report(1, "/web.slice/web", "/web.slice/web");
        report.main.culprits[0].cause = Cause::Throttle;
        report.main.remedies = vec![Remedy::RaiseQuota];
        let mut look = |own: &str, own_us: u64, slice: &str, slice_us: u64, second: u64| {
            write("web.slice", slice, slice_us);
            write("web.slice/web", own, own_us);
            let mut find = |label: &str| Some(PathBuf::from(label));
            let at_ns = second * 1_000_000_000;
            let found = looking.look(&[&report], at_ns, &mut find, &|_, _| false);
            let (_, beside) = found.into_iter().next().unwrap();
            let latest = beside.pressure.unwrap().latest;
            let quota = latest.and_then(|latest| latest.quota).map(|quota| quota.name());
            let advice = beside.advice.unwrap();
            (quota.unwrap_or_default(), advice.iter().any(|one| !one.commands.is_empty()))
        };
        let own = |raises| ("its own CPU quota".to_owned(), raises);
        // Below one that does less, and below none: both are known from the begin on.
        look("50000", 0, "80000", 0, 1);
        assert_eq!(look("50000", 900_000, "80000", 100_000, 3), own(true));
        assert_eq!(look("max", 950_000, "80000", 150_000, 5), own(false));
        assert_eq!(look("max", 950_000, "max", 150_000, 10), own(false), "it stays");
        let slice = SetupReader::plain_label(Path::new("/web.slice"));
        let slice = format!("the CPU quota of {slice}, its parent");
        assert_eq!(look("max", 950_000, "80000", 1_300_000, 30), (slice, true));
        // It is set again, and stops it again.
        assert_eq!(look("50000", 2_000_000, "max", 1_300_000, 40), own(true));
        let closing = |looking: &mut Looking| looking.close(1, 42_000_000_000).unwrap();
        write("web.slice/web", "max", 2_000_000);
        let closed = closing(&mut looking);
        let latest = closed.pressure.and_then(|pressure| pressure.latest).unwrap();
        assert_eq!(latest.quota.map(|quota| quota.name()), Some(own(true).0));
        assert!(closed.advice.unwrap().iter().all(|one| one.remedy != Remedy::RaiseQuota));
    }

    /// An incident of one that waits for a CPU that another one has.
    fn report(id: u64, victim: &str, culprit: &str) -> Report {
        let time = Time { seconds: 1.0, share: 0.5 };
        let main = Episode {
            culprits: vec![made::culprit(culprit, Cause::Foreign, time)],
            remedies: vec![Remedy::CpuWeight, Remedy::SchedulingPolicy],
            ..made::blank(victim)
        };
        Report::new(id, true, main, Vec::new())
    }

    #[test]
    fn a_command_goes_as_soon_as_its_culprit_is_held_up_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir_all(path.join("shop")).unwrap();
        let mut mounts = Mounts::default();
        mounts.unified = Some(path.to_owned());
        let reader = SetupReader::new(mounts, path, path);
        let mut looking = Looking { reader, open: BTreeMap::new() };
        let (operator, by_hog) = (report(1, "/operator", "/shop"), report(2, "/shop", "/hog"));
        let mut look = |open: &[&Report], second: u64| {
            let mut find = |label: &str| Some(PathBuf::from(label));
            let found = looking.look(open, second * 1_000_000_000, &mut find, &|_, _| false);
            let of_first = found.into_iter().find(|(id, _)| *id == 1);
            (of_first.map(|(_, beside)| beside.advised_culprit), looking.advises())
        };
        assert_eq!(look(&[&operator], 1), (Some(None), false), "not settled");
        assert_eq!(look(&[&operator], 6), (Some(Some("/shop".into())), true));
        assert_eq!(look(&[&operator], 7), (None, true), "it is too soon to look again");
        assert_eq!(look(&[&operator, &by_hog], 8).0, Some(None));
        assert_eq!(look(&[&operator, &by_hog], 9), (None, false), "there is nothing to take back");
    }

    #[test]
    fn a_culprit_is_judged_by_the_thread_that_the_incident_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let write = |file: &str, text: &str| {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("shop/cgroup.procs", "42\n");
        write("shop/cgroup.threads", "42\n43\n");
        write("operator/cgroup.procs", "");
        for (tid, scheduled) in [(42, "50 1"), (43, "0 0"), (44, "50 1")] {
            let begin = "R 1 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0 1";
            let stat = format!("{tid} (a) {begin} 0 0 0 0 0 0 0 0 0 0 0 0 17 0 {scheduled} 0");
            write(&format!("{tid}/stat"), &stat);
            write(&format!("{tid}/status"), "Cpus_allowed_list:\t0\n");
        }
        let mut mounts = Mounts::default();
        mounts.unified = Some(path.to_owned());
        let reader = SetupReader::new(mounts, path, path);
        let commands = |tids: &[u32]| {
            let mut report = report(1, "/operator", "/shop");
            report.processes = tids.iter().map(|tid| named(*tid)).collect();
            let parties = report.main.parties();
            let paths = (Some(Path::new("/operator")), Some(Path::new("/shop")));
            let advice = advice(&reader, &report, &parties, paths, ((None, None), Vec::new()));
            advice.into_iter().flat_map(|one| one.commands).collect::<Vec<_>>()
        };
        assert_eq!(commands(&[0, 42]), ["chrt --other --pid 0 42"]);
        // The first process is none that is named, nor is one of another cgroup.
        for tids in [&[43, 42][..], &[44], &[]] {
            assert_eq!(commands(tids), [""; 0], "{tids:?}");
        }
    }

    #[test]
    fn what_is_beside_an_incident_is_of_the_one_that_it_is_about_by_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for (cgroup, percent) in [("db", 1), ("web", 7)] {
            std::fs::create_dir_all(path.join(cgroup)).unwrap();
            let stalls = format!("some avg10={percent}.00 avg60=0.00 avg300=0.00 total=9\n");
            std::fs::write(path.join(cgroup).join("cpu.pressure"), stalls).unwrap();
        }
        let mut mounts = Mounts::default();
        mounts.unified = Some(path.to_owned());
        let reader = SetupReader::new(mounts, path, path);
        let mut looking = Looking { reader, open: BTreeMap::new() };
        let mut look = |victim: &str, second: u64| {
            let mut find = |label: &str| Some(PathBuf::from(label));
            let report = report(1, victim, "/hog");
            let found = looking.look(&[&report], second * 1_000_000_000, &mut find, &|_, _| false);
            let pressure = found.into_iter().next()?.1.pressure?;
            let percent = |pressure: &Pressure| pressure.cpu.unwrap().some.avg10_percent;
            Some((percent(&pressure.opening), pressure.latest.as_ref().map(percent)))
        };
        assert_eq!(look("/db", 1), Some((1.0, None)));
        assert_eq!(look("/db", 2), None, "it is too soon to look again");
        assert_eq!(look("/db", 3), Some((1.0, Some(1.0))));
        assert_eq!(look("/web", 4), Some((7.0, None)), "at once, and from its own begin");
        assert_eq!(look("/web", 6), Some((7.0, Some(7.0))));
    }

    /// A thread of /shop that is named as a culprit.
    fn named(pid: u32) -> Process {
        Process {
            side: Side::Culprit,
            of: "/shop".into(),
            victim: Some("/operator".into()),
            pid,
            comm: "gzip".into(),
            process: None,
            command: None,
            waits: 1,
            ns: 1,
        }
    }

    #[test]
    fn a_culprit_settles_when_it_stays_the_first() {
        let (shop, hog): (Name, Name) = ("/shop".into(), "/hog".into());
        let mut one = WatchedIncident {
            victim: (None, None),
            opening: None,
            times: CpuTimes::default(),
            next_ns: 0,
            leading: (Some(Name::clone(&shop)), 0),
            beside: Beside::default(),
        };
        let second_ns = 1_000_000_000;
        assert!(!one.is_settled(Some(&shop), 2 * second_ns));
        assert!(!one.is_settled(Some(&hog), 5 * second_ns), "another one than before");
        assert!(!one.is_settled(Some(&hog), 9 * second_ns));
        assert!(one.is_settled(Some(&hog), 10 * second_ns));
        assert!(!one.is_settled(None, 20 * second_ns));
    }
}

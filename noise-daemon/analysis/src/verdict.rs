//! An incident as [`noise_verdict`] judges it: what its victim suffers from, and who else does.

use std::borrow::Cow;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_model::memory::LimitHits;
use noise_model::pressure::{Pressure, Throttled};
use noise_text::times::{of_day, second};
use noise_text::units;
use noise_verdict::{
    Account, Advice, Advised, ChargedCulprit, Disturbed, Finding, Shortage, Thread, Verdict,
    called, is_worth, judge_incident, lacking, leads, only_completes, stalled_for,
};

use super::culprits::Culprit;
use super::name::Name;
use super::process::{Process, Side};
use super::report::{Episode, Report};

/// An incident that goes on for longer than this has its date said.
const DATED: SignedDuration = SignedDuration::from_hours(20);

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

impl Process {
    /// As verdicts name it.
    pub fn thread(&self) -> Thread<'_> {
        Thread { name: &self.comm, tid: self.pid, pid: self.process }
    }
}

impl Episode {
    /// The part of the victim's time that is lost beyond what is usual, 0 to 1: seconds of delay in a second that it was
    /// disturbed. Where several threads wait at a time, 1 is a whole thread's time.
    pub fn severity(&self) -> f64 {
        self.lost_rate().clamp(0.0, 1.0)
    }

    /// Seconds of delay beyond what is usual in a second that it was disturbed.
    fn lost_rate(&self) -> f64 {
        self.lost_seconds / self.disturbed_seconds().max(1e-3)
    }

    /// Whom its first finding is about; `None` where no culprit is worth a finding.
    pub fn leading(&self) -> Option<&Culprit<Name>> {
        let nothing_beyond = self.nothing_beyond();
        let mut culprits = self.culprits.iter();
        let part = |one: &Culprit<Name>| one.part(nothing_beyond);
        let first = culprits.find(|one| is_worth(part(one), ns(one.time.seconds)));
        first.filter(|first| leads(part(first), self.culprits.iter().map(part)))
    }

    /// Who did most of it, as people call it, without its processes.
    fn by_whom(&self) -> &str {
        let only_completes =
            |one: &Culprit<Name>| only_completes(self.signal.signal(), one.cause, &one.culprit);
        // Who completes requests of a disk is not who keeps it busy.
        let by = self.leading().filter(|first| !only_completes(first));
        by.map_or("not known", |first| called(first.cause, &first.culprit))
    }

    fn is_stopped_by_quota(&self) -> bool {
        self.leading().is_some_and(|first| first.cause == Cause::Throttle)
    }

    fn disturbed<'a>(
        &'a self,
        report: &'a Report,
        advice: &'a [Advice],
        zone: &TimeZone,
    ) -> Disturbed<'a> {
        let nothing_beyond = self.nothing_beyond();
        let span = self.disturbed_seconds();
        // Single waits are known of CPUs alone.
        let is_cpu = self.signal == Signal::CgroupRunqueueWait;
        let threads = |side, of| match is_cpu {
            true => report.threads_of(side, (&self.subject, of)).map(Process::thread).collect(),
            false => Vec::new(),
        };
        let charged = self.culprits.iter().map(|one| ChargedCulprit {
            name: &one.culprit,
            cause: one.cause,
            ns: ns(one.time.seconds),
            beyond_ns: ns(one.beyond.seconds),
            part: one.part(nothing_beyond),
            threads: threads(Side::Culprit, &one.culprit),
        });
        let is_over = !report.open || !self.is_active();
        let is_charged = !self.culprits.is_empty();
        Disturbed {
            victim: &self.subject,
            threads: threads(Side::Victim, &self.subject),
            signal: self.signal.signal(),
            is_over,
            rose: self.headline().map(|headline| headline.rise()),
            when: self.when(is_over, zone),
            since_ns: u64::try_from(self.start.as_nanosecond()).unwrap_or(0),
            span_ns: ns(span),
            lost_ns: ns(self.lost_seconds),
            usual_ns: ns(self.before.lost * span),
            charged: charged.collect(),
            known_share: if is_charged { 1.0 - self.untracked.share } else { 0.0 },
            stalled: report.pressure_of(self).and_then(stalled_for),
            short: report.pressure_of(self).and_then(Shortage::of),
            quota: report.quota_of(self),
            advice,
            advised: Advised {
                culprit: report.beside.advised_culprit.as_deref(),
                interrupt: report.beside.advised_interrupt.as_deref(),
            },
        }
    }

    /// Since when, or for how long.
    fn when(&self, is_over: bool, zone: &TimeZone) -> String {
        let start = self.start;
        match is_over {
            true => format!("during {}", units::duration(self.disturbed_seconds() * 1e9)),
            false if self.end.duration_since(start) < DATED => {
                format!("since {}", of_day(start, zone))
            }
            false => format!("since {}", second(start, zone)),
        }
    }
}

impl Report {
    /// What was disturbed of the victim that it is about.
    fn of_victim(&self) -> impl Iterator<Item = &Episode> {
        self.of(&self.main.subject)
    }

    /// What was disturbed of a victim.
    fn of(&self, victim: &str) -> impl Iterator<Item = &Episode> {
        self.episodes().filter(move |one| *one.subject == *victim)
    }

    /// What one of its victims suffers from. The host was looked at for the one that it is about: others have no commands.
    pub fn findings_of(&self, victim: &str, zone: &TimeZone) -> Vec<Finding> {
        if *victim == *self.main.subject {
            return self.verdict_beside(&[], zone).findings;
        }
        let mut own: Vec<&Episode> = self.of(victim).collect();
        own.sort_by(|one, other| other.lost_seconds.total_cmp(&one.lost_seconds));
        let mut own = own.into_iter().map(|episode| episode.disturbed(self, &[], zone));
        let Some(worst) = own.next() else { return Vec::new() };
        judge_incident(&worst, &own.collect::<Vec<_>>(), &[]).findings
    }

    /// What of that cost it most: what the verdict begins with.
    pub fn worst(&self) -> &Episode {
        self.of_victim().fold(&self.main, |worst, one| {
            if one.lost_seconds > worst.lost_seconds { one } else { worst }
        })
    }

    /// All that it is about but what cost its victim most.
    pub fn others(&self) -> impl Iterator<Item = &Episode> {
        let worst = self.worst();
        self.episodes().filter(move |one| !std::ptr::eq(*one, worst))
    }

    /// The victims, each with what it lost beyond what is usual, seconds, and what cost it most: the one that it is about
    /// first, then the worst.
    pub fn victims(&self) -> Vec<(f64, &Episode)> {
        let mut victims: Vec<(f64, &Episode)> = Vec::new();
        for episode in self.episodes() {
            let lost = episode.lost_seconds.max(0.0);
            match victims.iter_mut().find(|(_, one)| one.subject == episode.subject) {
                Some((sum, worst)) => {
                    *sum += lost;
                    if episode.lost_seconds > worst.lost_seconds {
                        *worst = episode;
                    }
                }
                None => victims.push((lost, episode)),
            }
        }
        if let Some(others) = victims.get_mut(1..) {
            others.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        }
        victims
    }

    /// What its victim lacks, by what cost it most.
    pub fn resource(&self) -> Account {
        self.resource_of(self.worst())
    }

    /// Who did most of that, as people call it, without its processes.
    pub fn by_whom(&self) -> Cow<'_, str> {
        self.by_whom_of(self.worst())
    }

    /// Who did most of one part of it.
    pub fn by_whom_of<'a>(&self, episode: &'a Episode) -> Cow<'a, str> {
        match self.pressure_of(episode).and_then(Shortage::of) {
            Some(short) => short.culprit().name.into(),
            None => match self.quota_of(episode).filter(|_| episode.is_stopped_by_quota()) {
                Some(quota) => quota.into(),
                None => episode.by_whom().into(),
            },
        }
    }

    /// The limit that is to blame for it, as people call it, where memory is short because of one.
    pub fn limit(&self) -> Option<String> {
        let short = self.pressure_of(self.worst()).and_then(Shortage::of)?;
        short.limit().map(LimitHits::name)
    }

    /// Whom its first finding is about, where that is charged with a part of it: it is no one where memory is short.
    pub fn leading(&self) -> Option<&Culprit<Name>> {
        let worst = self.worst();
        let first = worst.leading()?;
        let is_short = self.pressure_of(worst).and_then(Shortage::of).is_some();
        let only_completes = only_completes(worst.signal.signal(), first.cause, &first.culprit);
        (!is_short && !only_completes).then_some(first)
    }

    /// What is lacking in one part of it.
    pub fn resource_of(&self, episode: &Episode) -> Account {
        let (cause, name) = episode
            .leading()
            .map_or((Cause::Untracked, ""), |first| (first.cause, &*first.culprit));
        let stalled = self.pressure_of(episode).and_then(stalled_for);
        lacking(episode.signal.signal(), stalled, cause, name)
    }

    /// What it is, who did it, and what can be done. Times are those of a zone.
    pub fn verdict(&self, zone: &TimeZone) -> Verdict {
        let victims = self.victims();
        let others = victims.iter().skip(1);
        let others: Vec<Disturbed<'_>> =
            others.map(|(_, episode)| episode.disturbed(self, &[], zone)).collect();
        self.verdict_beside(&others, zone)
    }

    /// The same with these other victims.
    fn verdict_beside(&self, others: &[Disturbed<'_>], zone: &TimeZone) -> Verdict {
        let (advice, worst) = (self.advice(), self.worst());
        let more = self.others().filter(|one| one.subject == worst.subject);
        let more: Vec<Disturbed<'_>> =
            more.map(|episode| episode.disturbed(self, &advice, zone)).collect();
        judge_incident(&worst.disturbed(self, &advice, zone), &more, others)
    }

    /// The verdict in its sentence.
    pub fn sentence(&self, zone: &TimeZone) -> String {
        self.verdict(zone).sentence
    }

    /// What one part of it is, in a sentence.
    pub fn sentence_of(&self, episode: &Episode, zone: &TimeZone) -> String {
        judge_incident(&episode.disturbed(self, &[], zone), &[], &[]).sentence
    }

    /// The part of its victim's time that is lost beyond what is usual, 0 to 1, by what cost it most, which is what the
    /// sentence is about: see [`Episode::severity`]. Of other victims, [`Report::victims`] says more.
    pub fn severity(&self) -> f64 {
        self.worst().severity()
    }

    /// How bad it is beside others: what all its victims lose. Of a victim that loses more than a whole thread's time, what is
    /// beyond that counts by its logarithm, as one thread may have many requests to a disk at once.
    pub fn gravity(&self) -> f64 {
        let of = |(_, worst): (f64, &Episode)| match worst.lost_rate() {
            lost if lost > 1.0 => 1.0 + lost.ln(),
            lost => lost.max(0.0),
        };
        self.victims().into_iter().map(of).sum()
    }

    /// What the CPU quota is called that stopped a victim, as far as the pressure of its cgroup says so.
    fn quota_of(&self, episode: &Episode) -> Option<String> {
        let pressure = self.beside.pressure.as_ref();
        let pressure = pressure.filter(|_| episode.subject == self.main.subject)?;
        let latest = pressure.latest.as_ref().unwrap_or(&pressure.opening);
        latest.quota.as_ref().map(Throttled::name)
    }

    /// The pressure that says what the sleeps of an episode were for: known of the cgroup that it is about.
    fn pressure_of(&self, episode: &Episode) -> Option<&Pressure> {
        if episode.subject != self.main.subject || episode.signal != Signal::UninterruptibleWait {
            return None;
        }
        self.beside.pressure.as_ref()?.latest.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noise_model::memory::LimitKind;
    use noise_model::pressure::{ResourcePressure, Stalled};

    use super::*;
    use crate::{Beside, Culprit, Ending, IncidentPressure, Name, Remedy, Time};
    use crate::{Overview, made};

    fn culprit(name: &str, cause: Cause, seconds: f64) -> Culprit<Name> {
        let time = Time { seconds, share: seconds };
        Culprit { culprit: name.into(), cause, time, beyond: time }
    }

    fn pressure(io_ms: f64, memory_ms: f64) -> Option<IncidentPressure> {
        let of = |stalled_ms| {
            let some = Stalled { avg10_percent: 1.0, stalled_ms: Some(stalled_ms) };
            Some(ResourcePressure { some, full: None })
        };
        let latest = Pressure {
            span_ns: Some(10_000_000_000),
            io: of(io_ms),
            memory: of(memory_ms),
            ..Pressure::default()
        };
        Some(IncidentPressure { opening: Pressure::default(), latest: Some(latest) })
    }

    #[test]
    fn a_quota_is_what_stops_a_victim_and_not_its_neighbour() {
        let mut report = made::report();
        report.main.culprits =
            vec![culprit("throttle", Cause::Throttle, 0.8), culprit("/b", Cause::Foreign, 0.1)];
        report.main.remedies = vec![Remedy::RaiseQuota, Remedy::CpuWeight];
        assert_eq!(report.resource(), Account::Quota);
        let verdict = report.verdict(&TimeZone::UTC);
        let sentence = &verdict.sentence;
        assert!(sentence.starts_with("/web waits for a CPU: "), "{sentence}");
        assert!(sentence.ends_with(", stopped by its own CPU quota (80.0 %)"), "{sentence}");
        let [quota, other] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
        assert_eq!(quota.remedies, [Advice::plain(Remedy::RaiseQuota)]);
        assert_eq!(&*report.by_whom(), "its own CPU quota");
        assert_eq!((other.resource, &*other.culprit.name), (Account::Cpu, "/b"));
    }

    #[test]
    fn commands_are_those_of_the_culprit_whose_settings_were_read() {
        let mut report = made::report();
        let ready =
            Advice { commands: vec!["lower it".to_owned()], ..Advice::plain(Remedy::CpuWeight) };
        let command = |report: &Report| {
            let verdict = report.verdict(&TimeZone::UTC);
            let ready = verdict.findings.first().and_then(Finding::ready);
            ready.map(|one| one.commands.clone())
        };
        report.beside.advice = Some(vec![ready.clone()]);
        // Of an older noised, it is not known whose they are.
        assert_eq!(command(&report), None);
        report.beside.advised_culprit = Some("/backup".into());
        assert_eq!(command(&report), Some(ready.commands));
        report.beside.advised_culprit = Some("/innocent".into());
        assert_eq!(command(&report), None);
    }

    #[test]
    fn the_sentence_and_all_surfaces_are_about_the_first_finding() {
        // What opened it is not what costs most.
        let mut report = made::report();
        let disk = Episode {
            signal: Signal::UninterruptibleWait.into(),
            culprits: vec![culprit("/writer", Cause::Foreign, 0.9)],
            lost_seconds: 5.0,
            ..made::episode()
        };
        report.also = vec![disk];
        report.beside.pressure = pressure(4_000.0, 100.0);
        let verdict = report.verdict(&TimeZone::UTC);
        let first = &verdict.findings[0];
        assert_eq!((first.resource, &*first.culprit.name), (Account::Disk, "/writer"));
        assert!(verdict.sentence.starts_with("/web waits for disks: "), "{}", verdict.sentence);
        assert!(verdict.sentence.contains(", until /writer was done"), "{}", verdict.sentence);
        assert_eq!((report.resource(), &*report.by_whom()), (Account::Disk, "/writer"));
        // One that did next to nothing is named nowhere.
        report.also.clear();
        report.main.culprits = vec![culprit("/innocent", Cause::Foreign, 0.004)];
        let verdict = report.verdict(&TimeZone::UTC);
        assert_eq!(
            (&*verdict.findings[0].culprit.name, &*report.by_whom()),
            ("not known", "not known")
        );
        assert!(verdict.sentence.ends_with(", by whom is not known"), "{}", verdict.sentence);
    }

    #[test]
    fn the_root_cgroup_is_named_by_its_processes() {
        let process = |side, pid: u32, comm: &str| Process {
            side,
            of: "/".into(),
            victim: None,
            pid,
            comm: comm.into(),
            process: (pid > 0).then_some(pid),
            command: None,
            waits: 1,
            ns: 5,
        };
        let mut report = made::report();
        report.main.culprits = vec![culprit("/", Cause::Foreign, 0.8)];
        let by = |report: &Report| {
            let verdict = report.verdict(&TimeZone::UTC);
            (verdict.sentence, verdict.findings[0].culprit.clone())
        };
        let (sentence, unknown) = by(&report);
        assert!(
            sentence.ends_with(", held up by processes of the root cgroup (80.0 %)"),
            "{sentence}"
        );
        assert_eq!((unknown.cgroup.as_deref(), unknown.pid), (Some("/"), None));
        report.processes = vec![process(Side::Culprit, 777, "gzip")];
        let (sentence, one) = by(&report);
        assert!(
            sentence.ends_with(", held up by gzip 777 of the root cgroup (80.0 %)"),
            "{sentence}"
        );
        assert_eq!((one.pid, one.tid, one.cgroup.as_deref()), (Some(777), Some(777), Some("/")));
        report.processes.push(process(Side::Culprit, 0, "others in no cgroup"));
        let (sentence, _) = by(&report);
        assert!(sentence.contains("gzip 777 and others of the root cgroup (80.0 %)"), "{sentence}");
        report.main.subject = "/".into();
        report.main.culprits = vec![culprit("/hog", Cause::Foreign, 0.8)];
        report.processes = vec![process(Side::Victim, 0, "kernel threads")];
        let (sentence, _) = by(&report);
        let begin = "processes of the root cgroup, above all kernel threads, wait for a CPU: ";
        assert!(sentence.starts_with(begin), "{sentence}");
    }

    #[test]
    fn pressure_says_what_sleeps_were_for() {
        let mut report = made::report();
        report.main.signal = Signal::UninterruptibleWait.into();
        report.main.culprits = vec![culprit("kworker/0:1", Cause::Kthread, 0.8)];
        let mut of = |pressure| {
            report.beside = Beside { pressure, ..Beside::default() };
            report.resource()
        };
        assert_eq!(of(None), Account::Unknown);
        assert_eq!(of(pressure(100.0, 0.0)), Account::Unknown);
        assert_eq!(of(pressure(4_000.0, 100.0)), Account::Disk);
        assert_eq!(of(pressure(4_000.0, 3_000.0)), Account::Memory);
        assert_eq!(report.by_whom(), "not known", "of memory, who ends a sleep is not who took it");
        report.main.culprits = vec![culprit("block", Cause::Softirq, 0.8)];
        assert_eq!((report.resource(), &*report.by_whom()), (Account::Memory, "not known"));
    }

    #[test]
    fn a_limit_of_memory_that_is_hit_meanwhile_is_the_culprit() {
        let mut report = made::report();
        report.main.signal = Signal::UninterruptibleWait.into();
        report.main.culprits = vec![culprit("block", Cause::Softirq, 0.8)];
        let limit = LimitHits {
            of: "/web".to_owned(),
            is_own: true,
            kind: LimitKind::Old,
            bytes: 8 << 20,
            hits: 30,
            refaulted: Some(900),
            swapped_in: None,
            gone: Some(1_000),
        };
        let mut of = |mut pressure: Option<IncidentPressure>| {
            let latest = pressure.as_mut().and_then(|one| one.latest.as_mut()).unwrap();
            latest.limits = Some(vec![limit.clone()]);
            report.beside = Beside { pressure, ..Beside::default() };
            let incidents = vec![Arc::new(report.clone())];
            let overview = Overview { incidents, ..Overview::default() };
            let short = overview.short_of_memory("/web").map(Cow::into_owned);
            (report.resource(), short, report.sentence(&TimeZone::UTC))
        };
        let (resource, by, sentence) = of(pressure(4_000.0, 3_000.0));
        let name = "its own memory limit of 8 MiB";
        assert_eq!((resource, by.as_deref()), (Account::Memory, Some(name)));
        assert!(sentence.starts_with("/web waits for memory: "), "{sentence}");
        assert!(sentence.ends_with(", because of its own memory limit of 8 MiB"), "{sentence}");
        // Of a file that is larger than its limit, a stream is for the disk.
        let (resource, by, _) = of(pressure(4_000.0, 100.0));
        assert_eq!((resource, by), (Account::Disk, None));
    }

    #[test]
    fn victims_are_ranked_behind_that_which_it_is_about() {
        let other = |subject: &str, lost_seconds| Episode {
            subject: subject.into(),
            lost_seconds,
            ..made::episode()
        };
        let mut report = made::report();
        report.also = vec![other("/a", 1.0), other("/b", 5.0), other("/a", 1.5), other("/c", -1.0)];
        let victims = report.victims();
        let victims: Vec<_> = victims.iter().map(|(lost, one)| (&*one.subject, *lost)).collect();
        assert_eq!(victims, [("/web", 1.0), ("/b", 5.0), ("/a", 2.5), ("/c", 0.0)]);
        let sentence = report.sentence(&TimeZone::UTC);
        assert!(sentence.ends_with("; also disturbed: /b, /a and 1 more"), "{sentence}");
    }

    #[test]
    fn each_victim_has_its_findings_and_commands_are_those_of_the_first() {
        let other = |signal: Signal, lost_seconds, by: &str| Episode {
            subject: "/other".into(),
            signal: signal.into(),
            lost_seconds,
            culprits: vec![culprit(by, Cause::Foreign, 0.8)],
            ..made::episode()
        };
        let mut report = made::report();
        report.also = vec![
            other(Signal::CgroupRunqueueWait, 1.0, "/backup"),
            other(Signal::BlockQueueWait, 2.0, "/writer"),
        ];
        let ready =
            Advice { commands: vec!["lower it".to_owned()], ..Advice::plain(Remedy::CpuWeight) };
        report.beside.advice = Some(vec![ready]);
        report.beside.advised_culprit = Some("/backup".into());
        let of = |victim: &str| report.findings_of(victim, &TimeZone::UTC);
        let verdict = report.verdict(&TimeZone::UTC);
        assert_eq!(of("/web"), verdict.findings[..1]);
        assert_eq!(verdict.findings[1].victim.as_deref(), Some("/other"));
        let also = "; also disturbed: /other (above all by /writer)";
        assert!(verdict.sentence.ends_with(also), "{}", verdict.sentence);
        assert!(of("/web")[0].ready().is_some());
        let others: Vec<_> =
            of("/other").iter().map(|one| (one.resource, one.culprit.name.clone())).collect();
        assert_eq!(
            others,
            [(Account::Disk, "/writer".to_owned()), (Account::Cpu, "/backup".to_owned())]
        );
        assert!(of("/other").iter().all(|one| one.ready().is_none()));
        assert!(of("/none").is_empty());
    }

    #[test]
    fn severity_is_a_part_of_the_time() {
        let mut report = made::report();
        (report.main.seconds, report.main.lost_seconds) = (10.0, 2.5);
        assert_eq!(report.severity(), 0.25);
        // The sentence is about one victim, and so is this.
        let worse = Episode { lost_seconds: 9.0, seconds: 10.0, ..made::episode() };
        report.also = vec![Episode { subject: "/other".into(), ..worse.clone() }];
        assert_eq!(report.severity(), 0.25);
        report.also.push(worse);
        assert_eq!(report.severity(), 0.9);
        // What cost little, in a short time that is over, says nothing of what goes on.
        let ended = Some(Ending::Over);
        let short = Episode { lost_seconds: 1.0, seconds: 1.0, ending: ended, ..made::episode() };
        report.also = vec![short];
        assert_eq!((report.severity(), report.victims()[0].1.severity()), (0.25, 0.25));
        report.also.clear();
        report.main.lost_seconds = 30.0;
        assert_eq!(report.severity(), 1.0);
        (report.main.seconds, report.main.lost_seconds) = (0.0, -1.0);
        assert_eq!(report.severity(), 0.0);
    }

    #[test]
    fn what_is_kept_goes_by_what_all_victims_lose() {
        let of = |lost: &[(&str, f64)]| {
            let one = |(subject, lost_seconds): &(&str, f64)| Episode {
                subject: (*subject).into(),
                lost_seconds: *lost_seconds,
                seconds: 10.0,
                ..made::episode()
            };
            let mut report = made::report();
            report.main = one(&lost[0]);
            report.also = lost[1..].iter().map(one).collect();
            report.gravity()
        };
        assert_eq!(of(&[("/a", 2.5)]), 0.25);
        // Each loses a whole thread's time or more, and one is worse than the other.
        assert!(of(&[("/a", 40.0)]) > of(&[("/a", 10.0)]));
        assert_eq!(of(&[("/a", 2.5), ("/b", 5.0), ("/a", 1.0), ("/c", -1.0)]), 0.75);
        // A hundred requests at once are no hundred victims.
        assert!(of(&[("vda read", 1_000.0)]) < of(&[("/a", 10.0); 1]) + 5.0);
    }

    #[test]
    fn an_end_is_said_by_how_long_it_lasted() {
        let mut report = made::report();
        let since = report.sentence(&TimeZone::UTC);
        assert!(since.contains(" since 00:00:00 UTC, held up by /backup (80.0 %)"), "{since}");
        report.open = false;
        report.main.ending = Some(Ending::Over);
        report.main.seconds = 90.0;
        let over = report.sentence(&TimeZone::UTC);
        assert!(
            over.starts_with("/web waited for a CPU: ") && over.contains(" during 1.50 min, "),
            "{over}"
        );
    }
}

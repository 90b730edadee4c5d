//! PURE: incidents and long waits as text for a person. Times are those of a zone.

pub mod list;
mod listing;

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::tz::TimeZone;
use noise_analysis::{
    Episode, KeptTrace, Level, PRESSURE_HEADING, Process, Report, ReportedOutlier, Side,
    StartCommand, Time, Watched,
};
use noise_model::labels::spoken_briefly;
use noise_model::words::why;
use noise_text::clean::clean;
use noise_text::times::moment;
use noise_text::units::{duration, known_duration, share};

use noise_serve::OutliersDocument;
use noise_verdict::{Finding, Verdict, called};

pub use self::listing::Listing;
use crate::trend::held_up;
use crate::victim::prose;

/// Culprits, and remedies, that a page has room for.
const SHOWN: usize = 8;

/// The incidents, each a block, with what was kept of them. Sentences wrap at so many columns.
pub fn incidents(listing: &Listing, zone: &TimeZone, columns: usize) -> String {
    let Listing { incidents, traces, trends } = listing;
    if incidents.is_empty() {
        return "no incidents\n".to_owned();
    }
    let block = |report: &Arc<Report>| {
        let trace = traces.iter().find(|trace| trace.incident == report.id);
        let trend = trends.iter().find(|trend| report.open && trend.subject == report.main.subject);
        let trend = trend.map(|trend| format!("  {}\n", held_up(trend))).unwrap_or_default();
        block(report, &trend, zone, columns) + &trace.map(|trace| kept(trace)).unwrap_or_default()
    };
    incidents.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// What was kept of an incident, and the longest waits in it.
fn kept(trace: &KeptTrace) -> String {
    let mut text = format!("  {}\n", clean(&trace.sentence()));
    for wait in &trace.waits {
        let _ = writeln!(text, "    {}", clean(wait));
    }
    text
}

/// The long waits, each a block.
pub fn outliers(document: &OutliersDocument, zone: &TimeZone) -> String {
    let OutliersDocument { outliers, commands, .. } = document;
    if outliers.is_empty() {
        return "no long waits\n".to_owned();
    }
    outliers.iter().map(|outlier| wait(outlier, commands, zone)).collect::<Vec<_>>().join("\n")
}

/// An incident, with a line on how its subject was held up.
fn block(report: &Report, trend: &str, zone: &TimeZone, columns: usize) -> String {
    // What the sentence is about, which need not be what opened it.
    let worst = report.worst();
    let verdict = report.verdict(zone);
    let mut text = String::new();
    prose(&mut text, &format!("#{} {}", report.id, clean(&verdict.sentence)), columns);
    let start = moment(report.start(), zone);
    // The rest may go on for longer.
    let calm = if report.open && !worst.is_active() { ", calm now" } else { "" };
    let (lasted, ending) = (report.lasted(), report.standing());
    let _ = writeln!(text, "  {start}, {lasted:.1} s, {ending}{calm}");
    let (lost, part) = (worst.lost_seconds, share(report.severity()));
    let _ = writeln!(text, "  {lost:.3} s beyond the usual, {part} of the victim's time");
    first_to_try(&mut text, &verdict, columns);
    text.push_str(trend);
    let _ = writeln!(text, "    {:<8}{:>12}  ->{:>12}", "", "before", "during");
    for (name, of) in figures(worst.signal) {
        let (before, after) = (of(&worst.before), of(&worst.after));
        let _ = writeln!(text, "    {name:<8}{before:>12}  ->{after:>12}");
    }
    culprits(&mut text, worst);
    processes(&mut text, report);
    pressure(&mut text, report);
    remedies(&mut text, &verdict);
    if !report.also.is_empty() {
        text.push_str("  also disturbed\n");
    }
    for episode in report.others() {
        joined(&mut text, &clean(&report.sentence_of(episode, zone)), episode, columns);
    }
    if report.untold > 0 {
        let _ = writeln!(text, "    and {} more", report.untold);
    }
    text
}

/// The remedy against the first culprit, where this host has commands for it; else what to look at.
fn first_to_try(text: &mut String, verdict: &Verdict, columns: usize) {
    let Some(one) = verdict.findings.first().and_then(Finding::ready) else {
        if let Some(next) = &verdict.next {
            prose(text, &format!("  Next: {}.", clean(next)), columns);
        }
        return;
    };
    let now = one.now.as_ref().map(|now| format!(" ({})", clean(now))).unwrap_or_default();
    prose(text, &format!("  To try first{now}:"), columns);
    // A command stays in one line, to be copied.
    for command in &one.commands {
        let _ = writeln!(text, "    # {}", clean(command));
    }
    if !one.undo.is_empty() {
        text.push_str("  To take it back:\n");
    }
    for command in &one.undo {
        let _ = writeln!(text, "    # {}", clean(command));
    }
}

/// One of those that are disturbed as well.
fn joined(text: &mut String, sentence: &str, episode: &Episode, columns: usize) {
    prose(text, &format!("    {sentence}"), columns);
    let so_far = if episode.is_active() { " so far" } else { "" };
    let (seconds, lost) = (episode.disturbed_seconds(), episode.lost_seconds);
    let _ = writeln!(text, "      {seconds:.1} s{so_far}, {lost:.3} s lost");
}

/// A figure that is shown for before and during: its name, and its text.
type LevelFigure = (&'static str, fn(&Level) -> String);

fn figures(of: Watched) -> &'static [LevelFigure] {
    match of {
        Watched::Signal(_) => &[
            ("median", |level| known_duration(level.p50_ns)),
            ("p99", |level| known_duration(level.p99_ns)),
            ("mean", |level| level.mean_ns.map_or_else(|| known_duration(None), duration)),
            ("rate", |level| format!("{:.1}/s", level.rate)),
        ],
        Watched::Interruption => &[("taken", taken)],
    }
}

/// Of one CPU's time.
fn taken(level: &Level) -> String {
    format!("{:.1} %", level.lost * 100.0)
}

fn culprits(text: &mut String, episode: &Episode) {
    if episode.culprits.is_empty() {
        text.push_str("  culprits unknown\n");
        return;
    }
    let _ = writeln!(text, "  {:<20}{:>12}", "culprits", "excess");
    let (named, others) = episode.named_culprits(SHOWN);
    for culprit in named {
        let name = called(culprit.cause, &culprit.culprit);
        let name = format!("{} ({})", clean(name), why(culprit.cause));
        line(text, culprit.time, Some(culprit.beyond), &name);
    }
    for (time, name) in [(others, "others"), (episode.untracked, "not known")] {
        if time.seconds > 0.0 {
            line(text, time, None, name);
        }
    }
}

/// The threads behind them, victim by victim.
fn processes(text: &mut String, report: &Report) {
    for own in report.processes.chunk_by(|one, other| one.victim == other.victim) {
        let victim = own.first().and_then(|one| one.victim.as_deref());
        let whose = victim
            .map_or_else(String::new, |victim| format!(" of {}", clean(spoken_briefly(victim))));
        let _ = writeln!(text, "  threads, of single long waits{whose}");
        for process in own {
            let Process { side, of, ns, waits, .. } = process;
            let how = match side {
                Side::Culprit => "had the CPU",
                Side::Victim => "waited",
            };
            let (time, who) = (duration(*ns as f64), clean(spoken_briefly(of)));
            let words = process.words();
            let words = clean(&words);
            let _ = writeln!(text, "    {how:<11} {time:>9} of {waits:>3} waits  {who}: {words}");
        }
    }
}

fn line(text: &mut String, time: Time, beyond: Option<Time>, name: &str) {
    let cell = |time: Time| format!("{:.3} s {:>3.0} %", time.seconds, time.share * 100.0);
    let beyond = beyond.map(cell).unwrap_or_default();
    let _ = writeln!(text, "    {:>16}{beyond:>18}  {name}", cell(time));
}

fn pressure(text: &mut String, report: &Report) {
    let Some(pressure) = &report.beside.pressure else { return };
    let _ = writeln!(text, "  {PRESSURE_HEADING}");
    for line in pressure.lines() {
        let _ = writeln!(text, "    {}", clean(&line));
    }
}

fn remedies(text: &mut String, verdict: &Verdict) {
    let remedies = verdict.remedies();
    if remedies.is_empty() {
        return;
    }
    text.push_str("  remedies\n");
    for one in remedies.into_iter().take(SHOWN) {
        let advice = one.remedy.advice();
        let _ = writeln!(text, "    {}\n      {} {}", advice.setting, advice.effect, advice.cost);
        for line in one.lines() {
            let _ = writeln!(text, "      {}", clean(&line));
        }
    }
}

fn wait(outlier: &ReportedOutlier, commands: &[StartCommand], zone: &TimeZone) -> String {
    let time = |ns: u64| duration(ns as f64);
    let mut text = format!("{}  {}\n", moment(outlier.time, zone), clean(&outlier.sentence(time)));
    for part in outlier.parts(time) {
        let _ = writeln!(text, "  {}", clean(&part));
    }
    let wait = &outlier.wait;
    let mut pids: Vec<u32> = wait.parts.iter().map(|part| part.pid).chain([wait.pid]).collect();
    pids.sort_unstable();
    for command in commands.iter().filter(|one| pids.binary_search(&one.pid).is_ok()) {
        let _ = writeln!(
            text,
            "    {} {}: {}",
            clean(&command.comm),
            command.pid,
            clean(command.words())
        );
    }
    text
}

#[cfg(any(test, feature = "fixtures"))]
#[expect(clippy::unwrap_used, reason = "what only tests are made of fails by panicking")]
pub mod made {
    use std::sync::Arc;

    use noise_analysis::made::blank;
    use noise_analysis::{Cause, Culprit, Ending, Episode, Level, Remedy, Report, Time};

    pub fn culprit(culprit: &str, cause: Cause, seconds: f64, share: f64) -> Culprit<Arc<str>> {
        let beyond = Time { seconds: seconds / 2.0, share };
        Culprit { culprit: culprit.into(), cause, time: Time { seconds, share }, beyond }
    }

    pub fn episode(subject: &str) -> Episode {
        let before = Level {
            p50_ns: Some(12_288),
            p99_ns: Some(131_072),
            mean_ns: Some(20_000.0),
            rate: 210.0,
            lost: 0.0042,
        };
        let after = Level {
            p50_ns: Some(4_194_304),
            p99_ns: Some(16_777_216),
            mean_ns: Some(5_000_000.0),
            rate: 180.25,
            lost: 0.9,
        };
        Episode {
            start: "2026-11-21T09:41:02.5Z".parse().unwrap(),
            end: "2026-11-21T09:41:15Z".parse().unwrap(),
            seconds: 12.5,
            ending: Some(Ending::Over),
            before,
            after,
            lost_seconds: 11.2049,
            culprits: vec![
                culprit("/system.slice/backup.service", Cause::Foreign, 10.0, 0.889),
                culprit("irq 36 virtio1-req.0", Cause::Hardirq, 0.9, 0.08),
            ],
            untracked: Time { seconds: 0.35, share: 0.031 },
            remedies: vec![Remedy::CpuWeight, Remedy::CpuAffinity],
            ..blank(subject)
        }
    }

    /// One that is over.
    pub fn report() -> Report {
        let (main, also) = (episode("/system.slice/web.service"), Vec::new());
        Report::new(3, false, main, also)
    }
}

#[cfg(test)]
mod tests {
    use noise_analysis::{Beside, Cause, Ending, IncidentPressure, Remedy};
    use noise_common::signals::Signal;
    use noise_model::pressure::{Pressure, ResourcePressure, Stalled};
    use noise_model::{HeldUp, OutlierPart, OutlierRecord};
    use noise_verdict::Advice;

    use super::made::{self, culprit, episode};
    use super::*;

    fn listing(incidents: impl IntoIterator<Item = Arc<Report>>) -> Listing {
        Listing { incidents: incidents.into_iter().collect(), ..Listing::default() }
    }

    /// What the host says beside it: of its remedies, one applies.
    fn beside() -> Beside {
        let stalled = |avg10_percent, stalled_ms| Stalled { avg10_percent, stalled_ms };
        let pressure = |some, full| Pressure {
            cpu: Some(ResourcePressure { some, full: Some(full) }),
            unavailable: vec!["its CPU quota is not known: it has no cpu controller".to_owned()],
            ..Pressure::default()
        };
        let opening = pressure(stalled(12.5, None), stalled(0.0, None));
        let latest = Pressure {
            span_ns: Some(13_000_000_000),
            ..pressure(stalled(80.1, Some(9_940.0)), stalled(0.0, Some(0.0)))
        };
        let advice = Advice {
            remedy: Remedy::CpuWeight,
            now: Some("cpu.weight is 100 of backup.service and 100 of web.service".to_owned()),
            commands: vec!["systemctl set-property backup.service CPUWeight=20".to_owned()],
            undo: vec!["systemctl set-property backup.service CPUWeight=100".to_owned()],
        };
        let pressure = IncidentPressure { opening, latest: Some(latest) };
        Beside {
            pressure: Some(pressure),
            advice: Some(vec![advice]),
            advised_culprit: Some("/system.slice/backup.service".into()),
            advised_interrupt: None,
        }
    }

    /// The page of the documentation that shows such an incident.
    const DOCUMENTED: &str = include_str!("../../../docs/incidents.md");

    fn shown(listing: &Listing) -> String {
        incidents(listing, &TimeZone::UTC, 120)
    }

    fn long(document: &OutliersDocument) -> String {
        outliers(document, &TimeZone::UTC)
    }

    #[test]
    fn how_it_came_is_reported_of_open_ones() {
        let report = |open| Arc::new(Report { open, ..made::report() });
        let trend = HeldUp {
            subject: report(true).main.subject.clone(),
            seconds: 720.0,
            held_up_seconds_per_second: vec![0.0, 0.5, 1.0],
        };
        let of = |open| shown(&Listing { trends: vec![trend.clone()], ..listing([report(open)]) });
        assert!(
            of(true).contains("  held up over 12 min: ▕ ▄█▏ at most 1.00 s/s\n"),
            "{}",
            of(true)
        );
        assert!(!of(false).contains("held up over"), "{}", of(false));
    }

    #[test]
    fn incidents_are_printed_as_agreed() {
        let web = episode("/system.slice/web.service");
        let mut later = episode("/system.slice/db.service");
        later.end = "2026-11-21T09:41:20Z".parse().unwrap();
        later.seconds = 15.0;
        let first = Report {
            untold: 2,
            beside: beside(),
            ..Report::new(3, false, web.clone(), vec![later])
        };
        let unknown = Episode {
            signal: Signal::DirectReclaim.into(),
            subject: "host".into(),
            ending: None,
            culprits: Vec::new(),
            untracked: Time { seconds: 11.25, share: 1.0 },
            remedies: Vec::new(),
            before: Level { p50_ns: None, p99_ns: None, mean_ns: None, rate: 0.0, lost: 0.0 },
            ..web
        };
        let second = Report::new(4, true, unknown, Vec::new());
        let first = Arc::new(first);
        let documented = DOCUMENTED.split_once("$ noised incidents show 3\n").unwrap().1;
        let (documented, _) = documented.split_once("```").unwrap();
        assert_eq!(documented, shown(&listing([Arc::clone(&first)])), "docs/incidents.md");
        insta::assert_snapshot!(shown(&listing([first, Arc::new(second)])));
        assert_eq!(shown(&listing([])), "no incidents\n");
    }

    #[test]
    fn what_is_taken_is_reported_as_a_share() {
        let mut storm = episode("/a");
        (storm.signal, storm.before.lost, storm.after.lost) = (Watched::Interruption, 0.004, 0.31);
        let report = Report::new(1, true, storm.clone(), vec![storm]);
        let text = shown(&listing([Arc::new(report)]));
        assert!(text.contains("    taken          0.4 %  ->      31.0 %\n"), "{text}");
        assert!(text.contains("/a lost CPU time to interrupts: 0.40 % -> 31.0 % (78x)"), "{text}");
        assert!(!text.contains("median"), "{text}");
    }

    #[test]
    fn what_was_kept_is_reported_below_it() {
        let report = Report::new(3, true, episode("/a"), Vec::new());
        let without = KeptTrace::without(3, report.main.start, "the disk is full");
        let kept = KeptTrace {
            waits: vec!["web\u{1b} 7 waited 3 ms".into()],
            trouble: None,
            ..without.clone()
        };
        let report = [Arc::new(report)];
        let with = |trace| Listing { traces: vec![Arc::new(trace)], ..listing(report.clone()) };
        let text = shown(&with(kept));
        assert!(
            text.contains("  the kernel events of the 0.0 s before it opened are kept: "),
            "{text}"
        );
        assert!(text.ends_with(" 7 waited 3 ms\n") && !text.contains('\u{1b}'), "{text}");
        let text = shown(&with(without));
        assert!(text.ends_with("  its kernel events are not kept: the disk is full\n"), "{text}");
    }

    #[test]
    fn those_that_joined_are_reported_with_their_own_culprits() {
        let (mut calm, mut goes_on) = (episode("/a"), episode("/b"));
        (calm.ending, goes_on.ending) = (Some(Ending::Over), None);
        goes_on.end = "2026-11-21T09:42:02.5Z".parse().unwrap();
        goes_on.culprits = vec![culprit("/other", Cause::Foreign, 3.0, 0.75)];
        let report = Report::new(1, true, calm, vec![goes_on]);
        let text = shown(&listing([Arc::new(report)]));
        assert!(text.starts_with("#1 /a waited for a CPU: median "), "{text}");
        let standing = "  2026-11-21 09:41:02.500 UTC, 60.0 s, open, calm now\n";
        assert!(text.contains(standing), "{text}");
        assert!(text.contains(", held up by /other (75.0 %)\n"), "{text}");
        let expected = "      12.5 s so far, 11.205 s lost\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn figures_and_culprits_are_of_what_the_sentence_is_about() {
        let mut worse = episode("/web");
        (worse.signal, worse.lost_seconds) = (Signal::UninterruptibleWait.into(), 50.0);
        worse.after.p99_ns = Some(1 << 30);
        worse.culprits = vec![culprit("/writer", Cause::Foreign, 40.0, 0.9)];
        let report = Report::new(1, false, episode("/web"), vec![worse]);
        let text = shown(&listing([Arc::new(report)]));
        let (own, rest) = text.split_once("  also disturbed\n").unwrap();
        assert!(own.starts_with("#1 /web slept uninterruptibly: "), "{text}");
        for part in ["50.000 s beyond the usual", "->      1.07 s\n", "90 %  /writer (another"] {
            assert!(own.contains(part), "{part}: {text}");
        }
        assert!(!own.contains("backup.service"), "{text}");
        assert!(rest.contains("/web waited for a CPU: ") && !rest.contains("/writer"), "{text}");
        assert!(rest.ends_with("12.5 s, 11.205 s lost\n"), "{text}");
    }

    #[test]
    fn threads_stand_with_the_victim_that_they_delayed() {
        let process = |victim: Option<&str>, pid| Process {
            side: Side::Culprit,
            of: "/".into(),
            victim: victim.map(Into::into),
            pid,
            comm: "gzip".into(),
            process: None,
            command: None,
            waits: 1,
            ns: 8_000_000,
        };
        let of = |processes: Vec<Process>| {
            let report = Report { processes, ..made::report() };
            shown(&listing([Arc::new(report)]))
        };
        let line =
            |pid| format!("    had the CPU   8.00 ms of   1 waits  root cgroup: gzip {pid}\n");
        let text = of(vec![process(Some("/web"), 12), process(Some("/"), 777)]);
        let expected = format!(
            "  threads, of single long waits of /web\n{}  threads, of single long waits of root cgroup\n{}",
            line(12),
            line(777)
        );
        assert!(text.contains(&expected), "{text}");
        let text = of(vec![process(None, 12), process(None, 777)]);
        let expected = format!("  threads, of single long waits\n{}{}", line(12), line(777));
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let mut hostile = episode("/a\u{1b}[2J\n#9");
        hostile.culprits[0].culprit = "\u{9b}31m".into();
        let report = Report::new(1, true, hostile, Vec::new());
        let text = shown(&listing([Arc::new(report)]));
        assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "{text}");
        assert!(!text.contains("\n#9"), "{text}");
    }

    #[test]
    fn many_culprits_are_summed_up() {
        let mut many = episode("/a");
        many.culprits =
            (0..11).map(|index| culprit(&index.to_string(), Cause::Foreign, 1.0, 0.1)).collect();
        many.others = Time { seconds: 0.5, share: 0.05 };
        let mut text = String::new();
        culprits(&mut text, &many);
        assert!(text.contains("3.500 s  35 %"), "{text}");
        assert!(
            text.contains(" 7 (another cgroup)") && !text.contains(" 8 (another cgroup)"),
            "{text}"
        );
    }

    #[test]
    fn long_waits_are_printed_as_agreed() {
        let part = |culprit: &str, cause, pid, comm: &str, ns| OutlierPart {
            culprit: culprit.into(),
            cause,
            pid,
            comm: comm.into(),
            ns,
        };
        let outlier = ReportedOutlier {
            time: "2026-11-21T09:41:02.123Z".parse().unwrap(),
            wait: OutlierRecord {
                at_ns: 1,
                wait_ns: 8_100_000,
                victim: "/system.slice/web.service".into(),
                pid: 4242,
                comm: "worker".into(),
                cpu: 1,
                made_runnable: "wakeup".into(),
                parts: vec![
                    part("/system.slice/backup.service", Cause::Foreign, 777, "gzip", 8_000_000),
                    part("net_rx", Cause::Softirq, 0, "", 40_000),
                ],
                rest_ns: 60_000,
            },
        };
        let document = |outliers| OutliersDocument::new(outliers, Vec::new());
        insta::assert_snapshot!(long(&document(vec![Arc::new(outlier.clone())])));
        let command = StartCommand {
            pid: 777,
            comm: "gzip".into(),
            command: "gzip -9 /a\u{1b}".into(),
            process: Some(777),
            is_kernel: false,
        };
        let known = OutliersDocument::new(vec![Arc::new(outlier)], vec![command]);
        assert!(long(&known).ends_with("    gzip 777: gzip -9 /a\\x1b\n"), "{}", long(&known));
        assert_eq!(long(&document(Vec::new())), "no long waits\n");
    }
}

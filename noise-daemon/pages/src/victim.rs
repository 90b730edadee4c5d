//! PURE: what was found, for people: the answer first, then where the time went, for whom, what is usual, what to
//! do, and the critical paths.

mod lost;
mod processes;

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_analysis::{PRESSURE_HEADING, Report, Watched, pressure_lines};
use noise_command::output::Painted;
use noise_common::signals::Signal;
use noise_model::words::why_named;
use noise_paths::document::PathsDocument;
use noise_text::clean::clean;
use noise_text::columns::{shorten, wrap};
use noise_text::table::Columns;
use noise_text::times;
use noise_text::units::{self, bound, count, duration, share};
use noise_trace::delays::document::Spread;
use noise_verdict::Kind;
use noise_why::culprits::Blamed;
use noise_why::findings::Findings;
use noise_why::{Grouped, grouped};

use self::lost::lost;
use self::processes::processes;
use crate::comparison::page as compared;
use crate::critical_path::page as paths_page;
use crate::trend::held_up;

/// Rows of each list.
const SHOWN: usize = 8;
/// Columns that stand beside names in a list, and what names have at least.
const BESIDE_NAMES: usize = 47;
const LEAST_NAME: usize = 24;
/// Lines of a screen, and findings that it shows.
const SCREEN_LINES: usize = 24;
const SHOWN_FINDINGS: usize = 3;
/// Threads that are shown.
const SHOWN_THREADS: usize = 5;

/// States in the order in which they are shown, as people read them.
pub const STATES: [(&str, &str); 11] = [
    ("running", "ran"),
    ("waiting_cpu", "waited for a CPU"),
    ("disk", "waited for a disk"),
    ("futex", "waited for a lock"),
    ("task", "waited for another thread"),
    ("network", "waited for a packet"),
    ("timer", "slept until a timer"),
    ("ipi", "slept until another CPU's interrupt"),
    ("interrupt", "slept until an interrupt"),
    ("asleep", "asleep, and not woken yet"),
    ("unknown", "not known"),
];

/// How long, for people.
pub fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// The share of a time.
pub fn part(ns: u64, of_ns: u64) -> String {
    share(ns as f64 / of_ns.max(1) as f64)
}

fn moment(ns: u64, zone: &TimeZone) -> String {
    times::moment(Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default(), zone)
}

pub fn indented(text: &mut String, table: &Columns) {
    text.extend(table.text().lines().map(|line| format!("  {line}\n")));
}

/// A sentence in lines of so many columns, with the blanks that it begins with before each.
pub fn prose(text: &mut String, sentence: &str, width: usize) {
    text.extend(wrap(sentence, width).into_iter().map(|line| line + "\n"));
}

/// How much of a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The verdict with what belongs to it: one screen.
    Screen,
    All,
}

/// The page, in so many columns. `title` is the victim's name; times are those of a zone.
pub fn page(
    found: &Findings,
    title: &str,
    zone: &TimeZone,
    width: usize,
    extent: Extent,
) -> Painted {
    let mut page = Painted::default();
    let mut begin = String::new();
    if found.is_short() {
        prose(&mut begin, &short(found), width);
    }
    prose(&mut begin, &answer(found, title, zone), width);
    match extent {
        Extent::Screen => page.plain(&screen(begin, found, width)),
        Extent::All => page.plain(&all(begin, found, zone, width)),
    }
    if let Some(against) = &found.against {
        page.plain("\nagainst normal executions\n");
        page.append(compared(against, width, false));
    }
    if extent == Extent::All || found.is_asked {
        paths(&mut page, found, width);
    }
    page
}

/// How much of the time is known, where that is little, and what figures are of.
fn short(found: &Findings) -> String {
    let asked = time(found.asked_ns);
    let held = match found.span_ns {
        0 => format!("nothing of the last {asked}"),
        ns => format!("{} of the last {asked} ({})", time(ns), part(ns, found.asked_ns)),
    };
    let figures = match (found.counted().is_some(), found.span_ns) {
        (false, _) => "all that follows is of that part alone",
        (true, 0) => "figures are the daemon's counters, threads and paths are not known",
        (true, _) => "figures are the daemon's counters, threads and paths are of that part",
    };
    format!(
        "The flight recorder holds {held}: {figures} (noised check says what a restart would make of it)."
    )
}

/// What is added to the begin of the page as far as one screen has room for it.
fn screen(mut text: String, found: &Findings, width: usize) -> String {
    let mut hint = String::new();
    prose(
        &mut hint,
        "--all shows where the time went, who had it, what is usual, remedies and paths.",
        width,
    );
    let lines = |text: &str| text.lines().count();
    let most = SCREEN_LINES.saturating_sub(lines(&hint));
    let mut trend = String::new();
    trends(&mut trend, found);
    let room = most.saturating_sub(lines(&text));
    text.push_str(&lost(found, width, SHOWN_FINDINGS, room));
    for part in [processes(found, width), notes(found, width), trend] {
        if lines(&text) + lines(&part) <= most {
            text.push_str(&part);
        }
    }
    text + &hint
}

fn notes(found: &Findings, width: usize) -> String {
    let mut text = String::new();
    for note in &found.notes {
        prose(&mut text, &format!("note: {note}"), width);
    }
    if found.discarded > 0 {
        let lost = count(found.discarded);
        let note = format!("note: {lost} events were lost meanwhile: parts of this are not known");
        prose(&mut text, &note, width);
    }
    text
}

/// All of the page but the paths.
fn all(mut text: String, found: &Findings, zone: &TimeZone, width: usize) -> String {
    text.push_str(&lost(found, width, usize::MAX, usize::MAX));
    text.push_str(&processes(found, width));
    text.push_str(&notes(found, width));
    trends(&mut text, found);
    if found.counted().is_some() && found.span_ns > 0 {
        let held = time(found.span_ns);
        let sentence = format!("Of the last {held}, which the flight recorder holds:");
        text.push('\n');
        prose(&mut text, &sentence, width);
    }
    where_it_went(&mut text, found);
    for_whom(&mut text, found, width);
    interrupted(&mut text, found);
    threads(&mut text, found);
    stopped(&mut text, found, width);
    pressure(&mut text, found, width);
    if found.counted().is_none() {
        usual(&mut text, found, width);
    }
    incidents(&mut text, found, zone, width);
    remedies(&mut text, found, width);
    text
}

/// Since when: how its cgroups were held up.
fn trends(text: &mut String, found: &Findings) {
    let trends = &found.around.trends;
    for trend in trends {
        let whose = match trends.as_slice() {
            // Nothing is counted of a process alone.
            [_] if found.target.pid.is_some() => "its cgroup: ".to_owned(),
            [_] => String::new(),
            _ => format!("{}: ", clean(&trend.subject)),
        };
        let _ = writeln!(text, "{whose}{}", held_up(trend));
    }
}

/// Pressure of its cgroup, and its quota.
fn pressure(text: &mut String, found: &Findings, width: usize) {
    let Some(pressure) = &found.pressure else { return };
    let _ = writeln!(text, "\n{PRESSURE_HEADING}");
    for line in pressure_lines(None, pressure) {
        prose(text, &format!("  {}", clean(&line)), width);
    }
}

/// What held it up, what it ran, and the incident that it suffers from.
fn answer(found: &Findings, title: &str, zone: &TimeZone) -> String {
    let until = format!("until {}", moment(found.to_ns, zone));
    let when = format!("in the {} {until}", time(found.span_ns));
    let threads = match found.threads.len() {
        0 if found.counted().is_none() => {
            return format!(
                "{title} has no threads, and what ran there {when} and has ended is not known."
            );
        }
        1 => "1 thread".to_owned(),
        many => format!("{many} threads"),
    };
    let mut ran = match found.counted() {
        Some(counted) => {
            format!("That was counted in the {} {until} ({threads}).", time(counted.span_ns))
        }
        None => format!("It ran {} {when} ({threads}).", time(found.ns("running"))),
    };
    if found.has_ended {
        ran.push_str(
            " It ended before the page was made: where its threads slept, and whom it asked, is not known.",
        );
    }
    let Some(verdict) = &found.verdict else { return format!("{title}: {ran}") };
    let is_held = matches!(verdict.kind, Kind::HeldUp | Kind::AsUsual);
    let is_seen = is_held && found.counted().is_none();
    let open = if is_seen { String::new() } else { open(found, zone) };
    format!("{}. {ran}{open}", verdict.sentence)
}

/// The open incident that the victim suffers from, where nothing of it is seen in this time.
fn open(found: &Findings, zone: &TimeZone) -> String {
    let around = &found.around;
    let newest = around.incidents.iter().rev().find(|report| around.suffers.contains(&report.id));
    newest.map_or_else(String::new, |report| {
        let (id, start) = (report.id, times::second(report.start(), zone));
        let sentence = report.sentence(zone);
        format!(" Incident {id} is open since {start}: {}.", clean(&sentence))
    })
}

/// The greatest culprit of waits, as it follows them, with the thread that had most where several are meant.
pub fn behind(culprits: &[Blamed], state: &str) -> String {
    let groups = grouped(culprits, state);
    let named =
        groups.iter().find(|group| !matches!(group.cause, "untracked" | "idle" | "throttle"));
    named.map_or_else(String::new, |group| {
        format!(", {} of it for {}", time(group.ns), group.words())
    })
}

fn where_it_went(text: &mut String, found: &Findings) {
    let all_ns = found.totals_ns.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    if all_ns == 0 {
        return;
    }
    let heading = if found.threads.len() > 1 { "of all threads" } else { "of its time" };
    let mut table = Columns::new(1, &["where the time went", "time", heading, "times", "longest"]);
    let empty = String::new;
    for (state, words) in STATES {
        let ns = found.ns(state);
        if ns == 0 {
            continue;
        }
        let (times, longest) = match state {
            "waiting_cpu" => (count(found.waits.count), time(found.waits.max_ns)),
            _ => (empty(), empty()),
        };
        table.push(&[words.to_owned(), time(ns), part(ns, all_ns), times, longest]);
        if state == "running" && found.interrupted_ns() > 0 {
            let taken_ns = found.interrupted_ns();
            let words = "  of it in interrupts".to_owned();
            table.push(&[words, time(taken_ns), part(taken_ns, all_ns), empty(), empty()]);
        }
    }
    let sleeps = found.uninterruptible;
    if sleeps.count > 0 {
        let words = "(uninterruptibly, in these sleeps)".to_owned();
        let (ns, longest) = (sleeps.sum_ns, time(sleeps.max_ns));
        table.push(&[words, time(ns), part(ns, all_ns), count(sleeps.count), longest]);
    }
    text.push('\n');
    indented(text, &table);
}

/// Who had what was waited for in a state, below a heading; whether that was anyone.
pub fn culprits_of(
    text: &mut String,
    culprits: &[Blamed],
    (state, heading): (&str, &str),
    width: usize,
) -> bool {
    let most = width.saturating_sub(BESIDE_NAMES).max(LEAST_NAME);
    let rows = grouped(culprits, state);
    if rows.is_empty() {
        return false;
    }
    let whole_ns = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.ns));
    let mut table = Columns::new(2, &[heading, "cause", "time", "of these waits"]);
    for Grouped { who, cause, ns, .. } in rows.iter().take(SHOWN) {
        let cause = why_named(cause).to_owned();
        table.push(&[shorten(who, most), cause, time(*ns), part(*ns, whole_ns)]);
    }
    let rest = rows.get(SHOWN..).unwrap_or_default();
    let rest_ns = rest.iter().fold(0_u64, |sum, row| sum.saturating_add(row.ns));
    if rest_ns > 0 {
        let who = format!("{} others", rest.len());
        table.push(&[who, String::new(), time(rest_ns), part(rest_ns, whole_ns)]);
    }
    text.push('\n');
    indented(text, &table);
    true
}

fn for_whom(text: &mut String, found: &Findings, width: usize) {
    let states = [
        ("waiting_cpu", "who had the CPUs that it waited for"),
        ("disk", "who was ahead at the disks"),
    ];
    for state in states {
        let is_any = culprits_of(text, &found.culprits, state, width);
        if is_any && state.0 == "waiting_cpu" && found.is_throttled() {
            let sentence = format!(
                "  A CPU quota caused {} of these waits, by the daemon's count: those who had the CPUs then \
                 had no part in it.",
                time(found.throttled_ns())
            );
            prose(text, &sentence, width);
        }
    }
}

fn interrupted(text: &mut String, found: &Findings) {
    if found.interrupted.is_empty() {
        return;
    }
    let running_ns = found.ns("running");
    let mut table = Columns::new(2, &["interrupted by", "cause", "time", "of running", "times"]);
    for one in found.interrupted.iter().take(SHOWN) {
        let source = if one.source.is_empty() { one.cause } else { &one.source };
        let taken = one.taken;
        table.push(&[
            clean(source).into_owned(),
            why_named(one.cause).to_owned(),
            time(taken.sum_ns),
            part(taken.sum_ns, running_ns),
            count(taken.count),
        ]);
    }
    text.push('\n');
    indented(text, &table);
}

fn threads(text: &mut String, found: &Findings) {
    if found.threads.len() < 2 {
        return;
    }
    let headings = ["worst threads", "ran", "waited for a CPU", "times", "longest"];
    let mut table = Columns::new(1, &headings);
    let is_seen = |ran: u64, waited: u64| ran > 0 || waited > 0;
    let busy = found.threads.iter().filter(|one| is_seen(one.ns("running"), one.waits.sum_ns));
    let mut shown = 0;
    for one in busy.take(SHOWN_THREADS) {
        shown += 1;
        table.push(&[
            format!("{} {}", clean(&one.comm), one.tid),
            time(one.ns("running")),
            time(one.waits.sum_ns),
            count(one.waits.count),
            time(one.waits.max_ns),
        ]);
    }
    if shown > 0 {
        text.push('\n');
        indented(text, &table);
        let more = found.threads.len() - shown;
        if more > 0 {
            let _ = writeln!(text, "  {more} more threads are in --json");
        }
    }
}

/// What events do not have: quotas, the hypervisor, memory.
fn stopped(text: &mut String, found: &Findings, width: usize) {
    text.push('\n');
    let Some(stopped) = found.around.stopped else {
        let sentence = "Not known: how long its CPU quota and the hypervisor stopped it, and memory reclaim. No \
                        kernel event says that; a running daemon counts it.";
        return prose(text, sentence, width);
    };
    let quota = match found.target.pid {
        Some(_) => "its cgroup, by a CPU quota",
        None => "by a CPU quota",
    };
    let hypervisor = match found.target.pid {
        Some(_) => "its cgroup, by the hypervisor",
        None => "by the hypervisor",
    };
    let figures = [
        (quota, stopped.quota_ns),
        (hypervisor, Some(stopped.hypervisor_ns)),
        ("host: threads in direct reclaim of memory", stopped.host_reclaim_ns),
        ("host: CPU time that the hypervisor took", stopped.host_steal_ns),
    ];
    let heading = format!("stopped, as the daemon counted in {}", time(stopped.span_ns));
    let mut table = Columns::new(1, &[&heading, "time"]);
    for (words, ns) in figures {
        table.push(&[words.to_owned(), ns.map_or_else(|| "not known".to_owned(), time)]);
    }
    indented(text, &table);
}

/// Against what is usual.
fn usual(text: &mut String, found: &Findings, width: usize) {
    text.push('\n');
    let usual = &found.around.usual;
    let is_task = found.target.pid.is_some();
    if usual.is_empty() {
        return prose(text, "Not known: what is usual. A running daemon learns it.", width);
    }
    let is_learnt = usual.iter().any(|usual| usual.from == "baseline");
    let heading = if is_task { "against the usual of its cgroup" } else { "against its usual" };
    let what = if is_learnt { "usual" } else { "since start" };
    let mut table = Columns::new(1, &[heading, "now", what, "99 % within"]);
    let mean = |of: Spread| {
        let mean_ns = of.sum_ns as f64 / of.count.max(1) as f64;
        if of.count > 0 { duration(mean_ns) } else { "none".to_owned() }
    };
    let span = found.span_ns.max(1) as f64;
    let rows: [(Watched, &str, &str, Option<Spread>, u64); 3] = [
        (
            Signal::CgroupRunqueueWait.into(),
            "a wait for a CPU, mean",
            "time in waits for CPUs",
            Some(found.waits),
            found.waits.sum_ns,
        ),
        (
            Signal::UninterruptibleWait.into(),
            "an uninterruptible sleep, mean",
            "time in such sleeps",
            Some(found.uninterruptible),
            found.uninterruptible.sum_ns,
        ),
        (Watched::Interruption, "", "time that interrupts took", None, found.interrupted_ns()),
    ];
    for (signal, each, whole, spread, sum_ns) in rows {
        let Some(usual) = found.around.usual_of(signal) else { continue };
        if let (Some(spread), Some(mean_ns)) = (spread, usual.mean_ns) {
            let p99 = usual.p99_ns.map_or_else(String::new, bound);
            table.push(&[each.to_owned(), mean(spread), duration(mean_ns), p99]);
        }
        // Of a process alone, it is a part of its cgroup's.
        if let Some(usually) = usual.lost.filter(|_| !is_task) {
            let now = units::lost(sum_ns as f64 / span);
            let usually = units::lost(usually);
            table.push(&[whole.to_owned(), now, usually, String::new()]);
        }
    }
    indented(text, &table);
}

fn incidents(text: &mut String, found: &Findings, zone: &TimeZone, width: usize) {
    if found.around.incidents.is_empty() {
        return;
    }
    text.push_str("\nincidents of the last minutes (`noised incidents` has all of them)\n");
    for report in found.around.incidents.iter().rev().take(SHOWN) {
        prose(text, &format!("  {}", incident(report, zone)), width);
        let kept = found.around.kept.iter().find(|kept| kept.incident == report.id);
        if let Some(kept) = kept {
            prose(text, &format!("    {}", kept.sentence), width);
        }
    }
}

fn incident(report: &Report, zone: &TimeZone) -> String {
    let start = times::second(report.start(), zone);
    let (id, standing, sentence) = (report.id, report.standing(), report.sentence(zone));
    format!("#{id} since {start}, {standing}: {}", clean(&sentence))
}

fn remedies(text: &mut String, found: &Findings, width: usize) {
    if found.remedies.is_empty() {
        return;
    }
    let findings = found.verdict.as_ref().map_or(&[][..], |verdict| &verdict.findings);
    let mut heading = String::new();
    for one in found.remedies.iter().take(SHOWN) {
        let against = findings.iter().find(|finding| finding.remedies.contains(&one.advice));
        let against = against.map_or_else(String::new, |finding| {
            let (resource, name) = (finding.resource.name(), &finding.culprit.name);
            format!("\nremedies for {resource}, because of {}\n", clean(name))
        });
        if against != heading {
            text.push_str(&against);
            heading = against;
        }
        prose(text, &format!("  {}", one.setting), width);
        prose(text, &format!("    {} {}", one.effect, one.cost), width);
        // A command stays in one line, to be copied.
        for line in one.advice.lines() {
            let _ = writeln!(text, "    {}", clean(&line));
        }
    }
}

fn paths(page: &mut Painted, found: &Findings, width: usize) {
    if found.executions.is_empty() {
        return;
    }
    let is_asked = found.is_asked;
    let heading = match (is_asked, found.executions.len()) {
        (true, _) => "critical paths of the executions".to_owned(),
        (false, 1) => "critical path of the longest time that a thread did not run".to_owned(),
        (false, several) => {
            format!("critical paths of the {several} longest times that a thread did not run")
        }
    };
    page.plain(&format!("\n{heading}\n\n"));
    let mut executions = found.executions.clone();
    for traced in executions.iter_mut().filter(|_| !is_asked) {
        let after = traced.from_ns.saturating_sub(found.from_ns) as f64 / 1e9;
        traced.name = format!("after {after:.6} s");
    }
    let (left_out, delimiters) = (found.left_out, found.delimiters.clone());
    let document = PathsDocument { executions, left_out, delimiters, ..PathsDocument::default() };
    page.append(paths_page(&document, width));
}

#[cfg(test)]
mod tests;

//! PURE: what was found, for people: the answer first, then where the time went, for whom, what is usual, what to
//! do, and the critical paths.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use noise_analysis::{PRESSURE_HEADING, Report, Watched, pressure_lines};
use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_measure::columns::Columns;
use noise_model::clean::clean;
use noise_model::times;
use noise_model::units::{bound, count, duration, lost, share};
use noise_model::words::{shorten, why_named, wrap};
use noise_paths::document::Document;
use noise_trace::delays::document::Spread;

use super::findings::{Blamed, Findings};
use crate::cli::output::Painted;
use crate::cli::trace::compare::page::page as compared;
use crate::cli::trace::critical_path::page::page as paths_page;
use crate::cli::trend::held_up;

/// Rows of each list.
const SHOWN: usize = 8;
/// Columns that stand beside names in a list, and what names have at least.
const BESIDE_NAMES: usize = 47;
const LEAST_NAME: usize = 24;
/// Threads that are shown.
const SHOWN_THREADS: usize = 5;
/// Least part of the time that holds a victim up.
const LEAST_PART: f64 = 0.01;

/// States in the order in which they are shown, as people read them.
pub const STATES: [(&str, &str); 13] = [
    ("running", "ran"),
    ("waiting_cpu", "waited for a CPU"),
    ("uninterruptible", "slept uninterruptibly"),
    ("disk", "waited for a disk"),
    ("futex", "waited for a lock"),
    ("task", "waited for another thread"),
    ("network", "waited for a packet"),
    ("timer", "slept until a timer"),
    ("ipi", "slept until another CPU's interrupt"),
    ("interrupt", "slept until an interrupt"),
    ("asleep", "asleep, and not woken yet"),
    ("created", "created, not yet run"),
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

/// Adds a table.
pub fn indented(text: &mut String, table: &Columns) {
    text.extend(table.text().lines().map(|line| format!("  {line}\n")));
}

/// A sentence in lines of so many columns, with the blanks that it begins with before each.
pub fn prose(text: &mut String, sentence: &str, width: usize) {
    text.extend(wrap(sentence, width).into_iter().map(|line| line + "\n"));
}

/// The whole page, in so many columns. `title` is the victim's name; times are those of a zone.
pub fn page(found: &Findings, title: &str, zone: &TimeZone, width: usize) -> Painted {
    let mut text = String::new();
    prose(&mut text, &answer(found, title, zone), width);
    first_to_try(&mut text, found, width);
    for note in &found.notes {
        prose(&mut text, &format!("note: {note}"), width);
    }
    if found.discarded > 0 {
        let lost = count(found.discarded);
        let note = format!("note: {lost} events were lost meanwhile: parts of this are not known");
        prose(&mut text, &note, width);
    }
    trends(&mut text, found);
    where_it_went(&mut text, found);
    for_whom(&mut text, found, width);
    interrupted(&mut text, found);
    threads(&mut text, found);
    stopped(&mut text, found, width);
    pressure(&mut text, found, width);
    usual(&mut text, found, width);
    incidents(&mut text, found, zone, width);
    remedies(&mut text, found, width);
    let mut page = Painted::default();
    page.plain(&text);
    if let Some(against) = &found.against {
        page.plain("\nagainst normal executions\n");
        page.append(compared(against, width));
    }
    paths(&mut page, found, width);
    page
}

/// Since when: how its cgroups were held up.
fn trends(text: &mut String, found: &Findings) {
    let trends = &found.around.trends;
    for trend in trends {
        let whose = match trends.as_slice() {
            [_] => String::new(),
            _ => format!("{}: ", clean(&trend.subject)),
        };
        let _ = writeln!(text, "{whose}{}", held_up(trend));
    }
}

/// The first remedy that this host has a command for.
fn first_to_try(text: &mut String, found: &Findings, width: usize) {
    let ready = found.remedies.iter().find(|one| !one.advice.commands.is_empty());
    let Some(one) = ready else { return };
    let now = one.advice.now.as_ref().map(|now| format!(" ({})", clean(now))).unwrap_or_default();
    prose(text, &format!("To try first{now}:"), width);
    for command in &one.advice.commands {
        let _ = writeln!(text, "  # {}", clean(command));
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

/// What holds it up most and for whom, in two sentences.
fn answer(found: &Findings, title: &str, zone: &TimeZone) -> String {
    let when = format!("in the {} until {}", time(found.span_ns), moment(found.to_ns, zone));
    let threads = match found.threads.len() {
        0 => return format!("{title} has no threads: nothing ran {when}"),
        1 => "1 thread".to_owned(),
        many => format!("{many} threads"),
    };
    let share = |ns: u64| ns as f64 / found.span_ns.max(1) as f64;
    let throttled_ns = found.throttled_ns();
    let waited_ns = found.ns("waiting_cpu").saturating_sub(throttled_ns);
    let behind_whom = match found.is_throttled() {
        true => String::new(),
        false => behind(&found.culprits, "waiting_cpu"),
    };
    let mut held = vec![
        (waited_ns, format!("waited {} for a CPU{behind_whom}", time(waited_ns))),
        (throttled_ns, format!("was stopped for {} by its own CPU quota", time(throttled_ns))),
        (
            found.interrupted_ns(),
            format!("lost {} of its time on CPUs to interrupts", time(found.interrupted_ns())),
        ),
    ];
    let disk_ns = found.ns("disk");
    held.push((
        disk_ns,
        format!("waited {} for disks{}", time(disk_ns), behind(&found.culprits, "disk")),
    ));
    let sleeps = found.uninterruptible;
    if sleeps.sum_ns > disk_ns {
        held.push((sleeps.sum_ns, format!("slept {} uninterruptibly", time(sleeps.sum_ns))));
    }
    held.retain(|(ns, _)| share(*ns) >= LEAST_PART);
    held.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let ran = format!("It ran {} {when} ({threads}).", time(found.ns("running")));
    let what: Vec<_> = held.into_iter().map(|(_, what)| what).collect();
    match what.as_slice() {
        [] => format!("{title}: nothing held it up{}. {ran}", but_open(found, zone)),
        [only] => format!("{title} {only}. {ran}"),
        [first, second] => format!("{title} {first}; it also {second}. {ran}"),
        [first, middle @ .., last] => {
            format!("{title} {first}; it also {}, and {last}. {ran}", middle.join(", "))
        }
    }
}

/// The open incident that the victim suffers from, as the answer goes on after "nothing held it up".
fn but_open(found: &Findings, zone: &TimeZone) -> String {
    let around = &found.around;
    let newest = around.incidents.iter().rev().find(|report| around.suffers.contains(&report.id));
    newest.map_or_else(String::new, |report| {
        let (id, start) = (report.id, times::second(report.main.start, zone));
        let sentence = report.sentence();
        format!(" in this time, but incident {id} is open since {start}: {}", clean(&sentence))
    })
}

/// The greatest culprit of waits, as it follows them, with the thread that had most where several are meant.
pub fn behind(culprits: &[Blamed], state: &str) -> String {
    let groups = grouped(culprits, state);
    let named =
        groups.iter().find(|group| !matches!(group.cause, "untracked" | "idle" | "throttle"));
    named.map_or_else(String::new, |group| {
        let mostly = group.mostly.map_or_else(String::new, |tid| format!(", mostly thread {tid}"));
        format!(", {} of it for {}{mostly}", time(group.ns), group.who)
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
    if sleeps.count > 0 && found.ns("uninterruptible") == 0 {
        let words = "(uninterruptibly, in these sleeps)".to_owned();
        let (ns, longest) = (sleeps.sum_ns, time(sleeps.max_ns));
        table.push(&[words, time(ns), part(ns, all_ns), count(sleeps.count), longest]);
    }
    text.push('\n');
    indented(text, &table);
}

/// How long a thread was in the way, ns, and its id.
type Took = (u64, i32);

/// Culprits of one name, cgroup and cause.
struct Grouped {
    who: String,
    cause: &'static str,
    ns: u64,
    /// Of several threads, the one that has more than half of that.
    mostly: Option<i32>,
}

/// Culprits by name and cause, with their time: threads of one name in one cgroup are one.
fn grouped(culprits: &[Blamed], state: &str) -> Vec<Grouped> {
    let mut groups: BTreeMap<(String, String, &'static str), Vec<Took>> = BTreeMap::new();
    for culprit in culprits.iter().filter(|culprit| culprit.state == state) {
        let Blamed { comm, cgroup, cause, ns, tid, .. } = culprit;
        let key = (comm.clone(), cgroup.clone().unwrap_or_default(), *cause);
        groups.entry(key).or_default().push((*ns, *tid));
    }
    let row = |((comm, cgroup, cause), threads): ((String, String, _), Vec<Took>)| {
        let ns = threads.iter().fold(0_u64, |sum, (ns, _)| sum.saturating_add(*ns));
        let mut who = match (cause, comm.is_empty()) {
            ("idle", _) => "no thread: the CPU was idle".to_owned(),
            ("untracked", _) => "not known".to_owned(),
            ("throttle", _) => "no one: its own CPU quota".to_owned(),
            (other, true) => other.to_owned(),
            (_, false) => clean(&comm).into_owned(),
        };
        if let [(_, tid)] = threads.as_slice()
            && *tid > 0
        {
            let _ = write!(who, " {tid}");
        }
        if cause == Cause::Own.name() {
            who.push_str(", its own");
        } else if !cgroup.is_empty() && cgroup != "/" {
            let _ = write!(who, " of {}", clean(&cgroup));
        }
        let most = threads.iter().max().filter(|(most_ns, tid)| *most_ns > ns / 2 && *tid > 0);
        let mostly = most.filter(|_| threads.len() > 1).map(|(_, tid)| *tid);
        Grouped { who, cause, ns, mostly }
    };
    let mut rows: Vec<_> = groups.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.ns.cmp(&one.ns).then_with(|| one.who.cmp(&other.who)));
    rows
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
        ("uninterruptible", "who ended its uninterruptible sleeps"),
        ("network", "for whose packets it waited"),
    ];
    for state in states {
        let is_any = culprits_of(text, &found.culprits, state, width);
        if is_any && state.0 == "waiting_cpu" && found.is_throttled() {
            let sentence = format!(
                "  Its own CPU quota caused {} of these waits, by the daemon's count: those who had the CPUs then \
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
        Some(_) => "its cgroup, by its own CPU quota",
        None => "by its own CPU quota",
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
            let now = lost(sum_ns as f64 / span);
            table.push(&[whole.to_owned(), now, lost(usually), String::new()]);
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
    let start = times::second(report.main.start, zone);
    let (id, standing, sentence) = (report.id, report.standing(), report.sentence());
    format!("#{id} since {start}, {standing}: {}", clean(&sentence))
}

fn remedies(text: &mut String, found: &Findings, width: usize) {
    if found.remedies.is_empty() {
        return;
    }
    text.push_str("\nremedies\n");
    for one in found.remedies.iter().take(SHOWN) {
        prose(text, &format!("  {}", one.setting), width);
        prose(text, &format!("    {} {}", one.effect, one.cost), width);
        if let Some(now) = &one.advice.now {
            prose(text, &format!("    now: {}", clean(now)), width);
        }
        // A command stays in one line, to be copied.
        for command in &one.advice.commands {
            let _ = writeln!(text, "      # {}", clean(command));
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
    let document = Document { executions, ..Document::default() };
    page.append(paths_page(&document, width));
}

#[cfg(test)]
mod tests;

//! PURE: what was found, for people: the answer first, then where the time went, for whom, what is usual, what to
//! do, and the critical paths.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use noise_analysis::{Episode, Report};
use noise_common::charge::Cause;
use noise_measure::columns::Columns;
use noise_model::clean::clean;
use noise_model::units::{bound, count, duration, per_second, share};
use noise_paths::document::Document;

use super::around::Usual;
use super::findings::{Blamed, Findings};
use crate::cli::trace::document_page;

/// Rows of each list.
const SHOWN: usize = 8;
/// Threads that are shown.
const SHOWN_THREADS: usize = 5;
/// Least part of the time that holds a victim up.
const LEAST_PART: f64 = 0.01;

/// States in the order in which they are shown, as people read them.
const STATES: [(&str, &str); 13] = [
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

fn time(ns: u64) -> String {
    duration(ns as f64)
}

fn part(ns: u64, of_ns: u64) -> String {
    share(ns as f64 / of_ns.max(1) as f64)
}

/// Time of day, UTC.
fn moment(ns: u64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

fn indented(text: &mut String, table: &Columns) {
    text.extend(table.text().lines().map(|line| format!("  {line}\n")));
}

/// The whole page. `title` is the victim's name.
pub fn page(found: &Findings, title: &str) -> String {
    let mut text = format!("{}\n", answer(found, title));
    for note in &found.notes {
        let _ = writeln!(text, "note: {}", clean(note));
    }
    if found.discarded > 0 {
        let lost = count(found.discarded);
        let _ =
            writeln!(text, "note: {lost} events were lost meanwhile: parts of this are not known");
    }
    where_it_went(&mut text, found);
    for_whom(&mut text, found);
    interrupted(&mut text, found);
    threads(&mut text, found);
    ledger(&mut text, found);
    usual(&mut text, found);
    incidents(&mut text, found);
    remedies(&mut text, found);
    paths(&mut text, found);
    text
}

/// What holds it up most, in a sentence.
fn answer(found: &Findings, title: &str) -> String {
    let when = format!("in the {} until {}", time(found.span_ns), moment(found.to_ns));
    let threads = match found.threads.len() {
        0 => return format!("{title} has no threads: nothing ran {when}"),
        1 => "1 thread".to_owned(),
        many => format!("{many} threads"),
    };
    let share = |ns: u64| ns as f64 / found.span_ns.max(1) as f64;
    let waited_ns = found.ns("waiting_cpu");
    let throttled_ns = found.around.throttled_ns();
    let mut held = vec![
        (
            waited_ns,
            format!("waited {} for a CPU{}", time(waited_ns), behind(found, "waiting_cpu")),
        ),
        (throttled_ns, format!("was stopped for {} by its own CPU quota", time(throttled_ns))),
        (
            found.interrupted_ns(),
            format!("lost {} of its time on CPUs to interrupts", time(found.interrupted_ns())),
        ),
    ];
    let disk_ns = found.ns("disk");
    held.push((disk_ns, format!("waited {} for disks{}", time(disk_ns), behind(found, "disk"))));
    let sleeps = found.uninterruptible;
    if sleeps.sum_ns > disk_ns {
        held.push((sleeps.sum_ns, format!("slept {} uninterruptibly", time(sleeps.sum_ns))));
    }
    held.retain(|(ns, _)| share(*ns) >= LEAST_PART);
    held.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let ran = format!("ran {}", time(found.ns("running")));
    let what: Vec<_> = held.into_iter().map(|(_, what)| what).collect();
    match what.split_last() {
        None => format!("{title}, {threads}: nothing held it up {when}; it {ran}"),
        Some((last, [])) => format!("{title}, {threads}: it {last} {when}, and {ran}"),
        Some((last, others)) => {
            format!("{title}, {threads}: it {}, {last} {when}, and {ran}", others.join(", "))
        }
    }
}

/// The greatest culprit of waits, as it follows them.
fn behind(found: &Findings, state: &str) -> String {
    let groups = grouped(found, state);
    let named = groups.iter().find(|(_, cause, _)| *cause != "untracked" && *cause != "idle");
    named.map_or_else(String::new, |(who, _, ns)| format!(" ({} of it for {who})", time(*ns)))
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

/// Culprits by name and cause, with their time: threads of one name in one cgroup are one.
fn grouped(found: &Findings, state: &str) -> Vec<(String, &'static str, u64)> {
    let mut groups: BTreeMap<(String, String, &'static str), (Vec<i32>, u64)> = BTreeMap::new();
    for culprit in found.culprits.iter().filter(|culprit| culprit.state == state) {
        let Blamed { comm, cgroup, cause, ns, tid, .. } = culprit;
        let key = (comm.clone(), cgroup.clone().unwrap_or_default(), *cause);
        let (tids, sum) = groups.entry(key).or_default();
        *sum = sum.saturating_add(*ns);
        tids.push(*tid);
    }
    let row = |((comm, cgroup, cause), (tids, ns)): ((String, String, _), (Vec<i32>, u64))| {
        let mut who = match (cause, comm.is_empty()) {
            ("idle", _) => "no thread: the CPU was idle".to_owned(),
            ("untracked", _) => "not known".to_owned(),
            (other, true) => other.to_owned(),
            (_, false) => clean(&comm).into_owned(),
        };
        if let [tid] = tids.as_slice()
            && *tid > 0
        {
            let _ = write!(who, " {tid}");
        }
        if cause == Cause::Own.name() {
            who.push_str(", its own");
        } else if !cgroup.is_empty() && cgroup != "/" {
            let _ = write!(who, " of {}", clean(&cgroup));
        }
        (who, cause, ns)
    };
    let mut rows: Vec<_> = groups.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
    rows
}

fn for_whom(text: &mut String, found: &Findings) {
    let states = [
        ("waiting_cpu", "who had the CPUs that it waited for"),
        ("disk", "who was ahead at the disks"),
        ("uninterruptible", "who ended its uninterruptible sleeps"),
        ("network", "for whose packets it waited"),
    ];
    for (state, heading) in states {
        let rows = grouped(found, state);
        if rows.is_empty() {
            continue;
        }
        let whole_ns = rows.iter().fold(0_u64, |sum, (_, _, ns)| sum.saturating_add(*ns));
        let mut table = Columns::new(2, &[heading, "cause", "time", "of these waits"]);
        for (who, cause, ns) in rows.iter().take(SHOWN) {
            let cause = (*cause).to_owned();
            table.push(&[who.clone(), cause, time(*ns), part(*ns, whole_ns)]);
        }
        let rest = rows.get(SHOWN..).unwrap_or_default();
        let rest_ns = rest.iter().fold(0_u64, |sum, (_, _, ns)| sum.saturating_add(*ns));
        if rest_ns > 0 {
            let who = format!("{} others", rest.len());
            table.push(&[who, String::new(), time(rest_ns), part(rest_ns, whole_ns)]);
        }
        text.push('\n');
        indented(text, &table);
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
            one.cause.to_owned(),
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
fn ledger(text: &mut String, found: &Findings) {
    let Some(ledger) = &found.around.ledger else {
        text.push_str(
            "\nTime under a CPU quota, in memory reclaim and taken by the hypervisor is in no event: with a \
             daemon, --next measures it.\n",
        );
        return;
    };
    let of = |cause: Cause| {
        let charges = ledger.charges.iter().filter(|charge| charge.cause == cause.name());
        charges.fold(0_u64, |sum, charge| sum.saturating_add(charge.ns))
    };
    let figures = [
        ("by its own CPU quota", of(Cause::Throttle)),
        ("by the hypervisor", of(Cause::Steal)),
        ("host: threads in direct reclaim of memory", ledger.host_reclaim_ns),
        ("host: CPU time that the hypervisor took", ledger.host_steal_ns),
    ];
    let mut table = Columns::new(1, &["stopped, as the daemon counted", "time"]);
    for (words, ns) in figures {
        table.push(&[words.to_owned(), time(ns)]);
    }
    text.push('\n');
    indented(text, &table);
}

fn usual(text: &mut String, found: &Findings) {
    let waits = found.waits;
    let whose = if found.target.pid.is_some() { "its cgroup" } else { "its threads" };
    text.push('\n');
    let Some(Usual { from, mean_ns, p99_ns, rate, lost }) = &found.around.usual else {
        text.push_str("usual    nothing is known of what is usual: no daemon has measured it\n");
        return;
    };
    let mut line =
        format!("usual    a wait for a CPU of {whose} takes {} in the mean", duration(*mean_ns));
    if let Some(p99_ns) = p99_ns {
        let _ = write!(line, ", 99 of 100 at most {}", bound(*p99_ns));
    }
    if let (Some(rate), Some(lost)) = (rate, lost) {
        let lost = noise_model::units::lost(*lost);
        let _ = write!(line, "; {} of them, {lost}", per_second(*rate));
    }
    let since = if *from == "baseline" { "its baseline" } else { "since the daemon started" };
    let _ = write!(line, " ({since})");
    if waits.count > 0 {
        let mean_ns = waits.sum_ns as f64 / waits.count as f64;
        let _ = write!(line, "; now {} in the mean", duration(mean_ns));
    }
    text.push_str(&line);
    text.push('\n');
}

fn incidents(text: &mut String, found: &Findings) {
    if found.around.incidents.is_empty() {
        return;
    }
    text.push_str("\nincidents of the last minutes (`noised incidents` has all of them)\n");
    for report in found.around.incidents.iter().rev().take(SHOWN) {
        let _ = writeln!(text, "  {}", incident(report));
    }
}

fn incident(report: &Report) -> String {
    let Episode { start, culprits, lost_seconds, .. } = &report.main;
    let start = start.strftime("%H:%M:%S UTC");
    let whose = report.main.whose();
    let mut line = format!(
        "#{} {}, since {start}, {}: {lost_seconds:.3} s excess delay",
        report.id,
        clean(&whose),
        report.standing()
    );
    if let Some(first) = culprits.first() {
        let name = clean(&first.culprit);
        let _ = write!(line, ", most by {name} ({})", first.cause.name());
    }
    line
}

fn remedies(text: &mut String, found: &Findings) {
    if found.remedies.is_empty() {
        return;
    }
    text.push_str("\nwhat can be done\n");
    for advice in found.remedies.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}\n    {} {}", advice.setting, advice.effect, advice.cost);
    }
}

fn paths(text: &mut String, found: &Findings) {
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
    let _ = writeln!(text, "\n{heading}\n");
    let mut executions = found.executions.clone();
    for traced in executions.iter_mut().filter(|_| !is_asked) {
        let after = traced.from_ns.saturating_sub(found.from_ns);
        traced.name = format!("after {}", time(after));
    }
    let document = Document { executions, ..Document::default() };
    text.push_str(&document_page(&document));
}

#[cfg(test)]
mod tests;

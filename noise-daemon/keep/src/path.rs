//! The paths of the longest waits of an incident's victim, from the events that were kept.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read};

use noise_analysis::{Name, Watched};
use noise_common::charge::{CHARGE_CAUSES, Cause};
use noise_common::store::StoredEvent;
use noise_common::subject::SubjectKind;
use noise_paths::blame::Blame;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::{PathsDocument, Traced, traced};
use noise_paths::execution::Execution;
use noise_paths::feed;
use noise_paths::graph::Graph;
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_text::clean::clean;
use noise_text::units::duration;
use noise_trace::capture::HeldReader;
use noise_trace::delays::Delays;
use noise_trace::record::Source as _;
use noise_wire::events::{AnswerItem, StretchHead};

use super::file::{About, KeptError, read};
use super::newest::Newest;
use super::replay::{Replayed, offset_ns, replay};
use super::requests::{KeptRequests, Waited};
use super::ties::Ties;
use super::unseen::{Gaps, Unseen};
use super::waits::{KeptWait, LongestWaits, Wanted};

/// Waits whose paths are found.
const MOST_WAITS: usize = 3;
/// Events before a wait that are looked at, for who runs where and who is on the way to wake whom.
const LEAD_NS: u64 = 100_000_000;
/// Most events of one path, the latest: this bounds the memory that it takes.
const MOST_EVENTS: usize = 1 << 16;
/// Longest document: the daemon has those of all incidents in memory. Of a longer path there is the sentence alone.
const MOST_DOCUMENT_BYTES: usize = 128 << 10;

/// What opens a file of kept events, which is read more than once.
pub type Open<'a> = &'a dyn Fn() -> io::Result<Box<dyn Read>>;

/// Paths, with what each is about.
#[derive(Debug, Default)]
pub struct PathsFound {
    /// One execution for each wait, the longest first, with a name that the exported recording understands.
    pub document: PathsDocument,
    /// The same in sentences.
    pub sentences: Vec<Name>,
    /// Whom the victim works with, as far as the events before these waits say it.
    pub ties: Option<Ties>,
}

/// Finds them. Its memory is bounded, however many events there are.
/// Errors: where the file is damaged.
pub fn find(open: Open<'_>) -> Result<PathsFound, KeptError> {
    let (head, about) = read(open()?, |_, _| {})?;
    let mut found = PathsFound::default();
    let mut bytes = 0;
    let own = about.who.of_cgroup(&about.subject);
    let mut ties = Ties { of: about.subject.as_str().into(), with: BTreeSet::new() };
    let mut is_known = !own.is_empty();
    for wait in longest(open, &head, &about)? {
        let path = path(open, &head, &about, wait, &mut found.document.discarded, |graph| {
            is_known &= ties.add(graph, &own, &about.who).is_some();
        })?;
        let Some(traced) = path else { continue };
        found.sentences.push(sentence(&traced).into());
        bytes += serde_json::to_string(&traced).map_or(0, |text| text.len());
        if bytes <= MOST_DOCUMENT_BYTES {
            found.document.executions.push(traced);
        }
    }
    found.ties = Some(ties).filter(|_| is_known && !found.sentences.is_empty());
    Ok(found)
}

fn is_of_cgroup(watched: Watched) -> bool {
    let signal = watched.signal();
    signal.is_none_or(|signal| matches!(signal.info().subject, SubjectKind::Cgroup))
}

/// The longest waits of the victim since it was disturbed: of a device's requests, else of the threads in a cgroup,
/// else of any. Of a cgroup none of whose threads is known, no waits are.
pub(super) fn longest(
    open: Open<'_>,
    head: &StretchHead,
    about: &About,
) -> Result<Vec<KeptWait>, KeptError> {
    let own = about.who.of_cgroup(&about.subject);
    if own.is_empty() && is_of_cgroup(about.signal) {
        return Ok(Vec::new());
    }
    let mut waits = LongestWaits::new(Some(&own).filter(|own| !own.is_empty()));
    let mut requests =
        KeptRequests::of(about.signal, &about.subject, |name| about.who.device(name));
    let (mut unseen, mut end_ns) = (Unseen::default(), 0);
    read(open()?, |_, item| {
        unseen.note(&item);
        match item {
            AnswerItem::Events { place, events, .. } => {
                for event in &events {
                    end_ns = end_ns.max(event.time_ns);
                    waits.note(event);
                    if let Some(requests) = &mut requests {
                        requests.note(place, event);
                    }
                }
            }
            AnswerItem::Missing { place, .. } => {
                if let Some(requests) = &mut requests {
                    requests.missing(place);
                }
            }
            _ => {}
        }
    })?;
    let gaps = unseen.finish();
    // No event is newer than when the incident opened.
    let end_ns = end_ns.max(head.until_ns.min(head.monotonic_ns));
    let started_ns = u64::try_from(about.started.as_nanosecond()).unwrap_or(0);
    let since_ns = started_ns.saturating_sub(offset_ns(head));
    let (wanted, span_ns) = (Wanted::of(about.signal), (since_ns, end_ns));
    Ok(match requests.map(|requests| requests.waited(end_ns, &gaps)) {
        Some(waited) => for_requests(waits, &waited, wanted, span_ns, &gaps),
        None => waits.longest(wanted, span_ns, &gaps, MOST_WAITS),
    })
}

/// The sleeps in which requests were waited for the longest: one's own, else any, else all sleeps that no signal ends.
fn for_requests(
    waits: LongestWaits<'_>,
    waited: &Waited,
    wanted: Wanted,
    span_ns: (u64, u64),
    gaps: &Gaps,
) -> Vec<KeptWait> {
    // One that a signal may end is for something else where the request has a small part of it.
    let own = |wait: &KeptWait, is_blocked: bool| {
        let ns = waited.own_ns(wait.tid, wait.from_ns, wait.to_ns);
        if is_blocked || ns >= wait.ns() / 2 { ns } else { 0 }
    };
    let any = |wait: &KeptWait, is_blocked: bool| match is_blocked {
        true => waited.any_ns(wait.from_ns, wait.to_ns),
        false => 0,
    };
    let wanted_of_own = Wanted { asleep: true, ..wanted };
    let found = waits.clone().heaviest(wanted_of_own, span_ns, gaps, MOST_WAITS, own);
    if !found.is_empty() {
        return found;
    }
    let found = waits.clone().heaviest(wanted, span_ns, gaps, MOST_WAITS, any);
    if !found.is_empty() {
        return found;
    }
    waits.longest(wanted, span_ns, gaps, MOST_WAITS)
}

fn each_event(open: Open<'_>, mut each: impl FnMut(&StoredEvent)) -> Result<(), KeptError> {
    read(open()?, |_, item| {
        if let AnswerItem::Events { events, .. } = item {
            events.iter().for_each(&mut each);
        }
    })?;
    Ok(())
}

/// From when on events are looked at for a wait: so far back, unless these are too many.
fn lead_ns(open: Open<'_>, wait: KeptWait) -> Result<u64, KeptError> {
    let from_ns = wait.from_ns.saturating_sub(LEAD_NS);
    let mut latest = Newest::new(MOST_EVENTS, |at_ns: &u64| *at_ns);
    each_event(open, |event| {
        if (from_ns..=wait.to_ns).contains(&event.time_ns) {
            latest.add(event.time_ns);
        }
    })?;
    Ok(latest.finish().into_iter().min().unwrap_or(from_ns))
}

/// The path of one wait; `None` where its thread is not in the events that are looked at. `look` is shown the graph
/// that it is in.
fn path(
    open: Open<'_>,
    head: &StretchHead,
    about: &About,
    wait: KeptWait,
    discarded: &mut u64,
    look: impl FnOnce(&Graph),
) -> Result<Option<Traced>, KeptError> {
    let from_ns = lead_ns(open, wait)?;
    let part = open()?;
    let Replayed { packets, lost, .. } = replay(part, about, from_ns..=wait.to_ns, [0; 16])?;
    *discarded = discarded.saturating_add(lost);
    let offset_ns = offset_ns(head);
    let real_ns = |at_ns: u64| at_ns.saturating_add(offset_ns);
    let (from_ns, to_ns) = (real_ns(wait.from_ns), real_ns(wait.to_ns));
    let mut builder = Builder::new(Waker::Waking);
    let mut reader = HeldReader::new(&packets, offset_ns);
    while let Some(record) = reader.read() {
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    let Some(worker) = builder.thread(0, wait.tid.cast_signed()) else { return Ok(None) };
    builder.until(worker, to_ns);
    let execution = Execution { worker, from_ns, to_ns, has_begin: false, has_end: false };
    let Some(path) = walk(builder.graph(), worker, from_ns, to_ns, Bounds::default()) else {
        return Ok(None);
    };
    let name = format!("thread:{}@{from_ns}..{to_ns}", wait.tid);
    let traced = traced(builder.graph(), &name, &execution, &path);
    look(builder.graph());
    drop(builder);
    let mut one = PathsDocument { executions: vec![traced], ..PathsDocument::default() };
    let mut blame = Blame::new(&one, Delays::of_turns());
    let mut reader = HeldReader::new(&packets, offset_ns);
    while let Some(record) = reader.read() {
        if blame.is_over() {
            break;
        }
        blame.follow(&record.event(), &mut one);
    }
    blame.finish(&mut one);
    Ok(one.executions.pop())
}

/// Who had so long of it, as it follows what was waited for: of a CPU, or of something else.
fn whose(of_cpu: bool, tid: i32, comm: &str, cause: &str, time: &str) -> String {
    let cause = CHARGE_CAUSES.into_iter().find(|one| one.name() == cause);
    match (cause, of_cpu) {
        _ if tid > 0 && of_cpu => format!("; {comm} {tid} had the CPU for {time}"),
        _ if tid > 0 => format!("; {time} of it for {comm} {tid}"),
        (Some(Cause::Untracked) | None, true) => {
            format!(
                "; it is not known who had the CPU for {time} (no kept event says who ran then)"
            )
        }
        (Some(Cause::Untracked) | None, false) => {
            format!("; for whom is not known for {time} of it")
        }
        (Some(Cause::Throttle), _) => format!("; a CPU quota stopped it for {time}"),
        (Some(Cause::Steal), _) => format!("; the hypervisor took {time} of it"),
        (Some(Cause::Iowait), _) => format!("; {time} of it until I/O was done"),
        (Some(Cause::Idle), true) => format!("; the CPU was idle for {time} of it"),
        (Some(cause), true) => format!("; {} had the CPU for {time}", cause.name()),
        (Some(cause), false) => format!("; {time} of it for {}", cause.name()),
    }
}

/// Who waited how long, what for, and for whom: a line whatever the names are.
fn sentence(traced: &Traced) -> String {
    let time = |ns: u64| duration(ns as f64);
    let mut text = format!("{} {} waited {}", traced.comm, traced.tid, time(traced.span_ns));
    let mut states: Vec<_> = traced.totals_ns.iter().filter(|(_, ns)| **ns > 0).collect();
    states.sort_by_key(|(state, ns)| (Reverse(**ns), **state));
    let share = |ns: u64| 100.0 * ns as f64 / traced.span_ns.max(1) as f64;
    let parts = states.iter().take(2).map(|(state, ns)| format!("{state} {:.0} %", share(**ns)));
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        text.push_str(&format!(": {}", parts.join(", ")));
    }
    let mut culprits: HashMap<(bool, i32, &str, &str), u64> = HashMap::new();
    for segment in &traced.path {
        let of_cpu = segment.state == State::WaitingCpu.name();
        for culprit in &segment.culprits {
            let who = (of_cpu, culprit.tid, &*culprit.comm, culprit.cause);
            let sum = culprits.entry(who).or_default();
            *sum = sum.saturating_add(culprit.ns);
        }
    }
    let worst = culprits.into_iter().max_by_key(|(who, ns)| (*ns, *who));
    if let Some(((of_cpu, tid, comm, cause), ns)) = worst {
        text.push_str(&whose(of_cpu, tid, comm, cause, &time(ns)));
    }
    clean(&text).into_owned()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::file::made;
    use noise_common::signals::Signal;

    fn found(file: Vec<u8>) -> PathsFound {
        find(&|| Ok(Box::new(io::Cursor::new(file.clone())) as Box<dyn Read>)).unwrap()
    }

    #[test]
    fn the_longest_waits_have_paths_that_name_who_had_the_cpu() {
        let found = found(made::file());
        let spans: Vec<u64> =
            found.document.executions.iter().map(|one| one.span_ns / 1_000_000).collect();
        assert_eq!(spans, [30, 3]);
        let first = &found.document.executions[0];
        assert_eq!((first.tid, &*first.comm), (7, "web"));
        assert_eq!(first.name, "thread:7@1020000000..1050000000");
        assert_eq!(first.totals_ns["waiting_cpu"], 30_000_000);
        let culprits: Vec<_> = first.path.iter().flat_map(|one| &one.culprits).collect();
        assert_eq!((culprits[0].tid, &*culprits[0].comm), (9, "hog"));
        assert_eq!(
            &*found.sentences[0],
            "web 7 waited 30.0 ms: waiting_cpu 100 %; hog 9 had the CPU for 30.0 ms"
        );
    }

    #[test]
    fn who_had_it_is_said_in_words() {
        let of = |of_cpu, tid, comm: &str, cause: &str| whose(of_cpu, tid, comm, cause, "1.09 min");
        assert_eq!(of(true, 7, "hog", "thread"), "; hog 7 had the CPU for 1.09 min");
        assert_eq!(of(false, 7, "hog", "thread"), "; 1.09 min of it for hog 7");
        assert_eq!(
            of(true, -1, "", "untracked"),
            "; it is not known who had the CPU for 1.09 min (no kept event says who ran then)"
        );
        assert_eq!(of(false, -1, "", "untracked"), "; for whom is not known for 1.09 min of it");
        assert_eq!(of(true, -1, "", "throttle"), "; a CPU quota stopped it for 1.09 min");
        assert_eq!(of(true, 0, "swapper/0", "idle"), "; the CPU was idle for 1.09 min of it");
        assert_eq!(of(true, -1, "", "hardirq"), "; hardirq had the CPU for 1.09 min");
    }

    #[test]
    fn an_incident_of_a_disk_follows_those_who_waited_for_it() {
        let signal = Signal::BlockDeviceWait;
        let found = found(made::disk_file(signal));
        let names: Vec<&str> = found.document.executions.iter().map(|one| &*one.name).collect();
        // The longest sleep of all is that of 8, and the second of 7 is for a disk in its least part.
        let expected = ["thread:7@1010000000..1040000000", "thread:9@1006000000..1029002000"];
        assert_eq!(names, expected);
        let first = &found.document.executions[0];
        assert_eq!(first.totals_ns["disk"], 29_000_000, "{first:?}");
        let ahead: Vec<_> = first.path[0].culprits.iter().map(|one| (one.tid, one.ns)).collect();
        // 16 sectors of the other, which ended first, against 8.
        assert_eq!(ahead, [(9, 18_961_539), (7, 10_038_461)]);
        let expected = "web 7 waited 30.0 ms: disk 97 %, waiting_cpu 3 %; 19.0 ms of it for hog 9";
        assert_eq!(&*found.sentences[0], expected);
    }

    #[test]
    fn without_requests_of_its_own_any_sleep_behind_the_disk_counts() {
        let signal = Signal::BlockQueueWait;
        // None was queued.
        let found = found(made::disk_file(signal));
        assert_eq!(found.document.executions[0].tid, 8);
    }

    #[test]
    fn what_cannot_be_used_says_so_in_a_sentence() {
        let whole = made::file();
        let cut = |length: usize| whole[..length].to_vec();
        let packed = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        let plain = zstd::decode_all(whole.as_slice()).unwrap();
        let mut newer = plain.clone();
        newer[8] = 99;
        let head = StretchHead::default();
        let mut without_about = Vec::new();
        head.write(&mut without_about);
        AnswerItem::End { events: 0, missing: 0 }.write(&mut without_about);
        let damaged = "is cut off, damaged or none of noised (";
        for (file, words) in [
            (Vec::new(), damaged),
            (cut(3), damaged),
            (cut(whole.len() / 2), damaged),
            (cut(whole.len() - 1), damaged),
            (b"#!/bin/sh\necho garbage".to_vec(), damaged),
            (packed(&[7; 100]), "these are not events of noised"),
            (packed(&newer), "use the same version"),
            (packed(&plain[..plain.len() - 9]), "who is who is damaged"),
            (packed(&without_about), "who is who is damaged"),
        ] {
            let error = find(&|| Ok(Box::new(io::Cursor::new(file.clone())) as Box<dyn Read>));
            let text = error.unwrap_err().to_string();
            assert!(text.contains(words) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn of_a_cgroup_without_known_threads_no_waits_are_shown() {
        let sentences = |signal: Watched| {
            let about = About { signal, subject: "gone.service".to_owned(), ..made::about() };
            let mut file = Vec::new();
            crate::file::write(&mut file, made::pieces(), |_| about).unwrap();
            found(file).sentences.len()
        };
        for signal in [Watched::Interruption, Signal::CgroupRunqueueWait.into()] {
            assert_eq!(sentences(signal), 0);
        }
        // That of all threads has no cgroup.
        assert_eq!(sentences(Signal::RunqueueWait.into()), 3);
    }

    #[test]
    fn a_victim_without_waits_has_no_paths() {
        let mut file = Vec::new();
        let about = About { signal: Signal::UninterruptibleWait.into(), ..made::about() };
        crate::file::write(&mut file, made::pieces(), |_| about).unwrap();
        let found = found(file);
        assert!(found.document.executions.is_empty() && found.sentences.is_empty());
    }
}

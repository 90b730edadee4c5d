//! The paths of the longest waits of an incident's victim, from the events that were kept.

use std::collections::HashMap;
use std::io::{self, Read};

use noise_analysis::Name;
use noise_common::store::Event;
use noise_model::clean::clean;
use noise_model::units::duration;
use noise_paths::blame::Blame;
use noise_paths::build::{Builder, Waker};
use noise_paths::document::{Document, Traced, traced};
use noise_paths::execution::Execution;
use noise_paths::feed;
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_trace::ctf::{Layout, Reader, StreamFile};
use noise_trace::delays::Delays;
use noise_wire::events::{Item, StretchHead};

use super::file::{About, KeptError, read};
use super::newest::Newest;
use super::replay::{Replayed, offset_ns, replay};
use super::waits::{Wait, Waits, Wanted};

/// Waits whose paths are found.
const MOST_WAITS: usize = 3;
/// Events before a wait that are looked at, for who runs where and who is on the way to wake whom.
const LEAD_NS: u64 = 100_000_000;
/// Most events of one path, the latest: this bounds the memory that it takes.
const MOST_EVENTS: usize = 1 << 16;
/// Longest document: the daemon has those of all incidents in memory. Of a path that is longer there is the
/// sentence alone.
const MOST_BYTES: usize = 128 << 10;

/// What opens a file of kept events, which is read more than once.
pub type Open<'a> = &'a dyn Fn() -> io::Result<Box<dyn Read>>;

/// Paths, with what each is about.
#[derive(Debug, Default)]
pub struct Found {
    /// One execution for each wait, the longest first, with a name that the exported recording understands.
    pub document: Document,
    /// The same in sentences.
    pub sentences: Vec<Name>,
}

/// Why there are no paths.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The file cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The recording that it became cannot be read.
    #[error("its kernel events cannot be read: {0}")]
    Replayed(String),
}

/// Finds them. Its memory is bounded, however many events there are.
///
/// # Errors
/// Where the file is damaged.
pub fn find(open: Open<'_>) -> Result<Found, PathError> {
    let (head, about) = read(open().map_err(KeptError::from)?, |_, _| {})?;
    let mut found = Found::default();
    let mut bytes = 0;
    for wait in longest(open, &head, &about)? {
        let Some(traced) = path(open, &head, &about, wait, &mut found.document.discarded)? else {
            continue;
        };
        found.sentences.push(sentence(&traced).into());
        bytes += serde_json::to_string(&traced).map_or(0, |text| text.len());
        if bytes <= MOST_BYTES {
            found.document.executions.push(traced);
        }
    }
    Ok(found)
}

/// The longest waits of the victim since it was disturbed: of the threads in a cgroup, else of any.
fn longest(open: Open<'_>, head: &StretchHead, about: &About) -> Result<Vec<Wait>, KeptError> {
    let own = about.who.of_cgroup(&about.subject);
    let mut waits = Waits::new(Some(&own).filter(|own| !own.is_empty()));
    let mut end_ns = 0;
    each_event(open, |event| {
        end_ns = end_ns.max(event.time_ns);
        waits.note(event);
    })?;
    // No event is newer than when the incident opened.
    let end_ns = end_ns.max(head.until_ns.min(head.monotonic_ns));
    let started_ns = u64::try_from(about.started.as_nanosecond()).unwrap_or(0);
    let since_ns = started_ns.saturating_sub(offset_ns(head));
    Ok(waits.longest(Wanted::of(about.signal), (since_ns, end_ns), MOST_WAITS))
}

fn each_event(open: Open<'_>, mut each: impl FnMut(&Event)) -> Result<(), KeptError> {
    read(open()?, |_, item| {
        if let Item::Events { events, .. } = item {
            events.iter().for_each(&mut each);
        }
    })?;
    Ok(())
}

/// From when on events are looked at for a wait: so far back, unless these are too many.
fn lead_ns(open: Open<'_>, wait: Wait) -> Result<u64, KeptError> {
    let from_ns = wait.from_ns.saturating_sub(LEAD_NS);
    let mut latest = Newest::new(MOST_EVENTS, |at_ns: &u64| *at_ns);
    each_event(open, |event| {
        if (from_ns..=wait.to_ns).contains(&event.time_ns) {
            latest.add(event.time_ns);
        }
    })?;
    Ok(latest.finish().into_iter().min().unwrap_or(from_ns))
}

/// The path of one wait; `None` where its thread is not in the events that are looked at.
fn path(
    open: Open<'_>,
    head: &StretchHead,
    about: &About,
    wait: Wait,
    discarded: &mut u64,
) -> Result<Option<Traced>, PathError> {
    let from_ns = lead_ns(open, wait)?;
    let part = open().map_err(KeptError::from)?;
    let Replayed { metadata, packets, lost } = replay(part, about, from_ns..=wait.to_ns, [0; 16])?;
    *discarded = discarded.saturating_add(lost);
    let layout =
        Layout::parse(&metadata).map_err(|error| PathError::Replayed(error.to_string()))?;
    let named = (0..).zip(&packets);
    let named: Vec<(String, &[u8])> =
        named.map(|(cpu, packets)| (format!("channel0_{cpu}"), packets.bytes())).collect();
    let files: Vec<_> = named.iter().map(|(name, bytes)| StreamFile { name, bytes }).collect();
    let offset_ns = offset_ns(head);
    let real_ns = |at_ns: u64| at_ns.saturating_add(offset_ns);
    let (from_ns, to_ns) = (real_ns(wait.from_ns), real_ns(wait.to_ns));
    let mut builder = Builder::new(Waker::Waking);
    for record in Reader::new(&layout, &files) {
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
    drop(builder);
    let mut one = Document { executions: vec![traced], ..Document::default() };
    let mut blame = Blame::new(&one, Delays::of_turns());
    for record in Reader::new(&layout, &files) {
        if blame.is_over() {
            break;
        }
        blame.follow(&record.event(), &mut one);
    }
    blame.finish(&mut one);
    Ok(one.executions.pop())
}

/// Who waited how long, what for, and for whom: a line whatever the names are.
fn sentence(traced: &Traced) -> String {
    let time = |ns: u64| duration(ns as f64);
    let mut text = format!("{} {} waited {}", traced.comm, traced.tid, time(traced.span_ns));
    let mut states: Vec<_> = traced.totals_ns.iter().filter(|(_, ns)| **ns > 0).collect();
    states.sort_by_key(|(state, ns)| (std::cmp::Reverse(**ns), **state));
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
        let who = if tid > 0 { format!("{comm} {tid}") } else { cause.to_owned() };
        let ns = time(ns);
        text.push_str(&match of_cpu {
            true => format!("; {who} had the CPU for {ns}"),
            false => format!("; {ns} of it for {who}"),
        });
    }
    clean(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::*;
    use crate::kept::file::made;

    fn found(file: Vec<u8>) -> Found {
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_file_makes_it_panic(
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
            length in any::<usize>(),
        ) {
            let mut plain = zstd::decode_all(made::file().as_slice()).unwrap();
            for (at, byte) in changes {
                let at = at % plain.len();
                plain[at] = byte;
            }
            if length.is_multiple_of(8) {
                plain.truncate(length % plain.len());
            }
            let file = zstd::encode_all(plain.as_slice(), 1).unwrap();
            let _ = find(&|| Ok(Box::new(io::Cursor::new(file.clone())) as Box<dyn Read>));
        }
    }

    #[test]
    fn a_victim_without_waits_has_no_paths() {
        let mut file = Vec::new();
        let about = About {
            signal: noise_common::signals::Signal::UninterruptibleWait.into(),
            ..made::about()
        };
        super::super::file::write(&mut file, made::pieces(), |_| about).unwrap();
        let found = found(file);
        assert!(found.document.executions.is_empty() && found.sentences.is_empty());
    }
}

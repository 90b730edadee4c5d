//! Rings that go back differently far and end at different times: what is said of a generated schedule is true, or it is
//! unknown.

mod played;

use std::io::{self, Read};

use noise_common::signals::Signal;
use noise_paths::build::{Builder, Waker};
use noise_paths::feed;
use noise_paths::graph::Who;
use noise_paths::state::State;
use noise_paths::walk::{Bounds, walk};
use noise_trace::analysis::Analysis as _;
use noise_trace::ctf::write::metadata;
use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout};
use noise_trace::delays::watch::{Delay, Run, RunQueueWait as Waited, Watch};
use noise_trace::delays::{Begin, Delays};
use noise_trace::record::Source as _;
use proptest::prelude::{ProptestConfig, TestCaseError, prop_assert, prop_assert_eq, proptest};

use self::played::{Played, PlayedPart, Reach, What, acts, cut, hole, play, reaches};
use super::file::{About, made};
use super::path::{find, longest};
use super::replay::replay;

fn about(signal: Signal) -> About {
    let about = made::about();
    // All threads are in one cgroup.
    let mut who = serde_json::to_value(&about.who).unwrap();
    who["cgroups"] = serde_json::json!([["/any", (11..100).collect::<Vec<u32>>()]]);
    let who = serde_json::from_value(who).unwrap();
    About { signal: signal.into(), subject: "/any".to_owned(), who, ..about }
}

/// Waits as they are shown: tid, from, to, and the parts of threads.
#[derive(Debug, Default)]
struct WaitCollector(Vec<Single>);

/// Who, from when until when, and for whom.
type Single = (u32, u64, u64, Vec<(i32, u64)>);

impl Watch for WaitCollector {
    const EACH: bool = true;

    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, wait: &Waited<'_>) {
        let parts = wait.parts().filter(|(way, _)| *way == "culprits");
        let parts = parts.filter_map(|(_, charge)| Some((charge.tid?, charge.ns))).collect();
        self.0.push((wait.tid.cast_unsigned(), wait.from_ns, wait.to_ns, parts));
    }

    fn delayed(&mut self, _: &Delay<'_>) {}
}

/// Holds what is read of a recording, of rings that reach so far, against what truly happened.
fn judge(
    played: &Played,
    reach: &Reach,
    metadata: &str,
    packets: &[&[u8]],
) -> Result<(), TestCaseError> {
    let Some(kept) = played.kept(reach) else { return Ok(()) };
    let layout = TraceLayout::parse(metadata).unwrap();
    let files = packets.iter().zip(["channel0_0", "channel0_1", "channel0_2"]);
    let files: Vec<_> = files.map(|(bytes, name)| StreamFile::held(name, bytes)).collect();
    let mut delays = Delays::new(Begin::Waking);
    let (mut shown, mut builder) = (WaitCollector::default(), Builder::new(Waker::Waking));
    let (mut reader, mut last_ns) = (CtfReader::new(&layout, &files), 0);
    while let Some(record) = reader.read() {
        last_ns = record.time_ns;
        delays.follow_each(&record.event(), &mut shown);
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    if !reach.has_holes() {
        judge_waits(played, reach, *kept.end(), &shown)?;
    }
    judge_graph(played, reach, last_ns, builder)
}

/// Waits are true, and those that all CPUs are seen for are all there, of events up to that time.
fn judge_waits(
    played: &Played,
    reach: &Reach,
    end_ns: u64,
    WaitCollector(shown): &WaitCollector,
) -> Result<(), TestCaseError> {
    for (tid, from_ns, to_ns, parts) in shown {
        let is_true = played.is_true(*tid, What::Waits, *from_ns, *to_ns);
        prop_assert!(is_true, "{} {}..{} with {:?}", tid, from_ns, to_ns, reach);
        for (culprit, ns) in parts.iter().filter(|(culprit, _)| *culprit > 0) {
            let ran_ns = played.ran_ns(culprit.cast_unsigned(), *from_ns, *to_ns);
            prop_assert!(*ns <= ran_ns, "{} ran {} of {} ns", culprit, ran_ns, ns);
        }
    }
    let (since_ns, until_ns) = reach.of_all();
    let until_ns = until_ns.min(end_ns);
    let is_whole =
        |from_ns: u64, to_ns: u64| since_ns < from_ns && from_ns < to_ns && to_ns <= until_ns;
    let waits = played.parts().filter(|part| part.what == What::Waits);
    let ended = waits.filter(|part| is_whole(part.from_ns, part.to_ns)).count();
    let seen = shown.iter().filter(|(_, from_ns, to_ns, _)| is_whole(*from_ns, *to_ns)).count();
    prop_assert!(seen >= ended, "{} of {}", seen, ended);
    if since_ns == 0 && until_ns == end_ns {
        prop_assert_eq!(seen, ended);
    }
    Ok(())
}

/// What a state says; none where it leaves that open.
fn what(state: State) -> Option<What> {
    match state {
        State::WaitingCpu => Some(What::Waits),
        State::Running => Some(What::Runs),
        State::Unknown | State::Created => None,
        _ => Some(What::Sleeps),
    }
}

/// What threads did is true, and so are the critical paths of all of them, up to that time.
fn judge_graph(
    played: &Played,
    reach: &Reach,
    end_ns: u64,
    mut builder: Builder,
) -> Result<(), TestCaseError> {
    let all: Vec<_> = builder.graph().workers().map(|(id, _)| id).collect();
    all.iter().for_each(|id| builder.until(*id, end_ns));
    let graph = builder.graph();
    let mut known = Vec::new();
    let check = |tid: i32, state: Option<State>, from_ns: u64, to_ns: u64| {
        let Some(what) = state.and_then(what).filter(|_| from_ns < to_ns) else { return Ok(()) };
        let is_true = played.is_true(tid.cast_unsigned(), what, from_ns, to_ns);
        prop_assert!(is_true, "{} {:?} {}..{} with {:?}", tid, what, from_ns, to_ns, reach);
        Ok(())
    };
    for (id, worker) in graph.workers() {
        let Who::Thread { tid, .. } = worker.who else { continue };
        for (before, point) in worker.points().zip(worker.points().skip(1)) {
            check(tid, point.state, before.time_ns, point.time_ns)?;
            let what = point.state.and_then(what);
            known.extend(what.map(|what| (tid, what, before.time_ns, point.time_ns)));
        }
        let span_ns = worker.life().filter(|(from_ns, to_ns)| from_ns < to_ns);
        let path =
            span_ns.and_then(|span_ns| walk(graph, id, span_ns.0, span_ns.1, Bounds::default()));
        for step in path.iter().flat_map(|path| &path.steps) {
            if let Some(Who::Thread { tid, .. }) = graph.get(step.last()).map(|worker| worker.who) {
                let (from_ns, to_ns) = step.span();
                check(tid, Some(step.state()), from_ns, to_ns)?;
            }
        }
    }
    // Where all CPUs are seen, all is known.
    let (since_ns, until_ns) = reach.of_all();
    let is_whole =
        |part: &&PlayedPart| since_ns < part.from_ns && part.to_ns <= until_ns.min(end_ns);
    for part in played.parts().filter(|_| !reach.has_holes()).filter(is_whole) {
        let own = known.iter().filter(|(tid, what, from_ns, to_ns)| {
            tid.cast_unsigned() == part.tid
                && *what == part.what
                && part.from_ns <= *from_ns
                && *to_ns <= part.to_ns
        });
        let known_ns: u64 = own.map(|(_, _, from_ns, to_ns)| to_ns - from_ns).sum();
        prop_assert_eq!(known_ns, part.to_ns - part.from_ns, "{:?} with {:?}", part, reach);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_wait_is_longer_than_it_was(
        acts in acts(),
        begins in [0.0..1.2_f64, 0.0..1.2, 0.0..1.2],
        ends in [0.0..2.0_f64, 0.0..2.0, 0.0..2.0],
        holes in [hole(), hole(), hole()],
    ) {
        let played = play(&acts);
        let reach = reaches(&played, begins, ends, holes);
        // The longest waits, and their paths.
        for signal in [Signal::RunqueueWait, Signal::UninterruptibleWait] {
            let about = about(signal);
            let file = played.file(&reach, &about);
            let open = || Ok(Box::new(io::Cursor::new(file.clone())) as Box<dyn Read>);
            let (head, about) = super::file::read(file.as_slice(), |_, _| {}).unwrap();
            for wait in longest(&open, &head, &about).unwrap() {
                let (from_ns, to_ns) = (wait.from_ns, wait.to_ns);
                let is_true = match signal {
                    Signal::RunqueueWait => played.is_true(wait.tid, What::Waits, from_ns, to_ns),
                    // From the sleep until it runs again.
                    _ => played.ran_ns(wait.tid, from_ns, to_ns) == 0,
                };
                prop_assert!(is_true, "{:?} with {:?}", wait, reach);
            }
            let found = find(&open).unwrap();
            for one in found.document.executions.iter().flat_map(|traced| &traced.path) {
                let what = match one.state {
                    "waiting_cpu" => What::Waits,
                    "running" => What::Runs,
                    _ => continue,
                };
                let is_true = played.is_true(one.tid.cast_unsigned(), what, one.from_ns, one.to_ns);
                prop_assert!(one.tid <= 0 || is_true, "{:?} with {:?}", one, reach);
            }
        }
        // All of it as a recording.
        let about = about(Signal::RunqueueWait);
        let file = played.file(&reach, &about);
        let Some(kept) = played.kept(&reach) else { return Ok(()) };
        let replayed = replay(file.as_slice(), &about, kept, [1; 16]).unwrap();
        let packets: Vec<_> = replayed.packets.iter().map(|packets| packets.bytes()).collect();
        judge(&played, &reach, &replayed.metadata, &packets)?;
    }

    #[test]
    fn of_a_snapshot_no_wait_is_longer_than_it_was(
        acts in acts(),
        cuts in [cut(), cut(), cut()],
        are_numbered: bool,
    ) {
        let played = play(&acts);
        let (packets, reach) = played.snapshot(cuts);
        let mut metadata = metadata([1; 16], &made::about().who.origin(0));
        if !are_numbered {
            metadata = metadata.replace("packet_seq_num", "other");
        }
        let packets: Vec<_> = packets.iter().map(Vec::as_slice).collect();
        judge(&played, &reach, &metadata, &packets)?;
    }
}

//! Rings that go back differently far: what is said of a generated schedule is true, or it is unknown.

use std::io::{self, Read};
use std::ops::RangeInclusive;

use noise_common::signals::Signal;
use noise_common::store::EventKind;
use noise_common::store::event::{Body, Payload, shown_state};
use noise_paths::build::{Builder, Waker};
use noise_paths::feed;
use noise_paths::graph::Who;
use noise_paths::state::State;
use noise_trace::ctf::write::{HEAD_BYTES, StreamWriter, metadata};
use noise_trace::ctf::{Layout, Reader, StreamFile};
use noise_trace::delays::watch::{Delay, Run, Wait as Waited, Watch};
use noise_trace::delays::{Begin, Delays};
use noise_trace::event::{Comm, Kind, Task, Woken};
use noise_trace::record::Source as _;
use noise_trace::state::LeftIn;
use noise_wire::events::{Item, Place, StretchHead};
use proptest::prelude::{
    ProptestConfig, TestCaseError, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::strategy::{Just, Strategy};

use super::file::{About, made, write};
use super::path::{find, longest};
use super::replay::replay;

const CPUS: usize = 3;
const THREADS: usize = 5;

/// A step of a schedule: what is done, where, with which thread, and how long after the step before.
type Act = (bool, usize, usize, u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Runs,
    Waits,
    Sleeps,
}

/// What a thread truly did.
#[derive(Clone, Copy, Debug)]
struct Part {
    tid: u32,
    what: What,
    from_ns: u64,
    to_ns: u64,
}

/// Events by CPU, and the truth.
#[derive(Debug, Default)]
struct Played {
    events: Vec<(usize, u64, Body)>,
    truth: Vec<Part>,
    end_ns: u64,
}

fn play(acts: &[Act]) -> Played {
    let mut played = Played::default();
    let mut threads = [(What::Sleeps, 0_u64); THREADS];
    let mut running: [Option<usize>; CPUS] = [None; CPUS];
    let mut now_ns = 1_000;
    let tid = |thread: usize| thread as u32 + 11;
    let mut turn = |thread: usize, what: What, now_ns: u64, truth: &mut Vec<Part>| {
        let (before, from_ns) = std::mem::replace(&mut threads[thread], (what, now_ns));
        truth.push(Part { tid: tid(thread), what: before, from_ns, to_ns: now_ns });
        before
    };
    let mut states = [What::Sleeps; THREADS];
    for (is_wake, cpu, thread, state, later_ns) in acts.iter().copied() {
        now_ns += later_ns;
        if is_wake {
            if states[thread] == What::Sleeps {
                let target = (state as usize + cpu) % CPUS;
                let body =
                    Body::task(EventKind::Waking, tid(thread), 120, target as u32, 0, now_ns);
                played.events.push((cpu, now_ns, body));
                turn(thread, What::Waits, now_ns, &mut played.truth);
                states[thread] = What::Waits;
            }
            continue;
        }
        let next = Some(thread).filter(|thread| states[*thread] == What::Waits);
        let prev = running[cpu];
        if prev.is_none() && next.is_none() {
            continue;
        }
        let named = |thread: Option<usize>| (thread.map_or(0, tid), 120);
        let body = Body::switch(named(prev), state, state == 0, named(next), now_ns);
        played.events.push((cpu, now_ns, body));
        if let Some(prev) = prev {
            states[prev] = if state == 0 { What::Waits } else { What::Sleeps };
            turn(prev, states[prev], now_ns, &mut played.truth);
        }
        if let Some(next) = next {
            states[next] = What::Runs;
            turn(next, What::Runs, now_ns, &mut played.truth);
        }
        running[cpu] = next;
    }
    played.end_ns = now_ns + 10;
    for thread in 0..THREADS {
        turn(thread, What::Sleeps, now_ns + 10, &mut played.truth);
    }
    played
}

/// The event of a body, as traces have it.
fn kind(body: &Body) -> Kind<'static> {
    let task = |tid: u32| Task { comm: Comm::default(), tid: tid.cast_signed(), prio: 20 };
    match made::event(body, 0).payload() {
        Some(Payload::Switch { prev_tid, prev_state, preempted, next_tid, .. }) => {
            let prev_state = LeftIn::of(shown_state(prev_state, preempted).into());
            Kind::SchedSwitch { prev: task(prev_tid), prev_state, next: task(next_tid) }
        }
        Some(Payload::Waking(woken)) => {
            Kind::SchedWaking(Woken { task: task(woken.tid), target_cpu: woken.cpu })
        }
        _ => Kind::Other("none"),
    }
}

impl Played {
    /// A file of an incident, of rings that go back to these times.
    fn file(&self, begins_ns: &[u64; CPUS], about: &About) -> Vec<u8> {
        let mut head = Vec::new();
        StretchHead {
            cpus: CPUS as u32,
            monotonic_ns: self.end_ns,
            realtime_ns: self.end_ns,
            since_ns: 0,
            until_ns: self.end_ns,
        }
        .write(&mut head);
        let (mut rest, mut all) = (Vec::new(), 0);
        for (cpu, begin_ns) in begins_ns.iter().enumerate() {
            let own: Vec<_> = self.events.iter().filter(|(on, ..)| *on == cpu).collect();
            let cut = own.iter().filter(|(_, at_ns, _)| at_ns < begin_ns).count();
            let events: Vec<_> = (cut as u64..)
                .zip(own.iter().skip(cut))
                .map(|(number, (_, _, body))| made::event(body, number))
                .collect();
            let place = Place { cpu: cpu as u32, part: 0 };
            let complete_from_ns = if cut > 0 { *begin_ns } else { 0 };
            Item::Part { place, complete_from_ns, classes: 1 }.write(&mut rest);
            all += events.len() as u64;
            if !events.is_empty() {
                Item::Events { place, first: cut as u64, events }.write(&mut rest);
            }
        }
        Item::End { events: all, missing: 0 }.write(&mut rest);
        let mut file = Vec::new();
        write(&mut file, Box::new([head, rest].into_iter()), |_| about.clone()).unwrap();
        file
    }

    /// From the first to the last event of rings that go back to these times.
    fn kept(&self, begins_ns: &[u64; CPUS]) -> Option<RangeInclusive<u64>> {
        let kept = self.events.iter().filter(|(cpu, at_ns, _)| *at_ns >= begins_ns[*cpu]);
        let times = || kept.clone().map(|(_, at_ns, _)| *at_ns);
        Some(times().min()?..=times().max()?)
    }

    /// Packets of each CPU without so many of the oldest, but one stays; and when what is left begins.
    fn snapshot(&self, overwritten: [usize; CPUS]) -> (Vec<Vec<u8>>, [u64; CPUS]) {
        let mut begins_ns = [0; CPUS];
        let number = |bytes: &[u8], at: usize| {
            u64::from_le_bytes(*bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap())
        };
        let mut of_cpu = |cpu: usize| {
            let mut writer = StreamWriter::new([1; 16], cpu as u32, HEAD_BYTES + 100, 0);
            for (_, at_ns, body) in self.events.iter().filter(|(on, ..)| *on == cpu) {
                writer.event(*at_ns, &kind(body));
            }
            writer.end(self.end_ns);
            let packets = writer.take();
            let (mut left, mut gone) = (packets.bytes().to_vec(), 0);
            loop {
                let size = left.get(..HEAD_BYTES).map_or(0, |head| number(head, 56) / 8) as usize;
                if gone >= overwritten[cpu] || size >= left.len() {
                    break;
                }
                left.drain(..size);
                gone += 1;
            }
            if gone > 0 {
                begins_ns[cpu] = number(&left, 32);
            }
            left
        };
        ((0..CPUS).map(&mut of_cpu).collect(), begins_ns)
    }

    /// Whether a thread did that from a time to another, or for longer.
    fn is_true(&self, tid: u32, what: What, from_ns: u64, to_ns: u64) -> bool {
        let mut own = self.truth.iter().filter(|part| (part.tid, part.what) == (tid, what));
        own.any(|part| part.from_ns <= from_ns && to_ns <= part.to_ns)
    }

    /// How long it ran between two times.
    fn ran_ns(&self, tid: u32, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.truth.iter().filter(|part| (part.tid, part.what) == (tid, What::Runs));
        own.map(|part| part.to_ns.min(to_ns).saturating_sub(part.from_ns.max(from_ns))).sum()
    }
}

fn about(signal: Signal) -> About {
    About { signal: signal.into(), subject: "any".to_owned(), ..made::about() }
}

/// Waits as they are shown: tid, from, to, and the parts of threads.
#[derive(Debug, Default)]
struct Shown(Vec<Single>);

/// Who, from when until when, and for whom.
type Single = (u32, u64, u64, Vec<(i32, u64)>);

impl Watch for Shown {
    const EACH: bool = true;

    fn ran(&mut self, _: &Run) {}

    fn waited(&mut self, wait: &Waited<'_>) {
        let parts = wait.parts().filter(|(way, _)| *way == "culprits");
        let parts = parts.filter_map(|(_, charge)| Some((charge.tid?, charge.ns))).collect();
        self.0.push((wait.tid.cast_unsigned(), wait.from_ns, wait.to_ns, parts));
    }

    fn delayed(&mut self, _: &Delay<'_>) {}
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let state = prop_oneof![Just(0_u32), Just(1), Just(2)];
    proptest::collection::vec((any::<bool>(), 0..CPUS, 0..THREADS, state, 1..40_u64), 10..150)
}

fn begins(played: &Played, shares: [f64; CPUS]) -> [u64; CPUS] {
    shares.map(|share| (played.end_ns as f64 * (share - 0.3).max(0.0)) as u64)
}

/// Holds what is read of a recording, of rings that go back to these times, against what truly happened.
fn judge(
    played: &Played,
    begins_ns: &[u64; CPUS],
    metadata: &str,
    packets: &[&[u8]],
) -> Result<(), TestCaseError> {
    let Some(kept) = played.kept(begins_ns) else { return Ok(()) };
    let layout = Layout::parse(metadata).unwrap();
    let files = packets.iter().zip(["channel0_0", "channel0_1", "channel0_2"]);
    let files: Vec<_> = files.map(|(bytes, name)| StreamFile::held(name, bytes)).collect();
    let mut delays = Delays::new(Begin::Waking);
    let (mut shown, mut builder) = (Shown::default(), Builder::new(Waker::Waking));
    let mut reader = Reader::new(&layout, &files);
    while let Some(record) = reader.read() {
        delays.follow_each(&record.event(), &mut shown);
        feed::follow(&mut builder, 0, &record, &record.event());
    }
    for (tid, from_ns, to_ns, parts) in &shown.0 {
        let is_true = played.is_true(*tid, What::Waits, *from_ns, *to_ns);
        prop_assert!(is_true, "{} {}..{} with {:?}", tid, from_ns, to_ns, begins_ns);
        for (culprit, ns) in parts.iter().filter(|(culprit, _)| *culprit > 0) {
            let ran_ns = played.ran_ns(culprit.cast_unsigned(), *from_ns, *to_ns);
            prop_assert!(*ns <= ran_ns, "{} ran {} of {} ns", culprit, ran_ns, ns);
        }
    }
    // What lies where all CPUs are seen is all there.
    let since_ns = begins_ns.iter().max().copied().unwrap_or(0);
    let is_whole =
        |from_ns: u64, to_ns: u64| from_ns > since_ns && to_ns <= *kept.end() && from_ns < to_ns;
    let of = |what: What| played.truth.iter().filter(move |part| part.what == what);
    let ended = of(What::Waits).filter(|part| is_whole(part.from_ns, part.to_ns));
    let ended = ended.filter(|part| part.to_ns < played.end_ns).count();
    let seen = shown.0.iter().filter(|(_, from_ns, to_ns, _)| is_whole(*from_ns, *to_ns)).count();
    prop_assert!(seen >= ended, "{} of {}", seen, ended);
    if since_ns == 0 {
        prop_assert_eq!(seen, ended);
    }
    for (_, worker) in builder.graph().workers() {
        let Who::Thread { tid, .. } = worker.who else { continue };
        let mut before_ns = None;
        for point in worker.points() {
            let from_ns = before_ns.replace(point.time_ns);
            let what = match point.state {
                Some(State::WaitingCpu) => What::Waits,
                Some(State::Running) => What::Runs,
                Some(State::Blocked) => What::Sleeps,
                _ => continue,
            };
            let Some(from_ns) = from_ns.filter(|from_ns| *from_ns < point.time_ns) else {
                continue;
            };
            let is_true = played.is_true(tid.cast_unsigned(), what, from_ns, point.time_ns);
            prop_assert!(
                is_true,
                "{} {:?} {}..{} with {:?}",
                tid,
                what,
                from_ns,
                point.time_ns,
                begins_ns
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_wait_is_longer_than_it_was(
        acts in acts(),
        shares in [0.0..1.2_f64, 0.0..1.2, 0.0..1.2],
    ) {
        let played = play(&acts);
        let begins_ns = begins(&played, shares);
        // The longest waits, and their paths.
        for signal in [Signal::RunqueueWait, Signal::UninterruptibleWait] {
            let about = about(signal);
            let file = played.file(&begins_ns, &about);
            let open = || Ok(Box::new(io::Cursor::new(file.clone())) as Box<dyn Read>);
            let (head, about) = super::file::read(file.as_slice(), |_, _| {}).unwrap();
            for wait in longest(&open, &head, &about).unwrap() {
                let (from_ns, to_ns) = (wait.from_ns, wait.to_ns);
                let is_true = match signal {
                    Signal::RunqueueWait => played.is_true(wait.tid, What::Waits, from_ns, to_ns),
                    // From the sleep until it runs again.
                    _ => played.ran_ns(wait.tid, from_ns, to_ns) == 0,
                };
                prop_assert!(is_true, "{:?} with {:?}", wait, begins_ns);
            }
            let found = find(&open).unwrap();
            for one in found.document.executions.iter().flat_map(|traced| &traced.path) {
                let what = match one.state {
                    "waiting_cpu" => What::Waits,
                    "running" => What::Runs,
                    _ => continue,
                };
                let is_true = played.is_true(one.tid.cast_unsigned(), what, one.from_ns, one.to_ns);
                prop_assert!(one.tid <= 0 || is_true, "{:?} with {:?}", one, begins_ns);
            }
        }
        // All of it as a recording.
        let about = about(Signal::RunqueueWait);
        let file = played.file(&begins_ns, &about);
        let Some(kept) = played.kept(&begins_ns) else { return Ok(()) };
        let replayed = replay(file.as_slice(), &about, kept, [1; 16]).unwrap();
        let packets: Vec<_> = replayed.packets.iter().map(|packets| packets.bytes()).collect();
        judge(&played, &begins_ns, &replayed.metadata, &packets)?;
    }

    #[test]
    fn of_a_snapshot_no_wait_is_longer_than_it_was(
        acts in acts(),
        overwritten in [0..30_usize, 0..30, 0..30],
        are_numbered: bool,
    ) {
        let played = play(&acts);
        let (packets, begins_ns) = played.snapshot(overwritten);
        let mut metadata = metadata([1; 16], &made::about().who.origin(0));
        if !are_numbered {
            metadata = metadata.replace("packet_seq_num", "other");
        }
        let packets: Vec<_> = packets.iter().map(Vec::as_slice).collect();
        judge(&played, &begins_ns, &metadata, &packets)?;
    }
}

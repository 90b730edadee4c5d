//! A schedule that was made up, what rings and snapshots have of it, and the truth.

use std::ops::RangeInclusive;

use noise_common::store::EventKind;
use noise_common::store::event::Body;
use noise_trace::capture::unnamed;
use noise_trace::ctf::write::{HEAD_BYTES, StreamWriter};
use noise_wire::events::{AnswerItem, ItemPlace, StretchHead};
use proptest::prelude::{any, prop_oneof};
use proptest::strategy::{Just, Strategy};

use crate::file::{About, write};

const CPUS: usize = 3;
const THREADS: usize = 5;

/// A step of a schedule: what is done, where, with which thread, and how long after the step before.
pub type Act = (bool, usize, usize, u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Runs,
    Waits,
    Sleeps,
}

/// What a thread truly did.
#[derive(Clone, Copy, Debug)]
pub struct PlayedPart {
    pub tid: u32,
    pub what: What,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Events by CPU, and the truth.
#[derive(Debug, Default)]
pub struct Played {
    events: Vec<(usize, u64, Body)>,
    truth: Vec<PlayedPart>,
    end_ns: u64,
}

pub fn play(acts: &[Act]) -> Played {
    let mut played = Played::default();
    let mut threads = [(What::Sleeps, 0_u64); THREADS];
    let mut running: [Option<usize>; CPUS] = [None; CPUS];
    let mut now_ns = 1_000;
    let tid = |thread: usize| thread as u32 + 11;
    let mut turn = |thread: usize, what: What, now_ns: u64, truth: &mut Vec<PlayedPart>| {
        let (before, from_ns) = std::mem::replace(&mut threads[thread], (what, now_ns));
        truth.push(PlayedPart { tid: tid(thread), what: before, from_ns, to_ns: now_ns });
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

/// From when on and up to when events of each CPU are there.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    from_ns: [u64; CPUS],
    to_ns: [u64; CPUS],
    /// Between these times, events of the CPU are missing.
    holes: [(u64, u64); CPUS],
}

impl Reach {
    /// Whether events are there.
    fn has(&self, cpu: usize, at_ns: u64) -> bool {
        let (begin_ns, end_ns) = self.holes[cpu];
        (self.from_ns[cpu]..=self.to_ns[cpu]).contains(&at_ns)
            && !(begin_ns..end_ns).contains(&at_ns)
    }

    pub fn has_holes(&self) -> bool {
        self.holes.iter().any(|(begin_ns, end_ns)| begin_ns < end_ns)
    }

    /// From when on and up to when all of them are.
    pub fn of_all(&self) -> (u64, u64) {
        (*self.from_ns.iter().max().unwrap(), *self.to_ns.iter().min().unwrap())
    }
}

/// Packets that are cut off at the begin and at the end, and bytes of the last one that is left.
pub type Cut = (usize, usize, usize);

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes.get(at..).and_then(<[u8]>::first_chunk).unwrap())
}

/// One packet each.
fn apart(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        let (packet, rest) = bytes.split_at((number(bytes, 56) / 8) as usize);
        packets.push(packet);
        bytes = rest;
    }
    packets
}

impl Played {
    /// A file of an incident, of rings that reach so far.
    pub fn file(&self, reach: &Reach, about: &About) -> Vec<u8> {
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
        for (cpu, begin_ns) in reach.from_ns.iter().enumerate() {
            let own: Vec<_> = self.events.iter().filter(|(on, ..)| *on == cpu).collect();
            let cut = own.partition_point(|(_, at_ns, _)| at_ns < begin_ns);
            let place = ItemPlace { cpu: cpu as u32, part: 0 };
            let complete_from_ns = if cut > 0 { *begin_ns } else { 0 };
            AnswerItem::Part { place, complete_from_ns, classes: 1, store: 0 }.write(&mut rest);
            let events = (cut as u64..).zip(&own[cut..]);
            let has = |at_ns: u64| reach.has(cpu, at_ns);
            let events: Vec<_> = events
                .map(|(number, (_, at_ns, body))| (has(*at_ns), body.stored(number)))
                .collect();
            let mut first = cut as u64;
            for run in events.chunk_by(|one, other| one.0 == other.0) {
                let count = run.len() as u64;
                if run[0].0 {
                    let events = run.iter().map(|(_, event)| *event).collect();
                    AnswerItem::Events { place, first, events }.write(&mut rest);
                    all += count;
                } else {
                    AnswerItem::Missing { place, first, count }.write(&mut rest);
                }
                first += count;
            }
        }
        AnswerItem::End { events: all, missing: 0 }.write(&mut rest);
        let mut file = Vec::new();
        write(&mut file, Box::new([head, rest].into_iter()), |_| about.clone()).unwrap();
        file
    }

    /// From the first to the last event of rings that reach so far.
    pub fn kept(&self, reach: &Reach) -> Option<RangeInclusive<u64>> {
        let is_kept = |(cpu, at_ns, _): &&(usize, u64, Body)| reach.has(*cpu, *at_ns);
        let kept = self.events.iter().filter(is_kept);
        let times = || kept.clone().map(|(_, at_ns, _)| *at_ns);
        Some(times().min()?..=times().max()?)
    }

    /// Packets of each CPU without those that are cut off, and how far what is left reaches; one stays at least.
    pub fn snapshot(&self, cuts: [Cut; CPUS]) -> (Vec<Vec<u8>>, Reach) {
        let mut reach =
            Reach { from_ns: [0; CPUS], to_ns: [self.end_ns; CPUS], holes: [(0, 0); CPUS] };
        let mut of_cpu = |(cpu, (older, later, bytes)): (usize, Cut)| {
            let mut writer = StreamWriter::new([1; 16], cpu as u32, HEAD_BYTES + 100, 0);
            for (_, at_ns, body) in self.events.iter().filter(|(on, ..)| *on == cpu) {
                writer.event(*at_ns, &unnamed(&body.stored(0)).unwrap());
            }
            writer.end(self.end_ns);
            let packets = writer.take();
            let packets = apart(packets.bytes());
            let older = older.min(packets.len().saturating_sub(1));
            let left = packets.len().saturating_sub(later).max(older + 1).min(packets.len());
            let packets = &packets[older..left];
            let (Some(first), Some(last)) = (packets.first(), packets.last()) else {
                return Vec::new();
            };
            if older > 0 {
                reach.from_ns[cpu] = number(first, 32);
            }
            // An event that is cut off is not seen, but those before it are.
            let cut = bytes.min(last.len() - HEAD_BYTES);
            reach.to_ns[cpu] = number(last, if cut > 0 { 32 } else { 40 });
            let mut left = packets.concat();
            left.truncate(left.len() - cut);
            left
        };
        ((0..CPUS).zip(cuts).map(&mut of_cpu).collect(), reach)
    }

    /// Whether a thread did that from a time to another, or for longer.
    pub fn is_true(&self, tid: u32, what: What, from_ns: u64, to_ns: u64) -> bool {
        let mut own = self.truth.iter().filter(|part| (part.tid, part.what) == (tid, what));
        own.any(|part| part.from_ns <= from_ns && to_ns <= part.to_ns)
    }

    /// What threads did, as far as it ended.
    pub fn parts(&self) -> impl Iterator<Item = &PlayedPart> {
        self.truth.iter().filter(|part| part.to_ns < self.end_ns)
    }

    /// How long it ran between two times.
    pub fn ran_ns(&self, tid: u32, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.truth.iter().filter(|part| (part.tid, part.what) == (tid, What::Runs));
        own.map(|part| part.to_ns.min(to_ns).saturating_sub(part.from_ns.max(from_ns))).sum()
    }
}

/// Steps of a schedule that lie so far apart, ns.
pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let state = || prop_oneof![Just(0_u32), Just(1), Just(2)];
    let of_unit = move |unit: u64| {
        let later = (1..40_u64).prop_map(move |units| units * unit);
        proptest::collection::vec((any::<bool>(), 0..CPUS, 0..THREADS, state(), later), 10..150)
    };
    prop_oneof![Just(1_u64), Just(1_000_000)].prop_flat_map(of_unit)
}

/// Rings that lack so much of the time at the begin, and whose events behind so much of it are missing.
pub fn reaches(
    played: &Played,
    begins: [f64; CPUS],
    ends: [f64; CPUS],
    holes: [Option<(f64, f64)>; CPUS],
) -> Reach {
    let at = |share: f64| (played.end_ns as f64 * share.clamp(0.0, 1.0)) as u64;
    let mut reach = Reach {
        from_ns: begins.map(|share| at(share - 0.3)),
        to_ns: [u64::MAX; CPUS],
        holes: holes.map(|hole| {
            hole.map_or((0, 0), |(one, other)| (at(one.min(other)), at(one.max(other))))
        }),
    };
    for ((cpu, to_ns), share) in reach.to_ns.iter_mut().enumerate().zip(ends) {
        let own = played.events.iter().filter(|(on, ..)| *on == cpu).map(|(_, at_ns, _)| *at_ns);
        let (kept, gone): (Vec<_>, Vec<_>) = own.partition(|at_ns| *at_ns <= at(share));
        if !gone.is_empty() {
            *to_ns = kept.last().copied().unwrap_or(0);
        }
    }
    reach
}

pub fn cut() -> impl Strategy<Value = Cut> {
    let bytes = prop_oneof![2 => Just(0_usize), 1 => 1..160_usize];
    (prop_oneof![Just(0), 0..30_usize], prop_oneof![Just(0), 0..30_usize], bytes)
}

pub fn hole() -> impl Strategy<Value = Option<(f64, f64)>> {
    proptest::option::weighted(0.2, (0.0..1.0_f64, 0.0..1.0))
}

//! Events that are held say what a reader of the recording says.

use noise_common::store::calls::{CALLS, OBJECT_KINDS, ObjectKind};
use noise_common::store::event::KINDS;
use noise_common::store::ipc::{Caller, StoredObject};

use super::*;
use crate::record::Source;
use crate::value::{Shape, Value, Visit};

const OFFSET_NS: u64 = 1_700_000_000_000_000_000;
const CPUS: u32 = 3;

/// What fills a store, or empties it.
#[derive(Clone, Debug)]
enum Act {
    Event { cpu: u32, part: usize, later_ns: i32, event: Stored },
    Call { cpu: u32, edge: u8, call: usize, object: u8, words: [u64; 2] },
    Gap { cpu: u32, part: usize, events: u64 },
    Lost { cpu: u32, events: u64, before_ns: u64, behind_ns: u64 },
    Absent { cpu: u32, part: usize, events: u64 },
    Mark { before_ns: u64, pid: i32, tid: i32 },
    Advance,
}

/// Ids are few, so that events are about the same threads.
fn word() -> impl Strategy<Value = u64> {
    let few = (0..24_u64, 0..24_u64).prop_map(|(low, high)| low | high << 32);
    prop_oneof![4 => few, 1 => any::<u64>()]
}

fn event() -> impl Strategy<Value = Stored> {
    let kind = (0..KINDS.len()).prop_map(|place| KINDS[place] as u8);
    (kind, any::<u8>(), any::<u16>(), [word(), word()]).prop_map(|(kind, small, detail, words)| {
        Stored { kind, small, detail, words, ..Stored::default() }
    })
}

fn act() -> impl Strategy<Value = Act> {
    let later_ns = prop_oneof![Just(0), -50..50_i32, 0..100_000_i32, Just(1 << 27), Just(i32::MAX)];
    let (cpu, part, few) = (0..CPUS, 0..PARTS, 0..4_u64);
    let event = (cpu.clone(), part.clone(), later_ns, event());
    let call =
        (cpu.clone(), 0..3_u8, 0..CALLS.len(), 0..OBJECT_KINDS.len() as u8, [word(), word()]);
    let gap = (cpu.clone(), part.clone(), few.clone());
    let lost = (cpu, few, 0..2_000_u64, 0..200_000_u64);
    prop_oneof![
        20 => event.prop_map(|(cpu, part, later_ns, event)| Act::Event { cpu, part, later_ns, event }),
        6 => call.prop_map(|(cpu, edge, call, object, words)| {
            Act::Call { cpu, edge, call, object, words }
        }),
        1 => gap.clone().prop_map(|(cpu, part, events)| Act::Gap { cpu, part, events }),
        1 => gap.prop_map(|(cpu, part, events)| Act::Absent { cpu, part, events }),
        1 => lost.prop_map(|(cpu, events, before_ns, behind_ns)| {
            Act::Lost { cpu, events, before_ns, behind_ns }
        }),
        1 => (0..100_000_u64, 0..24_i32, 0..24_i32).prop_map(|(before_ns, pid, tid)| {
            Act::Mark { before_ns, pid, tid }
        }),
        2 => Just(Act::Advance),
    ]
}

fn whole_dump() -> Dump {
    let thread = |tid: i32| {
        let comm = Comm::new(format!("thread-{tid}").as_bytes());
        Dumped { tid, pid: tid & !3, ppid: tid / 4, comm }
    };
    let object = Object { kind: ObjectKind::Pipe, id: 5, peer: 6, position: 0 };
    let file = OpenFile { pid: 4, fd: 3, flags: 2, filename: b"pipe:[5]".to_vec(), object };
    let interrupt = Interrupt { irq: 9, chip: b"IO-APIC".to_vec(), action: b"acpi".to_vec() };
    Dump {
        threads: (1..20).map(thread).collect(),
        interrupts: vec![interrupt],
        disks: vec![(8 << 20, b"sda".to_vec())],
        cgroups: [(b"/a".to_vec(), vec![4, 8]), (b"/b".to_vec(), vec![12])].into(),
        files: vec![file],
        sockets: vec![Connection { inode: 7, protocol: 6, ..Connection::default() }],
        ..dump()
    }
}

/// The packets of all CPUs.
fn captured(acts: &[Act], packet_bytes: usize) -> Vec<Packets> {
    const BEGIN_NS: u64 = 1_000_000;
    let mut capture = Capture::new(UUID, CPUS, packet_bytes, BEGIN_NS, &whole_dump());
    let mut look = Threads { names: BTreeMap::from([(21, "late"), (22, "later")]), looks: 0 };
    let mut packets = vec![Packets::default(); CPUS as usize];
    let (mut now_ns, mut next) = (BEGIN_NS, [[0_u64; PARTS]; CPUS as usize]);
    let mut add = |capture: &mut Capture, cpu: u32, part: usize, event: Stored, gap: u64| {
        let wanted = &mut next[cpu as usize][part];
        let first = *wanted + gap;
        let events = [Stored { number: first as u32, ..event }];
        let events = if gap == 0 { &events[..] } else { &[] };
        let (capacity, end) = (u64::MAX, first + events.len() as u64);
        let stretch = PartStretch { wanted: *wanted, first, events, capacity, next: end };
        *wanted = capture.add(cpu, part, stretch).max(end);
    };
    for act in acts {
        match act {
            Act::Event { cpu, part, later_ns, event } => {
                now_ns = now_ns.saturating_add_signed((*later_ns).into());
                add(&mut capture, *cpu, *part, Stored { time_ns: now_ns, ..*event }, 0);
            }
            Act::Call { cpu, edge, call, object, words: [key, word] } => {
                let caller = Caller { tid: *word as u32, number: CALLS[*call].number };
                let about = StoredObject { kind: OBJECT_KINDS[usize::from(*object)], key: *key };
                let (first, extra) = ((*word >> 32) as u32, *word as u8);
                let body = match edge {
                    0 => Body::call(caller, about, first, extra, now_ns),
                    1 => Body::call_exit(caller, about, first, extra & 1 != 0, now_ns),
                    _ => Body::call_other(caller, about, first, extra & 1 != 0, now_ns),
                };
                add(&mut capture, *cpu, 0, body.stored(0), 0);
            }
            Act::Gap { cpu, part, events } => {
                add(&mut capture, *cpu, *part, Stored::default(), *events);
            }
            Act::Absent { cpu, part, events } => capture.missing(*cpu, *part, *events),
            Act::Lost { cpu, events, before_ns, behind_ns } => {
                capture.lost(*cpu, *events, now_ns - before_ns, now_ns + behind_ns);
            }
            Act::Mark { before_ns, pid, tid } => {
                let (time_ns, (pid, tid)) = (now_ns - before_ns, (*pid, *tid));
                let (name, key) = (b"query".to_vec(), b"17".to_vec());
                capture.mark(Marked { time_ns, begins: tid & 1 == 0, name, key, pid, tid, uid: 5 });
            }
            Act::Advance => {
                capture.advance(now_ns, &mut look);
                for (cpu, packets) in (0..).zip(&mut packets) {
                    packets.append(capture.packets(cpu));
                }
            }
        }
    }
    // A recording of no length ends before its CPUs without events do.
    capture.finish(now_ns.max(BEGIN_NS + 1), &mut look);
    for (cpu, packets) in (0..).zip(&mut packets) {
        packets.append(capture.packets(cpu));
    }
    packets
}

#[derive(Default)]
struct FieldList(String);

impl Visit for FieldList {
    fn name(&mut self, name: &str) {
        self.0.push_str(name.strip_prefix('_').unwrap_or(name));
    }
    fn element(&mut self, number: u64) {
        self.0.push_str(&format!("[{number}]"));
    }
    fn value(&mut self, value: Value<'_>) {
        self.0.push_str(&format!("={value:?} "));
    }
    fn begin(&mut self, shape: Shape) {
        self.0.push_str(&format!("{shape:?}("));
    }
    fn end(&mut self, _: Shape) {
        self.0.push(')');
    }
}

/// All that a source says.
fn said(mut source: impl Source) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(next_ns) = source.next_ns() {
        let record = source.read().unwrap();
        assert_eq!(next_ns, record.time_ns);
        let mut fields = FieldList::default();
        record.visit(&mut fields);
        let mut contexts = 0;
        record.visit_contexts(&mut FieldList::default(), |_| contexts += 1);
        let number = record.number();
        let (name, FieldList(fields)) = (record.name(), fields);
        lines.push(format!("{record:?} {name} {number:?} {fields} {contexts}"));
    }
    assert!(source.read().is_none());
    assert!(source.damage().is_none(), "{:?}", source.damage());
    lines
}

proptest! {
    #[test]
    fn held_events_are_those_of_the_recording(
        mut acts in proptest::collection::vec(act(), 1..150),
        packet_bytes in proptest::option::of(prop_oneof![Just(200_usize), Just(4096)]),
    ) {
        // A packet that counts a loss and is whole before its end may be the last one of its CPU. A reader of a recording
        // says then that this CPU is not seen up to the last event of the others.
        if packet_bytes.is_some() {
            acts.retain(|act| matches!(act, Act::Event { .. } | Act::Call { .. } | Act::Mark { .. } | Act::Advance));
        }
        let packets = captured(&acts, packet_bytes.unwrap_or(1 << 20));
        let origin = Origin { offset_ns: OFFSET_NS, has_calls: true, ..Origin::default() };
        let layout = TraceLayout::parse(&metadata(UUID, &origin)).unwrap();
        let names: Vec<_> = (0..CPUS).map(|cpu| format!("channel0_{cpu}")).collect();
        let files: Vec<_> = names
            .iter()
            .zip(&packets)
            .map(|(name, packets)| StreamFile::held(name, packets.bytes()))
            .collect();
        let recorded = said(CtfReader::new(&layout, &files));
        let held = said(HeldReader::new(&packets, OFFSET_NS));
        for (held, recorded) in held.iter().zip(&recorded) {
            prop_assert_eq!(held, recorded);
        }
        prop_assert_eq!(held.len(), recorded.len());
    }
}

//! Writers that interrupt each other anywhere, and a reader that copies at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::event::{Body, CLASSES, KINDS, NO_SECTOR, shown_state};
use super::reading::{Gap, HeldNumbers, Missing, PartStretch, Piece};
use super::writing::{Store, write};
use super::{
    Class, CpuParts, EventKind, LEAST_EVENTS, Layout, NESTED_EVENTS, PARTS, Part, StoredEvent,
};
use crate::hooks::Vector;

/// Events of the parts that are written to here: few, so that they wrap around.
const MASK: u32 = 7;

/// A copy that is made while writers go on: number by number, word by word.
#[derive(Default)]
struct Copying {
    part: usize,
    wanted: u64,
    first: u64,
    events: Vec<StoredEvent>,
    /// The words of the event that is copied now, and how many have been.
    words: [u64; 4],
    done: usize,
    end: u64,
}

/// One CPU with its parts; what a reader does, and who interrupts, is planned.
struct Machine {
    parts: CpuParts,
    words: [[u64; 4 * (MASK as usize + 1)]; PARTS],
    /// What happens at each access of a writer: interruptions, and steps of the reader.
    plan: Vec<Step>,
    at: usize,
    level: usize,
    /// What was written, by the part and the number that it was given.
    written: BTreeMap<(usize, u64), u64>,
    inside: [bool; PARTS],
    clock: u64,
    copying: Option<Copying>,
    copies: Vec<(Copying, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Interrupt,
    Read(usize),
}

impl Machine {
    fn new(plan: Vec<Step>) -> Self {
        let parts = CpuParts {
            parts: [Part { next: 0, first: 0, mask: MASK }; PARTS],
            ..CpuParts::default()
        };
        Self {
            parts,
            words: [[0; 4 * (MASK as usize + 1)]; PARTS],
            plan,
            at: 0,
            level: 0,
            written: BTreeMap::new(),
            inside: [false; PARTS],
            clock: 0,
            copying: None,
            copies: Vec::new(),
        }
    }

    /// Something writes an event, unless as much is interrupted already as can be.
    fn event(&mut self) {
        if self.level >= PARTS {
            return;
        }
        self.level += 1;
        self.clock += 1;
        let time_ns = self.clock;
        let words = Body::nmi(time_ns.wrapping_mul(7), time_ns);
        write(self, &words, None);
        self.level -= 1;
    }

    /// What happens before the next access.
    fn step(&mut self) {
        let step = self.plan.get(self.at).copied().unwrap_or(Step::Nothing);
        self.at += 1;
        match step {
            Step::Nothing => {}
            Step::Interrupt => self.event(),
            Step::Read(part) => self.read(part),
        }
    }

    /// One step of the reader.
    fn read(&mut self, part: usize) {
        let Some(copying) = &mut self.copying else {
            let HeldNumbers { first, end } = self.parts.parts[part].held();
            let wanted = first.saturating_sub(self.clock % 3);
            self.copying = Some(Copying { part, wanted, first, end, ..Copying::default() });
            return;
        };
        let number = copying.first + copying.events.len() as u64;
        if number == copying.end {
            let next = self.parts.parts[copying.part].next;
            self.copies.extend(self.copying.take().map(|copy| (copy, next)));
            return;
        }
        // The order in which `Event::copy` asks for them.
        let mut order = Vec::new();
        StoredEvent::copy(|word| {
            order.push(word);
            0
        });
        let slot = (number as u32 & MASK) as usize;
        let word = order[copying.done];
        copying.words[word] = self.words[copying.part][4 * slot + word];
        copying.done += 1;
        if copying.done == order.len() {
            copying.events.push(event(&copying.words));
            copying.done = 0;
        }
    }
}

fn event(words: &[u64]) -> StoredEvent {
    StoredEvent::copy(|word| words[word])
}

impl Store for Machine {
    type Slot = (usize, usize, u64);

    fn depth(&mut self) -> u32 {
        self.step();
        self.parts.depth
    }

    fn set_depth(&mut self, depth: u32) {
        self.step();
        // A writer leaves its part with this access, or enters it.
        if let Some(inside) = self.inside.get_mut(depth as usize) {
            *inside = false;
        }
        if depth > self.parts.depth {
            self.inside[self.parts.depth as usize] = true;
        }
        self.parts.depth = depth;
    }

    fn next(&mut self, part: usize) -> u64 {
        self.step();
        assert!(self.inside[part]);
        self.parts.parts[part].next
    }

    fn set_next(&mut self, part: usize, next: u64) {
        self.step();
        self.parts.parts[part].next = next;
    }

    fn index(&mut self, part: usize, number: u64) -> u32 {
        assert!(!self.written.contains_key(&(part, number)), "{part} {number} was taken twice");
        self.written.insert((part, number), 0);
        // Numbers are few here.
        (part as u32) << 16 | number as u32
    }

    fn slot(&mut self, index: u32) -> Option<Self::Slot> {
        let number = index & 0xffff;
        Some(((index >> 16) as usize, (number & MASK) as usize, u64::from(number)))
    }

    fn put(&mut self, (part, slot, number): Self::Slot, word: usize, value: u64) {
        self.step();
        self.words[part][4 * slot + word] = value;
        if word == 0 {
            self.written.insert((part, number), value);
        }
    }

    fn lose(&mut self) {
        self.parts.lost += 1;
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Nothing),
        1 => Just(Step::Interrupt),
        6 => (0..PARTS).prop_map(Step::Read),
    ];
    prop::collection::vec(step, 0..1500)
}

proptest! {
    #[test]
    fn what_is_read_whole_was_written_so_and_every_gap_is_counted(plan in steps(), events in 1..80usize) {
        let mut machine = Machine::new(plan);
        for _ in 0..events {
            machine.event();
        }
        prop_assert_eq!((machine.parts.depth, machine.parts.lost), (0, 0));
        // All have their place, and no number was left out.
        prop_assert_eq!(machine.written.len() as u64, machine.clock);
        let times: BTreeSet<u64> = machine.written.values().copied().collect();
        prop_assert_eq!(times.len() as u64, machine.clock);
        for part in 0..PARTS {
            let numbers = machine.written.keys().filter(|(of, _)| *of == part).count() as u64;
            prop_assert_eq!(machine.parts.parts[part].next, numbers);
        }
        // A last look, when all is quiet, finds all that there is room for.
        machine.copying = None;
        for part in 0..PARTS {
            let copies = machine.copies.len();
            while machine.copies.len() == copies {
                machine.read(part);
            }
            let (copy, next) = machine.copies.last().unwrap();
            prop_assert_eq!((copy.part, copy.end), (part, *next));
            let events = &copy.events;
            let stretch = PartStretch { wanted: copy.first, first: copy.first, events, capacity: 8, next: *next };
            prop_assert!(stretch.pieces().all(|piece| matches!(piece, Piece::Event(_))));
            prop_assert_eq!(events.len() as u64, (*next).min(8));
            prop_assert_eq!(stretch.resume(), *next);
        }
        for (copy, next) in &machine.copies {
            let events = &copy.events;
            let stretch = PartStretch { wanted: copy.wanted, first: copy.first, events, capacity: 8, next: *next };
            let mut at = copy.wanted.min(copy.first);
            for piece in stretch.pieces() {
                match piece {
                    Piece::Event(event) => {
                        prop_assert_eq!(event.number, at as u32);
                        prop_assert_eq!(machine.written[&(copy.part, at)], event.time_ns);
                        prop_assert_eq!(event.words, [event.time_ns.wrapping_mul(7), 0]);
                        at += 1;
                    }
                    Piece::Gap(Gap { first, count, missing }) => {
                        prop_assert_eq!(first, at);
                        prop_assert!(count > 0);
                        at += count;
                        // Only the newest may be unfinished.
                        if missing == Missing::Unfinished {
                            prop_assert_eq!((count, at), (1, copy.end));
                        } else {
                            prop_assert!(at <= next.saturating_sub(8).max(copy.first));
                        }
                    }
                }
            }
            prop_assert_eq!(at, copy.end);
            prop_assert!(stretch.resume() == copy.end || stretch.resume() + 1 == copy.end);
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        words in prop::collection::vec(any::<[u64; 4]>(), 0..20),
        numbers in any::<(u64, u64, u64, u32)>(), near in any::<bool>(),
    ) {
        let events: Vec<StoredEvent> = words.iter().map(|words| event(words)).collect();
        let (wanted, first, next, mask) = numbers;
        let (wanted, next) = if near { (first.saturating_sub(wanted % 9), first.saturating_add(next % 99)) } else { (wanted, next) };
        let capacity = u64::from(mask) + 1;
        let stretch = PartStretch { wanted, first, events: &events, capacity, next };
        let all = stretch.pieces().map(|piece| match piece {
            Piece::Event(_) => 1,
            Piece::Gap(gap) => gap.count,
        });
        let end = first.saturating_add(events.len() as u64);
        prop_assert_eq!(all.sum::<u64>(), end - wanted.min(first));
        prop_assert!(stretch.resume() + 1 >= end);
    }

    #[test]
    fn the_parts_of_all_cpus_lie_side_by_side(cpus in 1..300u32, events in any::<u32>()) {
        let layout = Layout::new(cpus, events);
        if layout.events() == 0 {
            prop_assert!(events < LEAST_EVENTS || u64::from(events) * u64::from(cpus) * 2 > u64::from(u32::MAX));
            prop_assert_eq!(layout.entries(), 0);
            return Ok(());
        }
        prop_assert!(layout.events().is_power_of_two() && layout.events() <= events);
        let mut all: Vec<Part> = (0..cpus).flat_map(|cpu| (0..PARTS).map(move |part| layout.part(cpu, part))).collect();
        all.sort_by_key(|part| part.first);
        let mut end = 0;
        for part in all {
            prop_assert_eq!(part.first, end);
            prop_assert!(part.capacity().is_power_of_two());
            end += part.mask + 1;
        }
        prop_assert_eq!(end, layout.entries());
    }
}

/// The event that a body makes.
fn made(body: &Body) -> StoredEvent {
    let mut words = [0; 4];
    for (place, word) in body.words(u64::from(u32::MAX) + 6) {
        words[place] = word;
    }
    let event = event(&words);
    assert_eq!(event.number, 5);
    assert_eq!(StoredEvent::from_bytes(&event.to_bytes()), event);
    event
}

#[test]
fn more_writers_than_parts_are_counted() {
    let mut machine = Machine::new(Vec::new());
    machine.parts.depth = PARTS as u32;
    machine.event();
    assert_eq!((machine.parts.lost, machine.parts.depth), (1, PARTS as u32));
    assert!(machine.written.is_empty());
    // A switch sets it right.
    write(&mut machine, &Body::nmi(1, 1), Some(0));
    assert_eq!((machine.parts.lost, machine.parts.depth), (2, 0));
    machine.event();
    assert_eq!(machine.written.len(), 1);
}

#[test]
fn a_reader_that_comes_late_is_shown_what_it_missed() {
    let part = Part { next: 21, first: 64, mask: 7 };
    assert_eq!((part.held().first, part.held().end, part.index(20)), (13, 21, 68));
    let events: Vec<StoredEvent> =
        (13..21).map(|number| StoredEvent { number, kind: 15, ..StoredEvent::default() }).collect();
    let stretch = PartStretch { wanted: 3, first: 13, events: &events, capacity: 8, next: 23 };
    let mut pieces = stretch.pieces();
    let gap = Gap { first: 3, count: 12, missing: Missing::Overwritten };
    assert_eq!(pieces.next(), Some(Piece::Gap(gap)));
    assert_eq!(pieces.count(), 6);
    // From the beginning of time: one gap, at once.
    let late = PartStretch { wanted: 0, first: u64::MAX - 8, next: u64::MAX, ..stretch };
    assert_eq!(
        late.pieces().next(),
        Some(Piece::Gap(Gap { first: 0, count: u64::MAX - 8, missing: Missing::Overwritten }))
    );
}

#[test]
fn kinds_have_numbers_and_classes() {
    let mut names = BTreeSet::new();
    for kind in KINDS {
        assert_eq!(EventKind::from_number(*kind as u8), Some(*kind));
        assert!(names.insert(kind.name()));
    }
    assert_eq!(EventKind::from_number(0), None);
    for (index, class) in CLASSES.into_iter().enumerate() {
        assert_eq!((class as usize, Class::from_name(class.name())), (index, Some(class)));
    }
}

#[test]
fn events_say_what_was_put_in() {
    let body = made(&Body::switch((7, 120), 0x2402, false, (u32::MAX, u32::MAX), 99));
    assert_eq!((&body.numbers()[..3], body.time_ns), (&[7, u32::MAX, 0x2402][..], 99));
    assert_eq!(body.left_in(), (120, 0x80, -1));
    let body = made(&Body::task(EventKind::Migrate, 9, 139, 4, 5, 1));
    assert_eq!((body.numbers(), body.priority()), ([9, 4, 5, 0], 139));
    let comm = *b"a name\0\0\0\0\0\0\0\0\0\0";
    let words = [0, 8].map(|at| u64::from_le_bytes(comm[at..at + 8].try_into().unwrap()));
    assert_eq!(made(&Body::name(words, 1)).text(), comm);
    assert_eq!(made(&Body::process(EventKind::Fork, [3, 4, 5], 1)).numbers(), [3, 4, 5, 0]);
    let body = made(&Body::vector(EventKind::VectorExit, Vector::IrqWork, 246, 1));
    assert_eq!((body.vector(), body.detail), (Some(Vector::IrqWork), 246));
    for (hrtimer, function) in
        [(0xffff_8880_1234_5678, 0xffff_ffff_8123_4560), (0xff11_0000_9234_5678, 0)]
    {
        let body = made(&Body::hrtimer(hrtimer, function, i64::MAX as u64, 7));
        assert_eq!((body.hrtimer(), body.time_ns), ((hrtimer, function), 7));
        assert_eq!(body.words[1], i64::MAX as u64);
        assert_eq!(made(&Body::hrtimer_exit(hrtimer, 7)).words[0], hrtimer);
    }
    let body = made(&Body::throttled(9, u64::MAX, 1));
    assert_eq!((body.numbers()[0], body.words[1]), (9, u64::MAX));
    assert_eq!(made(&Body::irq(EventKind::IrqExit, 27, 1, 1)).numbers(), [27, 1, 0, 0]);
    let flags = 1 | 1 << 11 | 1 << 18;
    let place = (0xffff_8880_0123_4540, u64::MAX);
    let body = Body::block(EventKind::BlockComplete, place, (8 << 20 | 1, 4096), flags, 10, 1);
    let request = made(&body).request();
    assert_eq!((request.device, request.sector, request.bytes), (8 << 20 | 1, NO_SECTOR, 4096));
    assert_eq!((request.operation, request.error, request.tag), (1, 10, 0x8d15));
    assert_eq!(request.flags, 0b0_1001);
    let body = Body::net(EventKind::NetXmit, 5, 1500, (2, 0xf000_0098), 1);
    let packet = made(&body);
    assert_eq!((packet.words[0], packet.detail), (5, 0x98));
    assert_eq!(packet.numbers(), [5, 0, 1500, 2]);
}

#[test]
fn states_are_shown_as_the_kernel_does() {
    for (state, shown) in [
        (0, 0),
        (0x1, 0x1),
        (0x2, 0x2),
        (0x2102, 0x2),
        (0x402, 0x80),
        (0x104, 0x4),
        (0x8, 0x8),
        (0x40, 0x40),
        (0x80, 0x10),
        (0x8000, 0x2),
        (0x1000, 0x2),
    ] {
        assert_eq!(shown_state(state, false), shown, "{state:x}");
    }
    assert_eq!(shown_state(0, true), 0x100);
}

#[test]
fn sizes_are_rounded_down() {
    assert_eq!(Layout::new(4, LEAST_EVENTS - 1).bytes(), 0);
    let layout = Layout::new(2, 40_000);
    assert_eq!(layout.events(), 32_768);
    assert_eq!(layout.bytes(), 2 * 32 * (32_768 + 3 * u64::from(NESTED_EVENTS)));
}

//! The text of ftrace: `/sys/kernel/tracing/trace` and what `trace-cmd report` prints.
//!
//! A line is `TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS`. What FIELDS looks like is up to each event: mostly
//! `name=value`, for some a form of their own ([`fields`]). Times have the digits that were printed,
//! usually microseconds. They are those of the trace's clock, whose offset to the epoch the text does not
//! say: it counts as 0.
//!
//! A [`Survey`] goes over the text first: texts of several CPUs one after the other are merged, as far as each is in the
//! order of time.
//!
//! The events that were overwritten before the text was read, and those lost on the way, are noted in it,
//! and are lost events here. Where one CPU's events begin later than those of others since they were overwritten, that time
//! is a loss of that CPU.

mod fields;
mod line;
mod survey;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use self::fields::{Pairs, kind_of};
pub use self::line::Line;
use self::line::{Noted, next_line, note};
use self::survey::Run;
pub use self::survey::{Survey, UnreadLines};
use crate::damage::Damage;
use crate::event::{Kind, Loss};
use crate::record::{self, Source, Stored};
use crate::value::{Value, Visit};
use crate::what::What;

/// A record of a text of ftrace.
pub type Record<'t> = record::Record<Line<'t>>;

impl<'t> Stored<'t> for Line<'t> {
    fn name(&self) -> &'t str {
        self.name
    }

    fn kind(&self) -> Kind<'t> {
        kind_of(self.name, self.rest)
    }

    fn visit(&self, visit: &mut impl Visit) {
        Pairs::of(What::named(self.name), self.rest).visit(visit);
    }

    /// The thread that ran, as the line begins.
    fn visit_contexts<V: Visit>(&self, visit: &mut V, mut begin: impl FnMut(&mut V)) {
        begin(visit);
        visit.name("comm");
        visit.value(Value::Text(self.comm));
        visit.name("tid");
        visit.value(Value::Signed { value: self.tid.into(), base: 10, bits: 32 });
    }
}

/// Goes over one stretch of a text, line by line.
#[derive(Debug)]
struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
    /// Time of the latest event.
    time_ns: u64,
    /// What was lost, said before the next event, with the CPU where that is known.
    lost: Option<(Option<u32>, u64)>,
    /// The event behind it.
    held: Option<Record<'t>>,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t [u8], run: Run) -> Self {
        let text = text.get(..run.end).unwrap_or(text);
        Self { text, at: run.begin, time_ns: 0, lost: None, held: None }
    }

    /// An event, with what was lost in front of it.
    fn event(&mut self, line: Line<'t>) -> Record<'t> {
        let from_ns = self.time_ns;
        self.time_ns = self.time_ns.max(line.time_ns);
        let record = Record::new(self.time_ns, line.cpu, line);
        let Some((cpu, events)) = self.lost.take() else { return record };
        self.held = Some(record);
        // A number that is not known is at least one.
        let loss = Loss { events, packets: 0, from_ns, to_ns: self.time_ns };
        Record::lost(self.time_ns, cpu.unwrap_or(record.cpu), loss)
    }

    fn next(&mut self) -> Option<Record<'t>> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            let (line, next) = next_line(self.text, self.at)?;
            self.at = next;
            if let Some(line) = Line::parse_any(line) {
                return Some(self.event(line));
            }
            if let Some(Noted::Lost(cpu, events)) = note(line) {
                let (_, before) = self.lost.unwrap_or_default();
                self.lost = Some((cpu, before.saturating_add(events)));
            }
        }
    }
}

/// Goes over the events of a text in the order of time. Those of one time come in the order of their lines.
#[derive(Debug)]
pub struct Reader<'t> {
    text: &'t [u8],
    runs: Vec<Run>,
    /// What is not seen at the begin, by CPU: these come first.
    unseen: std::vec::IntoIter<(u32, Loss)>,
    /// The stretch whose event is next, and that event.
    current: Option<(usize, Cursor<'t>)>,
    head: Option<Record<'t>>,
    /// The others, by the time of their next event.
    others: BinaryHeap<Reverse<(u64, usize)>>,
    /// Those of them that were begun, with that event.
    begun: HashMap<usize, (Cursor<'t>, Record<'t>)>,
    damage: Damage,
}

impl<'t> Reader<'t> {
    /// Of a whole text, which is surveyed first.
    pub fn new(text: &'t [u8]) -> Self {
        Self::of(text, &Survey::of(text, |_| ()))
    }

    /// Of a text that was surveyed.
    pub fn of(text: &'t [u8], survey: &Survey) -> Self {
        let runs = survey.runs.clone();
        let others = runs.iter().zip(0..).map(|(run, number)| Reverse((run.first_ns, number)));
        let others = others.collect();
        let damage = survey.damage.clone();
        let unseen = survey.unseen().into_iter();
        let (current, head, begun) = (None, None, HashMap::new());
        let mut reader = Self { text, runs, unseen, current, head, others, begun, damage };
        reader.turn();
        reader
    }

    /// Goes on with the stretch whose event is the earliest.
    fn turn(&mut self) {
        let Some(Reverse((_, number))) = self.others.pop() else {
            self.current = None;
            return;
        };
        if let Some((cursor, head)) = self.begun.remove(&number) {
            (self.current, self.head) = (Some((number, cursor)), Some(head));
            return;
        }
        let Some(run) = self.runs.get(number) else { return };
        let mut cursor = Cursor::new(self.text, *run);
        self.head = cursor.next();
        self.current = Some((number, cursor));
    }
}

impl<'t> Iterator for Reader<'t> {
    type Item = Record<'t>;

    fn next(&mut self) -> Option<Record<'t>> {
        if let Some((cpu, loss)) = self.unseen.next() {
            return Some(Record::lost(loss.from_ns, cpu, loss));
        }
        let record = self.head.take()?;
        let (number, cursor) = self.current.as_mut()?;
        let Some(head) = cursor.next() else {
            self.turn();
            return Some(record);
        };
        self.head = Some(head);
        if let Some(Reverse(earliest)) = self.others.peek()
            && *earliest < (head.time_ns, *number)
        {
            self.others.push(Reverse((head.time_ns, *number)));
            if let (Some((number, cursor)), Some(head)) = (self.current.take(), self.head.take()) {
                self.begun.insert(number, (cursor, head));
            }
            self.turn();
        }
        Some(record)
    }
}

impl<'t> Source<'t> for Reader<'t> {
    type Stored = Line<'t>;

    fn damage(&self) -> Damage {
        self.damage.clone()
    }

    fn read_bytes(&self, _: usize) -> usize {
        let current = self.current.iter().map(|(_, cursor)| cursor.at);
        let begun = self.begun.values().map(|(cursor, _)| cursor.at);
        let waiting = self.others.iter().filter_map(|Reverse((_, number))| {
            let run = self.runs.get(*number).filter(|_| !self.begun.contains_key(number));
            run.map(|run| run.begin)
        });
        let least = current.chain(begun).chain(waiting).min().unwrap_or(self.text.len());
        // The event that is held back is not far behind.
        least.saturating_sub(1 << 16)
    }
}

#[cfg(test)]
mod tests;

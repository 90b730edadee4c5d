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
//! and are lost events here: from the CPU's last event before the note up to its next one. Where one CPU's events begin later
//! than those of others since they were overwritten, that time is a loss of that CPU.

mod fields;
mod line;
mod lines;
mod losses;
mod survey;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::Peekable;
use std::mem;

use self::fields::{Pairs, kind_of};
pub use self::line::EventLine;
use self::line::{LineLayout, Noted, Parsed, note};
use self::lines::{Lines, Next};
use self::survey::Run;
pub use self::survey::{Survey, UnreadLines};
use crate::damage::Damage;
use crate::event::{LostEvents, TraceKind};
use crate::events::What;
use crate::record::{self, Source, Stored};
use crate::value::{Value, Visit};
use crate::window::{Content, Short, bytes_of_each};

pub type FtraceRecord<'t> = record::Record<EventLine<'t>>;

impl<'t> Stored<'t> for EventLine<'t> {
    fn name(&self) -> &'t str {
        self.name
    }

    fn kind(&self) -> TraceKind<'t> {
        kind_of(self.name, self.rest, self.is_sound)
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

/// A record, where it lies in the latest line.
type LineRecord = record::Record<LineLayout>;

/// Goes over one stretch of a text, line by line.
struct Cursor<'t> {
    lines: Lines<'t>,
    /// Whether the text had no event whose numbers cannot be read when it was surveyed.
    is_sound: bool,
    /// The event that it is at, or what was lost before it; none at the end.
    head: Option<LineRecord>,
    /// Time of the latest event.
    time_ns: u64,
    /// Events that were overwritten before the text begins, said before the next event.
    lost: Option<u64>,
    /// Where the file ended too early, and how many bytes of a line are left out for that.
    short: Option<(Short, u64)>,
}

impl<'t> Cursor<'t> {
    fn new(content: Content<'t>, run: Run, window: usize, is_sound: bool) -> Self {
        let lines = Lines::new(content, (run.begin, run.end), window);
        Self { lines, is_sound, head: None, time_ns: 0, lost: None, short: None }
    }

    /// Goes on to the next event, or to what was lost before it.
    fn advance(&mut self) {
        self.head = None;
        while let Some(next) = self.lines.next() {
            let line = match next {
                Next::Line(line) => line,
                Next::Long => continue,
                Next::Short(short, left) => {
                    self.short = Some((short, left));
                    continue;
                }
            };
            if let Some(event) = Parsed::parse_any(line) {
                let (from_ns, cpu) = (self.time_ns, event.cpu);
                self.time_ns = from_ns.max(event.time_ns);
                self.head = Some(match self.lost.take() {
                    None => LineRecord::new(
                        self.time_ns,
                        cpu,
                        LineLayout::of(line, &event, self.is_sound),
                    ),
                    Some(events) => {
                        let loss = LostEvents { events, packets: 0, from_ns, to_ns: self.time_ns };
                        self.lines.go_back();
                        LineRecord::lost(self.time_ns, cpu, loss)
                    }
                });
                return;
            }
            if let Some(Noted::Overwritten(events @ 1..)) = note(line) {
                self.lost = Some(self.lost.unwrap_or(0).saturating_add(events));
            }
        }
    }

    /// The event that it is at, or what was lost before it.
    #[inline]
    fn record(&self) -> Option<FtraceRecord<'_>> {
        let seen = self.lines.seen();
        self.head.map(|head| head.map(|place| place.line(seen)))
    }

    /// Gives back the memory of a long line while others are read: then it is read again.
    fn rest(&mut self) {
        if self.lines.is_wide() {
            if self.head.take_if(|head| head.loss().is_none()).is_some() {
                self.lines.go_back();
            }
            self.lines.close();
        }
    }
}

/// Goes over the events of a text in the order of time. Those of one time come in the order of their lines.
pub struct FtraceReader<'t> {
    content: Content<'t>,
    /// Bytes of each window.
    window: usize,
    is_sound: bool,
    runs: Vec<Run>,
    /// What was lost, with the CPU, and whether it has events before that: those without come first.
    losses: Peekable<std::vec::IntoIter<(u32, bool, LostEvents)>>,
    /// The stretch whose event is next.
    current: Option<(usize, Box<Cursor<'t>>)>,
    /// Whether that event was handed out: then it is the latest one.
    is_lent: bool,
    /// The others, by the time of their next event.
    others: BinaryHeap<Reverse<(u64, usize)>>,
    /// Those of them that were begun.
    begun: HashMap<usize, Box<Cursor<'t>>>,
    /// Whether it was said that the file ended too early.
    is_short: bool,
    damage: Damage,
}

impl<'t> FtraceReader<'t> {
    /// Of a whole text in memory, which is surveyed first.
    pub fn new(text: &'t [u8]) -> Self {
        let content = Content::Held(text);
        Self::of(content, &Survey::of(content))
    }

    /// Of a text that was surveyed.
    pub fn of(content: Content<'t>, survey: &Survey) -> Self {
        Self::in_windows(content, survey, bytes_of_each(survey.runs.len()))
    }

    /// The same with windows of so many bytes.
    fn in_windows(content: Content<'t>, survey: &Survey, window: usize) -> Self {
        let runs = survey.runs.clone();
        let others = runs.iter().zip(0..).map(|(run, number)| Reverse((run.first_ns, number)));
        let mut reader = Self {
            content,
            window,
            is_sound: survey.misread == 0,
            others: others.collect(),
            runs,
            losses: survey.losses().into_iter().peekable(),
            current: None,
            is_lent: false,
            begun: HashMap::new(),
            is_short: survey.damage.missing_bytes > 0,
            damage: survey.damage.clone(),
        };
        reader.turn();
        reader
    }

    /// Goes on with the stretch whose event is the earliest.
    fn turn(&mut self) {
        while let Some(Reverse((_, number))) = self.others.pop() {
            let Some(run) = self.runs.get(number) else { continue };
            let begun = self.begun.remove(&number);
            let mut cursor = begun.unwrap_or_else(|| {
                Box::new(Cursor::new(self.content, *run, self.window, self.is_sound))
            });
            if cursor.head.is_none() {
                cursor.advance();
            }
            if cursor.head.is_some() {
                self.current = Some((number, cursor));
                return;
            }
            self.leave(&cursor);
        }
    }

    /// Counts what was not read of a stretch that ended.
    fn leave(&mut self, cursor: &Cursor<'t>) {
        let Some((short, left)) = &cursor.short else { return };
        self.damage.missing_bytes = self.damage.missing_bytes.saturating_add(short.missing);
        self.damage.unread_bytes = self.damage.unread_bytes.saturating_add(*left);
        if !mem::replace(&mut self.is_short, true) {
            self.damage.note(|| short.to_string());
        }
    }

    /// Goes on to the next event, where this one was handed out.
    fn go_on(&mut self) {
        if !mem::take(&mut self.is_lent) {
            return;
        }
        let Some((number, cursor)) = &mut self.current else { return };
        cursor.advance();
        let key = cursor.head.map(|head| (head.time_ns, *number));
        let earliest = self.others.peek().map(|Reverse(earliest)| *earliest);
        if key.is_some_and(|key| earliest.is_none_or(|earliest| key < earliest)) {
            return;
        }
        if let Some((number, mut cursor)) = self.current.take() {
            match key {
                Some(key) => {
                    cursor.rest();
                    self.others.push(Reverse(key));
                    self.begun.insert(number, cursor);
                }
                None => self.leave(&cursor),
            }
        }
        self.turn();
    }

    /// The time of the next event.
    fn head_ns(&self) -> Option<u64> {
        self.current.as_ref()?.1.head.map(|head| head.time_ns)
    }
}

/// Whether what was lost comes before the next event, which has that time.
fn is_next((_, is_behind, loss): &(u32, bool, LostEvents), head_ns: Option<u64>) -> bool {
    !is_behind || head_ns.is_none_or(|head_ns| loss.from_ns < head_ns)
}

impl Source for FtraceReader<'_> {
    type Stored<'r>
        = EventLine<'r>
    where
        Self: 'r;

    fn read(&mut self) -> Option<FtraceRecord<'_>> {
        self.go_on();
        let head_ns = self.head_ns();
        if let Some((cpu, _, loss)) = self.losses.next_if(|loss| is_next(loss, head_ns)) {
            return Some(FtraceRecord::lost(loss.from_ns, cpu, loss));
        }
        let (_, cursor) = self.current.as_ref()?;
        self.is_lent = true;
        cursor.record()
    }

    fn next_ns(&mut self) -> Option<u64> {
        self.go_on();
        let head_ns = self.head_ns();
        let loss = self.losses.peek().filter(|loss| is_next(loss, head_ns));
        loss.map(|(.., loss)| loss.from_ns).or(head_ns)
    }

    fn damage(&self) -> Damage {
        self.damage.clone()
    }

    fn read_bytes(&self) -> u64 {
        let current = self.current.iter().map(|(_, cursor)| cursor.lines.at());
        let begun = self.begun.values().map(|cursor| cursor.lines.at());
        let waiting = self.others.iter().filter_map(|Reverse((_, number))| {
            let run = self.runs.get(*number).filter(|_| !self.begun.contains_key(number));
            run.map(|run| run.begin)
        });
        current.chain(begun).chain(waiting).min().unwrap_or_else(|| self.content.length())
    }
}

#[cfg(test)]
mod tests;

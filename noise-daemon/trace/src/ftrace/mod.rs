//! The text of ftrace: `/sys/kernel/tracing/trace` and what `trace-cmd report` prints.
//!
//! A line is `TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS`. What FIELDS looks like is up to each event: mostly
//! `name=value`, for some a form of their own ([`fields`]). Times have the digits that were printed,
//! usually microseconds. They are those of the trace's clock, whose offset to the epoch the text does not
//! say: it counts as 0.
//!
//! The events that were overwritten before the text was read, and those lost on the way, are noted in it,
//! and are lost events here.

mod fields;
mod line;

use std::fmt;

use self::fields::Pairs;
use self::line::{Line, Noted, note};
use crate::damage::Damage;
use crate::event::{Comm, Kind, Loss};
use crate::record::{Recorded, Source};
use crate::value::{Value, Visit};
use crate::what::{What, kind};

/// A line of the text that is an event.
#[derive(Clone, Copy)]
pub struct Record<'t> {
    /// When, in nanoseconds on the trace's clock.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    body: Body<'t>,
}

#[derive(Clone, Copy)]
enum Body<'t> {
    Event(Line<'t>),
    Lost(Loss),
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {:?}", self.time_ns, self.cpu, Recorded::kind(self))
    }
}

impl<'t> Recorded<'t> for Record<'t> {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn name(&self) -> &'t str {
        match self.body {
            Body::Event(line) => line.name,
            Body::Lost(_) => "lost",
        }
    }

    fn number(&self) -> Option<usize> {
        None
    }

    fn kind(&self) -> Kind<'t> {
        let line = match self.body {
            Body::Event(line) => line,
            Body::Lost(loss) => return Kind::Lost(loss),
        };
        let what = What::named(line.name);
        kind(what, line.name, &Pairs::of(what, line.rest).wanted(what))
    }

    fn loss(&self) -> Option<Loss> {
        match self.body {
            Body::Event(_) => None,
            Body::Lost(loss) => Some(loss),
        }
    }

    fn visit(&self, visit: &mut impl Visit) {
        let Body::Event(line) = self.body else { return };
        Pairs::of(What::named(line.name), line.rest).visit(visit);
    }

    fn visit_contexts<V: Visit>(&self, visit: &mut V, mut begin: impl FnMut(&mut V)) {
        let Body::Event(line) = self.body else { return };
        begin(visit);
        visit.name("comm");
        visit.value(Value::Text(line.comm));
        visit.name("tid");
        visit.value(Value::Signed { value: line.tid.into(), base: 10, bits: 32 });
    }
}

impl Record<'_> {
    /// The thread that ran, by name and id, as the line begins; none where events were lost.
    pub fn running(&self) -> Option<(Comm, i32)> {
        match self.body {
            Body::Event(line) => Some((Comm::new(line.comm), line.tid)),
            Body::Lost(_) => None,
        }
    }
}

/// Goes over a text, line by line.
#[derive(Debug)]
pub struct Reader<'t> {
    /// Bytes of the text.
    whole: usize,
    rest: &'t [u8],
    lines: u64,
    /// Events so far, and time of the latest.
    events: u64,
    time_ns: u64,
    /// What was lost, said before the next event, with the CPU where that is known.
    lost: Option<(Option<u32>, u64)>,
    /// The event behind it.
    held: Option<Record<'t>>,
    damage: Damage,
}

impl<'t> Reader<'t> {
    /// Of a whole text.
    pub fn new(text: &'t [u8]) -> Self {
        let damage = Damage::default();
        Self {
            whole: text.len(),
            rest: text,
            lines: 0,
            events: 0,
            time_ns: 0,
            lost: None,
            held: None,
            damage,
        }
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn line(&mut self) -> Option<&'t [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n').unwrap_or(self.rest.len());
        let (line, behind) = self.rest.split_at_checked(end)?;
        self.rest = behind.get(1..).unwrap_or_default();
        self.lines += 1;
        Some(line)
    }

    /// An event, with what was lost in front of it.
    fn event(&mut self, line: Line<'t>) -> Record<'t> {
        self.events += 1;
        if line.time_ns < self.time_ns {
            self.damage.backwards = self.damage.backwards.saturating_add(1);
        }
        let from_ns = self.time_ns;
        self.time_ns = self.time_ns.max(line.time_ns);
        let record = Record { time_ns: self.time_ns, cpu: line.cpu, body: Body::Event(line) };
        let Some((cpu, events)) = self.lost.take() else { return record };
        self.held = Some(record);
        // A number that is not known is at least one.
        let loss = Loss { events, packets: 0, from_ns, to_ns: self.time_ns };
        Record { time_ns: self.time_ns, cpu: cpu.unwrap_or(record.cpu), body: Body::Lost(loss) }
    }
}

impl<'t> Iterator for Reader<'t> {
    type Item = Record<'t>;

    fn next(&mut self) -> Option<Record<'t>> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            let line = self.line()?;
            if let Some(line) = Line::parse(line) {
                return Some(self.event(line));
            }
            match note(line) {
                Some(Noted::Lost(cpu, events)) => {
                    let (_, before) = self.lost.unwrap_or_default();
                    self.lost = Some((cpu, before.saturating_add(events)));
                }
                Some(Noted::Nothing) => {}
                None => {
                    let number = self.lines;
                    self.damage.unread_lines = self.damage.unread_lines.saturating_add(1);
                    self.damage.note(|| format!("line {number} is no event"));
                }
            }
        }
    }
}

impl<'t> Source<'t> for Reader<'t> {
    fn damage(&self) -> Damage {
        self.damage.clone()
    }

    fn read_bytes(&self, _: usize) -> usize {
        // The event that is held back is not far behind.
        self.whole.saturating_sub(self.rest.len()).saturating_sub(1 << 16)
    }
}

#[cfg(test)]
mod tests;

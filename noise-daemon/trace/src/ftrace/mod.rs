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

use self::fields::Pairs;
pub use self::line::Line;
use self::line::{Noted, note};
use crate::damage::Damage;
use crate::event::{Kind, Loss};
use crate::record::{self, Source, Stored};
use crate::value::{Value, Visit};
use crate::what::{What, kind};

/// A record of a text of ftrace.
pub type Record<'t> = record::Record<Line<'t>>;

impl<'t> Stored<'t> for Line<'t> {
    fn name(&self) -> &'t str {
        self.name
    }

    fn kind(&self) -> Kind<'t> {
        let what = What::named(self.name);
        kind(what, self.name, &Pairs::of(what, self.rest).wanted(what))
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
        let record = Record::new(self.time_ns, line.cpu, line);
        let Some((cpu, events)) = self.lost.take() else { return record };
        self.held = Some(record);
        // A number that is not known is at least one.
        let loss = Loss { events, packets: 0, from_ns, to_ns: self.time_ns };
        Record::lost(self.time_ns, cpu.unwrap_or(record.cpu), loss)
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
    type Stored = Line<'t>;

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

//! What a text is, by one look at each of its lines, before anything is made of it: how much of it are events,
//! and where its times go back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::fields::is_sound;
use super::line::{Line, Noted, Stranger, find, next_line, note, stranger};
use crate::damage::Damage;
use crate::event::Loss;
use crate::threads::MAX_CPUS;

/// Stretches in the order of time that are kept apart. Texts of one CPU after the other have one for each; where a text
/// has more, it was not merely put together of sorted ones.
const MAX_RUNS: usize = 1 << 16;
/// Events of each kind whose fields are looked at: all of a kind are printed in one form.
const MAX_LOOKED_AT: u32 = 64;
/// Places where that is counted, by the name.
const PLACES: usize = 512;

/// A stretch of a text whose events are in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first byte, and the one behind its last.
    pub begin: usize,
    /// See there.
    pub end: usize,
    /// The time of its first event.
    pub first_ns: u64,
}

/// CPUs whose oldest events were overwritten before the text was printed: the others' go back further.
#[derive(Clone, Debug, Default)]
struct Overwritten {
    /// CPUs of which the next event is the oldest that is left.
    starting: BTreeSet<u32>,
    /// Overwritten events were counted in front of the next event.
    is_counted: bool,
    /// How many there were.
    events: u64,
    /// The time of the oldest event that is left, by CPU.
    first_ns: BTreeMap<u32, u64>,
}

impl Overwritten {
    fn note(&mut self, noted: Noted) {
        match noted {
            Noted::Started(cpu) if (cpu as usize) < MAX_CPUS => {
                self.starting.insert(cpu);
            }
            Noted::Lost(None, events) => {
                self.is_counted = true;
                self.events = self.events.saturating_add(events);
            }
            _ => {}
        }
    }

    fn is_awaited(&self) -> bool {
        self.is_counted || !self.starting.is_empty()
    }

    fn event(&mut self, cpu: u32, time_ns: u64) {
        if (self.starting.remove(&cpu) || self.is_counted) && (cpu as usize) < MAX_CPUS {
            self.first_ns.entry(cpu).or_insert(time_ns);
        }
        self.is_counted = false;
    }
}

/// What a text is.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Lines that are events.
    events: u64,
    /// Stretches in the order of time, as they come.
    pub(super) runs: Vec<Run>,
    /// Lines that are none.
    pub(super) damage: Damage,
    overwritten: Overwritten,
    unitless: u64,
    perf_script: u64,
    is_latency: bool,
}

/// Lines of a text that are no events, though they are no notes either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadLines {
    /// How many.
    pub unread: u64,
    /// Of so many.
    pub of: u64,
}

impl fmt::Display for UnreadLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} lines are no events that noised knows: figures may be far off",
            self.unread, self.of
        )
    }
}

impl Survey {
    /// Looks at a text. `passed` is told now and then how many bytes are done with.
    pub fn of(text: &[u8], mut passed: impl FnMut(usize)) -> Self {
        const TIDY_BYTES: usize = 16 << 20;
        let mut survey = Self::default();
        let mut looked_at = [0; PLACES];
        let (mut at, mut number, mut behind, mut tidy) = (0, 0_u64, 0, TIDY_BYTES);
        let mut last_ns = None;
        while let Some((line, next)) = next_line(text, at) {
            number += 1;
            match Line::parse_any(line) {
                Some(event) => {
                    survey.events += 1;
                    if last_ns.is_none_or(|last_ns| event.time_ns < last_ns) {
                        survey.begin(behind, event.time_ns);
                    }
                    last_ns = Some(event.time_ns);
                    if survey.overwritten.is_awaited() {
                        survey.overwritten.event(event.cpu, event.time_ns);
                    }
                    behind = next;
                    if let Some(run) = survey.runs.last_mut() {
                        run.end = next;
                    }
                    survey.look_at(&event, number, &mut looked_at);
                }
                None => survey.stranger(line, number),
            }
            at = next;
            if at >= tidy {
                tidy = at + TIDY_BYTES;
                passed(at);
            }
        }
        if let Some(run) = survey.runs.last_mut() {
            run.end = text.len();
        }
        survey
    }

    fn begin(&mut self, begin: usize, first_ns: u64) {
        if self.runs.len() < MAX_RUNS {
            self.runs.push(Run { begin, end: begin, first_ns });
        } else {
            self.damage.backwards = self.damage.backwards.saturating_add(1);
        }
    }

    /// Notes an event whose fields are no numbers.
    fn look_at(&mut self, event: &Line<'_>, number: u64, looked_at: &mut [u32; PLACES]) {
        // Kinds that share a place are looked at less.
        let place =
            event.name.bytes().fold(0, |sum: usize, byte| sum * 31 % 65_521 + usize::from(byte));
        let Some(count) = looked_at.get_mut(place % PLACES).filter(|count| **count < MAX_LOOKED_AT)
        else {
            return;
        };
        *count += 1;
        if !is_sound(event.name, event.rest) {
            let name = event.name;
            self.damage.note(|| format!("the fields of {name} in line {number} are no numbers"));
        }
    }

    /// Notes a line that is no event.
    fn stranger(&mut self, line: &[u8], number: u64) {
        if let Some(noted) = note(line) {
            self.overwritten.note(noted);
            self.is_latency |= find(line, b"latency trace v").is_some();
            return;
        }
        match stranger(line) {
            Some(Stranger::Unitless) => self.unitless += 1,
            Some(Stranger::PerfScript) => self.perf_script += 1,
            None => {}
        }
        self.damage.unread_lines = self.damage.unread_lines.saturating_add(1);
        self.damage.note(|| format!("line {number} is no event"));
    }

    /// What is not seen of each CPU at the begin, because it was overwritten there and not on others. Where the text has
    /// counted what was overwritten, that is not counted here again.
    pub(super) fn unseen(&self) -> Vec<(u32, Loss)> {
        let Some(from_ns) = self.runs.iter().map(|run| run.first_ns).min() else {
            return Vec::new();
        };
        let events = u64::from(self.overwritten.events == 0);
        let later = self.overwritten.first_ns.iter().filter(|(_, to_ns)| **to_ns > from_ns);
        later
            .map(|(cpu, to_ns)| (*cpu, Loss { events, packets: 0, from_ns, to_ns: *to_ns }))
            .collect()
    }

    /// Lines that are no events, nor notes.
    fn unread(&self) -> u64 {
        self.damage.unread_lines
    }

    /// Lines that are events or should be.
    fn lines(&self) -> u64 {
        self.events.saturating_add(self.unread())
    }

    /// Lines that were not read, where they are so many that figures may be far off: more than 1 %.
    pub fn unread_lines(&self) -> Option<UnreadLines> {
        let (unread, of) = (self.unread(), self.lines());
        (unread.saturating_mul(100) > of).then_some(UnreadLines { unread, of })
    }

    /// Why this text cannot be read, and what to do about it.
    pub fn refusal(&self) -> Option<String> {
        if self.unitless > self.events {
            return Some(
                "has times without a unit: it was recorded with a trace clock that counts cycles or events (x86-tsc, \
                 counter), not time; record with `echo mono > /sys/kernel/tracing/trace_clock`"
                    .to_owned(),
            );
        }
        if self.perf_script > self.events {
            return Some(
                "is what `perf script` prints, which noised does not read; convert the recording itself with \
                 `perf data convert -i perf.data --to-ctf FOLDER` and name that folder"
                    .to_owned(),
            );
        }
        if self.damage.backwards > 0 {
            return Some(format!(
                "is not in order of time, at more than {MAX_RUNS} places; print all CPUs together with \
                 `cat /sys/kernel/tracing/trace` or `trace-cmd report`, which sort events"
            ));
        }
        let is_unread = self.events.saturating_mul(2) < self.lines();
        if is_unread && self.is_latency {
            return Some(
                "is in a latency format that noised does not read; turn it off with \
                 `echo 0 > /sys/kernel/tracing/options/latency-format` and print the trace again"
                    .to_owned(),
            );
        }
        let damage = &self.damage;
        let what =
            "name a folder in CTF, or what /sys/kernel/tracing/trace or `trace-cmd report` printed";
        match self.events {
            _ if !is_unread => None,
            0 => Some(format!("is no recording: {damage}; {what}")),
            events => Some(format!(
                "cannot be read: only {events} of {} lines are events, {damage}; {what}",
                self.lines()
            )),
        }
    }
}

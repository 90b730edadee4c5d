//! What a text is, by one look at each of its lines, before anything is made of it: how much of it are events,
//! and where its times go back.

use std::fmt;

use noise_text::clean::{as_text, quoted};
use serde::Serialize;

use super::fields::is_sound;
use super::line::{Parsed, Stranger, find, note, stranger};
use super::lines::{Lines, Next};
use super::losses::Losses;
use crate::damage::Damage;
use crate::event::LostEvents;
use crate::events::What;
use crate::window::{Content, bytes_of_each};

/// Stretches in the order of time that are kept apart. Texts of one CPU after the other have one for each; where a text
/// has more, it was not merely put together of sorted ones.
const MAX_RUNS: usize = 1 << 16;
/// Names of events whose kinds are remembered, and bytes of such a name.
const PLACES: usize = 512;
const MAX_NAME: usize = 64;
/// 2 to the power of 64, divided by the golden ratio: its product mixes the bits of a number (Knuth).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stretch of a text whose events are in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first byte, and the one behind its last.
    pub begin: u64,
    pub end: u64,
    pub first_ns: u64,
}

/// What a text is.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Lines that are events.
    events: u64,
    /// Lines that are events, but whose numbers cannot be read; they are among those that were not read.
    pub(super) misread: u64,
    /// Stretches in the order of time, as they come.
    pub(super) runs: Vec<Run>,
    /// Lines that are none.
    pub(super) damage: Damage,
    losses: Losses,
    last_ns: u64,
    unitless: u64,
    perf_script: u64,
    is_latency: bool,
    /// The tracer that prints something else than events.
    tracer: Option<String>,
    /// What `trace-cmd report` names its inputs, the first two.
    inputs: Vec<String>,
    pub has_waking: bool,
    pub has_wakeup: bool,
}

/// Lines of a text that are no events, though they are no notes either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadLines {
    pub unread: u64,
    pub of: u64,
}

impl fmt::Display for UnreadLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} lines cannot be read as events: figures may be far off",
            self.unread, self.of
        )
    }
}

/// The kinds of events by their names, which are looked up once.
struct Kinds(Vec<(Vec<u8>, What)>);

impl Kinds {
    fn new() -> Self {
        Self(vec![(Vec::new(), What::Other); PLACES])
    }

    fn of(&mut self, name: &[u8]) -> What {
        let place = self.0.get_mut(place(name));
        let Some((known, what)) = place.filter(|_| name.len() <= MAX_NAME) else {
            return What::named(&String::from_utf8_lossy(name));
        };
        if known != name {
            *known = name.to_vec();
            *what = What::named(&String::from_utf8_lossy(name));
        }
        *what
    }
}

/// Where the kind of that name has its place: by its first and last bytes, as every event asks for it.
fn place(name: &[u8]) -> usize {
    let short = || name.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let number =
        |chunk: Option<&[u8; 8]>| chunk.map_or_else(short, |chunk| u64::from_be_bytes(*chunk));
    let ends = number(name.first_chunk()).rotate_left(7) ^ number(name.last_chunk());
    (ends.wrapping_mul(GOLDEN) >> (u64::BITS - PLACES.ilog2())) as usize
}

impl Survey {
    /// Looks at a text.
    pub fn of(content: Content<'_>) -> Self {
        Self::in_windows(content, bytes_of_each(1))
    }

    /// The same with a window of so many bytes.
    pub(super) fn in_windows(content: Content<'_>, window: usize) -> Self {
        let mut survey = Self::default();
        let mut kinds = Kinds::new();
        let mut lines = Lines::new(content, (0, content.length()), window);
        let (mut number, mut behind, mut last_ns) = (0_u64, 0, None);
        loop {
            number += 1;
            let line = match lines.next() {
                Some(Next::Line(line)) => line,
                Some(Next::Long) => {
                    survey.unread_line(|| format!("line {number} is longer than 1 MiB"));
                    continue;
                }
                Some(Next::Short(short, left)) => {
                    survey.damage.missing_bytes = short.missing;
                    survey.damage.unread_bytes = left;
                    survey.damage.note(|| short.to_string());
                    continue;
                }
                None => break,
            };
            let Some(event) = Parsed::parse_any(line) else {
                survey.stranger(line, number);
                continue;
            };
            if last_ns.is_none_or(|last_ns| event.time_ns < last_ns) {
                survey.begin(behind, event.time_ns);
            }
            last_ns = Some(event.time_ns);
            survey.losses.event(event.cpu, event.time_ns);
            survey.last_ns = survey.last_ns.max(event.time_ns);
            survey.has_waking |= event.name.ends_with(b"sched_waking");
            survey.has_wakeup |= event.name.ends_with(b"sched_wakeup");
            if !event.input.is_empty() {
                survey.input(event.input);
            }
            match is_sound(kinds.of(event.name), event.rest) {
                true => survey.events += 1,
                false => survey.misread(&event, number),
            }
            behind = lines.at();
            if let Some(run) = survey.runs.last_mut() {
                run.end = behind;
            }
        }
        if let Some(run) = survey.runs.last_mut() {
            run.end = lines.at();
        }
        survey
    }

    fn begin(&mut self, begin: u64, first_ns: u64) {
        if self.runs.len() < MAX_RUNS {
            self.runs.push(Run { begin, end: begin, first_ns });
        } else {
            self.damage.backwards = self.damage.backwards.saturating_add(1);
        }
    }

    /// Notes an event whose numbers cannot be read.
    #[cold]
    fn misread(&mut self, event: &Parsed<'_>, number: u64) {
        self.misread += 1;
        self.losses.misread(event.cpu);
        let name = String::from_utf8_lossy(event.name);
        self.unread_line(|| format!("the numbers of {name} in line {number} cannot be read"));
    }

    #[cold]
    fn input(&mut self, input: &[u8]) {
        let input = quoted(&as_text(input.trim_ascii()));
        if self.inputs.len() < 2 && !self.inputs.contains(&input) {
            self.inputs.push(input);
        }
    }

    /// Notes a line that is no event.
    fn stranger(&mut self, line: &[u8], number: u64) {
        if let Some(noted) = note(line) {
            self.losses.note(noted);
            self.is_latency |= find(line, b"latency trace v").is_some();
            if let Some(tracer) = line.strip_prefix(b"# tracer: ") {
                let tracer = tracer.trim_ascii();
                self.tracer = (tracer != b"nop").then(|| quoted(&as_text(tracer)));
            }
            return;
        }
        match stranger(line) {
            Some(Stranger::Unitless) => self.unitless += 1,
            Some(Stranger::PerfScript) => self.perf_script += 1,
            None => {}
        }
        self.unread_line(|| format!("line {number} is no event"));
    }

    fn unread_line(&mut self, sentence: impl FnOnce() -> String) {
        self.damage.unread_lines = self.damage.unread_lines.saturating_add(1);
        self.damage.note(sentence);
    }

    /// What was lost on each CPU, in order, and whether events of that CPU come before it. Of a CPU whose buffer was
    /// overwritten, and others' not, it is what it did at the begin.
    pub(super) fn losses(&self) -> Vec<(u32, bool, LostEvents)> {
        let first_ns = self.runs.iter().map(|run| run.first_ns).min();
        self.losses.finish(first_ns.unwrap_or(0), self.last_ns)
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
        // Instances of one machine are named as well, but not as files are.
        let is_file = |input: &String| input.contains(['.', '/']);
        if let [one, other] = self.inputs.as_slice()
            && is_file(one)
            && is_file(other)
        {
            return Some(format!(
                "has events of several inputs ({one}, {other}), which may be of different machines; print each alone with \
                 `trace-cmd report -i FILE`, and name one of these texts"
            ));
        }
        let is_unread = self.events.saturating_mul(2) < self.lines();
        if let Some(tracer) = self.tracer.as_ref().filter(|_| is_unread) {
            return Some(format!(
                "is what the tracer {tracer} prints, not events; turn it off with \
                 `echo nop > /sys/kernel/tracing/current_tracer`, turn events on with \
                 `echo 1 > /sys/kernel/tracing/events/sched/enable`, and record again"
            ));
        }
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
            _ if self.misread > self.lines() / 2 => Some(format!(
                "has events whose numbers noised cannot read: {damage}; turn off how ftrace prints them with \
                 `echo 0 > /sys/kernel/tracing/options/raw` (likewise `hex` and `bin`), and print the trace again"
            )),
            0 => Some(format!("is no recording: {damage}; {what}")),
            events => Some(format!(
                "cannot be read: only {events} of {} lines are events, {damage}; {what}",
                self.lines()
            )),
        }
    }
}

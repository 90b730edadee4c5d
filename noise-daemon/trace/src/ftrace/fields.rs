//! Fields of an event as they are printed: `name=value`, or in a form of the event's own.

use std::cell::Cell;

use memchr::memchr;

use super::line::{digits, find};
use crate::event::TraceKind;
use crate::events::{Fields, What, kind};
use crate::rwbs;
use crate::state::{Left, LeftIn};
use crate::value::{Value, Visit};

/// Fields of one event, at most.
const MAX_FIELDS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'t> {
    /// A number, printed so.
    Number(i64),
    /// An address or another number that is printed in base 16.
    Address(u64),
    /// The state that a thread is left in, and as what it is printed.
    State(LeftIn, &'t [u8]),
    Text(&'t [u8]),
}

/// Fields by their names, in order.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'t> {
    list: [(&'t [u8], FieldValue<'t>); MAX_FIELDS],
    count: usize,
}

/// Those that [`What::fields`] names.
pub struct WantedPairs<'t> {
    pairs: Pairs<'t>,
    what: What,
    /// A field was asked for as a number that is printed as something else.
    is_misread: Cell<bool>,
}

/// What an event is. One whose numbers are printed as something else is none of the kinds that are computed with: what
/// it says is not made up.
pub fn kind_of<'t>(name: &'t str, rest: &'t [u8]) -> TraceKind<'t> {
    let what = What::named(name);
    let fields = Pairs::of(what, rest).wanted(what);
    let kind = kind(what, name, &fields);
    if fields.is_sound() { kind } else { TraceKind::Other(name) }
}

/// Whether all is read that is computed with.
pub fn is_sound(name: &str, rest: &[u8]) -> bool {
    let what = What::named(name);
    let fields = Pairs::of(what, rest).wanted(what);
    kind(what, name, &fields);
    fields.is_sound()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where the next `name=` begins that a blank or nothing precedes.
fn next_name(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let equals = at + memchr(b'=', text.get(at..)?)?;
        let before = text.get(from..equals)?;
        let begin =
            from + before.iter().rposition(|&byte| !is_name(byte)).map_or(0, |place| place + 1);
        let is_first = begin == 0 || text.get(begin - 1).is_some_and(u8::is_ascii_whitespace);
        if begin < equals && is_first {
            return Some((begin, equals));
        }
        at = equals + 1;
    }
}

/// Numbers that are printed in base 16 without a mark.
fn is_address(name: &[u8]) -> bool {
    matches!(name, b"skbaddr" | b"hrtimer" | b"timer" | b"call_site" | b"ptr" | b"skaddr")
}

/// Names, though some may look like numbers.
fn is_text(name: &[u8]) -> bool {
    name.ends_with(b"comm") || matches!(name, b"name" | b"dev" | b"filename")
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// `0x5b (91)`, as the option `fields` has numbers printed: what is in the brackets.
fn number_twice(text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"0x")?.strip_suffix(b")")?;
    let open = find(text, b" (")?;
    std::str::from_utf8(text.get(open + 2..)?).ok()?.parse().ok()
}

fn held<'t>(name: &[u8], text: &'t [u8]) -> FieldValue<'t> {
    if let Some(number) = number_twice(text) {
        return FieldValue::Number(number);
    }
    if let Some(address) = text.strip_prefix(b"0x").and_then(hex) {
        return FieldValue::Address(address);
    }
    if is_address(name)
        && let Some(address) = hex(text)
    {
        return FieldValue::Address(address);
    }
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    match digits::<i64>(unsigned) {
        Some(number) => {
            FieldValue::Number(if unsigned.len() < text.len() { -number } else { number })
        }
        None => FieldValue::Text(text),
    }
}

impl<'t> Pairs<'t> {
    fn push(&mut self, name: &'t [u8], held: FieldValue<'t>) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = (name, held);
            self.count += 1;
        }
    }

    pub fn of(what: What, rest: &'t [u8]) -> Self {
        let mut pairs = Self { list: [(b"", FieldValue::Number(0)); MAX_FIELDS], count: 0 };
        let read = match what {
            what if what.is_request() => pairs.request(what, rest),
            What::NmiHandler => pairs.nmi(rest),
            What::SchedSwitch if find(rest, b"prev_comm=").is_none() => pairs.short_switch(rest),
            What::SchedWaking | What::SchedWakeup | What::SchedWakeupNew
                if find(rest, b"comm=").is_none() =>
            {
                pairs.short_wakeup(rest)
            }
            _ => None,
        };
        if read.is_none() {
            pairs.count = 0;
            pairs.equals(rest);
            if what == What::SchedSwitch {
                pairs.replace(b"prev_state", |text| FieldValue::State(LeftIn::printed(text), text));
            } else if what.is_request() {
                pairs.replace(b"rwbs", |text| FieldValue::Number(rwbs::parse(text).into()));
                // Of packets it is a name.
                pairs.replace(b"dev", |text| held(b"dev", text));
            } else if what == What::IrqHandlerExit {
                pairs.replace(b"ret", |text| FieldValue::Number(i64::from(text == b"handled")));
            }
        }
        if pairs.count == 0 && !rest.is_empty() {
            pairs.push(b"text", FieldValue::Text(rest));
        }
        pairs
    }

    /// `name=value name=value`; a value goes up to the next name.
    fn equals(&mut self, rest: &'t [u8]) {
        let mut next = next_name(rest, 0);
        while let Some((begin, equals)) = next {
            next = next_name(rest, equals + 1);
            let end = next.map_or(rest.len(), |(begin, _)| begin);
            let name = rest.get(begin..equals).unwrap_or_default();
            let value = rest.get(equals + 1..end).unwrap_or_default().trim_ascii();
            // The arrow of a switch, and what softirqs add in brackets.
            let value = value.strip_suffix(b"==>").unwrap_or(value).trim_ascii();
            let value = match find(value, b" [") {
                Some(at) if !name.ends_with(b"comm") => value.get(..at).unwrap_or(value),
                _ => value,
            };
            let held = if is_text(name) { FieldValue::Text(value) } else { held(name, value) };
            self.push(name, held);
        }
    }

    fn replace(&mut self, name: &[u8], make: impl Fn(&'t [u8]) -> FieldValue<'t>) {
        for (found, held) in self.list.iter_mut().take(self.count) {
            if *found == name
                && let FieldValue::Text(text) = *held
            {
                *held = make(text);
            }
        }
    }

    /// `254,0 RA 4096 () 7864832 + 8 be,0,4 [bash]`; of completions without bytes, with an error in the brackets.
    fn request(&mut self, what: What, rest: &'t [u8]) -> Option<()> {
        let mut words = rest.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let dev = words.next()?;
        let comma = find(dev, b",")?;
        let (major, minor): (i64, i64) =
            (digits(dev.get(..comma)?)?, digits(dev.get(comma + 1..)?)?);
        self.push(b"dev", FieldValue::Number(major << 20 | minor));
        let flags = words.next()?;
        self.push(b"rwbs", FieldValue::Number(rwbs::parse(flags).into()));
        let is_whole =
            matches!(what, What::BlockRqInsert | What::BlockRqIssue | What::BlockRqMerge);
        if is_whole {
            self.push(b"bytes", FieldValue::Number(digits(words.next()?)?));
        }
        let plus = find(rest, b" + ")?;
        let before = rest.get(..plus)?;
        let space = before.iter().rposition(|&byte| byte == b' ')?;
        // All ones of a request that has no place.
        let sector: u64 = digits(before.get(space + 1..)?)?;
        self.push(b"sector", FieldValue::Number(sector.cast_signed()));
        let after = rest.get(plus + 3..)?;
        let end = after.iter().position(|&byte| byte == b' ').unwrap_or(after.len());
        self.push(b"nr_sector", FieldValue::Number(digits(after.get(..end)?)?));
        let open = after.iter().position(|&byte| byte == b'[')?;
        let inside = after.get(open + 1..)?.strip_suffix(b"]")?;
        match is_whole {
            true => self.push(b"comm", FieldValue::Text(inside)),
            false => self.push(b"error", held(b"error", inside)),
        }
        Some(())
    }

    /// `perf_event_nmi_handler() delta_ns: 4125 handled: 1`
    fn nmi(&mut self, rest: &'t [u8]) -> Option<()> {
        let mut words = rest.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        self.push(b"handler", FieldValue::Text(words.next()?));
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            self.push(name.strip_suffix(b":")?, held(b"", value));
        }
        Some(())
    }

    /// `bash:12 [120]`, as trace-cmd prints a thread; what follows.
    fn short_task(&mut self, names: [&'static [u8]; 3], text: &'t [u8]) -> Option<&'t [u8]> {
        let open = find(text, b" [")?;
        let close = open + find(text.get(open..)?, b"]")?;
        let who = text.get(..open)?;
        let colon = who.iter().rposition(|&byte| byte == b':')?;
        let prio = text.get(open + 2..close)?;
        let [comm, tid, prio_name] = names;
        self.push(comm, FieldValue::Text(who.get(..colon)?));
        self.push(tid, FieldValue::Number(digits(who.get(colon + 1..)?)?));
        self.push(prio_name, held(b"", prio));
        text.get(close + 1..)
    }

    /// `bash:12 [120] S ==> swapper/1:0 [120]`
    fn short_switch(&mut self, rest: &'t [u8]) -> Option<()> {
        let behind = self.short_task([b"prev_comm", b"prev_pid", b"prev_prio"], rest)?;
        let arrow = find(behind, b"==>")?;
        let left_in = behind.get(..arrow)?.trim_ascii();
        self.push(b"prev_state", FieldValue::State(LeftIn::printed(left_in), left_in));
        let next = behind.get(arrow + 3..)?.trim_ascii_start();
        self.short_task([b"next_comm", b"next_pid", b"next_prio"], next)?;
        Some(())
    }

    /// `bash:12 [120] success=1 CPU:003`
    fn short_wakeup(&mut self, rest: &'t [u8]) -> Option<()> {
        let behind = self.short_task([b"comm", b"pid", b"prio"], rest)?;
        let at = find(behind, b"CPU:")?;
        self.push(b"target_cpu", FieldValue::Number(digits(behind.get(at + 4..)?.trim_ascii())?));
        Some(())
    }

    pub fn visit(&self, visit: &mut impl Visit) {
        for (name, held) in self.list.iter().take(self.count) {
            visit.name(&String::from_utf8_lossy(name));
            visit.value(match *held {
                FieldValue::Number(value) => Value::Signed { value, base: 10, bits: 64 },
                FieldValue::Address(value) => Value::Unsigned { value, base: 16 },
                FieldValue::State(state, text) if state.left() == Left::Unknown => {
                    Value::Text(text)
                }
                FieldValue::State(state, _) => {
                    Value::Signed { value: state.bits(), base: 10, bits: 64 }
                }
                FieldValue::Text(text) => Value::Text(text),
            });
        }
    }

    /// By the numbers of [`What::fields`].
    pub fn wanted(self, what: What) -> WantedPairs<'t> {
        WantedPairs { pairs: self, what, is_misread: Cell::new(false) }
    }
}

impl<'t> WantedPairs<'t> {
    /// Whether its numbers are numbers, as far as it is computed with them. Kinds that are not listed have names for some.
    fn is_sound(&self) -> bool {
        let has_tid = match self.what {
            What::SchedSwitch => self.has(1) && self.has(5),
            What::SchedWaking
            | What::SchedWakeup
            | What::SchedWakeupNew
            | What::SchedMigrateTask => self.has(1),
            What::IrqHandlerEntry | What::SoftirqRaise | What::SoftirqEntry | What::SoftirqExit => {
                true
            }
            what if what.is_request() => true,
            _ => return true,
        };
        has_tid && !self.is_misread.get()
    }

    fn find(&self, field: usize) -> Option<FieldValue<'t>> {
        let field = self.what.fields().get(field)?;
        field.names.iter().find_map(|name| {
            let pairs = self.pairs.list.iter().take(self.pairs.count);
            let mut found = pairs.filter(|(found, _)| *found == name.as_bytes());
            found.next().map(|(_, held)| *held)
        })
    }
}

impl<'t> Fields<'t> for WantedPairs<'t> {
    fn has(&self, field: usize) -> bool {
        self.find(field).is_some()
    }

    fn int(&self, field: usize) -> u64 {
        match self.find(field) {
            Some(FieldValue::Number(number)) => number as u64,
            Some(FieldValue::Address(address)) => address,
            Some(FieldValue::State(state, _)) => state.bits() as u64,
            Some(FieldValue::Text(_)) => {
                self.is_misread.set(true);
                0
            }
            None => 0,
        }
    }

    fn state(&self, field: usize) -> LeftIn {
        match self.find(field) {
            Some(FieldValue::State(state, _)) => state,
            Some(FieldValue::Number(number)) => LeftIn::of(number),
            Some(FieldValue::Address(number)) => LeftIn::of(number.cast_signed()),
            Some(FieldValue::Text(_)) | None => LeftIn::printed(b""),
        }
    }

    fn text(&self, field: usize) -> &'t [u8] {
        match self.find(field) {
            Some(FieldValue::Text(text)) => text,
            Some(FieldValue::Number(_) | FieldValue::Address(_) | FieldValue::State(..)) | None => {
                b""
            }
        }
    }
}

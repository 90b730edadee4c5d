//! Fields of an event as they are printed: `name=value`, or in a form of the event's own.

use memchr::{memrchr, memrchr_iter};

use super::line::{bytes_of_names, digits, find, find_last};
use crate::event::TraceKind;
use crate::events::{Fields, What, kind};
use crate::rwbs;
use crate::state::{Left, LeftIn};
use crate::value::{Value, Visit};

/// Fields of one event, at most.
const MAX_FIELDS: usize = 32;
/// Bytes of the name of a thread, at most.
const MAX_COMM: usize = 15;

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
pub struct WantedPairs<'p, 't> {
    pairs: &'p Pairs<'t>,
    what: What,
}

/// What an event is. One whose numbers cannot be read is none of the kinds that are computed with: what it says is not
/// made up. Those of a text that had no such event when it was surveyed are not checked again.
pub fn kind_of<'t>(name: &'t str, rest: &'t [u8], is_sound: bool) -> TraceKind<'t> {
    let what = What::named(name);
    if what == What::Other {
        return TraceKind::Other(name);
    }
    let pairs = Pairs::of(what, rest);
    let fields = pairs.wanted(what);
    if is_sound || is_plain(what, rest) || fields.is_sound() {
        kind(what, name, &fields)
    } else {
        TraceKind::Other(name)
    }
}

/// Whether all numbers are read that are computed with.
pub fn is_sound(what: What, rest: &[u8]) -> bool {
    is_plain(what, rest) || Pairs::of(what, rest).wanted(what).is_sound()
}

/// Whether they are printed in the usual form, for which fields need not be taken apart: most are. Their names are looked
/// for from the end, as names of threads may look like them.
fn is_plain(what: What, rest: &[u8]) -> bool {
    let mut text = rest;
    numbers(what).iter().rev().all(|&field| {
        let Some(name) = what.fields().get(field).and_then(|field| field.names.last()) else {
            return false;
        };
        while let Some(equals) = last_equals(text) {
            let (before, value) = text.split_at(equals);
            text = before;
            if before.last() == name.as_bytes().last()
                && let Some(before) = before.strip_suffix(name.as_bytes())
                && before.last().is_none_or(|byte| *byte == b' ')
            {
                text = before.strip_suffix(b" ").unwrap_or(before);
                let value = value.get(1..).unwrap_or_default();
                let is_hex = is_address(name.as_bytes());
                return if is_hex { is_plain_address(value) } else { is_plain_number(value) };
            }
        }
        false
    })
}

/// The place of the last `=`, behind which there are mostly a few digits.
fn last_equals(text: &[u8]) -> Option<usize> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = text.len().checked_sub(digits + 1)?;
    if text.get(before) == Some(&b'=') { Some(before) } else { memrchr(b'=', text) }
}

/// Whether a text begins with a few digits, and a blank or nothing behind them.
fn is_plain_number(text: &[u8]) -> bool {
    let digits = text.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    (1..10).contains(&digits) && text.get(digits).is_none_or(|byte| *byte == b' ')
}

/// The fields of a kind, by the numbers of [`What::fields`], that each text of it prints as a number: it is not computed
/// without. Others may be missing, or be names.
const fn numbers(what: What) -> &'static [usize] {
    match what {
        What::SchedSwitch => &[1, 2, 5, 6],
        What::SchedWaking | What::SchedWakeup | What::SchedWakeupNew => &[1, 2, 3],
        What::SchedMigrateTask => &[1, 2, 3, 4],
        What::SchedProcessFork => &[2, 5],
        What::SchedProcessExec => &[1, 2],
        What::SchedProcessExit | What::SchedProcessFree | What::SchedProcessWait => &[1],
        What::IrqHandlerEntry
        | What::IrqHandlerExit
        | What::SoftirqRaise
        | What::SoftirqEntry
        | What::SoftirqExit
        | What::VectorEntry(_)
        | What::VectorExit(_)
        | What::NmiHandler
        | What::HrtimerExpireExit
        | What::SkbKfree
        | What::CgroupAttach => &[0],
        What::HrtimerExpireEntry
        | What::NetDevQueue
        | What::NetDevStartXmit
        | What::NetifRx
        | What::NetifReceiveSkb
        | What::NapiGroReceive => &[0, 1],
        What::NetDevXmit => &[0, 1, 3],
        What::BlockRqInsert | What::BlockRqIssue => &[0, 1, 2, 3, 5],
        What::BlockRqMerge => &[0, 1, 2, 3],
        What::BlockRqRequeue | What::BlockRqComplete => &[0, 1, 2, 3, 4],
        What::SignalGenerate => &[0, 3],
        What::SignalDeliver => &[0],
        // Its address is missing on older kernels.
        What::TcpRetransmitSkb => &[],
        // These are printed in words.
        What::InetSockSetState
        | What::SockSendLength
        | What::SockRecvLength
        | What::SkDataReady
        | What::SyscallEntry(_)
        | What::SyscallExit(_)
        | What::Other => &[],
        // ftrace has none of these.
        What::CallOther
        | What::Connection
        | What::Mark
        | What::Throttled
        | What::StatedumpStart
        | What::StatedumpProcess
        | What::StatedumpInterrupt
        | What::StatedumpBlockDevice
        | What::StatedumpInterface
        | What::StatedumpEnd
        | What::StatedumpFile
        | What::StatedumpSocket => &[],
    }
}

/// The same for a number in base 16.
fn is_plain_address(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digits = text.iter().take(17).take_while(|byte| byte.is_ascii_hexdigit()).count();
    (1..17).contains(&digits) && text.get(digits).is_none_or(|byte| *byte == b' ')
}

const IS_NAME: [bool; 256] = bytes_of_names(b"_");

/// Where the next `name=` begins that a blank or nothing precedes.
fn next_name(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let is_first = from.checked_sub(1).is_none_or(|before| text.get(before) == Some(&b' '));
    let mut begin = is_first.then_some(from);
    for (&byte, at) in text.get(from..)?.iter().zip(from..) {
        if IS_NAME[usize::from(byte)] {
            continue;
        }
        match begin.filter(|begin| byte == b'=' && *begin < at) {
            Some(begin) => return Some((begin, at)),
            None => begin = byte.is_ascii_whitespace().then_some(at + 1),
        }
    }
    None
}

/// Where the field behind the one of that name begins at the earliest. The name of a thread, or of a file, may look like a
/// field; an id comes behind it.
fn behind_name(text: &[u8], name: &[u8], from: usize) -> usize {
    if name == b"filename" {
        let id = text.get(from..).and_then(|text| find_last(text, b" pid="));
        return id.map_or(from, |at| from + at + 1);
    }
    let Some(whose) = name.strip_suffix(b"comm") else { return from };
    let seen = text.get(from..).unwrap_or_default();
    let seen = seen.get(..=MAX_COMM).unwrap_or(seen);
    let is_id = |at: &usize| {
        let field = text.get(from + at + 1..).and_then(|text| text.strip_prefix(whose));
        field.is_some_and(|field| field.starts_with(b"pid="))
    };
    memrchr_iter(b' ', seen).find(is_id).map_or(from, |at| from + at + 1)
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
    let number = std::str::from_utf8(text.get(open + 2..)?).ok()?;
    // One without a sign may be all ones.
    number.parse().ok().or_else(|| number.parse::<u64>().ok().map(u64::cast_signed))
}

/// Without ` Latency: 100000.000 usecs`, which `trace-cmd report -w` appends to switches.
fn without_latency(rest: &[u8]) -> &[u8] {
    let before = rest.strip_suffix(b" usecs").and_then(|rest| find_last(rest, b" Latency: "));
    before.and_then(|at| rest.get(..at)).unwrap_or(rest)
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
        let rest = if what == What::SchedSwitch { without_latency(rest) } else { rest };
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
            let name = rest.get(begin..equals).unwrap_or_default();
            next = next_name(rest, behind_name(rest, name, equals + 1));
            let end = next.map_or(rest.len(), |(begin, _)| begin);
            let value = rest.get(equals + 1..end).unwrap_or_default().trim_ascii();
            if is_text(name) {
                self.push(name, FieldValue::Text(value));
                continue;
            }
            if let Some(number) = digits(value).filter(|_| !is_address(name)) {
                self.push(name, FieldValue::Number(number));
                continue;
            }
            // The arrow of a switch, and what softirqs add in brackets.
            let value = value.strip_suffix(b"==>").unwrap_or(value).trim_ascii();
            let value = find(value, b" [").and_then(|at| value.get(..at)).unwrap_or(value);
            self.push(name, held(name, value));
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

    /// `perf_event_nmi_handler() delta_ns: 4125 handled: 1`; of a module, `hpwdt_pretimeout [hpwdt]() delta_ns: …`.
    fn nmi(&mut self, rest: &'t [u8]) -> Option<()> {
        let (handler, rest) = rest.split_at_checked(find(rest, b"() ")? + 2)?;
        self.push(b"handler", FieldValue::Text(handler));
        let mut words = rest.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            self.push(name.strip_suffix(b":")?, held(b"", value));
        }
        Some(())
    }

    /// `bash:12 [120]`, as trace-cmd prints a thread, whose name may have brackets, too; what follows.
    fn short_task(&mut self, names: [&'static [u8]; 3], text: &'t [u8]) -> Option<&'t [u8]> {
        let open = find_last(text, b" [")?;
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
        let arrow = find_last(rest, b" ==> ")?;
        let prev = rest.get(..arrow)?;
        let left_in =
            self.short_task([b"prev_comm", b"prev_pid", b"prev_prio"], prev)?.trim_ascii();
        self.push(b"prev_state", FieldValue::State(LeftIn::printed(left_in), left_in));
        let next = rest.get(arrow + 5..)?.trim_ascii_start();
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
    pub fn wanted(&self, what: What) -> WantedPairs<'_, 't> {
        WantedPairs { pairs: self, what }
    }
}

impl<'t> WantedPairs<'_, 't> {
    /// Whether all are there that are computed with, and are numbers that the kernel may have meant.
    fn is_sound(&self) -> bool {
        numbers(self.what).iter().all(|&field| {
            let declared = self.what.fields().get(field).and_then(|field| field.declared);
            let is_short = declared.is_some_and(|declared| declared.name.ends_with("int32_t"));
            match self.find(field) {
                Some(FieldValue::Number(number)) => {
                    !is_short || (i32::MIN.into()..=u32::MAX.into()).contains(&number)
                }
                Some(FieldValue::Address(number)) => !is_short || u32::try_from(number).is_ok(),
                Some(FieldValue::Text(text)) => !is_short && digits::<u64>(text).is_some(),
                Some(FieldValue::State(..)) | None => false,
            }
        })
    }

    fn find(&self, field: usize) -> Option<FieldValue<'t>> {
        let names = self.what.fields().get(field)?.names;
        let pairs = self.pairs.list.get(..self.pairs.count)?;
        let of = |name: &str| pairs.iter().find(|(found, _)| *found == name.as_bytes());
        // Most are printed in the order of the list.
        let here =
            pairs.get(field).filter(|(found, _)| names.iter().any(|it| it.as_bytes() == *found));
        let (_, held) = here.or_else(|| names.iter().find_map(|name| of(name)))?;
        Some(*held)
    }
}

impl<'t> Fields<'t> for WantedPairs<'_, 't> {
    fn has(&self, field: usize) -> bool {
        self.find(field).is_some()
    }

    fn int(&self, field: usize) -> u64 {
        match self.find(field) {
            Some(FieldValue::Number(number)) => number as u64,
            Some(FieldValue::Address(address)) => address,
            Some(FieldValue::State(state, _)) => state.bits() as u64,
            // One that has no sign may be larger than those that have.
            Some(FieldValue::Text(text)) => digits(text).unwrap_or(0),
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

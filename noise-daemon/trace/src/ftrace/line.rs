//! One line: what comes before the fields.

use memchr::{memchr, memchr_iter, memrchr_iter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLine<'t> {
    /// Name of the thread that ran; `<idle>` for the idle task.
    pub comm: &'t [u8],
    pub tid: i32,
    pub cpu: u32,
    /// Time on the trace's clock.
    pub time_ns: u64,
    pub name: &'t str,
    pub rest: &'t [u8],
    /// Whether its text had no event whose numbers cannot be read when it was surveyed.
    pub is_sound: bool,
}

/// Names of events that are printed without one, as trace-cmd names them.
const UNPRINTED: [&str; 3] = [STACK, USER_STACK, FUNCTION];
const STACK: &str = "kernel_stack";
const USER_STACK: &str = "user_stack";
const FUNCTION: &str = "function";

/// Where a piece of a line begins and ends.
type TokenSpan = (usize, usize);

/// Where the parts of an event lie in its line.
#[derive(Clone, Copy, Debug)]
pub struct LineLayout {
    comm: TokenSpan,
    tid: i32,
    cpu: u32,
    time_ns: u64,
    /// None where none is printed.
    name: Option<TokenSpan>,
    unprinted: &'static str,
    rest: TokenSpan,
    is_sound: bool,
}

/// Where a piece lies in a text; none where it is no piece of it.
fn span(text: &[u8], piece: &[u8]) -> Option<TokenSpan> {
    let begin = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let end = begin.checked_add(piece.len()).filter(|end| *end <= text.len())?;
    Some((begin, end))
}

impl LineLayout {
    /// Of an event that was read from a line, and whether its text had none whose numbers cannot be read.
    #[inline]
    pub fn of(line: &[u8], event: &Parsed<'_>, is_sound: bool) -> Self {
        let Parsed { comm, tid, cpu, time_ns, name, rest, input: _ } = *event;
        let printed = span(line, name);
        let unprinted = match printed {
            Some(_) => "",
            None => UNPRINTED.into_iter().find(|it| it.as_bytes() == name).unwrap_or_default(),
        };
        let [comm, rest] = [comm, rest].map(|piece| span(line, piece).unwrap_or_default());
        Self { comm, tid, cpu, time_ns, name: printed, unprinted, rest, is_sound }
    }

    /// The event in a text that its line begins.
    #[inline]
    pub fn line(self, text: &[u8]) -> EventLine<'_> {
        let piece = |(begin, end): TokenSpan| text.get(begin..end).unwrap_or_default();
        let Self { comm, tid, cpu, time_ns, name, unprinted, rest, is_sound } = self;
        let printed = |name| std::str::from_utf8(piece(name)).unwrap_or_default();
        let name = name.map_or(unprinted, printed);
        EventLine { comm: piece(comm), tid, cpu, time_ns, name, rest: piece(rest), is_sound }
    }
}

/// Where in a line the bracket of its CPU begins at the latest: the name of a thread has 15 bytes, and numbers, blanks
/// and what trace-cmd puts in front of them are not much longer. Each bracket is looked behind, and a line may have a
/// third of a million.
const MAX_BEFORE_CPU: usize = 512;
/// Bytes of flags, or of a time.
const MAX_WORD: usize = 64;

/// What a line says, as it is found. Its name is ASCII.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'t> {
    pub comm: &'t [u8],
    pub tid: i32,
    pub cpu: u32,
    pub time_ns: u64,
    pub name: &'t [u8],
    pub rest: &'t [u8],
    /// What `trace-cmd report` of several inputs puts in front.
    pub input: &'t [u8],
}

/// A line that is no event, but belongs to the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// So many events were lost, on that CPU where one is named, else on any. 1 stands for an unknown number.
    Lost(Option<u32>, u64),
    /// So many events were overwritten in front of what follows.
    Overwritten(u64),
    /// The events of that CPU begin here: older ones may have been overwritten.
    Started(u32),
    Nothing,
}

pub fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    let (first, rest) = piece.split_first()?;
    memchr_iter(*first, text)
        .find(|at| text.get(at + 1..).is_some_and(|behind| behind.starts_with(rest)))
}

/// The last place of a piece.
pub fn find_last(text: &[u8], piece: &[u8]) -> Option<usize> {
    let (first, rest) = piece.split_first()?;
    memrchr_iter(*first, text)
        .find(|at| text.get(at + 1..).is_some_and(|behind| behind.starts_with(rest)))
}

/// Digits of a number that is certainly no more than 64 bits.
const SAFE_DIGITS: usize = 19;

/// A number of digits only.
pub fn digits<N: TryFrom<u64>>(text: &[u8]) -> Option<N> {
    let (first, last) = text.split_at(text.len().min(SAFE_DIGITS));
    let mut number = 0_u64;
    for byte in first {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        number = number * 10 + digit;
    }
    for byte in last {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        number = number.checked_mul(10)?.checked_add(Some(digit).filter(|digit| *digit <= 9)?)?;
    }
    N::try_from(number).ok().filter(|_| !text.is_empty())
}

/// The first word and the rest behind its blanks.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}

/// The same; none where that word is longer than any that stands between the CPU and the name of an event.
fn short_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let seen = text.get(..=MAX_WORD).unwrap_or(text);
    let end = seen.iter().position(u8::is_ascii_whitespace).unwrap_or(seen.len());
    let (word, rest) = text.split_at_checked(end).filter(|_| end <= MAX_WORD)?;
    Some((word, rest.trim_ascii_start()))
}

/// `40715.823525:` in nanoseconds, with as many digits as there are. A number without a point counts whatever the
/// clock does, and is no time.
fn time_ns(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b":")?;
    let point = text.iter().position(|&byte| byte == b'.')?;
    let (seconds, fraction) = (text.get(..point)?, text.get(point + 1..)?);
    let places = u32::try_from(fraction.len()).ok().filter(|places| (1..=9).contains(places))?;
    let fraction = digits::<u64>(fraction)? * 10_u64.pow(9 - places);
    digits::<u64>(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

impl<'t> Parsed<'t> {
    /// Reads a line in any of the forms; none where it is no event.
    pub fn parse_any(line: &'t [u8]) -> Option<Self> {
        Self::parse(line).or_else(|| Self::parse_latency(line))
    }

    /// Reads a line; none where it is no event.
    fn parse(line: &'t [u8]) -> Option<Self> {
        // Names of threads may hold brackets: what counts are those that a time follows.
        let before = line.get(..MAX_BEFORE_CPU).unwrap_or(line);
        // A name may look like all that stands before the fields. The kernel and trace-cmd print it in columns.
        let in_columns = line.get(COMM_COLUMNS) == Some(&b'-');
        let from = |mut from: usize| loop {
            let open = from + memchr(b'[', before.get(from..)?)?;
            if let Some(parsed) = Self::around(line, open) {
                return Some(parsed);
            }
            from = open + 1;
        };
        in_columns.then(|| from(COMM_COLUMNS)).flatten().or_else(|| from(0))
    }

    /// Reads a line whose CPU is in the bracket at that place.
    fn around(line: &'t [u8], open: usize) -> Option<Self> {
        let inside = line.get(open + 1..)?;
        let close = inside.iter().take(8).position(|&byte| byte == b']')?;
        let cpu = digits(inside.get(..close)?)?;
        let behind = inside.get(close + 1..)?;
        let (first, after) = short_word(behind)?;
        // Flags may be there or not.
        let (time_ns, after) = match time_ns(first) {
            Some(time_ns) => (time_ns, after),
            None => {
                let (second, after) = short_word(after)?;
                (time_ns(second)?, after)
            }
        };
        let (input, comm, tid) = task(line.get(..open)?)?;
        let (name, rest) = named(since_before(after))?;
        Some(Self { comm, tid, cpu, time_ns, name, rest, input })
    }

    /// Reads a line of the latency format: `oven-91        0d..2. 1701852642us!: sched_switch: …`, whose times are in
    /// microseconds, or as `trace-cmd report -l` prints it, `oven-91   0d..2  1701.852642: sched_switch: …`.
    fn parse_latency(line: &'t [u8]) -> Option<Self> {
        let (mut from, mut flags) = (0, None);
        loop {
            let (found, behind) = word(line.get(from..)?);
            if found.is_empty() {
                return None;
            }
            let begin = line.len() - behind.len() - blanks_before(line, behind.len()) - found.len();
            if let Some((time_ns, after)) = latency_time(found, behind) {
                let (at, flags): (usize, &[u8]) = flags?;
                let digit = flags.iter().position(|byte| !byte.is_ascii_digit())?;
                let cpu = digits(flags.get(..digit)?)?;
                let (input, comm, tid) = task(line.get(..at)?)?;
                let (name, rest) = named(after)?;
                return Some(Self { comm, tid, cpu, time_ns, name, rest, input });
            }
            flags = Some((begin, found));
            from = begin + found.len();
        }
    }
}

/// Blanks in front of the last so many bytes.
fn blanks_before(line: &[u8], behind: usize) -> usize {
    let before = line.get(..line.len() - behind).unwrap_or_default();
    before.len() - before.trim_ascii_end().len()
}

/// The time of the latency format, and what follows it.
fn latency_time<'t>(found: &[u8], behind: &'t [u8]) -> Option<(u64, &'t [u8])> {
    if let Some(time_ns) = time_ns(found) {
        return Some((time_ns, behind));
    }
    let number = found.iter().position(|byte| !byte.is_ascii_digit()).filter(|&at| at > 0)?;
    let (number, unit) = found.split_at_checked(number)?;
    let after = match unit {
        // A mark says how long it took up to the next event: one, or a blank.
        b"us" => behind.strip_prefix(b":")?.trim_ascii_start(),
        [b'u', b's', b':'] | [b'u', b's', _, b':'] => behind,
        _ => return None,
    };
    Some((digits::<u64>(number)?.checked_mul(1000)?, after))
}

/// Passes over the time since the event before, `(+12)` or `(+-12)`, as `trace-cmd report --ts-diff` prints it.
fn since_before(after: &[u8]) -> &[u8] {
    if !after.starts_with(b"(") {
        return after;
    }
    let (first, behind) = word(after);
    let is_it = |text: &[u8]| {
        let text = text.strip_prefix(b"(+")?.strip_suffix(b")")?;
        let text = text.strip_prefix(b"-").unwrap_or(text);
        text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.').then_some(())
    };
    if is_it(first).is_some() { behind } else { after }
}

/// Whether a byte is one of names, by its number: letters, digits, and those besides.
pub const fn bytes_of_names(besides: &[u8]) -> [bool; 256] {
    let mut is_name = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_name[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < besides.len() {
        is_name[besides[at] as usize] = true;
        at += 1;
    }
    is_name
}

/// The name of an event, and its fields.
fn named(after: &[u8]) -> Option<(&[u8], &[u8])> {
    plainly_named(after).or_else(|| {
        // Tracers of functions and stacks print no name.
        if after.starts_with(b"<stack trace>") {
            return Some((STACK.as_bytes(), after));
        }
        if after.starts_with(b"<user stack trace>") {
            return Some((USER_STACK.as_bytes(), after));
        }
        find(after, b" <-").map(|_| (FUNCTION.as_bytes(), after))
    })
}

fn plainly_named(after: &[u8]) -> Option<(&[u8], &[u8])> {
    const IS_NAME: [bool; 256] = bytes_of_names(b"_.-");
    let colon = |from: usize| {
        let length = after.get(from..)?.iter().position(|&byte| !IS_NAME[usize::from(byte)])?;
        Some(from + length).filter(|end| after.get(*end) == Some(&b':'))
    };
    let end = colon(0)?;
    // perf and trace-cmd may put the subsystem in front.
    let end = match after.get(end + 1) {
        Some(byte) if !byte.is_ascii_whitespace() => colon(end + 1)?,
        _ => end,
    };
    let name = after.get(..end)?;
    // Tracers of wake-ups print the numbers of a thread there: `0:120:R`.
    if !name.iter().any(u8::is_ascii_alphabetic) {
        return None;
    }
    let rest = after.get(end + 1..).unwrap_or_default().trim_ascii();
    Some((name, rest))
}

/// What a line is that is no event, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// An event whose time is a number without a unit: cycles, or another count.
    Unitless,
    /// A sample as `perf script` prints it.
    PerfScript,
}

/// Recognises a line that is no event.
pub fn stranger(line: &[u8]) -> Option<Stranger> {
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_cpu = |text: &[u8]| {
        let inside = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
        inside.is_some_and(is_number)
    };
    // `0d..2.`, as the latency format has the CPU.
    let is_flags = |text: &[u8]| {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && text.len() >= digits + 4
    };
    // Thread and process may be told apart by a slash.
    let is_id = |text: &[u8]| text.split(|&byte| byte == b'/').all(is_number);
    let mut before: [&[u8]; 3] = [b""; 3];
    let mut rest = line;
    loop {
        let (found, behind) = word(rest);
        if found.is_empty() {
            return None;
        }
        if time_ns(found).is_some() && !behind.is_empty() {
            let [comm, thread, cpu] = before;
            let has_cpu = is_cpu(cpu) && is_id(thread) && !comm.is_empty();
            let is_perfs = has_cpu || (is_id(cpu) && !thread.is_empty());
            return is_perfs.then_some(Stranger::PerfScript);
        }
        if let Some(ticks) = found.strip_suffix(b":")
            && is_number(ticks)
            && (before.into_iter().any(is_cpu) || is_flags(before[2]))
            && plainly_named(since_before(behind)).is_some()
        {
            return Some(Stranger::Unitless);
        }
        let [_, older, last] = before;
        before = [older, last, found];
        rest = behind;
    }
}

/// Columns that trace-cmd has for the name of a thread.
const COMM_COLUMNS: usize = 16;

/// `name-123`, with the process in parentheses behind it where that was recorded, and the input in front of it where
/// there are several.
fn task(text: &[u8]) -> Option<(&[u8], &[u8], i32)> {
    let mut text = text.trim_ascii();
    if text.ends_with(b")") {
        let open = text.iter().rposition(|&byte| byte == b'(')?;
        text = text.get(..open)?.trim_ascii_end();
    }
    let minus = text.iter().rposition(|&byte| byte == b'-')?;
    let tid = digits(text.get(minus + 1..)?)?;
    let name = text.get(..minus)?;
    let input = if name.len() > COMM_COLUMNS { find(name, b": ") } else { None };
    Some(match input.and_then(|end| name.split_at_checked(end)) {
        Some((input, comm)) => (input, comm.get(2..)?.trim_ascii_start(), tid),
        None => (b"", name, tid),
    })
}

/// Reads a line that is no event.
pub fn note(line: &[u8]) -> Option<Noted> {
    let text = line.trim_ascii();
    if let Some(rest) = text.strip_prefix(b"##### CPU ") {
        return Some(digits(word(rest).0).map_or(Noted::Nothing, Noted::Started));
    }
    if let Some(rest) = text.strip_prefix(b"#") {
        let Some(at) = find(rest, b"entries-in-buffer/entries-written:") else {
            return Some(Noted::Nothing);
        };
        let (counts, _) = word(rest.get(at + 34..)?);
        let slash = find(counts, b"/")?;
        let (kept, written): (u64, u64) =
            (digits(counts.get(..slash)?)?, digits(counts.get(slash + 1..)?)?);
        return Some(Noted::Overwritten(written.saturating_sub(kept)));
    }
    if find(text, b"[LOST ").or_else(|| find(text, b"EVENTS DROPPED")).is_some() {
        // `[LOST 123 EVENTS]` of the kernel, `[123 EVENTS DROPPED]` of trace-cmd, which may not know how many, and puts the
        // name of the instance in front.
        let (before, inside) = text.split_at(memchr(b'[', text)?);
        let of = find(before, b"CPU:").and_then(|at| before.get(at + 4..));
        let cpu = of.map(|rest| word(rest).0).and_then(digits);
        let inside = inside.get(1..)?;
        let (first, rest) = word(inside);
        let count = if first == b"LOST" { word(rest).0 } else { first };
        return Some(Noted::Lost(cpu, digits(count).unwrap_or(1)));
    }
    let is_known = text.is_empty()
        || text.starts_with(b"cpus=")
        || text.starts_with(b"version =")
        || text.starts_with(b"trace.dat")
        || (text.starts_with(b"CPU ") && text.ends_with(b"is empty"))
        // What `trace-cmd report -w` adds up.
        || [&b"Average wakeup latency: "[..], b"Maximum Latency: ", b"Minimum Latency: "]
            .iter()
            .any(|begin| text.starts_with(begin))
        // What functions called each other, behind an event.
        || text.starts_with(b"=> ");
    is_known.then_some(Noted::Nothing)
}

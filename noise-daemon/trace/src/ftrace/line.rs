//! One line: what comes before the fields.

/// An event's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// Name of the thread that ran; `<idle>` for the idle task.
    pub comm: &'t [u8],
    /// Its id.
    pub tid: i32,
    /// The CPU.
    pub cpu: u32,
    /// Time on the trace's clock.
    pub time_ns: u64,
    /// Name of the event.
    pub name: &'t str,
    /// Its fields.
    pub rest: &'t [u8],
}

/// A line that is no event, but belongs to the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// So many events were lost, on that CPU where one is named. 1 stands for an unknown number.
    Lost(Option<u32>, u64),
    /// Nothing of importance.
    Nothing,
}

/// The place of a piece.
pub fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    text.windows(piece.len()).position(|window| window == piece)
}

/// A number of digits only.
pub fn digits<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The first word and the rest behind its blanks.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}

/// `40715.823525:` in nanoseconds, with as many digits as there are; a plain number counts whatever the clock
/// does.
fn time_ns(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b":")?;
    let Some(point) = text.iter().position(|&byte| byte == b'.') else { return digits(text) };
    let (seconds, fraction) = (text.get(..point)?, text.get(point + 1..)?);
    let places = u32::try_from(fraction.len()).ok().filter(|places| (1..=9).contains(places))?;
    let fraction = digits::<u64>(fraction)? * 10_u64.pow(9 - places);
    digits::<u64>(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

impl<'t> Line<'t> {
    /// Reads a line; none where it is no event.
    pub fn parse(line: &'t [u8]) -> Option<Self> {
        // Names of threads may hold brackets: what counts are those that a time follows.
        let mut from = 0;
        loop {
            let open = from + line.get(from..)?.iter().position(|&byte| byte == b'[')?;
            if let Some(parsed) = Self::around(line, open) {
                return Some(parsed);
            }
            from = open + 1;
        }
    }

    /// Reads a line whose CPU is in the bracket at that place.
    fn around(line: &'t [u8], open: usize) -> Option<Self> {
        let inside = line.get(open + 1..)?;
        let close = inside.iter().take(8).position(|&byte| byte == b']')?;
        let cpu = digits(inside.get(..close)?)?;
        let behind = inside.get(close + 1..)?;
        let (first, after) = word(behind);
        // Flags may be there or not.
        let (time_ns, after) = match time_ns(first) {
            Some(time_ns) => (time_ns, after),
            None => {
                let (second, after) = word(after);
                (time_ns(second)?, after)
            }
        };
        let end = find(after, b":")?;
        // perf and trace-cmd may put the subsystem in front.
        let end = match after.get(end + 1) {
            Some(byte) if !byte.is_ascii_whitespace() => {
                end + 1 + find(after.get(end + 1..)?, b":")?
            }
            _ => end,
        };
        let name = std::str::from_utf8(after.get(..end)?).ok()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-');
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let (comm, tid) = task(line.get(..open)?)?;
        let rest = after.get(end + 1..).unwrap_or_default().trim_ascii();
        Some(Self { comm, tid, cpu, time_ns, name, rest })
    }
}

/// `name-123`, with the process in parentheses behind it where that was recorded.
fn task(text: &[u8]) -> Option<(&[u8], i32)> {
    let mut text = text.trim_ascii();
    if text.ends_with(b")") {
        let open = text.iter().rposition(|&byte| byte == b'(')?;
        text = text.get(..open)?.trim_ascii_end();
    }
    let minus = text.iter().rposition(|&byte| byte == b'-')?;
    let tid = digits(text.get(minus + 1..)?)?;
    Some((text.get(..minus)?, tid))
}

/// Reads a line that is no event.
pub fn note(line: &[u8]) -> Option<Noted> {
    let text = line.trim_ascii();
    if let Some(rest) = text.strip_prefix(b"#") {
        let Some(at) = find(rest, b"entries-in-buffer/entries-written:") else {
            return Some(Noted::Nothing);
        };
        let (counts, _) = word(rest.get(at + 34..)?);
        let slash = find(counts, b"/")?;
        let (kept, written): (u64, u64) =
            (digits(counts.get(..slash)?)?, digits(counts.get(slash + 1..)?)?);
        let lost = written.saturating_sub(kept);
        return Some(if lost > 0 { Noted::Lost(None, lost) } else { Noted::Nothing });
    }
    if let Some(at) = find(text, b"[LOST ").or_else(|| find(text, b"EVENTS DROPPED")) {
        let cpu = text.strip_prefix(b"CPU:").map(|rest| word(rest).0).and_then(digits);
        let (count, _) = word(text.get(at + 6..)?);
        return Some(Noted::Lost(cpu, digits(count).unwrap_or(1)));
    }
    let is_known = text.is_empty()
        || text.starts_with(b"cpus=")
        || text.starts_with(b"version =")
        || text.starts_with(b"trace.dat")
        || (text.starts_with(b"CPU ") && text.ends_with(b"is empty"))
        || text.starts_with(b"##### CPU ");
    is_known.then_some(Noted::Nothing)
}

//! What a block request does: LTTng's bits, and the letters that the kernel prints (`RA`, `WS`, `FF`).

pub const WRITE: u32 = 1;
pub const DISCARD: u32 = 1 << 1;
pub const READ: u32 = 1 << 2;
pub const RAHEAD: u32 = 1 << 3;
/// Somebody waits for it.
pub const SYNC: u32 = 1 << 5;
/// It is of a file system's own data.
pub const META: u32 = 1 << 6;
pub const SECURE: u32 = 1 << 7;
/// It is a flush, or (before Linux 4.8) a write that begins with one.
pub const FLUSH: u32 = 1 << 8;
/// What it writes is on the medium when it ends.
pub const FUA: u32 = 1 << 9;
/// A flush comes before it.
pub const PREFLUSH: u32 = 1 << 10;
/// Of an operation on a zone, the letter behind the `Z`, above all of LTTng's bits.
const ZONE_SHIFT: u32 = 24;
/// Bits of operations of their own.
const OPERATION: u32 = SECURE | u32::MAX << ZONE_SHIFT;

/// The letter of each operation, the first that a request has.
const OPERATIONS: [(u32, char); 4] = [(WRITE, 'W'), (DISCARD, 'D'), (SECURE, 'E'), (READ, 'R')];
/// The letters behind it.
const FLAGS: [(u32, char); 4] = [(FUA, 'F'), (RAHEAD, 'A'), (SYNC, 'S'), (META, 'M')];

/// The bits that tell apart requests that do not just read, write or discard: those that erase, and those of zones. The
/// others, such as one that writes zeroes, have none.
pub const fn other_operation(bits: u32) -> u32 {
    bits & OPERATION
}

/// Bits of letters as they are printed.
pub fn parse(text: &[u8]) -> u32 {
    if let [b'Z', zone, flags @ ..] = text {
        // In front of what is written, an `F` would be a flush.
        return u32::from(*zone) << ZONE_SHIFT | parse_flags(flags);
    }
    parse_flags(text)
}

fn parse_flags(text: &[u8]) -> u32 {
    let bit = |(place, letter): (usize, &u8)| match letter {
        b'W' => WRITE,
        b'D' => DISCARD,
        b'R' => READ,
        b'A' => RAHEAD,
        b'S' => SYNC,
        b'M' => META,
        b'E' => SECURE,
        // In front of what is written it is a flush, behind it forced unit access.
        b'F' if place == 0 => FLUSH,
        b'F' => FUA,
        _ => 0,
    };
    text.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
}

/// The letters of bits, as ftrace prints them.
pub fn letters(bits: u32) -> String {
    let operation = OPERATIONS.iter().find(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter);
    let is_flush = bits & FLUSH != 0;
    let is_flushed_before = bits & PREFLUSH != 0 || (is_flush && operation.is_some());
    let operation = operation.unwrap_or(if is_flush { 'F' } else { 'N' });
    let zone = u8::try_from(bits >> ZONE_SHIFT).ok().filter(|zone| *zone > 0).map(char::from);
    let second = zone.or_else(|| (operation == 'D' && bits & SECURE != 0).then_some('E'));
    let operation = if zone.is_some() { 'Z' } else { operation };
    let flags = FLAGS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter);
    let first = is_flushed_before.then_some('F').into_iter().chain([operation]);
    first.chain(second).chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_letters_of_ftrace() {
        for (bits, printed) in [
            (1, "W"),
            (1 | 1 << 5, "WS"),
            (1 << 2 | 1 << 3, "RA"),
            (1 | 1 << 8 | 1 << 9, "FWF"),
            (1 | 1 << 10, "FW"),
            (1 << 8, "F"),
            (1 << 2 | 1 << 6, "RM"),
            (0, "N"),
            (1 << 1 | 1 << 5 | 1 << 7, "DES"),
            (u32::from(b'R') << 24 | 1 << 5, "ZRS"),
        ] {
            assert_eq!(letters(bits), printed, "{bits:#b}");
            let is_flush = printed.starts_with("FW");
            assert!(is_flush || parse(printed.as_bytes()) == bits, "{printed}");
        }
        assert_eq!(parse(b"FWS"), 289);
        assert_eq!(parse(b"FF"), FLUSH | FUA);
    }
}

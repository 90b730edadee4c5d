//! The state that a switch leaves a thread in: numbers as kernels record them, letters as tools print them.
//!
//! The number's low bits are the kernel's states, of which any set one is a sleep or an end, whatever the version.
//! Above them lie bits that mean different things by the version: "preempted" moved up whenever the kernel got a new
//! state (0x200 up to 3.8, 0x400 from 3.9 on, 0x800 from 4.2 on, 0x1000 from 4.8 on), and down to 0x100 in 4.14, which
//! cut the number to the states that are reported; 0x200 is a parked thread between 3.9 and 4.13.

use noise_common::signals::is_uninterruptible_wait;

/// What a thread does that a CPU is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// It wants to go on.
    #[default]
    Runnable,
    /// It sleeps, is stopped or ends.
    Asleep,
    /// What the trace says has no meaning that is known: it may be either.
    Unknown,
}

/// The state that a switch leaves a thread in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftIn {
    bits: i64,
    left: Left,
}

/// How one kernel numbers states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Bits that a sleeping thread has one of.
    asleep: i64,
    /// Bits of a preempted thread.
    preempted: i64,
}

/// Bits of the same kinds of sleep in all kernels, though some of them have other names.
const ASLEEP: i64 = 0xff;
/// A preempted thread, as kernels of today have it (`TASK_REPORT_MAX`).
const PREEMPTED: i64 = 0x100;
/// A parked thread, from 3.9 to 4.13 (`TASK_PARKED`).
const PARKED: i64 = 0x200;

impl Default for Numbers {
    /// Those of 4.15 and later.
    fn default() -> Self {
        Self { asleep: ASLEEP, preempted: PREEMPTED }
    }
}

impl Numbers {
    /// Those of a kernel by its release, as `uname -r` prints it; of today's where that names no version.
    pub fn of(release: &str) -> Self {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        let (Some(major), Some(minor)) = (number(), number()) else { return Self::default() };
        let (asleep, preempted) = match (major, minor) {
            (..=2, _) | (3, ..=8) => (ASLEEP, 0x200),
            (3, _) | (4, ..=1) => (ASLEEP | PARKED, 0x400),
            (4, ..=7) => (ASLEEP | PARKED, 0x800),
            (4, ..=13) => (ASLEEP | PARKED, 0x1000),
            // Its own event has the new bit, LTTng's the old one.
            (4, 14) => (ASLEEP, 0x1000 | PREEMPTED),
            _ => return Self::default(),
        };
        Self { asleep, preempted }
    }

    /// What a number of that kernel says.
    pub const fn state(self, bits: i64) -> LeftIn {
        let left = if bits & self.asleep != 0 {
            Left::Asleep
        } else if bits & !self.preempted == 0 {
            Left::Runnable
        } else {
            Left::Unknown
        };
        LeftIn { bits, left }
    }
}

/// The bits of a letter. Kernels and tools differ in what some stand for, but not in that all but `R` are no wish to run:
/// trace-cmd prints 0x40 (dead, or parked) as `x` and 0x80 (killable, or an idle kernel thread) as `W`, in kernels before
/// 4.14 `W` is 0x100, `K` 0x80 and `P` 0x200.
const fn letter(letter: u8) -> Option<i64> {
    Some(match letter {
        b'R' => 0,
        b'S' => 0x1,
        b'D' => 0x2,
        b'T' => 0x4,
        b't' => 0x8,
        b'X' => 0x10,
        b'Z' => 0x20,
        b'x' | b'P' => 0x40,
        b'I' | b'W' | b'K' => 0x80,
        b'N' => 0x400,
        _ => return None,
    })
}

impl LeftIn {
    /// That of a number of a kernel of today.
    pub const fn of(bits: i64) -> Self {
        Numbers { asleep: ASLEEP, preempted: PREEMPTED }.state(bits)
    }

    /// That of a text, such as `R`, `S`, `R+`, `D|K`, `S|0x800`, `DK`, `0x1` or `1`.
    pub fn printed(text: &[u8]) -> Self {
        let unknown = |bits| Self { bits, left: Left::Unknown };
        // With "preempted" a thread is runnable whatever state it prepared for.
        if let Some(before) = text.strip_suffix(b"+") {
            let is_known = Self::printed(before).left != Left::Unknown && !before.is_empty();
            return if is_known { Self::of(PREEMPTED) } else { unknown(PREEMPTED) };
        }
        let (mut bits, mut is_asleep) = (0, false);
        for part in text.split(|&byte| byte == b'|') {
            if part.first().is_some_and(u8::is_ascii_digit) {
                let Some(number) = number(part) else { return unknown(bits) };
                bits |= number;
                continue;
            }
            if part.is_empty() {
                return unknown(bits);
            }
            for &byte in part {
                let Some(bit) = letter(byte) else { return unknown(bits) };
                bits |= bit;
                is_asleep |= byte != b'R';
            }
        }
        if is_asleep { Self { bits, left: Left::Asleep } } else { Self::of(bits) }
    }

    /// As the trace has it, or as a kernel of today would number it.
    pub const fn bits(self) -> i64 {
        self.bits
    }

    /// What the thread does from then on.
    pub const fn left(self) -> Left {
        self.left
    }

    pub const fn stays_runnable(self) -> bool {
        matches!(self.left, Left::Runnable)
    }

    /// Whether it sleeps, is stopped or ends.
    pub const fn is_asleep(self) -> bool {
        matches!(self.left, Left::Asleep)
    }

    /// Whether it has ended: it never runs again.
    pub const fn has_ended(self) -> bool {
        const ENDED: i64 = 0x30;
        self.is_asleep() && self.bits & ENDED != 0
    }

    /// Whether it does not sleep: it is stopped, by a signal or a debugger, or parked.
    pub const fn is_stopped(self) -> bool {
        const SLEEPS: i64 = 0x3;
        const STOPPED: i64 = 0x4c;
        self.is_asleep() && self.bits & SLEEPS == 0 && self.bits & STOPPED != 0
    }

    /// Whether it waits for something that no signal ends.
    pub const fn waits_uninterruptibly(self) -> bool {
        self.is_asleep() && is_uninterruptible_wait(self.bits.cast_unsigned())
    }
}

fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_the_kernels_version() {
        use Left::{Asleep, Runnable, Unknown};
        for (release, bits, left) in [
            ("3.2.0-4-amd64", 0x200, Runnable),
            ("3.10.0-1160.el7.x86_64", 0x200, Asleep),
            ("3.10.0-1160.el7.x86_64", 0x400, Runnable),
            ("4.4.0-38-generic", 0x200, Asleep),
            ("4.4.0-38-generic", 0x400, Unknown),
            ("4.4.0-38-generic", 0x402, Asleep),
            ("4.4.0-38-generic", 0x800, Runnable),
            ("4.9.0", 0x1000, Runnable),
            ("4.9.0", 0x800, Unknown),
            ("4.14.2", 0x1000, Runnable),
            ("4.14.2", 0x100, Runnable),
            ("4.18.0-372.el8.x86_64", 0x100, Runnable),
            ("6.18.0", 0x100, Runnable),
            ("6.18.0", 0x80, Asleep),
            ("6.18.0", 0x200, Unknown),
            ("", 0x200, Unknown),
            ("", 0x400, Unknown),
            ("", 0x100, Runnable),
            ("", 0, Runnable),
            ("Linux", 2, Asleep),
        ] {
            assert_eq!(Numbers::of(release).state(bits).left(), left, "{release} {bits:#x}");
        }
    }

    #[test]
    fn what_tools_print_is_read() {
        use Left::{Asleep, Runnable, Unknown};
        for (text, bits, left) in [
            ("R", 0, Runnable),
            ("R+", 0x100, Runnable),
            ("S+", 0x100, Runnable),
            ("S", 1, Asleep),
            ("t", 8, Asleep),
            ("x", 0x40, Asleep),
            ("W", 0x80, Asleep),
            ("K", 0x80, Asleep),
            ("N", 0x400, Asleep),
            ("I", 0x80, Asleep),
            ("D|K", 0x82, Asleep),
            ("DK", 0x82, Asleep),
            ("D|N", 0x402, Asleep),
            ("S|W", 0x81, Asleep),
            ("D|0x400", 0x402, Asleep),
            ("0x200", 0x200, Unknown),
            ("0x400", 0x400, Unknown),
            ("0x100", 0x100, Runnable),
            ("0", 0, Runnable),
            ("1", 1, Asleep),
            ("0x1", 1, Asleep),
            ("", 0, Unknown),
            ("+", 0x100, Unknown),
            ("?", 0, Unknown),
            ("S|", 1, Unknown),
            ("0xzz", 0, Unknown),
        ] {
            let state = LeftIn::printed(text.as_bytes());
            assert_eq!((state.bits(), state.left()), (bits, left), "{text}");
        }
        assert!(LeftIn::printed(b"D|K").waits_uninterruptibly());
        assert!(!LeftIn::printed(b"D|N").waits_uninterruptibly());
        assert!(!LeftIn::printed(b"D+").waits_uninterruptibly());
        for (letters, is_stopped, has_ended) in
            [("TtP", true, false), ("XZ", false, true), ("RSDI", false, false)]
        {
            for letter in letters.chars() {
                let state = LeftIn::printed(letter.to_string().as_bytes());
                assert_eq!((state.is_stopped(), state.has_ended()), (is_stopped, has_ended));
            }
        }
    }
}

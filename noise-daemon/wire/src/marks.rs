//! Marks: what programs say in one datagram to the mark socket, and how what was kept of it is handed on.
//!
//! A datagram is a line of text: `begin NAME KEY MONOTONIC_NS TID PIDNS` or `end …`. KEY may be left out, as may what
//! stands behind; `-` is no key. MONOTONIC_NS is when it happened, on `CLOCK_MONOTONIC`; TID is the thread that it
//! is of, where that is not the one that sends; PIDNS is the pid namespace that TID counts in, by the number of
//! `/proc/self/ns/pid`, where it may be another than the reader's.

use std::fmt;

use noise_text::clean::is_harmful;

/// The longest datagram, and the longest name and key, in bytes.
pub const MOST_DATAGRAM_BYTES: usize = 512;
pub const MOST_NAME_BYTES: usize = 64;
pub const MOST_KEY_BYTES: usize = 128;
/// What stands for no key.
const NO_KEY: &str = "-";
/// What begins and ends are called.
const ACTIONS: [&str; 2] = ["begin", "end"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// Whether it is a begin.
    pub begins: bool,
    pub name: &'m str,
    /// Of which one; may be empty.
    pub key: &'m str,
    /// When, ns on `CLOCK_MONOTONIC`; `None`: now.
    pub monotonic_ns: Option<u64>,
    /// The thread that it is of; `None`: the one that sends.
    pub tid: Option<i32>,
    /// The pid namespace that the thread's id is of; `None`: not said.
    pub namespace: Option<u64>,
}

/// Why a text is no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error(
        "a mark is one line of UTF-8 with at most {MOST_DATAGRAM_BYTES} bytes, without control characters"
    )]
    Text,
    #[error(
        "a mark is `begin NAME KEY MONOTONIC_NS TID PIDNS` or `end …`, of which the last four may be left out"
    )]
    Words,
    #[error("the name of a mark has 1 to {MOST_NAME_BYTES} bytes, without `=` and white space")]
    Name,
    #[error("the key of a mark has at most {MOST_KEY_BYTES} bytes, without white space")]
    Key,
}

impl<'m> Message<'m> {
    /// Errors: what is wrong with it.
    pub fn parse(bytes: &'m [u8]) -> Result<Self, MessageError> {
        let text = str::from_utf8(bytes).map_err(|_| MessageError::Text)?;
        let is_wrong = |c: char| is_harmful(c) || (c.is_whitespace() && c != ' ');
        if bytes.len() > MOST_DATAGRAM_BYTES || text.contains(is_wrong) {
            return Err(MessageError::Text);
        }
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let action = words.next().ok_or(MessageError::Words)?;
        let begins = match ACTIONS.iter().position(|known| *known == action) {
            Some(place) => place == 0,
            None => return Err(MessageError::Words),
        };
        let name = words.next().ok_or(MessageError::Words)?;
        let key = words.next().filter(|key| *key != NO_KEY).unwrap_or_default();
        let mut number = || words.next().map(str::parse::<u64>).transpose();
        let numbers = (number(), number(), number());
        let (Ok(monotonic_ns), Ok(tid), Ok(namespace)) = numbers else {
            return Err(MessageError::Words);
        };
        let tid = tid.map(i32::try_from).transpose().map_err(|_| MessageError::Words)?;
        if words.next().is_some() {
            return Err(MessageError::Words);
        }
        let tid = tid.filter(|tid| *tid > 0);
        let message = Self { begins, name, key, monotonic_ns, tid, namespace };
        message.check()?;
        Ok(message)
    }

    /// Whether its name and key can be sent. Errors: which cannot.
    pub fn check(&self) -> Result<(), MessageError> {
        let is_wrong = |c: char| is_harmful(c) || c.is_whitespace();
        let Self { name, key, .. } = self;
        if name.is_empty()
            || name.len() > MOST_NAME_BYTES
            || name.contains(is_wrong)
            || name.contains('=')
        {
            return Err(MessageError::Name);
        }
        if key.len() > MOST_KEY_BYTES || key.contains(is_wrong) || *key == NO_KEY {
            return Err(MessageError::Key);
        }
        Ok(())
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [begin, end] = ACTIONS;
        let key = if self.key.is_empty() { NO_KEY } else { self.key };
        write!(f, "{} {} {key}", if self.begins { begin } else { end }, self.name)?;
        // Time and thread zero are not believed.
        let numbers =
            [self.monotonic_ns, self.tid.and_then(|tid| u64::try_from(tid).ok()), self.namespace];
        let said = numbers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        numbers.iter().take(said).try_for_each(|number| write!(f, " {}", number.unwrap_or(0)))
    }
}

/// A mark that was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its number: the first has 0, and no other has the same.
    pub number: u64,
    /// When it was sent, ns on `CLOCK_MONOTONIC`.
    pub sent_ns: u64,
    /// When it happened: then, or earlier where its program said so.
    pub time_ns: u64,
    /// Whether it is a begin.
    pub begins: bool,
    /// The process that sent it.
    pub pid: i32,
    /// The thread that it is of; 0: one of that process.
    pub tid: i32,
    /// The user who sent it.
    pub uid: u32,
    pub name: Box<str>,
    /// Of which one; may be empty.
    pub key: Box<str>,
}

impl Mark {
    /// Appends what stands behind the head of its item: see [`super::events::AnswerItem`].
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.sent_ns.to_le_bytes());
        for number in [self.pid.cast_unsigned(), self.tid.cast_unsigned(), self.uid] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for text in [&self.name, &self.key] {
            // Longer ones are not kept.
            let length = text.len().min(usize::from(u8::MAX));
            bytes.push(length as u8);
            bytes.extend(text.bytes().take(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn message(text: &str) -> Result<Message<'_>, MessageError> {
        Message::parse(text.as_bytes())
    }

    #[test]
    fn marks_have_an_action_a_name_and_what_may_be_left_out() {
        let plain = Message {
            begins: true,
            name: "q",
            key: "",
            monotonic_ns: None,
            tid: None,
            namespace: None,
        };
        assert_eq!(message("begin q"), Ok(plain));
        assert_eq!(message("begin q -"), Ok(plain));
        assert_eq!(message("end q 7"), Ok(Message { begins: false, key: "7", ..plain }));
        let whole = Message { key: "7", monotonic_ns: Some(5), tid: Some(9), ..plain };
        assert_eq!(message("begin q 7 5 9"), Ok(whole));
        let inside = Message { namespace: Some(4_026_531_836), ..whole };
        assert_eq!(message("begin q 7 5 9 4026531836"), Ok(inside));
        for (text, error) in [
            ("", MessageError::Words),
            ("begin", MessageError::Words),
            ("start q", MessageError::Words),
            ("begin q 7 soon", MessageError::Words),
            ("begin q 7 -5", MessageError::Words),
            ("begin q 7 5 9 x", MessageError::Words),
            ("begin q 7 5 9 8 x", MessageError::Words),
            ("begin q 7 5 99999999999", MessageError::Words),
            ("begin q\n", MessageError::Text),
            ("begin q\0", MessageError::Text),
            ("begin \u{9b}q", MessageError::Text),
            ("begin \u{202e}q", MessageError::Text),
            ("begin a=b", MessageError::Name),
        ] {
            assert_eq!(message(text), Err(error), "{text:?}");
        }
        assert_eq!(Message::parse(b"begin \xff"), Err(MessageError::Text));
        assert_eq!(message(&format!("begin {}", "x".repeat(65))), Err(MessageError::Name));
        assert_eq!(message(&format!("begin q {}", "x".repeat(129))), Err(MessageError::Key));
        assert_eq!(message(&" ".repeat(513)), Err(MessageError::Text));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            begins in any::<bool>(), name in "[a-zä/:.]{1,30}", key in "[a-z0-9=]{0,30}",
            time in proptest::option::of(1..u64::MAX), tid in proptest::option::of(1..i32::MAX),
            namespace in proptest::option::of(any::<u64>()),
        ) {
            let given =
                Message { begins, name: &name, key: &key, monotonic_ns: time, tid, namespace };
            let text = given.to_string();
            let read = Message::parse(text.as_bytes()).unwrap();
            let is_behind = tid.is_some() || namespace.is_some();
            let time = if is_behind { Some(time.unwrap_or(0)) } else { time };
            prop_assert_eq!(read, Message { monotonic_ns: time, ..given });
        }
    }
}

//! Parts of a trace that could not be read, and why.

use std::fmt;

/// Sentences that are kept; the rest is counted.
const MAX_SENTENCES: usize = 20;

/// What could not be read. A trace with damage is read as far as it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Bytes of streams that were left out.
    pub unread_bytes: u64,
    /// Bytes that packets announce and files do not have.
    pub missing_bytes: u64,
    /// Events that are older than the one before them in their stream; they count as simultaneous.
    pub backwards: u64,
    /// Events of which nothing says on which CPU they were; they count as those of one.
    pub without_cpu: u64,
    /// Lines of a text that are no event.
    pub unread_lines: u64,
    /// Places that are damaged, the first of them in words.
    pub sentences: Vec<String>,
    /// Damaged places beyond those.
    pub more: u64,
}

impl Damage {
    /// Notes a damaged place.
    pub fn note(&mut self, sentence: impl FnOnce() -> String) {
        if self.sentences.len() < MAX_SENTENCES {
            self.sentences.push(sentence());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Whether everything was read.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn add(&mut self, other: &Self) {
        self.unread_bytes = self.unread_bytes.saturating_add(other.unread_bytes);
        self.missing_bytes = self.missing_bytes.saturating_add(other.missing_bytes);
        self.backwards = self.backwards.saturating_add(other.backwards);
        self.without_cpu = self.without_cpu.saturating_add(other.without_cpu);
        self.unread_lines = self.unread_lines.saturating_add(other.unread_lines);
        self.more = self.more.saturating_add(other.more);
        for sentence in &other.sentences {
            self.note(|| sentence.clone());
        }
    }
}

impl fmt::Display for Damage {
    /// How much, and the first place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (count, what) in [
            (self.unread_bytes, "bytes are damaged"),
            (self.missing_bytes, "bytes are missing"),
            (self.unread_lines, "lines are no events"),
            (self.backwards, "events are older than the one before them"),
            (self.without_cpu, "events do not say on which CPU they were"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        f.write_str(&parts.join(", "))?;
        match self.sentences.first() {
            Some(first) if parts.is_empty() => f.write_str(first)?,
            Some(first) => write!(f, " ({first})")?,
            None => {}
        }
        match (self.sentences.len() as u64).saturating_sub(1).saturating_add(self.more) {
            0 => Ok(()),
            more => write!(f, ", and {more} more places"),
        }
    }
}

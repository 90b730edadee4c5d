//! Parts of a trace that could not be read, and why.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// Sentences that are kept; the rest is counted.
const MAX_SENTENCES: usize = 20;
/// Streams whose cuts are said at once; of other damage, that is the first place.
const SAID_CUTS: usize = 3;
/// Places in streams that are kept: a full disk cuts those of all CPUs.
const MAX_CUTS: usize = 1024;
const MAX_CUTS_OF_STREAM: usize = 16;

/// A place from which on a stream was not read: up to its end, or to the next packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamCut {
    /// The number of the recording; documents leave out that of the first one, 0.
    #[serde(skip_serializing_if = "is_first")]
    pub recording: u16,
    /// The name of its file.
    pub stream: String,
    pub cpu: u32,
    /// What is read of it ends then, nanoseconds since the epoch; none where nothing of it is read.
    pub from_ns: Option<u64>,
    /// The byte of the file at which what is left out begins, or the packet that the file ends in.
    pub byte: u64,
    /// Bytes that were left out.
    pub unread_bytes: u64,
    /// Bytes that packets announce and the file does not have.
    pub missing_bytes: u64,
    #[serde(skip)]
    pub what: Cow<'static, str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_first(recording: &u16) -> bool {
    *recording == 0
}

impl StreamCut {
    /// All of it in words, for a trace whose first event is at that time.
    fn sentence(&self, begin_ns: u64) -> String {
        let Self { stream, cpu, from_ns, unread_bytes, missing_bytes, what, .. } = self;
        let from = match from_ns {
            Some(ns) => format!("+{:.6}s", ns.saturating_sub(begin_ns) as f64 / 1e9),
            None => "its begin".to_owned(),
        };
        let counted = match (unread_bytes, missing_bytes) {
            (unread, 0) => format!("{unread} bytes are not read"),
            (0, missing) => format!("{missing} bytes are missing"),
            (unread, missing) => format!("{unread} bytes are not read, {missing} are missing"),
        };
        format!("{stream} of CPU {cpu} is not read from {from} on: {what}; {counted}")
    }
}

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
    /// Those of them from which on a stream was not read.
    pub cuts: Vec<StreamCut>,
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

    /// Notes where a stream was cut; its sentence comes [later](Self::say_cuts).
    pub fn cut(&mut self, cut: StreamCut) {
        self.unread_bytes = self.unread_bytes.saturating_add(cut.unread_bytes);
        self.missing_bytes = self.missing_bytes.saturating_add(cut.missing_bytes);
        match self.cuts.len() < MAX_CUTS_OF_STREAM {
            true => self.cuts.push(cut),
            false => self.more = self.more.saturating_add(1),
        }
    }

    /// Says first of all where streams were cut, in a trace whose first event is at that time.
    pub fn say_cuts(&mut self, begin_ns: u64) {
        let others = std::mem::take(&mut self.sentences);
        for cut in std::mem::take(&mut self.cuts) {
            self.note(|| cut.sentence(begin_ns));
            self.cuts.push(cut);
        }
        others.into_iter().for_each(|sentence| self.note(|| sentence));
    }

    /// Whether everything was read.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What could not be read of several recordings, with the numbers of those beside the first one.
    pub fn of_all(recordings: &[Self]) -> Self {
        let mut all = Self::default();
        for (number, damage) in (0..).zip(recordings) {
            let mut damage = damage.clone();
            if number > 0 {
                damage.cuts.iter_mut().for_each(|cut| cut.recording = number);
                let sentences = damage.sentences.iter_mut();
                sentences.for_each(|it| it.insert_str(0, &format!("recording {number}: ")));
            }
            all.add(&damage);
        }
        all
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
        let room = MAX_CUTS.saturating_sub(self.cuts.len());
        self.cuts.extend(other.cuts.iter().take(room).cloned());
    }
}

impl fmt::Display for Damage {
    /// How much, and the first places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (count, what) in [
            (self.unread_bytes, "bytes are not read"),
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
        let said = self.cuts.len().clamp(1, SAID_CUTS).min(self.sentences.len());
        let first = self.sentences.get(..said).unwrap_or_default().join("; ");
        match (parts.is_empty(), first.is_empty()) {
            (_, true) => {}
            (true, false) => f.write_str(&first)?,
            (false, false) => write!(f, " ({first})")?,
        }
        match (self.sentences.len() as u64).saturating_sub(said as u64).saturating_add(self.more) {
            0 => Ok(()),
            more => write!(f, ", and {more} more places"),
        }
    }
}

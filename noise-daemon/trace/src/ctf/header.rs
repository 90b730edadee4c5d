//! Event headers, compiled: a few integers that say which kind of event follows, and when it was.

use super::bits;
use super::node::{Int, Node, Struct, Variant};
use super::walk::{Bytes, Cut};

/// Tags that one header may have.
const TAGS: usize = 4;

/// What an integer of the header is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Kind,
    Time,
    /// Chooses an option.
    Tag(u8),
    /// The same, and is the kind's number unless the option brings another one.
    KindTag(u8),
    None,
}

/// One thing to do.
#[derive(Debug)]
enum Step {
    Align(u64),
    Read(Int, Role),
    /// By the latest tag of that slot.
    Choose(u8, Vec<(u64, u64, Vec<Step>)>),
}

/// How headers of a stream are read.
#[derive(Debug, Default)]
pub struct Header {
    steps: Vec<Step>,
}

/// What a header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The kind's number; 0 where headers have none.
    pub kind: u64,
    /// The time stamp, as it was recorded.
    pub time: u64,
    /// How many bits of it were recorded; 0 where headers have none.
    pub time_bits: u32,
    /// The clock that it is from.
    pub clock: Option<u8>,
}

fn steps(structure: &Struct, into: &mut Vec<Step>) -> Option<()> {
    into.push(Step::Align(structure.align));
    for (name, node) in &structure.fields {
        read(name, node, into)?;
    }
    Some(())
}

fn read(name: &str, node: &Node, into: &mut Vec<Step>) -> Option<()> {
    match node {
        Node::Int(int) | Node::Enum(int, _) => {
            let role = match (name, int.slot) {
                ("id", None) => Role::Kind,
                ("id", Some(slot)) => Role::KindTag(slot),
                (_, Some(slot)) => Role::Tag(slot),
                (_, None) if int.clock.is_some() || name == "timestamp" => Role::Time,
                _ => Role::None,
            };
            into.push(Step::Read(*int, role));
            Some(())
        }
        Node::Struct(structure) => steps(structure, into),
        Node::Variant(variant) => choose(variant, into),
        Node::Float(_) | Node::Text | Node::Array(..) | Node::Sequence(..) => None,
    }
}

fn choose(variant: &Variant, into: &mut Vec<Step>) -> Option<()> {
    if usize::from(variant.slot) >= TAGS {
        return None;
    }
    let mut options = Vec::new();
    for (name, node, ranges) in &variant.options {
        for (first, last) in ranges {
            // Tags of headers have no sign.
            let Ok(last) = u64::try_from(*last) else { continue };
            let mut inside = Vec::new();
            read(name, node, &mut inside)?;
            options.push((u64::try_from(*first).unwrap_or(0), last, inside));
        }
    }
    into.push(Step::Choose(variant.slot, options));
    Some(())
}

impl Header {
    /// Compiles one; none where it has strings, arrays or floating-point numbers.
    pub fn new(structure: Option<&Struct>) -> Option<Self> {
        let mut header = Self::default();
        if let Some(structure) = structure {
            steps(structure, &mut header.steps)?;
        }
        Some(header)
    }

    /// Reads one at `at`; what it says, and the place behind it.
    ///
    /// # Errors
    /// Where it lies beyond the content, or has an option that is not there.
    #[inline]
    pub fn read(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
        let mut reading = Reading { head: Head::default(), tags: [0; TAGS], at };
        reading.run(&self.steps, bytes)?;
        Ok((reading.head, reading.at))
    }
}

struct Reading {
    head: Head,
    tags: [u64; TAGS],
    at: u64,
}

impl Reading {
    #[inline(always)]
    fn run(&mut self, mut steps: &[Step], bytes: Bytes<'_>) -> Result<(), Cut> {
        while let Some((step, behind)) = steps.split_first() {
            steps = behind;
            match step {
                Step::Align(align) => self.at = bits::aligned(self.at, *align),
                Step::Read(int, role) => self.take(int, *role, bytes)?,
                // Nearly always the last step: its own are gone on with.
                Step::Choose(slot, options) if behind.is_empty() => {
                    steps = self.chosen(*slot, options)?;
                }
                Step::Choose(slot, options) => {
                    self.run_inside(self.chosen(*slot, options)?, bytes)?;
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn chosen<'s>(
        &self,
        slot: u8,
        options: &'s [(u64, u64, Vec<Step>)],
    ) -> Result<&'s [Step], Cut> {
        let tag = self.tags[usize::from(slot % TAGS as u8)];
        let fits = |(first, last, _): &&(u64, u64, Vec<Step>)| (*first..=*last).contains(&tag);
        options.iter().find(fits).map(|(_, _, steps)| steps.as_slice()).ok_or(Cut)
    }

    #[cold]
    fn run_inside(&mut self, steps: &[Step], bytes: Bytes<'_>) -> Result<(), Cut> {
        self.run(steps, bytes)
    }

    #[inline(always)]
    fn take(&mut self, int: &Int, role: Role, bytes: Bytes<'_>) -> Result<(), Cut> {
        let (value, behind) = int.read(bytes.bytes, self.at, bytes.end).ok_or(Cut)?;
        self.at = behind;
        match role {
            Role::Kind => self.head.kind = value,
            Role::Tag(slot) => self.tags[usize::from(slot % TAGS as u8)] = value,
            Role::KindTag(slot) => {
                self.head.kind = value;
                self.tags[usize::from(slot % TAGS as u8)] = value;
            }
            Role::Time => {
                self.head.time = value;
                self.head.time_bits = int.size;
                self.head.clock = int.clock;
            }
            Role::None => {}
        }
        Ok(())
    }
}

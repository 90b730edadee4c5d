//! Event headers, compiled: a few integers that say which kind of event follows, and when it was.

use super::bits;
use super::node::{Int, Node, Struct, Variant};
use super::ranges::Ranges;
use super::walk::{Bytes, Cut};

/// Tags that one header may have.
const TAGS: usize = 4;
/// Forms that are tried one after the other; LTTng's headers have two.
const MAX_FORMS: usize = 8;

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
    Choose(u8, Options),
}

/// What to do, by a tag.
#[derive(Debug)]
struct Options {
    by_tag: Ranges,
    steps: Vec<Vec<Step>>,
}

/// How headers of a stream are read.
#[derive(Debug, Default)]
pub struct Header {
    steps: Vec<Step>,
    /// The same for headers of the usual form, in fewer instructions.
    table: Option<Table>,
}

/// Headers that begin with a tag, by which all else lies at fixed places: the compact and the large ones of LTTng.
#[derive(Debug)]
struct Table {
    /// Alignment of the begin, bits.
    align: u64,
    big: bool,
    /// Bits of the tag.
    tag: u32,
    forms: Vec<Form>,
}

/// What follows on some tags. Places are bits from the begin of the header on, with sizes in bits.
#[derive(Debug, Default)]
struct Form {
    /// These tags.
    first: u64,
    last: u64,
    /// Bits of the header.
    bits: u64,
    /// The kind's number, where it is not the tag.
    kind: Option<(u64, u32)>,
    time: Option<(u64, u32)>,
    clock: Option<u8>,
}

impl Table {
    fn new(steps: &[Step]) -> Option<Self> {
        let [
            Step::Align(align),
            Step::Read(tag, Role::KindTag(slot)),
            Step::Choose(chosen, options),
        ] = steps
        else {
            return None;
        };
        if slot != chosen || tag.signed {
            return None;
        }
        if options.by_tag.iter().len() > MAX_FORMS {
            return None;
        }
        let form = |(first, last, option): (i128, i128, usize)| {
            let bits = u64::from(tag.size);
            // Tags of headers have no sign.
            let last = u64::try_from(last.min(u64::MAX.into())).ok()?;
            let first = u64::try_from(first.max(0)).ok()?;
            let mut form = Form { first, last, bits, ..Form::default() };
            for step in options.steps.get(option)? {
                form.add(step, *align, tag.big)?;
            }
            Some(form)
        };
        let numbers = options
            .by_tag
            .iter()
            .filter(|(first, last, _)| *last >= 0 && *first <= u64::MAX.into());
        let forms = numbers.map(form).collect::<Option<_>>()?;
        Some(Self { align: *align, big: tag.big, tag: tag.size, forms })
    }

    #[inline(always)]
    fn read(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
        let at = bits::aligned(at, self.align);
        let read = |(place, size): (u64, u32)| {
            bits::read(bytes.bytes, at.saturating_add(place), size, self.big).ok_or(Cut)
        };
        let tag = read((0, self.tag))?;
        let fits = |form: &&Form| (form.first..=form.last).contains(&tag);
        let form = self.forms.iter().find(fits).ok_or(Cut)?;
        let behind = at.saturating_add(form.bits);
        if behind > bytes.end {
            return Err(Cut);
        }
        let mut head = Head { kind: tag, ..Head::default() };
        if let Some(kind) = form.kind {
            head.kind = read(kind)?;
        }
        if let Some(time) = form.time {
            (head.time, head.time_bits, head.clock) = (read(time)?, time.1, form.clock);
        }
        Ok((head, behind))
    }
}

impl Form {
    /// Adds what a step reads; none where that is not at a fixed place, or of another kind.
    fn add(&mut self, step: &Step, align: u64, big: bool) -> Option<()> {
        let wanted = match step {
            Step::Align(wanted) => *wanted,
            Step::Read(int, _) => int.align,
            Step::Choose(..) => return None,
        };
        if wanted > align {
            return None;
        }
        self.bits = bits::aligned(self.bits, wanted);
        let Step::Read(int, role) = step else { return Some(()) };
        if int.signed || int.big != big {
            return None;
        }
        let place = Some((self.bits, int.size));
        match role {
            Role::Kind => self.kind = place,
            Role::Time => (self.time, self.clock) = (place, int.clock),
            Role::None => {}
            Role::Tag(_) | Role::KindTag(_) => return None,
        }
        self.bits += u64::from(int.size);
        Some(())
    }
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
    let option = |(name, node): &(Box<str>, Node)| {
        let mut steps = Vec::new();
        read(name, node, &mut steps)?;
        Some(steps)
    };
    let steps = variant.options.iter().map(option).collect::<Option<_>>()?;
    into.push(Step::Choose(variant.slot, Options { by_tag: variant.by_tag.clone(), steps }));
    Some(())
}

impl Header {
    /// Compiles one; none where it has strings, arrays or floating-point numbers.
    pub fn new(structure: Option<&Struct>) -> Option<Self> {
        let mut header = Self::default();
        if let Some(structure) = structure {
            steps(structure, &mut header.steps)?;
        }
        header.table = Table::new(&header.steps);
        Some(header)
    }

    /// Reads one at `at`; what it says, and the place behind it.
    ///
    /// # Errors
    /// Where it lies beyond the content, or has an option that is not there.
    #[inline]
    pub fn read(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
        if let Some(table) = &self.table {
            return table.read(bytes, at);
        }
        self.read_steps(bytes, at)
    }

    fn read_steps(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
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
    fn chosen<'s>(&self, slot: u8, options: &'s Options) -> Result<&'s [Step], Cut> {
        let tag = self.tags[usize::from(slot % TAGS as u8)];
        let option = options.by_tag.find(tag.into()).ok_or(Cut)?;
        options.steps.get(option).map(Vec::as_slice).ok_or(Cut)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn int(size: u32, align: u64, big: bool) -> Int {
        let (signed, is_text) = (false, false);
        Int { size, align, signed, big, base: 10, is_text, clock: None, slot: None }
    }

    fn structure(fields: Vec<(&str, Node)>) -> Struct {
        let named = fields.into_iter().map(|(name, node)| (name.into(), node)).collect();
        let mut structure = Struct { align: 8, fields: named, fixed: None };
        structure.finish();
        structure
    }

    /// As LTTng's are: a tag, and behind it a short time, or a long number of the kind and a whole time.
    fn lttng(tag: u32, short: u32, align: u64, big: bool) -> Struct {
        let last = i128::from(bits::mask(tag));
        let compact = structure(vec![("timestamp", Node::Int(int(short, 1, big)))]);
        let extended = structure(vec![
            ("id", Node::Int(int(32, align, big))),
            ("timestamp", Node::Int(Int { clock: Some(1), ..int(64, align, big) })),
        ]);
        let options = vec![
            ("compact".into(), Node::Struct(Box::new(compact))),
            ("extended".into(), Node::Struct(Box::new(extended))),
        ];
        let by_tag = Ranges::new(vec![(0, last - 2, 0), (last, last, 1)]);
        structure(vec![
            ("id", Node::Int(Int { slot: Some(0), ..int(tag, 1, big) })),
            ("v", Node::Variant(Box::new(Variant { slot: 0, signed: false, options, by_tag }))),
        ])
    }

    proptest! {
        #[test]
        fn headers_at_fixed_places_are_read_as_any_others(
            bytes in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(0xff)], 0..40),
            at in 0..100_u64,
            end in 0..330_u64,
            tag in prop_oneof![Just(5_u32), Just(16)],
            short in prop_oneof![Just(27_u32), Just(32)],
            big: bool,
        ) {
            let header = Header::new(Some(&lttng(tag, short, 8, big))).unwrap();
            let bytes = Bytes { bytes: &bytes, end: end.min(8 * bytes.len() as u64) };
            prop_assert!(header.table.is_some());
            prop_assert_eq!(header.read(bytes, at), header.read_steps(bytes, at));
        }
    }

    #[test]
    fn places_that_depend_on_where_a_header_begins_have_no_table() {
        assert!(Header::new(Some(&lttng(16, 32, 64, false))).unwrap().table.is_none());
        assert!(Header::new(None).unwrap().table.is_none());
    }
}

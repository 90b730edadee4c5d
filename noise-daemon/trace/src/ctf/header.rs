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
enum HeaderFieldRole {
    Kind,
    Time,
    Tag(u8),
    /// The same, and is the kind's number unless the option brings another one.
    KindTag(u8),
    Cpu,
    None,
}

#[derive(Debug)]
enum HeaderDecodeStep {
    Align(u64),
    Read(Int, HeaderFieldRole),
    /// By the latest tag of that slot.
    Choose(u8, VariantOptions),
}

/// What to do, by a tag.
#[derive(Debug)]
struct VariantOptions {
    by_tag: Ranges,
    steps: Vec<Vec<HeaderDecodeStep>>,
}

/// How headers of a stream are read.
#[derive(Debug, Default)]
pub struct Header {
    steps: Vec<HeaderDecodeStep>,
    /// The same for headers of the usual form, in fewer instructions.
    table: Option<HeaderLookupTable>,
}

/// Headers that begin at a byte and with a tag, by which all else lies at fixed places: the compact and the large ones of
/// LTTng.
#[derive(Debug)]
struct HeaderLookupTable {
    /// Alignment of the begin, bits.
    align: u64,
    big: bool,
    tag: BitFieldPosition,
    forms: Vec<Form>,
}

/// Where a header has a number: the byte from its begin on whose eight bytes hold all of it, and how far these are shifted
/// so that the number is left.
#[derive(Clone, Copy, Debug)]
struct BitFieldPosition {
    byte: u32,
    left: u32,
    right: u32,
}

impl BitFieldPosition {
    /// That of so many bits, from that bit of the header on; none where they reach into nine bytes.
    fn new(at: u64, size: u32, big: bool) -> Option<Self> {
        let shift = (at % 8) as u32;
        let unused = 64_u32.checked_sub(size + shift)?;
        let left = if big { shift } else { unused };
        Some(Self { byte: u32::try_from(at / 8).ok()?, left, right: 64 - size })
    }

    /// The number in a header that begins at that byte; none where fewer than eight are left.
    #[inline(always)]
    fn read(self, bytes: &[u8], header: usize, big: bool) -> Option<u64> {
        let from = header + self.byte as usize;
        let word = *bytes.get(from..from + 8)?.first_chunk()?;
        let word = if big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) };
        Some((word << self.left) >> self.right)
    }
}

/// What follows on some tags.
#[derive(Debug, Default)]
struct Form {
    first: u64,
    last: u64,
    bits: u64,
    /// The kind's number, where it is not the tag.
    kind: Option<BitFieldPosition>,
    time: Option<BitFieldPosition>,
    time_bits: u32,
    clock: Option<u8>,
}

impl HeaderLookupTable {
    fn new(steps: &[HeaderDecodeStep]) -> Option<Self> {
        let [
            HeaderDecodeStep::Align(align),
            HeaderDecodeStep::Read(tag, HeaderFieldRole::KindTag(slot)),
            HeaderDecodeStep::Choose(chosen, options),
        ] = steps
        else {
            return None;
        };
        if slot != chosen || tag.signed || *align < 8 {
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
        Some(Self {
            align: *align,
            big: tag.big,
            tag: BitFieldPosition::new(0, tag.size, tag.big)?,
            forms,
        })
    }

    /// None where there is none, or it lies within the last eight bytes.
    #[inline(always)]
    fn read(&self, bytes: Bytes<'_>, at: u64) -> Option<(Head, u64)> {
        let at = bits::aligned(at, self.align);
        let read = |spot: BitFieldPosition| spot.read(bytes.bytes, (at / 8) as usize, self.big);
        let tag = read(self.tag)?;
        let form = self.forms.iter().find(|form| form.first <= tag && tag <= form.last)?;
        let behind = at.saturating_add(form.bits);
        if behind > bytes.end {
            return None;
        }
        let kind = form.kind.map_or(Some(tag), read)?;
        let time = form.time.map_or(Some(0), read)?;
        Some((Head { kind, time, time_bits: form.time_bits, clock: form.clock, cpu: None }, behind))
    }
}

impl Form {
    /// Adds what a step reads; none where that is not at a fixed place, or of another kind.
    fn add(&mut self, step: &HeaderDecodeStep, align: u64, big: bool) -> Option<()> {
        let wanted = match step {
            HeaderDecodeStep::Align(wanted) => *wanted,
            HeaderDecodeStep::Read(int, _) => int.align,
            HeaderDecodeStep::Choose(..) => return None,
        };
        if wanted > align {
            return None;
        }
        self.bits = bits::aligned(self.bits, wanted);
        let HeaderDecodeStep::Read(int, role) = step else { return Some(()) };
        if int.signed || int.big != big {
            return None;
        }
        let spot = Some(BitFieldPosition::new(self.bits, int.size, big)?);
        match role {
            HeaderFieldRole::Kind => self.kind = spot,
            HeaderFieldRole::Time => {
                (self.time, self.time_bits, self.clock) = (spot, int.size, int.clock)
            }
            HeaderFieldRole::None => {}
            HeaderFieldRole::Tag(_) | HeaderFieldRole::KindTag(_) | HeaderFieldRole::Cpu => {
                return None;
            }
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
    pub clock: Option<u8>,
    /// The CPU, where headers say it.
    pub cpu: Option<u32>,
}

fn steps(structure: &Struct, into: &mut Vec<HeaderDecodeStep>) -> Option<()> {
    into.push(HeaderDecodeStep::Align(structure.align));
    for (name, node) in &structure.fields {
        read(name, node, into)?;
    }
    Some(())
}

fn read(name: &str, node: &Node, into: &mut Vec<HeaderDecodeStep>) -> Option<()> {
    match node {
        Node::Int(int) | Node::Enum(int, _) => {
            let role = match (name, int.slot) {
                ("id", None) => HeaderFieldRole::Kind,
                ("id", Some(slot)) => HeaderFieldRole::KindTag(slot),
                (_, Some(slot)) => HeaderFieldRole::Tag(slot),
                (_, None) if int.clock.is_some() || name == "timestamp" => HeaderFieldRole::Time,
                ("cpu_id", None) => HeaderFieldRole::Cpu,
                _ => HeaderFieldRole::None,
            };
            into.push(HeaderDecodeStep::Read(*int, role));
            Some(())
        }
        Node::Struct(structure) => steps(structure, into),
        Node::Variant(variant) => choose(variant, into),
        Node::Float(_) | Node::Text | Node::Array(..) | Node::Sequence(..) => None,
    }
}

fn choose(variant: &Variant, into: &mut Vec<HeaderDecodeStep>) -> Option<()> {
    if usize::from(variant.slot) >= TAGS {
        return None;
    }
    let option = |(name, node): &(Box<str>, Node)| {
        let mut steps = Vec::new();
        read(name, node, &mut steps)?;
        Some(steps)
    };
    let steps = variant.options.iter().map(option).collect::<Option<_>>()?;
    into.push(HeaderDecodeStep::Choose(
        variant.slot,
        VariantOptions { by_tag: variant.by_tag.clone(), steps },
    ));
    Some(())
}

impl Header {
    /// Compiles one; none where it has strings, arrays or floating-point numbers.
    pub fn new(structure: Option<&Struct>) -> Option<Self> {
        let mut header = Self::default();
        if let Some(structure) = structure {
            steps(structure, &mut header.steps)?;
        }
        header.table = HeaderLookupTable::new(&header.steps);
        Some(header)
    }

    /// Whether headers say of which kind an event is.
    pub fn has_kind(&self) -> bool {
        fn any(steps: &[HeaderDecodeStep]) -> bool {
            steps.iter().any(|step| match step {
                HeaderDecodeStep::Read(_, role) => {
                    matches!(role, HeaderFieldRole::Kind | HeaderFieldRole::KindTag(_))
                }
                HeaderDecodeStep::Choose(_, options) => options.steps.iter().any(|one| any(one)),
                HeaderDecodeStep::Align(_) => false,
            })
        }
        any(&self.steps)
    }

    /// Reads one at `at`; what it says, and the place behind it.
    /// Errors: where it lies beyond the content, or has an option that is not there.
    #[inline(always)]
    pub fn read(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
        match self.table.as_ref().and_then(|table| table.read(bytes, at)) {
            Some(found) => Ok(found),
            None => self.read_steps(bytes, at),
        }
    }

    #[inline(never)]
    fn read_steps(&self, bytes: Bytes<'_>, at: u64) -> Result<(Head, u64), Cut> {
        let mut reading = HeaderDecodeState { head: Head::default(), tags: [0; TAGS], at };
        reading.run(&self.steps, bytes)?;
        Ok((reading.head, reading.at))
    }
}

struct HeaderDecodeState {
    head: Head,
    tags: [u64; TAGS],
    at: u64,
}

impl HeaderDecodeState {
    #[inline(always)]
    fn run(&mut self, mut steps: &[HeaderDecodeStep], bytes: Bytes<'_>) -> Result<(), Cut> {
        while let Some((step, behind)) = steps.split_first() {
            steps = behind;
            match step {
                HeaderDecodeStep::Align(align) => self.at = bits::aligned(self.at, *align),
                HeaderDecodeStep::Read(int, role) => self.take(int, *role, bytes)?,
                // Nearly always the last step: its own are gone on with.
                HeaderDecodeStep::Choose(slot, options) if behind.is_empty() => {
                    steps = self.chosen(*slot, options)?;
                }
                HeaderDecodeStep::Choose(slot, options) => {
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
        options: &'s VariantOptions,
    ) -> Result<&'s [HeaderDecodeStep], Cut> {
        let tag = self.tags[usize::from(slot % TAGS as u8)];
        let option = options.by_tag.find(tag.into()).ok_or(Cut::Beyond)?;
        options.steps.get(option).map(Vec::as_slice).ok_or(Cut::Beyond)
    }

    #[cold]
    fn run_inside(&mut self, steps: &[HeaderDecodeStep], bytes: Bytes<'_>) -> Result<(), Cut> {
        self.run(steps, bytes)
    }

    #[inline(always)]
    fn take(&mut self, int: &Int, role: HeaderFieldRole, bytes: Bytes<'_>) -> Result<(), Cut> {
        let (value, behind) = int.read(bytes.bytes, self.at, bytes.end).ok_or(Cut::Beyond)?;
        self.at = behind;
        match role {
            HeaderFieldRole::Kind => self.head.kind = value,
            HeaderFieldRole::Tag(slot) => self.tags[usize::from(slot % TAGS as u8)] = value,
            HeaderFieldRole::KindTag(slot) => {
                self.head.kind = value;
                self.tags[usize::from(slot % TAGS as u8)] = value;
            }
            HeaderFieldRole::Time => {
                self.head.time = value;
                self.head.time_bits = int.size;
                self.head.clock = int.clock;
            }
            HeaderFieldRole::Cpu => self.head.cpu = u32::try_from(value).ok(),
            HeaderFieldRole::None => {}
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
        let mut structure = Struct { align: 8, fields: named, ..Struct::default() };
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

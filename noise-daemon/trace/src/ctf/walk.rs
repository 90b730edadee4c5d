//! One walk over fields as they lie in a packet, for whoever wants to see them.

use super::bits;
use super::node::{EnumLabels, Int, Node, Slots, Struct};
use crate::value::{Shape, Value, Visit};

/// Why fields cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// They lie beyond the end of what was recorded, or have lengths that cannot be.
    Beyond,
    /// Too many of them have no size.
    Empty,
}

/// The bytes of a packet, and where its content ends, in bits.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'t> {
    /// From the packet's begin on.
    pub bytes: &'t [u8],
    /// End of the content, within the bytes.
    pub end: u64,
}

impl<'t> Bytes<'t> {
    /// The bytes from bit `at` on, which is a whole byte's, as far as there is content.
    #[inline(always)]
    pub fn from(&self, at: u64) -> Option<&'t [u8]> {
        self.bytes.get((at / 8) as usize..(self.end / 8) as usize)
    }

    /// The bytes of a string that begins at `at`, without its zero, and the place behind it.
    #[inline(always)]
    pub fn text(&self, at: u64) -> Option<(&'t [u8], u64)> {
        let rest = self.from(at)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        Some((rest.get(..length)?, at + 8 * (length as u64 + 1)))
    }

    /// The `count` characters at `at`, up to a zero.
    #[inline(always)]
    pub fn characters(&self, at: u64, count: u64) -> Option<&'t [u8]> {
        let rest = self.from(at)?.get(..usize::try_from(count).ok()?)?;
        let length = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        rest.get(..length)
    }
}

/// Keeps an integer for another field.
#[inline(always)]
fn keep(int: &Int, value: u64, slots: &mut Slots<'_>) {
    if let Some(slot) = int.slot {
        slots.keep(slot, value);
    }
}

fn number(int: &Int, value: u64) -> Value<'static> {
    match int.signed {
        true => Value::Signed { value: value as i64, base: int.base, bits: int.size },
        false => Value::Unsigned { value, base: int.base },
    }
}

fn label<'a>(labels: &'a EnumLabels, int: &Int, value: u64) -> Option<&'a str> {
    let value = if int.signed { i128::from(value as i64) } else { i128::from(value) };
    labels.name(value)
}

/// Goes over what lies at `at` and shows it: all of it was skipped before, which bounds the work. The place behind it.
/// Errors: where it lies beyond the content.
pub fn walk(
    node: &Node,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
    visit: &mut impl Visit,
) -> Result<u64, Cut> {
    match node {
        Node::Int(int) => {
            let (value, behind) = int.read(bytes.bytes, at, bytes.end).ok_or(Cut::Beyond)?;
            keep(int, value, slots);
            visit.value(number(int, value));
            Ok(behind)
        }
        Node::Enum(int, labels) => {
            let (value, behind) = int.read(bytes.bytes, at, bytes.end).ok_or(Cut::Beyond)?;
            keep(int, value, slots);
            let label = label(labels, int, value);
            visit.value(Value::Label { label, value: &number(int, value) });
            Ok(behind)
        }
        Node::Float(int) => {
            let (value, behind) = int.read(bytes.bytes, at, bytes.end).ok_or(Cut::Beyond)?;
            visit.value(Value::Float(match int.size {
                32 => f64::from(f32::from_bits(value as u32)),
                _ => f64::from_bits(value),
            }));
            Ok(behind)
        }
        Node::Text => {
            let (text, behind) = bytes.text(bits::aligned(at, 8)).ok_or(Cut::Beyond)?;
            visit.value(Value::Text(text));
            Ok(behind)
        }
        Node::Struct(structure) => {
            visit.begin(Shape::Fields);
            let behind = walk_fields(structure, bytes, at, slots, visit)?;
            visit.end(Shape::Fields);
            Ok(behind)
        }
        Node::Variant(variant) => {
            let (name, option) = variant.chosen(slots).ok_or(Cut::Beyond)?;
            visit.begin(Shape::Option);
            visit.name(name);
            let behind = walk(option, bytes, at, slots, visit)?;
            visit.end(Shape::Option);
            Ok(behind)
        }
        Node::Array(element, count) => elements(element, *count, bytes, at, slots, visit),
        Node::Sequence(element, slot) => {
            let count = slots.get(*slot);
            elements(element, count, bytes, at, slots, visit)
        }
    }
}

/// As [`walk`], without a begin and an end.
/// Errors: those of [`walk`].
pub fn walk_fields(
    structure: &Struct,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
    visit: &mut impl Visit,
) -> Result<u64, Cut> {
    let mut at = bits::aligned(at, structure.align);
    for (name, node) in &structure.fields {
        visit.name(name);
        at = walk(node, bytes, at, slots, visit)?;
    }
    Ok(at)
}

/// Elements without any size could be of any number, and of any number each: several of them are refused.
fn moved(from: u64, to: u64, count: u64) -> Result<u64, Cut> {
    if from == to && count > 1 { Err(Cut::Beyond) } else { Ok(to) }
}

/// What claims more elements than there are bits left is refused before anything is done for them.
fn checked_count(element: &Node, count: u64, bytes: Bytes<'_>, at: u64) -> Result<u64, Cut> {
    let at = bits::aligned(at, element.align());
    if count > bytes.end.saturating_sub(at) { Err(Cut::Beyond) } else { Ok(at) }
}

fn elements(
    element: &Node,
    count: u64,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
    visit: &mut impl Visit,
) -> Result<u64, Cut> {
    let mut at = checked_count(element, count, bytes, at)?;
    if element.is_characters() {
        visit.value(Value::Text(bytes.characters(at, count).ok_or(Cut::Beyond)?));
        return Ok(at + 8 * count);
    }
    visit.begin(Shape::Elements);
    for number in 0..count {
        visit.element(number);
        at = moved(at, walk(element, bytes, at, slots, visit)?, count)?;
    }
    visit.end(Shape::Elements);
    Ok(at)
}

/// Goes over what lies at `at` without a look at more than lengths and tags. The place behind it.
/// Errors: those of [`walk`].
#[inline]
pub fn skip(node: &Node, bytes: Bytes<'_>, at: u64, slots: &mut Slots<'_>) -> Result<u64, Cut> {
    if let Some(fixed) = node.fixed() {
        let behind = within(bits::aligned(at, node.align()).saturating_add(fixed), bytes)?;
        return passed(slots, node.empty(), behind);
    }
    match node {
        Node::Int(int) | Node::Enum(int, _) | Node::Float(int) => {
            let (value, behind) = int.read(bytes.bytes, at, bytes.end).ok_or(Cut::Beyond)?;
            keep(int, value, slots);
            Ok(behind)
        }
        Node::Text => Ok(bytes.text(bits::aligned(at, 8)).ok_or(Cut::Beyond)?.1),
        Node::Struct(structure) => skip_fields(structure, bytes, at, slots),
        Node::Variant(variant) => {
            let (_, option) = variant.chosen(slots).ok_or(Cut::Beyond)?;
            skip(option, bytes, at, slots)
        }
        Node::Array(element, count) => skip_elements(element, *count, bytes, at, slots),
        Node::Sequence(element, slot) => {
            let count = slots.get(*slot);
            skip_elements(element, count, bytes, at, slots)
        }
    }
}

/// As [`skip`], of the fields of a structure.
/// Errors: those of [`walk`].
pub fn skip_fields(
    structure: &Struct,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
) -> Result<u64, Cut> {
    let mut at = bits::aligned(at, structure.align);
    for (_, node) in &structure.fields {
        at = skip_field(node, bytes, at, slots)?;
    }
    Ok(at)
}

/// As [`skip`]; a field without a size is counted.
#[inline]
pub fn skip_field(
    node: &Node,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
) -> Result<u64, Cut> {
    let behind = skip(node, bytes, at, slots)?;
    passed(slots, u64::from(behind == at), behind)
}

/// Behind so many fields without a size.
#[inline(always)]
fn passed(slots: &mut Slots<'_>, empty: u64, at: u64) -> Result<u64, Cut> {
    if empty == 0 || slots.pass(empty, at) { Ok(at) } else { Err(Cut::Empty) }
}

#[inline(always)]
fn within(behind: u64, bytes: Bytes<'_>) -> Result<u64, Cut> {
    if behind > bytes.end { Err(Cut::Beyond) } else { Ok(behind) }
}

fn skip_elements(
    element: &Node,
    count: u64,
    bytes: Bytes<'_>,
    at: u64,
    slots: &mut Slots<'_>,
) -> Result<u64, Cut> {
    let at = checked_count(element, count, bytes, at)?;
    if let Some(one) = element.fixed() {
        if count == 0 {
            return Ok(at);
        }
        let step = bits::aligned(one, element.align());
        let all = step
            .checked_mul(count - 1)
            .and_then(|most| most.checked_add(one))
            .ok_or(Cut::Beyond)?;
        let behind = within(at.saturating_add(all), bytes)?;
        return passed(slots, element.empty().saturating_mul(count), behind);
    }
    (0..count).try_fold(at, |at, _| moved(at, skip(element, bytes, at, slots)?, count))
}

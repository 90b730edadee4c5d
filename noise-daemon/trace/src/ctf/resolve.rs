//! From types as they were written to types as they lie in a packet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::CtfError;
use super::class::shown;
use super::node::{EnumLabels, Int, MOST_EMPTY, Node, SLOTS, Struct, Variant};
use super::ranges::Ranges;
use super::tsdl::tree::{
    Attribute, Declaration, EnumLabel, Length, Path, StructItem, TsdlValue, Type,
};

/// Types that one trace may have, those inside others counted each: types that name others grow fast. Labels of
/// enumerations, the ranges that choose an option of a variant, and every 64 bytes of a name count as a type. A
/// tracer of today has some ten thousand; each takes some hundred bytes.
const MAX_NODES: usize = 500_000;
const BYTES_OF_NODE: usize = 64;
/// Types inside types; names may lead far.
const MAX_DEPTH: usize = 60;

#[derive(Clone, Debug)]
struct ReferenceTarget {
    path: String,
    signed: bool,
    labels: Option<Arc<EnumLabels>>,
}

/// Fields that came before, by their names as seen from one place.
#[derive(Debug, Default)]
struct FieldScope {
    fields: HashMap<String, ReferenceTarget>,
}

type TypeScope<'a, 'i> = HashMap<String, &'a Type<'i>>;

/// Looks names up and lays types out.
pub struct Resolver<'a, 'i> {
    scopes: Vec<TypeScope<'a, 'i>>,
    /// `typedef`s with lengths.
    lengths: HashMap<String, &'a [Length<'i>]>,
    /// Whether integers are big-endian where they name no order.
    pub big: bool,
    /// Names of the clocks, by number.
    pub clocks: Vec<String>,
    /// The widest alignment of all types, bits.
    pub widest: u64,
    nodes: usize,
}

/// Places of the fields of one scope: what was laid out so far and which fields are kept. Lengths and tags
/// lie in the scope that they are for, as every tracer has it.
#[derive(Debug, Default)]
struct ScopeLayout {
    scope: String,
    frames: Vec<FieldScope>,
    /// Slots by the paths of the fields that they keep.
    slots: HashMap<String, u8>,
}

fn wrong(sentence: impl Into<String>) -> CtfError {
    CtfError::Metadata(sentence.into())
}

fn flag(value: &TsdlValue<'_>) -> bool {
    matches!(value.word(), Some("true" | "TRUE")) || value.number().is_some_and(|number| number > 0)
}

/// Whether a byte order is big-endian; `native` stands for that of the trace.
pub fn is_big(word: Option<&str>, native: bool) -> Result<bool, CtfError> {
    match word {
        Some("be" | "network") => Ok(true),
        Some("le") => Ok(false),
        Some("native") => Ok(native),
        other => Err(wrong(format!("`{}` is no byte order", other.unwrap_or("?")))),
    }
}

impl<'a, 'i> Resolver<'a, 'i> {
    /// One without any names.
    pub fn new() -> Self {
        let scopes = vec![HashMap::new()];
        Self {
            scopes,
            lengths: HashMap::new(),
            big: false,
            clocks: Vec::new(),
            widest: 8,
            nodes: 0,
        }
    }

    pub fn enter(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub fn leave(&mut self) {
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    fn name(&mut self, name: String, ty: &'a Type<'i>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, ty);
        }
    }

    pub fn declare(&mut self, declaration: &'a Declaration<'i>) {
        match declaration {
            Declaration::Alias { ty, name, lengths } => {
                if !lengths.is_empty() {
                    self.lengths.insert(name.clone(), lengths);
                }
                self.declare_type(ty);
                self.name(name.clone(), ty);
            }
            Declaration::Type(ty) => self.declare_type(ty),
        }
    }

    /// Learns the name of a type that is defined where it is used.
    pub fn declare_type(&mut self, ty: &'a Type<'i>) {
        match ty {
            Type::Struct { name: Some(name), items: Some(_), .. } => {
                self.name(format!("struct {name}"), ty);
            }
            Type::Variant { name: Some(name), items: Some(_), .. } => {
                self.name(format!("variant {name}"), ty);
            }
            Type::Enum { name: Some(name), labels: Some(_), .. } => {
                self.name(format!("enum {name}"), ty);
            }
            _ => {}
        }
    }

    fn find(&self, name: &str) -> Result<&'a Type<'i>, CtfError> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name).copied());
        found.ok_or_else(|| wrong(format!("the type `{name}` is not defined")))
    }

    /// Lays out a structure that has a place of its own: `event.header`, `event.fields` …
    /// Errors: what cannot be laid out.
    pub fn scope(&mut self, scope: &str, ty: &'a Type<'i>) -> Result<Struct, CtfError> {
        let mut places = ScopeLayout { scope: format!("{scope}."), ..ScopeLayout::default() };
        let mut node = self.lay(ty, scope, &mut places, 0)?;
        keep(&mut node, scope, &places.slots);
        match node {
            Node::Struct(structure) => Ok(*structure),
            _ => Err(wrong(format!("{scope} is no structure"))),
        }
    }

    /// Counts more of what takes memory.
    fn charge(&mut self, nodes: usize, depth: usize) -> Result<(), CtfError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(wrong(
                "types are nested too deep, refer to each other without end, or are too many",
            ));
        }
        Ok(())
    }

    fn lay(
        &mut self,
        ty: &'a Type<'i>,
        at: &str,
        places: &mut ScopeLayout,
        depth: usize,
    ) -> Result<Node, CtfError> {
        let labels = match ty {
            Type::Enum { labels: Some(labels), .. } => labels.as_slice(),
            _ => &[],
        };
        let of_labels = labels.iter().map(|label| 1 + label.name.len() / BYTES_OF_NODE);
        self.charge(1 + at.len() / BYTES_OF_NODE + of_labels.sum::<usize>(), depth)?;
        match ty {
            Type::Named(name) => {
                let lengths = self.lengths.get(name).copied().unwrap_or_default();
                let node = self.lay(self.find(name)?, at, places, depth + 1)?;
                array(node, lengths, at, places)
            }
            Type::Integer(attributes) => {
                let int = self.integer(attributes)?;
                self.widest = self.widest.max(int.align);
                Ok(Node::Int(int))
            }
            Type::Float(attributes) => {
                let float = self.float(attributes)?;
                self.widest = self.widest.max(float.align);
                Ok(Node::Float(float))
            }
            Type::Text => Ok(Node::Text),
            Type::Enum { name, base, labels } => {
                let Some(labels) = labels else {
                    let found = self.find(&format!("enum {}", name.unwrap_or_default()))?;
                    return self.lay(found, at, places, depth + 1);
                };
                let base = match base {
                    Some(base) => self.lay(base, at, places, depth + 1)?,
                    None => self.lay(self.find("int")?, at, places, depth + 1)?,
                };
                match base {
                    Node::Int(int) => Ok(Node::Enum(int, Arc::new(numbered(labels)))),
                    _ => Err(wrong(format!("the enumeration {at} is of no integer"))),
                }
            }
            Type::Struct { name, items, align } => {
                let Some(items) = items else {
                    let found = self.find(&format!("struct {}", name.unwrap_or_default()))?;
                    return self.lay(found, at, places, depth + 1);
                };
                let align = power_of_two(align.unwrap_or(1))?;
                self.widest = self.widest.max(align);
                let mut structure = Struct { align, ..Struct::default() };
                self.scopes.push(HashMap::new());
                places.frames.push(FieldScope::default());
                for item in items {
                    if let Some(field) = self.item(item, at, places, depth)? {
                        structure.fields.push(field);
                    }
                }
                self.leave();
                let inside = places.frames.pop().unwrap_or_default();
                places.lift(at, inside);
                structure.finish();
                if structure.is_too_empty() {
                    return Err(wrong(format!(
                        "more than {MOST_EMPTY} fields of {at} have no size"
                    )));
                }
                Ok(Node::Struct(Box::new(structure)))
            }
            Type::Variant { name, tag, items } => {
                let items = match items {
                    Some(items) => items,
                    None => match self.find(&format!("variant {}", name.unwrap_or_default()))? {
                        Type::Variant { items: Some(items), .. } => items,
                        _ => return Err(wrong(format!("the variant {at} is not defined"))),
                    },
                };
                let tag =
                    tag.as_ref().ok_or_else(|| wrong(format!("the variant {at} has no tag")))?;
                self.variant(tag, items, at, places, depth)
            }
        }
    }

    /// A field of a structure or an option, by its name.
    fn item(
        &mut self,
        item: &'a StructItem<'i>,
        at: &str,
        places: &mut ScopeLayout,
        depth: usize,
    ) -> Result<Option<(Box<str>, Node)>, CtfError> {
        let (ty, name, lengths) = match item {
            StructItem::Declared(declaration) => {
                self.declare(declaration);
                return Ok(None);
            }
            StructItem::Field { ty, name, lengths } => (&**ty, *name, lengths),
        };
        self.declare_type(ty);
        let inside = format!("{at}.{name}");
        let node = self.lay(ty, &inside, places, depth + 1)?;
        let node = array(node, lengths, &inside, places)?;
        let target = match &node {
            Node::Int(int) => Some((int.signed, None)),
            Node::Enum(int, labels) => Some((int.signed, Some(Arc::clone(labels)))),
            _ => None,
        };
        if let (Some((signed, labels)), Some(frame)) = (target, places.frames.last_mut()) {
            frame.fields.insert(name.to_owned(), ReferenceTarget { path: inside, signed, labels });
        }
        Ok(Some((name.into(), node)))
    }

    fn variant(
        &mut self,
        tag: &Path<'_>,
        items: &'a [StructItem<'i>],
        at: &str,
        places: &mut ScopeLayout,
        depth: usize,
    ) -> Result<Node, CtfError> {
        let (slot, target) = places.refer(tag, at)?;
        let labels =
            target.labels.ok_or_else(|| wrong(format!("the tag of {at} is no enumeration")))?;
        let (mut options, mut by_tag) = (Vec::new(), Vec::new());
        // Of options of one name the first counts: the ranges of that name are noted once.
        let mut named = HashSet::new();
        places.frames.push(FieldScope::default());
        for item in items {
            let Some((name, node)) = self.item(item, at, places, depth)? else { continue };
            let plain = Some(shown(&name)).filter(|plain| **plain != *name);
            let number = u32::try_from(options.len()).unwrap_or(u32::MAX);
            for name in [Some(&*name), plain].into_iter().flatten() {
                if named.insert(name.to_owned()) {
                    by_tag.extend(labels.ranges(name).map(|(first, last)| (first, last, number)));
                }
            }
            options.push((name, node));
        }
        places.frames.pop();
        self.charge(by_tag.len(), depth)?;
        let by_tag = Ranges::new(by_tag);
        Ok(Node::Variant(Box::new(Variant { slot, signed: target.signed, options, by_tag })))
    }

    fn integer(&self, attributes: &[Attribute<'_>]) -> Result<Int, CtfError> {
        let mut int = Int { big: self.big, base: 10, ..Int::default() };
        for (name, value) in attributes {
            match *name {
                "size" => int.size = size(value)?,
                "align" => int.align = power_of_two(value.number().unwrap_or(0))?,
                "signed" => int.signed = flag(value),
                "byte_order" => int.big = is_big(value.word(), self.big)?,
                "base" => int.base = base(value)?,
                "encoding" => int.is_text = matches!(value.word(), Some("UTF8" | "ASCII")),
                "map" => int.clock = Some(self.clock(value)?),
                _ => {}
            }
        }
        if int.size == 0 {
            return Err(wrong("an integer has no size"));
        }
        if int.align == 0 {
            int.align = if int.size.is_multiple_of(8) { 8 } else { 1 };
        }
        Ok(int)
    }

    /// The number of the clock in `clock.NAME.value`.
    fn clock(&self, value: &TsdlValue<'_>) -> Result<u8, CtfError> {
        let name = match value {
            TsdlValue::Words(path) => path.get(1).copied().unwrap_or_default(),
            TsdlValue::Text(_) | TsdlValue::Number(_) => "",
        };
        let number = self.clocks.iter().position(|clock| clock == name);
        number
            .and_then(|number| u8::try_from(number).ok())
            .ok_or_else(|| wrong(format!("the clock `{name}` is not defined")))
    }

    fn float(&self, attributes: &[Attribute<'_>]) -> Result<Int, CtfError> {
        let number = |name: &str| {
            let found = attributes.iter().find(|(found, _)| *found == name)?;
            found.1.number()
        };
        let sizes = (number("exp_dig").unwrap_or(8), number("mant_dig").unwrap_or(24));
        let size = match sizes {
            (8, 24) => 32,
            (11, 53) => 64,
            (exponent, mantissa) => {
                let digits = format!("{exponent} and {mantissa} digits");
                return Err(wrong(format!("floating-point numbers of {digits} are not supported")));
            }
        };
        let align = power_of_two(number("align").unwrap_or(1))?;
        let order = attributes.iter().find(|(name, _)| *name == "byte_order");
        let big = match order {
            Some((_, value)) => is_big(value.word(), self.big)?,
            None => self.big,
        };
        Ok(Int {
            size,
            align,
            signed: false,
            big,
            base: 16,
            is_text: false,
            clock: None,
            slot: None,
        })
    }
}

fn size(value: &TsdlValue<'_>) -> Result<u32, CtfError> {
    let size = value.number().and_then(|number| u32::try_from(number).ok());
    size.filter(|size| (1..=64).contains(size))
        .ok_or_else(|| wrong("an integer has a size beyond 1 to 64 bits"))
}

fn power_of_two(bits: u64) -> Result<u64, CtfError> {
    // Pages and more are no alignment of anything.
    if bits.is_power_of_two() && bits <= 1 << 20 {
        Ok(bits)
    } else {
        Err(wrong(format!("{bits} bits are no alignment")))
    }
}

fn base(value: &TsdlValue<'_>) -> Result<u8, CtfError> {
    match (value.number(), value.word()) {
        (Some(2), _) | (_, Some("binary" | "bin" | "b")) => Ok(2),
        (Some(8), _) | (_, Some("octal" | "oct" | "o")) => Ok(8),
        (Some(10), _) | (_, Some("decimal" | "dec" | "d" | "i" | "u")) => Ok(10),
        (Some(16), _) | (_, Some("hexadecimal" | "hex" | "x" | "X" | "p")) => Ok(16),
        _ => Err(wrong("a base is neither 2, 8, 10 nor 16")),
    }
}

fn numbered(labels: &[EnumLabel]) -> EnumLabels {
    let mut next = 0;
    let number = |label: &EnumLabel| {
        let (first, last) = label.range.unwrap_or((next, next));
        next = last.saturating_add(1);
        (label.name.as_str().into(), first, last)
    };
    EnumLabels::new(labels.iter().map(number).collect())
}

/// As many of a type as its lengths say; the first length is the outermost.
fn array(
    node: Node,
    lengths: &[Length<'_>],
    at: &str,
    places: &mut ScopeLayout,
) -> Result<Node, CtfError> {
    lengths.iter().rev().try_fold(node, |node, length| {
        if node.fixed() == Some(0) {
            return Err(wrong(format!("the elements of {at} have no size")));
        }
        Ok(match length {
            Length::Fixed(count) => Node::Array(Box::new(node), *count),
            Length::Counted(path) => Node::Sequence(Box::new(node), places.refer(path, at)?.0),
        })
    })
}

/// Notes in the integers which of them are kept.
fn keep(node: &mut Node, at: &str, slots: &HashMap<String, u8>) {
    if slots.is_empty() {
        return;
    }
    match node {
        Node::Int(int) | Node::Enum(int, _) => int.slot = slots.get(at).copied().or(int.slot),
        Node::Float(_) | Node::Text => {}
        Node::Struct(structure) => {
            for (name, node) in &mut structure.fields {
                keep(node, &format!("{at}.{name}"), slots);
            }
            structure.finish();
        }
        Node::Variant(variant) => {
            for (name, node) in &mut variant.options {
                keep(node, &format!("{at}.{name}"), slots);
            }
        }
        Node::Array(node, _) | Node::Sequence(node, _) => keep(node, at, slots),
    }
}

impl ScopeLayout {
    /// Makes the fields of a structure that ended visible from outside, below its own name.
    fn lift(&mut self, at: &str, inside: FieldScope) {
        let name = at.rsplit('.').next().unwrap_or_default();
        if let Some(frame) = self.frames.last_mut() {
            for (field, target) in inside.fields {
                frame.fields.insert(format!("{name}.{field}"), target);
            }
        }
    }

    /// The slot of the field that a path leads to, seen from `at`.
    fn refer(&mut self, path: &Path<'_>, at: &str) -> Result<(u8, ReferenceTarget), CtfError> {
        let path = path.join(".");
        let path = path.strip_prefix(&self.scope).unwrap_or(&path);
        let near = self.frames.iter().rev().find_map(|frame| frame.fields.get(path)).cloned();
        let target = near.ok_or_else(|| {
            wrong(format!("{at} refers to `{path}`, which is no integer that comes before it"))
        })?;
        let next = self.slots.len();
        if let Some(slot) = self.slots.get(&target.path) {
            return Ok((*slot, target));
        }
        if next >= SLOTS {
            return Err(wrong(format!("{at} needs more than {SLOTS} lengths and tags")));
        }
        let slot = next as u8;
        self.slots.insert(target.path.clone(), slot);
        Ok((slot, target))
    }
}

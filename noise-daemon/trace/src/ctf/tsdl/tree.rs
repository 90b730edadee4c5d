//! What TSDL says, as it was written: declarations and types whose names are not looked up yet.

use std::rc::Rc;

/// A name with dots in it: `stream.packet.context.cpu_id`.
pub type Path<'i> = Vec<&'i str>;

/// What stands right of a `=`.
#[derive(Clone, Debug, PartialEq)]
pub enum TsdlValue<'i> {
    /// A quoted text, its escapes resolved.
    Text(String),
    /// A number. Those above the largest `i64` are there too.
    Number(i128),
    /// One or more words: `le`, `true`, `clock.monotonic.value`.
    Words(Path<'i>),
}

impl TsdlValue<'_> {
    /// The number, if it is one that fits.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::Words(_) => None,
        }
    }

    /// The text or the single word.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Words(words) => match words.as_slice() {
                [word] => Some(word),
                _ => None,
            },
            Self::Number(_) => None,
        }
    }
}

/// `NAME = VALUE;` inside `integer { … }` and its like.
pub type Attribute<'i> = (&'i str, TsdlValue<'i>);

#[derive(Clone, Debug, PartialEq)]
pub enum Type<'i> {
    /// An alias; several words (`unsigned long`) are joined by one space.
    Named(String),
    /// `integer { … }`
    Integer(Vec<Attribute<'i>>),
    /// `floating_point { … }`
    Float(Vec<Attribute<'i>>),
    /// `string`, with or without attributes.
    Text,
    /// `enum NAME : BASE { … }`
    Enum {
        name: Option<&'i str>,
        /// The integer beneath; `int` where none is named.
        base: Option<Box<Type<'i>>>,
        /// Its labels; none where one defined elsewhere is meant.
        labels: Option<Vec<EnumLabel>>,
    },
    /// `struct NAME { … } align(N)`
    Struct {
        name: Option<&'i str>,
        /// Its fields; none where one defined elsewhere is meant.
        items: Option<Vec<StructItem<'i>>>,
        /// Least alignment in bits.
        align: Option<u64>,
    },
    /// `variant NAME <TAG> { … }`
    Variant {
        name: Option<&'i str>,
        /// The field that says which option is there.
        tag: Option<Path<'i>>,
        /// Its options; none where one defined elsewhere is meant.
        items: Option<Vec<StructItem<'i>>>,
    },
}

/// A label of an enumeration, and the numbers it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumLabel {
    pub name: String,
    /// The first and the last number; none counts on from the label before.
    pub range: Option<(i128, i128)>,
}

/// One entry of a structure or a variant.
#[derive(Clone, Debug, PartialEq)]
pub enum StructItem<'i> {
    Field {
        /// Its type, without lengths. Fields that are declared together share it.
        ty: Rc<Type<'i>>,
        name: &'i str,
        /// The lengths behind the name, outermost first.
        lengths: Vec<Length<'i>>,
    },
    Declared(Declaration<'i>),
}

/// How many elements there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length<'i> {
    Fixed(u64),
    /// As many as an earlier field says.
    Counted(Path<'i>),
}

/// A type that gets a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Declaration<'i> {
    /// `typealias TYPE := NAME;` or `typedef TYPE NAME;`
    Alias {
        ty: Type<'i>,
        name: String,
        /// Lengths behind the name of a `typedef`.
        lengths: Vec<Length<'i>>,
    },
    /// `struct NAME { … };` and its like.
    Type(Type<'i>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum BlockLine<'i> {
    /// `path = value;`
    Set(Path<'i>, TsdlValue<'i>),
    /// `path := type;`
    Typed(Path<'i>, Type<'i>),
    Declared(Declaration<'i>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Top<'i> {
    /// `trace { … };`, `event { … };` and their like, by their word.
    Block(&'i str, Vec<BlockLine<'i>>),
    Declared(Declaration<'i>),
}

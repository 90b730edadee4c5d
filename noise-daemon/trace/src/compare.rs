//! Comparisons in the languages of executions and queries: how two values stand to each other.

use std::cmp::Ordering;

use winnow::Parser as _;
use winnow::combinator::alt;
use winnow::error::{ContextError, ErrMode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Compare {
    /// Whether it is so for values of that order; those without one are unequal.
    pub fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Unequal => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }

    /// Whether it is one of those for values without order.
    pub const fn is_of_equality(self) -> bool {
        matches!(self, Self::Equal | Self::Unequal)
    }

    /// Errors: if there is none.
    pub fn parse(input: &mut &str) -> Result<Self, ErrMode<ContextError>> {
        // The longer one of two that begin alike comes first.
        alt((
            "!=".value(Self::Unequal),
            "<=".value(Self::AtMost),
            ">=".value(Self::AtLeast),
            "=".value(Self::Equal),
            "<".value(Self::Less),
            ">".value(Self::Greater),
        ))
        .parse_next(input)
    }
}

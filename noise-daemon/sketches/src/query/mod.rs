//! Questions about slices: of those that fulfil one condition, how many fulfil another.

mod condition;
mod grammar;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use self::condition::Condition;
use crate::slices::Slice;
use crate::system::System;

/// A condition, single ones put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    text: String,
    expression: Expression,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    And(Vec<Self>),
    /// At least one holds.
    Or(Vec<Self>),
    Not(Box<Self>),
    Is(Condition),
}

impl Expression {
    fn holds(&self, system: &System, slice: &Slice) -> Option<bool> {
        // One that decides, else one that is not known.
        let decided = |of: &[Self], by: bool| {
            let mut held = of.iter().map(|one| one.holds(system, slice));
            let decided = held.clone().any(|holds| holds == Some(by));
            if decided { Some(by) } else { held.all(|holds| holds.is_some()).then_some(!by) }
        };
        match self {
            Self::And(all) => decided(all, false),
            Self::Or(all) => decided(all, true),
            Self::Not(one) => one.holds(system, slice).map(|holds| !holds),
            Self::Is(condition) => condition.holds(system, slice),
        }
    }
}

impl Query {
    /// Whether a slice fulfils it; `None` where that depends on calls that are not known.
    pub fn holds(&self, system: &System, slice: &Slice) -> Option<bool> {
        self.expression.holds(system, slice)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where a query cannot be understood, and what may stand there.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct QueryError {
    text: String,
    at: usize,
    expected: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or(&self.text);
        let column = before.chars().count();
        // What moves the cursor would put the mark elsewhere.
        let line: String =
            self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "the condition cannot be understood at column {}:", column + 1)?;
        writeln!(f, "  {line}")?;
        writeln!(f, "  {:column$}^", "")?;
        write!(f, "here may stand {}", self.expected)
    }
}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let owned = || text.to_owned();
        let parsed = grammar::query(text);
        let expression =
            parsed.map_err(|(at, expected)| QueryError { text: owned(), at, expected })?;
        Ok(Self { text: owned(), expression })
    }
}

#[cfg(test)]
mod tests;

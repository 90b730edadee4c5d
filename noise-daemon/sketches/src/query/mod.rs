//! Questions about slices: of those that fulfil one condition, how many fulfil another.

mod condition;
mod grammar;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use foldhash::HashMap;
use thiserror::Error;

use self::condition::Condition;
use crate::slices::SliceId;
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
    /// It holds of a slice of the same sketch.
    InSketch(Box<Self>),
    Is(Condition),
}

/// A query about the slices of one system.
#[derive(Debug)]
pub struct Asked<'q> {
    expression: &'q Expression,
    system: &'q System,
    /// Of which sketches which condition holds, by its place in memory: all slices of a sketch have the same answer.
    in_sketches: RefCell<HashMap<(usize, SliceId), Option<bool>>>,
}

impl Asked<'_> {
    /// Whether a slice fulfils it; `None` where that depends on calls that are not known.
    pub fn holds(&self, id: SliceId) -> Option<bool> {
        self.expression_holds(self.expression, id)
    }

    fn expression_holds(&self, expression: &Expression, id: SliceId) -> Option<bool> {
        match expression {
            Expression::And(all) => {
                decided(false, all.iter().map(|one| self.expression_holds(one, id)))
            }
            Expression::Or(all) => {
                decided(true, all.iter().map(|one| self.expression_holds(one, id)))
            }
            Expression::Not(one) => self.expression_holds(one, id).map(|holds| !holds),
            Expression::InSketch(one) => self.in_sketch(one, id),
            Expression::Is(condition) => self
                .system
                .slice(id)
                .map_or(Some(false), |slice| condition.holds(self.system, id, slice)),
        }
    }

    fn in_sketch(&self, one: &Expression, id: SliceId) -> Option<bool> {
        let Some(sketch) = self.system.whole(id) else { return Some(false) };
        let key = (std::ptr::from_ref(one).addr(), sketch.first);
        if let Some(holds) = self.in_sketches.borrow().get(&key) {
            return *holds;
        }
        let members = self.system.wholes.members(sketch);
        let holds = decided(true, members.iter().map(|id| self.expression_holds(one, *id)));
        self.in_sketches.borrow_mut().insert(key, holds);
        holds
    }
}

/// What one decides that holds or does not hold, as `by` says; else what is not known is not.
fn decided(by: bool, held: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_known = true;
    for holds in held {
        match holds {
            Some(holds) if holds == by => return Some(by),
            Some(_) => {}
            None => is_known = false,
        }
    }
    is_known.then_some(!by)
}

impl Query {
    /// The same about a system, whose sketches are summed up.
    pub fn of<'q>(&'q self, system: &'q System) -> Asked<'q> {
        Asked { expression: &self.expression, system, in_sketches: RefCell::default() }
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

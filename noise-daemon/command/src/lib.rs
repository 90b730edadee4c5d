//! How a command speaks and ends: the one way to standard output and standard error, progress, what a terminal can do, and
//! exit codes; and times as they are typed.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod durations;
mod error;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod terminal;

pub use self::error::{CommandError, Exit, Lines};

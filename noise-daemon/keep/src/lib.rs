//! What is kept of the moment when an incident opens: the flight recorder's events with who is who, and the
//! paths of the victim's longest waits.
//!
//! The recorder is overwritten within seconds, so its events are copied at once, piece by piece, by a thread
//! that ends with its work. Each incident has two files in the state directory, which are bounded in number
//! and bytes ([`shelf`]): the events ([`file`]), and what was found in them ([`path`]).

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod demand;
pub mod export;
pub mod file;
#[cfg(test)]
mod fixtures;
mod hour;
mod keeping;
mod newest;
pub mod path;
#[cfg(test)]
mod reach;
pub mod replay;
mod requests;
mod shelf;
pub mod state;
mod ties;
mod unseen;
mod waits;
mod who;

pub use keeping::{Bounds, Keeping, Latest, THREADS_AT_ONCE};
pub use shelf::{Kept, Unusable, list, open};

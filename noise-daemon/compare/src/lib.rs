//! PURE: what is different when work is slow. No clock, no file, no kernel, no randomness of its own.
//!
//! An execution is a critical path of `noise-paths`. [`stretches`] makes a string of states of it, and [`vectors`] how
//! often and how long it is in each; [`side`] has what is compared, with the recording that it is of. [`rules`] say
//! whether a sample of executions is slower than normal ones at all, and [`drift`] whether by more than recordings of one
//! program differ.
//! [`kinds`] finds what kinds of executions there are, by clusters of their vectors, [`pairing`] which normal kind one of
//! the sample belongs to, and [`outliers`] what is too long there. [`align`] puts paths side by side, and [`places`] says
//! where in them the time was lost. [`comparison`] is all of it, as commands print it.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod align;
mod chance;
pub mod comparison;
pub mod csv;
pub mod drift;
pub mod guard;
pub mod kinds;
pub mod localised;
#[cfg(test)]
mod made;
pub mod moments;
pub mod outliers;
pub mod pairing;
pub mod picture;
pub mod places;
pub mod rules;
pub mod settings;
pub mod side;
pub mod stretches;
pub mod thresholds;
pub mod times;
pub mod vectors;
pub mod words;

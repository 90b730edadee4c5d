//! The host that is measured: the programs in the kernel, what they count, and the names behind its numbers.
//!
//! `resolve` knows neither of the others; `kernel` asks it which hierarchies of cgroups there are; `collect`
//! drains what the kernel holds and names it, into samples of the model; `setup` reads settings and pressure of cgroups.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod collect;
pub mod kernel;
pub mod resolve;
pub mod setup;

//! The library of `noised`: the command line, what can be configured, how the daemon confines itself, what
//! it keeps, and the pipeline from sample to subscribers. The rest is in the crates beside this one.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod cli;
mod commands;
pub mod config;
pub mod confine;
pub mod pipeline;
pub mod recorder;

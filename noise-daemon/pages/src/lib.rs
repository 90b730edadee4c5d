//! PURE but for [`width`]: pages for people, as commands print them: critical paths, comparisons, sketches, what holds a victim up, requests
//! on a port, and incidents. What they show is gathered elsewhere.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod comparison;
pub mod critical_path;
pub mod incidents;
pub mod requests;
pub mod sketch;
mod states;
pub mod trend;
pub mod victim;
pub mod width;

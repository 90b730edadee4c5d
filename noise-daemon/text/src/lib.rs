//! PURE: text for people. No crate of the project is below this one.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod bars;
pub mod clean;
pub mod columns;
pub mod cpulist;
pub mod csv;
pub mod joined;
pub mod nearest;
pub mod table;
pub mod times;
pub mod units;

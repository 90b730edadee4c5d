//! PURE: events of a kernel trace, whoever recorded them, and what they say. No clock, no file, no kernel:
//! the caller opens and reads, and hands bytes in.
//!
//! [`event`] is the model: what analyses compute with, and what a recording of ours is written from.
//! [`ctf`] and [`ftrace`] read the formats, and hold nothing but the events at hand. [`export`] writes the
//! formats of other programs.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod analysis;
mod bounded;
pub mod capture;
pub mod clock;
pub mod compare;
pub mod contexts;
pub mod crowd;
pub mod ctf;
pub mod damage;
mod decimal;
pub mod delays;
pub mod event;
pub mod events;
pub mod export;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod follow;
pub mod ftrace;
mod ids;
pub mod ipc;
pub mod json;
pub mod reach;
pub mod record;
pub mod rwbs;
pub mod select;
pub mod sight;
pub mod state;
pub mod states;
pub mod summary;
pub mod task;
pub mod text;
pub mod threads;
pub mod value;
pub mod window;

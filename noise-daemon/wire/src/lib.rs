//! Frames: what the daemon sends to the terminal view, and what the view records.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod client;
mod codec;
pub mod events;
mod file;
mod frame;
pub mod marks;
pub mod pem;

#[cfg(test)]
mod anything;
#[cfg(any(test, feature = "fixtures"))]
pub mod sampled;

pub use client::{WebClient, agent};
pub use codec::{CONTENT_TYPE, MAX_FRAME_BYTES, WIRE_VERSION, WireError, decode, encode};
pub use file::{FileError, Recorder, Recording};
pub use frame::Frame;

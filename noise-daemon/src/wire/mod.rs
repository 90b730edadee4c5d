//! Frames: what the daemon tells the terminal view, and what is recorded of it.

mod codec;
mod file;
mod frame;
mod here;

#[cfg(test)]
pub(crate) mod sampled;

pub use codec::{CONTENT_TYPE, MAX_FRAME_BYTES, WIRE_VERSION, WireError, decode, encode};
pub use file::{FileError, Recorder, Recording};
pub use frame::{Frame, Host};

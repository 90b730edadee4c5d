//! Recordings of ours: CTF 1.8 as LTTng's kernel tracer lays it out, so that what reads its traces reads
//! these.
//!
//! [`metadata`] says how events are laid out, once; a [`StreamWriter`] for each CPU makes packets of events.
//! Each packet stands by itself. The first of each stream begins with the recording and the last ends with it:
//! lttng-analyses reads the time that all streams have in common. Here the times of events are readings of the clock, not yet times since the
//! epoch.

mod metadata;
mod packet;

pub use metadata::{BUFFER_BYTES, Origin, metadata};
pub use packet::{HEAD_BYTES, Packets, StreamWriter};
pub(crate) use packet::{PacketView, split_head};

/// The number that a trace has in its metadata and its packets.
pub type Uuid = [u8; 16];

#[cfg(test)]
mod tests;

//! CTF 1.8: LTTng's kernel traces, perf's, and our own recordings.
//!
//! [`Layout::parse`] reads what the metadata says, once; [`Reader`] then goes over the bytes of the streams,
//! which the caller maps or holds, and merges them by time. It keeps one event of each stream, whatever
//! their lengths.

mod bits;
mod class;
mod header;
mod layout;
pub mod metadata;
mod node;
mod packet;
mod reader;
mod resolve;
mod stream;
mod tsdl;
mod walk;
pub mod write;

pub use class::EventClass;
pub use layout::Layout;
pub use reader::{Reader, StreamFile};
pub use stream::{Located, Record};

/// Why a trace cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CtfError {
    /// A packet of the metadata, at that byte.
    #[error("its metadata is damaged at byte {0}")]
    MetadataPacket(usize),
    /// The text cannot be parsed, from that line on.
    #[error("its metadata cannot be understood from line {0} on: `{1}`")]
    Syntax(usize, String),
    /// The text says something that cannot be.
    #[error("its metadata makes no sense: {0}")]
    Metadata(String),
}

#[cfg(test)]
mod tests;

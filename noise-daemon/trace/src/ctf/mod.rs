//! CTF 1.8: LTTng's kernel traces, perf's, and our own recordings.
//!
//! [`TraceLayout::parse`] reads what the metadata says, once; [`CtfReader`] then goes over the bytes of the streams,
//! which the caller holds or lets it read, and merges them by time. It keeps a window and one event of each stream,
//! whatever their lengths: a packet may be a whole file. An event that reaches beyond its window is read again
//! from its begin on, in a window that begins there. Records are lent: see
//! [`Source`](crate::record::Source).

mod apart;
mod bits;
mod class;
mod cpu;
mod files;
mod header;
mod layout;
pub mod metadata;
mod node;
mod packet;
mod ranges;
mod reader;
mod resolve;
mod stream;
mod tsdl;
mod walk;
pub mod write;

pub use apart::{StreamPart, apart};
pub use class::EventClass;
pub use files::StreamFile;
pub use layout::TraceLayout;
pub use reader::CtfReader;
pub use stream::{CtfRecord, Located};

/// Why a trace cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CtfError {
    /// Metadata of version 2.
    #[error(
        "it is in CTF 2, which noised does not read; record in CTF 1.8 (`lttng create --trace-format=ctf-1.8`), or \
         convert it with babeltrace2 2.1 or later (`babeltrace2 FOLDER --component=sink.ctf.fs \
         --params='path=\"NEW\"' --params='ctf-version=\"1\"'`)"
    )]
    Version2,
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

//! PURE: frames as bytes, for the wire and for files: which kind of thing it is, its version, and
//! the frame as compressed MessagePack.
//!
//! Field names are written, so fields may be added; the number of the version changes where a
//! reader of an older one would be misled.

use std::io::{self, Read as _};

use serde::Deserialize as _;

use super::Frame;

/// The version that is written, and the only one that is read.
pub const WIRE_VERSION: u16 = 1;
/// The kind of content, as HTTP names it.
pub const CONTENT_TYPE: &str = "application/vnd.noised.frame";
/// Most bytes of a frame, as they are and when they are unpacked.
pub const MOST_BYTES: usize = 64 << 20;

const MAGIC: &[u8; 8] = b"NOISEDfr";
const HEAD: usize = MAGIC.len() + size_of::<u16>();
/// Frames are packed whenever somebody looks, on the host that is measured.
const COMPRESSION: i32 = 1;
/// Window that unpacking may use, as a power of two; ours take 2^21.
const WINDOW_LOG: u32 = 24;
/// Deeper than any frame.
const MOST_DEPTH: usize = 64;

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Something else.
    #[error("this is not a noised frame")]
    NotAFrame,
    /// Another version.
    #[error(
        "speaks version {0} of the wire, this noised knows {WIRE_VERSION}: use the same version on \
         both sides"
    )]
    Version(u16),
    /// Too much.
    #[error("the frame is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// It did not arrive as it was sent.
    #[error("the frame is damaged ({0})")]
    Damaged(String),
    /// It is whole, but tells things that are not known here.
    #[error(
        "the frame tells what this noised does not know ({0}): use the same version on both sides"
    )]
    Unknown(String),
    /// It cannot be written.
    #[error("the frame cannot be written ({0})")]
    Unwritable(String),
}

/// The frame as bytes.
///
/// # Errors
/// [`WireError::TooLarge`] where nobody would read it.
pub fn encode(frame: &Frame) -> Result<Vec<u8>, WireError> {
    let unwritable = |error: &dyn std::error::Error| WireError::Unwritable(error.to_string());
    let plain = rmp_serde::to_vec_named(frame).map_err(|error| unwritable(&error))?;
    if plain.len() > MOST_BYTES {
        return Err(WireError::TooLarge);
    }
    let mut bytes = Vec::with_capacity(HEAD + plain.len() / 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&WIRE_VERSION.to_le_bytes());
    let pack = || -> io::Result<Vec<u8>> {
        let mut packer = zstd::Encoder::new(bytes, COMPRESSION)?;
        packer.include_checksum(true)?;
        packer.set_pledged_src_size(Some(plain.len() as u64))?;
        io::Write::write_all(&mut packer, &plain)?;
        packer.finish()
    };
    pack().map_err(|error| unwritable(&error))
}

/// The frame that the bytes are.
///
/// # Errors
/// Says why they are none; see [`WireError`].
pub fn decode(bytes: &[u8]) -> Result<Frame, WireError> {
    let packed = body(bytes)?;
    let damaged = |error: io::Error| WireError::Damaged(error.to_string());
    let mut unpacker = zstd::Decoder::with_buffer(packed).map_err(damaged)?.single_frame();
    unpacker.window_log_max(WINDOW_LOG).map_err(damaged)?;
    let mut plain = Vec::new();
    unpacker.by_ref().take(MOST_BYTES as u64 + 1).read_to_end(&mut plain).map_err(damaged)?;
    if plain.len() > MOST_BYTES {
        return Err(WireError::TooLarge);
    }
    if !unpacker.finish().is_empty() {
        return Err(WireError::Damaged("more follows its end".to_owned()));
    }
    let mut reader = rmp_serde::Deserializer::from_read_ref(&plain);
    reader.set_max_depth(MOST_DEPTH);
    Frame::deserialize(&mut reader).map_err(|error| WireError::Unknown(error.to_string()))
}

/// What follows the head of a frame of our version.
fn body(bytes: &[u8]) -> Result<&[u8], WireError> {
    if bytes.len() > MOST_BYTES {
        return Err(WireError::TooLarge);
    }
    let Some((magic, rest)) = bytes.split_first_chunk::<{ MAGIC.len() }>() else {
        let cut_off = !bytes.is_empty() && MAGIC.starts_with(bytes);
        return Err(if cut_off { ends_early() } else { WireError::NotAFrame });
    };
    if magic != MAGIC {
        return Err(WireError::NotAFrame);
    }
    match rest.split_first_chunk() {
        None => Err(ends_early()),
        Some((version, body)) => match u16::from_le_bytes(*version) {
            WIRE_VERSION => Ok(body),
            other => Err(WireError::Version(other)),
        },
    }
}

fn ends_early() -> WireError {
    WireError::Damaged("it ends early".to_owned())
}

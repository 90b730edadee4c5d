//! PURE: frames as bytes, for the wire and for files: which kind of thing it is, its version, and
//! the frame as compressed MessagePack.
//!
//! Field names are written, so fields may be added; the number of the version changes where a
//! reader of an older one would be misled.

use std::io::{self, Read as _};

use noise_text::clean::excerpt;
use noise_text::clean::reading::{Budget, Cleaned};
use serde::Deserialize as _;

use super::Frame;

/// The version that is written, and the only one that is read.
pub const WIRE_VERSION: u16 = 1;
/// The kind of content, as HTTP names it.
pub const CONTENT_TYPE: &str = "application/vnd.noised.frame";
/// Most bytes of a frame, as they are and when they are unpacked.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// Most bytes that it may take in memory.
pub(super) const MOST_MEMORY_BYTES: usize = 4 * MAX_FRAME_BYTES;

/// Characters of an error about a frame's contents that are shown.
pub(super) const MOST_QUOTED: usize = 200;
pub(super) const MAGIC: &[u8; 8] = b"NOISEDfr";
const HEAD: usize = MAGIC.len() + size_of::<u16>();
/// The fastest: frames are packed for each request, on the host that is measured.
const COMPRESSION: i32 = 1;
/// Window that unpacking may use, as a power of two; ours take 2^21.
const WINDOW_LOG: u32 = 24;
/// Deeper than any frame.
const MOST_DEPTH: usize = 64;

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("this is not a noised frame")]
    NotAFrame,
    #[error(
        "speaks protocol version {0}, this noised speaks {WIRE_VERSION}: use the same version on both \
         sides"
    )]
    Version(u16),
    #[error("the frame is larger than {} MiB", MAX_FRAME_BYTES >> 20)]
    TooLarge,
    /// It did not arrive as it was sent.
    #[error("the frame is damaged ({0})")]
    Damaged(String),
    /// It is whole, but has content that is unknown here.
    #[error(
        "the frame has content that is unknown to this noised ({0}): use the same version on both sides"
    )]
    Unknown(String),
    /// It cannot be written.
    #[error("the frame cannot be written ({0})")]
    Unwritable(String),
}

/// The frame as bytes.
/// Errors: [`WireError::TooLarge`] where [`decode`] would refuse it.
pub fn encode(frame: &Frame) -> Result<Vec<u8>, WireError> {
    let unwritable = |error: &dyn std::error::Error| WireError::Unwritable(error.to_string());
    let plain = rmp_serde::to_vec_named(frame).map_err(|error| unwritable(&error))?;
    if plain.len() > MAX_FRAME_BYTES {
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
/// Errors say why they are none; see [`WireError`].
pub fn decode(bytes: &[u8]) -> Result<Frame, WireError> {
    decode_measured(bytes).map(|(frame, _)| frame)
}

/// The same with how much memory it takes, bytes.
/// Errors: those of [`decode`].
pub(super) fn decode_measured(bytes: &[u8]) -> Result<(Frame, usize), WireError> {
    let packed = body(bytes)?;
    let damaged = |error: io::Error| WireError::Damaged(error.to_string());
    let mut unpacker = zstd::Decoder::with_buffer(packed).map_err(damaged)?.single_frame();
    unpacker.window_log_max(WINDOW_LOG).map_err(damaged)?;
    let mut plain = Vec::new();
    unpacker.by_ref().take(MAX_FRAME_BYTES as u64 + 1).read_to_end(&mut plain).map_err(damaged)?;
    if plain.len() > MAX_FRAME_BYTES {
        return Err(WireError::TooLarge);
    }
    if !unpacker.finish().is_empty() {
        return Err(WireError::Damaged("more follows its end".to_owned()));
    }
    let mut reader = rmp_serde::Deserializer::from_read_ref(&plain);
    reader.set_max_depth(MOST_DEPTH);
    let budget = Budget::of(MOST_MEMORY_BYTES);
    let frame = Frame::deserialize(Cleaned(&mut reader, &budget));
    let frame = frame.map_err(|error| match budget.left() {
        0 => WireError::TooLarge,
        _ => WireError::Unknown(excerpt(&error.to_string(), MOST_QUOTED)),
    })?;
    Ok((frame, MOST_MEMORY_BYTES - budget.left()))
}

/// What follows the head of a frame of our version.
fn body(bytes: &[u8]) -> Result<&[u8], WireError> {
    if bytes.len() > MAX_FRAME_BYTES {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anything::frames;
    use crate::sampled::small;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    /// Something of our head, with a body of other things.
    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut bytes = [MAGIC.as_slice(), &WIRE_VERSION.to_le_bytes()].concat();
        bytes.extend(zstd::encode_all(plain, 1).unwrap());
        bytes
    }

    #[test]
    fn every_truncation_is_reported() {
        let bytes = encode(&small(7)).unwrap();
        assert_eq!(decode(&bytes), Ok(small(7)));
        for length in 0..bytes.len() {
            let error = decode(&bytes[..length]).unwrap_err();
            let expected = if length == 0 { "not a noised frame" } else { "damaged" };
            assert!(error.to_string().contains(expected), "{length}: {error}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert!(matches!(decode(&longer), Err(WireError::Damaged(_))));
        let twice = [bytes.as_slice(), &bytes[HEAD..]].concat();
        assert!(matches!(decode(&twice), Err(WireError::Damaged(_))));
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let bytes = encode(&small(7)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            // Some bits of the packing mean nothing: then the frame is the same.
            if let Ok(frame) = decode(&other) {
                assert_eq!(frame, small(7), "bit {bit}");
            }
        }
    }

    #[test]
    fn other_versions_are_named() {
        let mut bytes = encode(&small(7)).unwrap();
        bytes[MAGIC.len()] = 2;
        let error = decode(&bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "speaks protocol version 2, this noised speaks 1: use the same version on both sides"
        );
        // Whatever follows: it need not be packed as ours is.
        assert_eq!(decode(&[MAGIC.as_slice(), &[0, 1]].concat()), Err(WireError::Version(256)));
    }

    #[test]
    fn what_is_no_frame_is_reported() {
        for bytes in [b"".as_slice(), b"HTTP/1.1 200 OK\r\n", b"<!doctype html>", b"NOISEDre\x01\0"]
        {
            assert_eq!(decode(bytes), Err(WireError::NotAFrame));
        }
        assert!(matches!(decode(&packed(b"")), Err(WireError::Unknown(_))));
        assert!(matches!(decode(&packed(b"\xc1\xff")), Err(WireError::Unknown(_))));
        // Arrays in arrays, without end.
        assert!(matches!(decode(&packed(&[0x91; 100_000])), Err(WireError::Unknown(_))));
        // An array that claims to have 2^32 - 1 parts.
        let claim = [b"\x81\xa6sample\x81\xa6series\xdd".as_slice(), &[0xff; 4]].concat();
        assert!(matches!(decode(&packed(&claim)), Err(WireError::Unknown(_))));
    }

    #[test]
    fn a_signal_of_the_future_is_no_damage() {
        let plain = rmp_serde::to_vec_named(&small(7)).unwrap();
        assert_eq!(decode(&packed(&plain)), Ok(small(7)));
        let absent = b"\x81\xa6sample\x81\xa6absent\x91\x92\xa9tomorrows\xa0";
        let error = decode(&packed(absent)).unwrap_err();
        assert!(error.to_string().contains("unknown to this noised"), "{error}");
        // A field of the future can be left alone.
        let field = b"\x81\xa9tomorrows\x91\x92\x01\x02";
        assert_eq!(decode(&packed(field)), Ok(Frame::default()));
    }

    #[test]
    fn what_unpacks_without_end_is_refused() {
        let bomb = packed(&vec![0; MAX_FRAME_BYTES + 1]);
        assert!(bomb.len() < MAX_FRAME_BYTES / 1000);
        assert_eq!(decode(&bomb), Err(WireError::TooLarge));
        assert_eq!(decode(&vec![0; MAX_FRAME_BYTES + 1]), Err(WireError::TooLarge));
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire(frame in frames()) {
            prop_assert_eq!(decode(&encode(&frame).unwrap()), Ok(frame));
        }

        #[test]
        fn changed_frames_do_not_make_it_panic(
            frame in frames(),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..10),
        ) {
            let mut plain = rmp_serde::to_vec_named(&frame).unwrap();
            for (place, byte) in changes {
                let place = place % plain.len();
                plain[place] = byte;
            }
            let _ = decode(&packed(&plain));
        }
    }
}

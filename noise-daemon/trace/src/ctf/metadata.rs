//! The file `metadata`: text as it is, or in packets that each begin with a header.

use super::CtfError;

/// What a packet of metadata begins with.
const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of that header.
const HEADER: usize = 37;
/// Where its lengths are: content and packet, in bits, 32 bits each.
const CONTENT_AT: usize = 24;
const PACKET_AT: usize = 28;

fn number(bytes: &[u8], at: usize, big: bool) -> Option<u32> {
    let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
}

/// What each record of a text in CTF 2 begins with (RFC 7464).
const RECORD: char = '\u{1e}';

/// The text of a metadata file, freed from its packets. What follows the last whole packet is left out,
/// as is a text that ends in the middle of a character: a tracer may have been stopped while it wrote.
/// Errors: where a packet's lengths are impossible, or it is CTF 2.
pub fn text(bytes: &[u8]) -> Result<String, CtfError> {
    let big = match [false, true].into_iter().find(|&big| number(bytes, 0, big) == Some(MAGIC)) {
        Some(big) => big,
        None => return plain(bytes),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while rest.len() >= HEADER {
        let wrong = || CtfError::MetadataPacket(bytes.len() - rest.len());
        if number(rest, 0, big) != Some(MAGIC) {
            return Err(wrong());
        }
        let length = |at| Some(number(rest, at, big)? as usize / 8);
        let (content, packet) = length(CONTENT_AT).zip(length(PACKET_AT)).ok_or_else(wrong)?;
        if content < HEADER || packet < content {
            return Err(wrong());
        }
        let Some(inside) = rest.get(HEADER..content) else { break };
        text.extend_from_slice(inside);
        rest = rest.get(packet..).unwrap_or_default();
    }
    plain(&text)
}

fn plain(bytes: &[u8]) -> Result<String, CtfError> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // No text in 1.8 begins with either.
    match text.trim_start().starts_with([RECORD, '{']) {
        true => Err(CtfError::Version2),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_version_2_is_named() {
        for bytes in [&b"\x1e{\n \"type\": \"preamble\""[..], b" {\"type\": \"preamble\"}"] {
            assert_eq!(text(bytes), Err(CtfError::Version2));
        }
        let sentence = CtfError::Version2.to_string();
        assert!(
            sentence.contains("ctf-1.8") && sentence.contains("ctf-version=\"1\""),
            "{sentence}"
        );
        assert_eq!(text(b"/* CTF 1.8 */"), Ok("/* CTF 1.8 */".to_owned()));
    }
}

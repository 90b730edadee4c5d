//! PURE: a text that is written in many small pieces.

use std::io;

/// The text as it grows. It is written in ten thousand pieces of a few bytes, for which calling `memcpy`
/// costs more than copying them, above all musl's.
pub struct Text(Vec<u8>);

impl Text {
    /// An empty one with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn push(&mut self, piece: &str) {
        self.put(piece.as_bytes());
    }

    pub fn extend<'a>(&mut self, pieces: impl IntoIterator<Item = &'a str>) {
        pieces.into_iter().for_each(|piece| self.push(piece));
    }

    fn put(&mut self, piece: &[u8]) {
        match piece.len() {
            0..4 => piece.iter().for_each(|byte| self.0.push(*byte)),
            4..8 => self.add::<4>(piece),
            8..16 => self.add::<8>(piece),
            16..32 => self.add::<16>(piece),
            32..=64 => self.add::<32>(piece),
            _ => self.0.extend_from_slice(piece),
        }
    }

    /// Adds a piece of N to 2 N bytes: its first and its last N, which may overlap.
    fn add<const N: usize>(&mut self, piece: &[u8]) {
        if let (Some(first), Some(last)) = (piece.first_chunk::<N>(), piece.last_chunk::<N>()) {
            let overlap = 2 * N - piece.len();
            self.0.extend_from_slice(first);
            self.0.truncate(self.0.len() - overlap);
            self.0.extend_from_slice(last);
        }
    }
}

impl io::Write for Text {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.put(piece);
        Ok(piece.len())
    }

    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write(piece).map(|_| ())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn pieces_of_any_length_are_put_together() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut text = Text(Vec::new());
        let mut whole = Vec::new();
        for piece in (0..200).filter_map(|length| bytes.get(..length)) {
            text.write_all(piece).unwrap();
            whole.extend_from_slice(piece);
        }
        assert_eq!(text.0, whole);
    }
}

//! Files of `/proc` that the kernel writes anew for each reader.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// As long as such files are on most hosts.
const USUAL_BYTES: usize = 8 << 10;

/// Reads them, one after the other, into the same memory. In few reads: such a file does not tell its
/// length, and where there is no room yet the standard library feels its way from 32 bytes on.
#[derive(Debug)]
pub struct Reader(String);

impl Default for Reader {
    fn default() -> Self {
        Self(String::with_capacity(USUAL_BYTES))
    }
}

impl Reader {
    /// The text of a file; empty where there is none.
    pub fn read(&mut self, path: &Path) -> &str {
        let Self(text) = self;
        text.clear();
        if File::open(path).and_then(|mut file| file.read_to_string(text)).is_err() {
            // A piece would be taken for the whole.
            text.clear();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Reader;

    #[test]
    fn all_of_it_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [long, short] = ["long", "short"].map(|name| folder.path().join(name));
        let longer = "x".repeat(100_000);
        std::fs::write(&long, &longer).unwrap();
        std::fs::write(&short, "y").unwrap();
        let mut reader = Reader::default();
        assert_eq!(reader.read(&long), longer);
        assert_eq!(reader.read(&short), "y");
        assert_eq!(reader.read("/nonexistent".as_ref()), "");
        assert_eq!(reader.read(folder.path()), "");
    }
}

//! Files that somebody else looks after, read no further than they should be long.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A file that is at most so long.
///
/// # Errors
/// Where it cannot be read, or is longer.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What the file system says of its length is not asked: of a device or a pipe that is nothing.
    File::open(path)?.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let sentence = format!("it is longer than {most_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, sentence));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let error = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("longer than 1048576"), "{error}");
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), b"");
    }
}

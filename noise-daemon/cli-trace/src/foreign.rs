//! Files of other programs that are not read, by their first bytes, and what makes a recording of each.

use std::path::Path;

/// Where the kind of a tar archive is.
const TAR_AT: usize = 257;

/// What such a file is, and a command that helps, with `FILE` for its name.
struct TraceFormat {
    at: usize,
    magic: &'static [u8],
    what: &'static str,
    remedy: &'static str,
}

const fn format(magic: &'static [u8], what: &'static str, remedy: &'static str) -> TraceFormat {
    TraceFormat { at: 0, magic, what, remedy }
}

const PERF: &str = "a recording of perf";
const TO_CTF: &str = "make a folder in CTF of it: `perf data convert --to-ctf FOLDER -i FILE`";
const STREAM: &str = "a file of a folder in CTF";
const FOLDER: &str = "name the folder that it is in, with its file `metadata`";

const FORMATS: [TraceFormat; 15] = [
    format(
        b"\x17\x08\x44tracing",
        "a recording of trace-cmd (trace.dat)",
        "make a text of it: `trace-cmd report FILE > FILE.txt`",
    ),
    format(b"PERFILE2", PERF, TO_CTF),
    format(b"2ELIFREP", PERF, TO_CTF),
    format(b"PERFFILE", PERF, TO_CTF),
    format(b"\x1f\x8b", "packed with gzip", "unpack it first: `gunzip -k FILE`"),
    format(b"\xfd7zXZ\0", "packed with xz", "unpack it first: `unxz -k FILE`"),
    format(b"\x28\xb5\x2f\xfd", "packed with zstd", "unpack it first: `unzstd FILE`"),
    format(b"\x04\x22\x4d\x18", "packed with lz4", "unpack it first: `unlz4 FILE`"),
    format(b"BZh", "packed with bzip2", "unpack it first: `bunzip2 -k FILE`"),
    format(b"PK\x03\x04", "a zip archive", "unpack it first: `unzip FILE`"),
    format(b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first: `7z x FILE`"),
    TraceFormat {
        at: TAR_AT,
        magic: b"ustar",
        what: "a tar archive",
        remedy: "unpack it first: `tar -xf FILE`",
    },
    format(&[0xc1, 0x1f, 0xfc, 0xc1], STREAM, FOLDER),
    format(&[0xc1, 0xfc, 0x1f, 0xc1], STREAM, FOLDER),
    format(b"/* CTF 1.8", "the metadata of a folder in CTF under another name", FOLDER),
];

/// A sentence about a file that begins so, where it is one of another program.
pub fn recognised(path: &Path, first: &[u8]) -> Option<String> {
    let fits = |format: &&TraceFormat| {
        first.get(format.at..).is_some_and(|rest| rest.starts_with(format.magic))
    };
    let TraceFormat { what, remedy, .. } = FORMATS.iter().find(fits)?;
    let shown = path.display().to_string();
    Some(format!(
        "{shown} is {what}, which noised does not read; {}",
        remedy.replace("FILE", &shown)
    ))
}

/// A sentence about a folder that `perf data convert` wrote: what perf lost is not in it.
pub fn losses_of_perf(path: &Path) -> String {
    format!(
        "{} does not say what perf lost: `perf data convert` leaves that out; if `perf report --stats -i perf.data` \
         counts LOST events, waits across them are wrong",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<String> {
        recognised(Path::new("x"), bytes)
    }

    #[test]
    fn files_of_others_are_named_with_the_way_out() {
        for TraceFormat { at, magic, what, .. } in &FORMATS {
            let mut bytes = vec![b'a'; *at];
            bytes.extend_from_slice(magic);
            let sentence = of(&bytes).unwrap();
            assert!(sentence.contains(what) && !sentence.contains("FILE"), "{sentence}");
            bytes.pop();
            assert_eq!(of(&bytes), None);
        }
        let sentence = of(b"PERFILE2").unwrap();
        assert!(sentence.ends_with("`perf data convert --to-ctf FOLDER -i x`"), "{sentence}");
    }

    #[test]
    fn texts_are_none_of_them() {
        for text in [&b""[..], b"# tracer: nop\n", b"cpus=4\n", b"7z", b"a-1 [000] 1.0: b: c\n"] {
            assert_eq!(of(text), None);
        }
    }
}

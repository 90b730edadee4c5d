//! What is no recording, by its first bytes, and what makes a recording of each.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use noise_system::files::open_regular;

use self::Mark::{Begin, Line, Shape};

/// Bytes that formats are known by.
pub const FIRST_BYTES: usize = 4 << 10;
/// Where the kind of a tar archive is, how long its first header is, and where the checksum of that is.
const TAR_AT: usize = 257;
const TAR_HEADER: usize = 512;
const TAR_SUM: Range<usize> = 148..156;

/// How a format is known.
enum Mark {
    /// By how files begin.
    Begin(&'static [u8]),
    /// By more than that.
    Shape(fn(&[u8]) -> bool),
    /// By a line, where a text is none of ftrace.
    Line(fn(&str) -> bool),
}

/// A format that is not read, what it is, and what helps, with `FILE` for the file's name.
type TraceFormat = (Mark, &'static str, &'static str);

const PERF: &str = "a recording of perf";
const TO_CTF: &str = "make a folder in CTF of it: `perf data convert --to-ctf FOLDER -i FILE`";
const CONVERT: &str = "convert the recording itself with `perf data convert -i perf.data --to-ctf FOLDER` and name \
                       that folder";
const STREAM: &str = "a file of a folder in CTF";
const FOLDER: &str = "name the folder that it is in, with its file `metadata`";
const ZSTD: &str = "packed with zstd";
const UNZSTD: &str = "unpack it first: `unzstd FILE`";
const UTF16: &str = "a text in UTF-16";
const TO_UTF8: &str = "make it UTF-8: `iconv -f UTF-16 -t UTF-8 FILE > FILE.txt`";
const TABLE: &str = "a table that `noised trace export --csv` wrote";
const ORIGINAL: &str = "name the recording that it was made of";

const FORMATS: &[TraceFormat] = &[
    (
        Begin(b"\x17\x08\x44tracing"),
        "a recording of trace-cmd (trace.dat)",
        "make a text of it: `trace-cmd report FILE > FILE.txt`",
    ),
    (Begin(b"PERFILE2"), PERF, TO_CTF),
    (Begin(b"2ELIFREP"), PERF, TO_CTF),
    (Begin(b"PERFFILE"), PERF, TO_CTF),
    (Begin(b"\x1f\x8b"), "packed with gzip", "unpack it first: `gunzip -k FILE`"),
    (Begin(b"\xfd7zXZ\0"), "packed with xz", "unpack it first: `unxz -k FILE`"),
    (Begin(b"\x5d\0\0"), "packed with lzma", "unpack it first: `unlzma -k FILE`"),
    (Begin(b"\x28\xb5\x2f\xfd"), ZSTD, UNZSTD),
    // Bytes to be skipped, before the packed ones.
    (Shape(|first| matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])), ZSTD, UNZSTD),
    (Begin(b"\x04\x22\x4d\x18"), "packed with lz4", "unpack it first: `unlz4 FILE`"),
    (Begin(b"BZh"), "packed with bzip2", "unpack it first: `bunzip2 -k FILE`"),
    (Begin(b"PK\x03\x04"), "a zip archive", "unpack it first: `unzip FILE`"),
    (
        Begin(b"PK\x05\x06"),
        "a zip archive without any file",
        "pack the recording again, or name the recording itself",
    ),
    (Begin(b"7z\xbc\xaf\x27\x1c"), "a 7z archive", "unpack it first: `7z x FILE`"),
    (Shape(is_tar), "a tar archive", "unpack it first: `tar -xf FILE`"),
    (Begin(&[0xc1, 0x1f, 0xfc, 0xc1]), STREAM, FOLDER),
    (Begin(&[0xc1, 0xfc, 0x1f, 0xc1]), STREAM, FOLDER),
    (Begin(b"/* CTF 1.8"), "the metadata of a folder in CTF under another name", FOLDER),
    (Begin(b"\xff\xfe"), UTF16, TO_UTF8),
    (Begin(b"\xfe\xff"), UTF16, TO_UTF8),
    (
        Begin(b"{\n\t\"linux-perf-json-version\""),
        "what `perf data convert --to-json` wrote",
        CONVERT,
    ),
    (Begin(b"{\"time_ns\":"), "what noised prints of events as JSON", ORIGINAL),
    (Begin(b"time_ns,cpu,name,"), TABLE, ORIGINAL),
    (Begin(b"tid,comm,state,cpu,"), TABLE, ORIGINAL),
    (Begin(b"delay,signal,tid,"), TABLE, ORIGINAL),
    (Begin(b"delay,tid,list,"), TABLE, ORIGINAL),
    (
        Shape(is_perfetto),
        "a trace of Perfetto",
        "name the recording that it was made of, or make a text of it: `traceconv systrace FILE FILE.txt`",
    ),
    (Line(is_babeltraces), "a text that babeltrace2 or `noised trace events` printed", ORIGINAL),
    (
        Line(|line| line.starts_with(". ... raw event: size ")),
        "what `perf script -D` prints",
        CONVERT,
    ),
    (Line(is_timehist), "what `perf sched timehist` prints", CONVERT),
    (Line(is_perf_script), "what `perf script` prints", CONVERT),
];

/// Old archives have no mark, but the checksum of a header.
fn is_tar(first: &[u8]) -> bool {
    let has_mark = first.get(TAR_AT..).is_some_and(|rest| rest.starts_with(b"ustar"));
    let has_sum = first.get(..TAR_HEADER).is_some_and(|header| {
        let bytes = header.iter().enumerate();
        let sum: u32 = bytes
            .map(|(at, byte)| if TAR_SUM.contains(&at) { b' ' } else { *byte })
            .map(u32::from)
            .sum();
        let said = header.get(TAR_SUM).map(String::from_utf8_lossy).unwrap_or_default();
        let said = said.trim_matches([' ', '\0']);
        u32::from_str_radix(said, 8) == Ok(sum)
    });
    has_mark || has_sum
}

/// A packet with its length before it, and the next one behind it.
fn is_perfetto(first: &[u8]) -> bool {
    let [b'\n', rest @ ..] = first else { return false };
    let Some(last) = rest.iter().position(|byte| *byte < 0x80) else { return false };
    let (length, rest) = rest.split_at(last + 1);
    let length = length
        .iter()
        .rev()
        .try_fold(0_usize, |sum, byte| Some(sum.checked_mul(128)? + usize::from(byte & 0x7f)));
    let Some((packet, next)) = length.and_then(|length| rest.split_at_checked(length)) else {
        return false;
    };
    let is_text = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    !packet.iter().all(is_text) && next.first().is_none_or(|tag| *tag == b'\n')
}

fn is_babeltraces(line: &str) -> bool {
    line.contains("{ cpu_id = ") || (line.starts_with('[') && line.contains(": { "))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Seconds with digits behind the point.
fn is_time(text: &str) -> bool {
    text.split_once('.').is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
}

/// The heading, or a row, whose CPU is behind its time.
fn is_timehist(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_row = words.next().is_some_and(is_time)
        && words.next().is_some_and(|cpu| cpu.starts_with('[') && cpu.ends_with(']'));
    is_row || ["task name", "wait time", "run time"].iter().all(|name| line.contains(name))
}

/// A sample without a thread: at most a name and a CPU stand before its time.
fn is_perf_script(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
    let is_time = |word: &&str| word.strip_suffix(':').is_some_and(is_time);
    let is_task = |word: &&str| word.rsplit_once('-').is_some_and(|(_, tid)| is_number(tid));
    let Some(time) = words.iter().position(is_time) else { return false };
    let has_event = words.get(time + 1).is_some_and(|event| event.ends_with(':'));
    has_event && !words.iter().take(time).any(is_task)
}

/// How a file begins; nothing where it cannot be read.
pub fn first_of(path: &Path) -> Vec<u8> {
    let mut first = Vec::new();
    if path.is_file()
        && let Ok(file) = open_regular(OpenOptions::new().read(true), path, 0)
    {
        let _ = file.take(FIRST_BYTES as u64).read_to_end(&mut first);
    }
    first
}

/// Whether a file that begins so is one of a folder in CTF.
pub fn is_stream(first: &[u8]) -> bool {
    known(first).is_some_and(|(_, what, _)| *what == STREAM)
}

/// Whether a file that begins so is a table of events, delays or states.
pub fn is_table(first: &[u8]) -> bool {
    known(first).is_some_and(|(_, what, _)| *what == TABLE)
}

fn known(first: &[u8]) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|(mark, ..)| match mark {
        Begin(magic) => first.starts_with(magic),
        Shape(fits) => fits(first),
        Line(_) => false,
    })
}

fn sentence(path: &Path, (_, what, remedy): &TraceFormat) -> String {
    let shown = path.display().to_string();
    format!("{shown} is {what}, which noised does not read; {}", remedy.replace("FILE", &shown))
}

/// A sentence about a file of a folder in CTF that begins so, where it is no stream, and is not unpacked beside it.
pub fn stray(path: &Path, first: &[u8]) -> Option<String> {
    let is_unpacked = path.extension().is_some() && path.with_extension("").exists();
    recognised(path, first).filter(|_| !is_stream(first) && !is_unpacked)
}

/// A sentence about a file that begins so, where it is no recording.
pub fn recognised(path: &Path, first: &[u8]) -> Option<String> {
    known(first).map(|format| sentence(path, format))
}

/// The same of a text that is none of ftrace.
pub fn recognised_text(path: &Path, first: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(first);
    let of =
        |line: &str| FORMATS.iter().find(|(mark, ..)| matches!(mark, Line(fits) if fits(line)));
    text.lines().find_map(of).map(|format| sentence(path, format))
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
mod tests;

//! Where results go: the one way from a command to standard output and standard error. Whatever names
//! are in a text, nothing in it acts on the terminal that shows it.

#![allow(clippy::disallowed_methods, reason = "what all others print goes through here")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use anyhow::Context as _;
use noise_system::output::{OutputPlace, PLAIN_MODE, explained};
use noise_text::clean::{clean, clean_json, clean_lines};
use serde::Serialize;

use super::terminal::Terminal;

/// What this process was given to write to, where a path names that: standard output, standard error, another
/// descriptor, such as the pipe of a shell's `>(COMMAND)`; and what takes everything.
/// Errors: where there is no such descriptor.
pub fn stream(path: &Path) -> io::Result<Option<File>> {
    let name = |path: &Path| path.file_name().map(OsStr::to_owned).unwrap_or_default();
    let number = match path.parent().map(Path::as_os_str).and_then(OsStr::to_str) {
        Some("/dev") if path.ends_with("stdout") => "1".into(),
        Some("/dev") if path.ends_with("stderr") => "2".into(),
        Some("/dev") if path.ends_with("null") => {
            return OpenOptions::new().write(true).open("/dev/null").map(Some);
        }
        Some("/dev/fd" | "/proc/self/fd") => name(path),
        _ => return Ok(None),
    };
    let given = match number.to_str() {
        // Not opened anew: what is written goes on behind what was printed.
        Some("1") => io::stdout().as_fd().try_clone_to_owned()?.into(),
        Some("2") => io::stderr().as_fd().try_clone_to_owned()?.into(),
        _ => OpenOptions::new().write(true).open(Path::new("/proc/self/fd").join(number))?,
    };
    Ok(Some(given))
}

/// Where a file that a person named is to be.
/// Errors: where it cannot be there; see [`OutputPlace::find`].
pub fn place(path: &Path) -> anyhow::Result<OutputPlace> {
    OutputPlace::find(path).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Writes a file whole, or to what this process was given to write to, such as `/dev/stdout`.
/// Errors: as the system has it; then an older file of that name is as it was.
pub fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    match stream(path).with_context(|| cannot_write(path))? {
        Some(mut given) => {
            given.write_all(text.as_bytes()).map_err(explained).with_context(|| cannot_write(path))
        }
        None => save_at(place(path)?, text),
    }
}

/// Writes a file whole, where it is to be.
/// Errors: those of [`save`].
pub fn save_at(place: OutputPlace, text: &str) -> anyhow::Result<()> {
    let mut target = place.begin(PLAIN_MODE)?;
    target.write(text.as_bytes())?;
    Ok(target.keep()?)
}

/// Prints text for a person. A reader that has seen enough is no failure.
/// Errors: where standard output cannot take it.
pub fn print(text: &str) -> anyhow::Result<()> {
    settle(show(text))
}

/// Prints a JSON document.
/// Errors: those of [`print`].
pub fn print_json(text: &str) -> anyhow::Result<()> {
    settle(show_json(text))
}

/// Prints a document as JSON, on lines for people.
/// Errors: those of [`print`].
pub fn print_document(document: &impl Serialize) -> anyhow::Result<()> {
    print_json(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Prints a JSON document that may be larger than memory should hold.
/// Errors: those of [`print`].
pub fn stream_json(document: &impl Serialize) -> anyhow::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 16, CleanWriter::new(io::stdout().lock()));
    let written = serde_json::to_writer(&mut output, document).map_err(io::Error::from);
    settle(written.and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush()))
}

/// What is written, cleaned.
struct CleanWriter<W> {
    output: W,
    /// The begin of a character that comes with the next bytes.
    begun: Vec<u8>,
}

impl<W: Write> CleanWriter<W> {
    fn new(output: W) -> Self {
        Self { output, begun: Vec::new() }
    }
}

fn no_text() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is no text")
}

impl<W: Write> Write for CleanWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = std::mem::take(&mut self.begun);
        text.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&text) {
            Ok(_) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(no_text()),
        };
        self.begun = text.split_off(whole);
        let text = std::str::from_utf8(&text).map_err(|_| no_text())?;
        self.output.write_all(clean_json(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.begun.is_empty() {
            return Err(no_text());
        }
        self.output.flush()
    }
}

/// Prints what is made of nothing but this program's own definitions.
/// Errors: those of [`print`].
pub fn print_own(text: &str) -> anyhow::Result<()> {
    settle(write(io::stdout().lock(), text))
}

/// Text for a person with colours of ours in it. What its pieces say is cleaned; the colours are not theirs.
#[derive(Clone, Debug, Default)]
pub struct Painted(Vec<(String, Option<&'static str>)>);

impl Painted {
    /// Adds text as it is.
    pub fn plain(&mut self, text: &str) {
        match self.0.last_mut() {
            Some((last, None)) => last.push_str(text),
            _ => self.0.push((text.to_owned(), None)),
        }
    }

    /// Adds text in a colour: numbers of the terminal's "select graphic rendition".
    pub fn coloured(&mut self, text: &str, colour: &'static str) {
        self.0.push((text.to_owned(), Some(colour)));
    }

    /// Adds all of another one.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(text, _)| text.is_empty())
    }

    /// Its text, with its colours or without.
    pub fn text(&self, has_colours: bool) -> String {
        let piece = |(text, colour): &(String, Option<&str>)| {
            let text = clean_lines(text);
            match colour.filter(|_| has_colours) {
                Some(colour) => format!("\x1b[{colour}m{text}\x1b[0m"),
                None => text.into_owned(),
            }
        };
        self.0.iter().map(piece).collect()
    }
}

/// Prints text for a person, with its colours where a terminal shows them and the user has nothing against it.
/// Errors: those of [`print`].
pub fn print_painted(painted: &Painted) -> anyhow::Result<()> {
    let text = painted.text(Terminal::of_output().has_colours);
    settle(write(io::stdout().lock(), &text))
}

/// Draws text for a person in place of what was drawn before, from the upper left corner on, where
/// the terminal [can redraw](Terminal::can_redraw).
/// Errors: those of [`print`].
pub fn redraw(text: &str) -> anyhow::Result<()> {
    settle(show_again(text))
}

/// As [`print`], for callers that act on a closed standard output.
/// Errors: also where the reader is gone.
pub fn show(text: &str) -> io::Result<()> {
    write(io::stdout().lock(), &clean_lines(text))
}

/// As [`print_json`]; see [`show`].
/// Errors: also where the reader is gone.
pub fn show_json(text: &str) -> io::Result<()> {
    write(io::stdout().lock(), &clean_json(text))
}

/// As [`redraw`]; see [`show`].
/// Errors: also where the reader is gone.
pub fn show_again(text: &str) -> io::Result<()> {
    write(io::stdout().lock(), &drawn(text))
}

/// Says on standard error what went wrong, in one line, whatever names are in it.
pub fn complain(sentence: &str) {
    note(&complaint(sentence));
}

/// Says on standard error what was done, in one line, whatever names are in it.
pub fn say(sentence: &str) {
    note(&format!("{}\n", clean(sentence)));
}

fn complaint(sentence: &str) -> String {
    format!("noised: {}\n", clean(sentence))
}

/// Writes to standard error. Where it is gone, nothing can be said.
pub fn note(text: &str) {
    let _ = write(io::stderr().lock(), &clean_lines(text));
}

/// Standard error, for what another process prints.
/// Errors: where there is none.
pub fn standard_error() -> io::Result<OwnedFd> {
    io::stderr().as_fd().try_clone_to_owned()
}

/// Each line cleared behind its end, then all below.
fn drawn(text: &str) -> String {
    format!("\x1b[H{}\x1b[J", clean_lines(text).replace('\n', "\x1b[K\n"))
}

fn write(mut output: impl Write, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// What comes of writing a result. A reader that has seen enough is no failure.
/// Errors: where standard output cannot take it.
pub fn settle(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(explained(error)).context("cannot write the result")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_was_given_is_known_by_its_name() {
        for path in ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/2"] {
            assert!(stream(Path::new(path)).unwrap().is_some(), "{path}");
        }
        for path in ["-", "/dev/zero", "stdout", "/tmp/stdout"] {
            assert!(stream(Path::new(path)).unwrap().is_none(), "{path}");
        }
        assert!(stream(Path::new("/dev/fd/999")).is_err());
    }

    #[test]
    fn a_name_makes_no_line_of_a_complaint() {
        let name = Path::new("a\nnoised: all is well");
        let said = complaint(&format!("cannot read {}", name.display()));
        assert_eq!(said, "noised: cannot read a\\x0anoised: all is well\n");
    }

    #[test]
    fn colours_are_ours_alone() {
        let mut painted = Painted::default();
        assert!(painted.is_empty());
        painted.plain("a\x1b[2J");
        painted.plain("b\n");
        painted.coloured("RR", "30;42");
        assert_eq!(painted.text(false), "a\\x1b[2Jb\nRR");
        assert_eq!(painted.text(true), "a\\x1b[2Jb\n\x1b[30;42mRR\x1b[0m");
    }

    #[test]
    fn long_documents_are_cleaned_piece_by_piece() {
        let text = "é\u{7f}x".repeat(50_000);
        let mut cleaned = CleanWriter::new(Vec::new());
        let mut output = BufWriter::with_capacity(7, &mut cleaned);
        for byte in serde_json::to_string(&text).unwrap().bytes() {
            output.write_all(&[byte]).unwrap();
        }
        output.flush().unwrap();
        drop(output);
        let printed = String::from_utf8(cleaned.output).unwrap();
        assert!(!printed.contains('\u{7f}'));
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
    }

    #[test]
    fn what_is_drawn_in_place_has_no_other_sequences_than_ours() {
        assert_eq!(drawn("a\x1b[2J\nb\n"), "\x1b[Ha\\x1b[2J\x1b[K\nb\x1b[K\n\x1b[J");
    }
}

//! IO: a private trace instance with the tracer in it, gone when it is dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::TracerError;
use super::line::{Line, parse};
use super::tracefs::{has_word, read, write};

/// The events that say who it was.
const EVENTS: [&str; 5] =
    ["sample_threshold", "nmi_noise", "irq_noise", "softirq_noise", "thread_noise"];
/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;
/// A line that is longer is none of the tracer's.
const LINE_MAX: usize = 64 * 1024;

/// The folder of an instance. Dropping it ends its tracing and removes it.
#[derive(Debug)]
struct TracefsInstance(PathBuf);

impl Drop for TracefsInstance {
    fn drop(&mut self) {
        // What is removed traces no more, even if it could not be stopped before.
        let _ = write(&self.0.join("current_tracer"), "nop");
        let _ = fs::remove_dir(&self.0);
    }
}

/// An instance in which the tracer does not run yet.
#[derive(Debug)]
pub struct Ready(TracefsInstance);

#[derive(Debug)]
pub struct Instance {
    /// First: while it is open, the tracer cannot be changed and the folder not be removed.
    pipe: File,
    folder: TracefsInstance,
    /// The begin of a line whose end was not read yet.
    rest: Vec<u8>,
}

impl Ready {
    /// Makes an instance that records the tracer's events by CLOCK_MONOTONIC.
    /// Errors: where tracefs does not let it; nothing is left behind.
    pub fn make(path: &Path) -> Result<Self, TracerError> {
        fs::create_dir(path).map_err(|reason| TracerError::File {
            doing: "make the trace instance",
            path: path.to_owned(),
            reason,
        })?;
        let folder = TracefsInstance(path.to_owned());
        if !has_word(&read(&path.join("available_tracers"))?, "osnoise") {
            return Err(TracerError::NoInstances);
        }
        write(&path.join("trace_clock"), "mono")?;
        for event in EVENTS {
            write(&path.join("events/osnoise").join(event).join("enable"), "1")?;
        }
        Ok(Self(folder))
    }

    /// Starts the tracer: from here on its threads run. Errors: where the kernel refuses it, for example because
    /// another one was faster; nothing is left behind.
    pub fn start(self) -> Result<Instance, TracerError> {
        let Self(folder) = self;
        write(&folder.0.join("current_tracer"), "osnoise")?;
        // Only now: the kernel refuses to change the tracer while the pipe is open.
        let path = folder.0.join("trace_pipe");
        let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let pipe = pipe.map_err(|reason| TracerError::File { doing: "read", path, reason })?;
        Ok(Instance { pipe, folder, rest: Vec::new() })
    }
}

impl Instance {
    pub fn path(&self) -> &Path {
        &self.folder.0
    }

    /// Whether it still records: the tracer switches it off when it is to stop.
    /// Errors: where tracefs cannot be read.
    pub fn is_on(&self) -> Result<bool, TracerError> {
        Ok(read(&self.path().join("tracing_on"))? != "0")
    }

    /// Takes the lines that are there, without waiting: the CPUs that record need not wake this reader.
    /// More may come as fast as they are read, so there is a limit.
    /// Errors: where they cannot be read.
    pub fn read(&mut self, limit: Duration, mut take: impl FnMut(Line)) -> Result<(), TracerError> {
        let mut piece = vec![0; PIECE];
        let begin = Instant::now();
        while begin.elapsed() < limit {
            match self.pipe.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => split(&mut self.rest, &piece[..length], &mut take),
                Err(reason) => match reason.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => {}
                    _ => {
                        let path = self.path().join("trace_pipe");
                        return Err(TracerError::File { doing: "read", path, reason });
                    }
                },
            }
        }
        Ok(())
    }
}

/// Hands on whole lines.
fn split(rest: &mut Vec<u8>, piece: &[u8], take: &mut impl FnMut(Line)) {
    let mut parts = piece.split(|byte| *byte == b'\n');
    // There is always one, that behind the last end of a line, which may be empty.
    let last = parts.next_back().unwrap_or_default();
    for part in parts {
        rest.extend_from_slice(part);
        if let Some(line) = parse(rest) {
            take(line);
        }
        rest.clear();
    }
    if rest.len() < LINE_MAX {
        rest.extend_from_slice(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"CPU:1 [LOST 3 EVENTS]\nnothing\nCPU:2 [LOST 4 EVENTS]\nCPU:3 [LOST 5 EV";
        for cut in 0..text.len() {
            let (mut rest, mut lines) = (Vec::new(), Vec::new());
            for piece in [&text[..cut], &text[cut..]] {
                split(&mut rest, piece, &mut |line| lines.push(line));
            }
            let expected = [Line::Lost { cpu: 1, entries: 3 }, Line::Lost { cpu: 2, entries: 4 }];
            assert_eq!(lines, expected, "{cut}");
            assert_eq!(rest, b"CPU:3 [LOST 5 EV");
        }
    }
}

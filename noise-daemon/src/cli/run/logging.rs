//! The log: to standard error, at a level that a reload can change.

#![allow(clippy::disallowed_methods, reason = "it asks what standard error is, and writes nothing")]

use std::fmt;
use std::io;

use nix::sys::stat::fstat;
use noise_command::terminal::Terminal;
use noise_text::clean::clean;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::config::LogLevel;

/// Longest value in a line, in bytes: what quotes a file or a peer may be as long as that is.
const MAX_VALUE_BYTES: usize = 8 << 10;

/// The level of the log that was started.
pub struct Log {
    filter: Handle<EnvFilter, Registry>,
    by_environment: bool,
}

impl Log {
    /// Logs to standard error: in colour on a terminal, without times to the journal, which has its own, and with
    /// the part that speaks from debug on.
    pub fn start(level: LogLevel) -> Self {
        let said = EnvFilter::try_from_default_env().ok();
        let by_environment = said.is_some();
        let filter = said.unwrap_or_else(|| EnvFilter::new(level.filter()));
        let (filter, handle) = reload::Layer::new(filter);
        let colour = Terminal::of_errors().has_colours;
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(CleanFields)
            .with_writer(io::stderr)
            // It would be said on standard error, too, and end the thread where that takes nothing.
            .log_internal_errors(false)
            .with_ansi(colour)
            .with_target(level.is_detailed());
        let lines = if leads_to_journal() { lines.without_time().boxed() } else { lines.boxed() };
        // A second log in one process is none of the daemon's.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
        Self { filter: handle, by_environment }
    }

    /// Goes on at another level, unless the environment names one.
    pub fn set(&self, level: LogLevel) {
        if self.by_environment {
            return;
        }
        if let Err(error) = self.filter.reload(EnvFilter::new(level.filter())) {
            tracing::warn!(%error, "cannot change the log level; keeping the previous one");
        }
    }
}

/// Whether standard error is the stream that the service manager connected to its journal.
fn leads_to_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr()).is_ok_and(|found| is_stream(&named, (found.st_dev, found.st_ino)))
}

/// Whether a stream is the one that `JOURNAL_STREAM` names, `DEVICE:INODE`.
fn is_stream(named: &str, (device, inode): (u64, u64)) -> bool {
    let Some((its_device, its_inode)) = named.split_once(':') else { return false };
    its_device.parse() == Ok(device) && its_inode.parse() == Ok(inode)
}

/// Writes the message and the fields of an event, which may quote names, files and peers: no line of
/// the log is forged, and none acts on the terminal or journal that shows it.
struct CleanFields;

impl<'writer> FormatFields<'writer> for CleanFields {
    fn format_fields<R: RecordFields>(
        &self,
        writer: Writer<'writer>,
        fields: R,
    ) -> Result<(), fmt::Error> {
        let mut line = LogLineVisitor { writer, is_first: true, outcome: Ok(()) };
        fields.record(&mut line);
        line.outcome
    }
}

struct LogLineVisitor<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    outcome: fmt::Result,
}

impl LogLineVisitor<'_> {
    fn write(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        let value = format!("{value:?}");
        let end = value.floor_char_boundary(MAX_VALUE_BYTES);
        let (value, rest) = value.split_at(end);
        let cut = if rest.is_empty() { "" } else { "…" };
        let value = clean(value);
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => write!(self.writer, "{value}{cut}"),
            (_, true) => write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}{cut}"),
            (_, false) => write!(self.writer, "{name}={value}{cut}"),
        }
    }
}

impl tracing::field::Visit for LogLineVisitor<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        // What a library of another log says of itself is no field.
        if self.outcome.is_ok() && !field.name().starts_with("log.") {
            self.outcome = self.write(field.name(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use noise_text::clean::corpus::NAMES;
    use noise_text::clean::is_harmful;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(colour: bool, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(CleanFields)
            .with_writer(move || writer.clone())
            .with_ansi(colour)
            .without_time();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn whatever_is_logged_is_one_line_that_acts_on_nothing() {
        for name in NAMES {
            let path = std::path::Path::new(name);
            let text = logged(false, || {
                let error = io::Error::other(*name);
                tracing::warn!(%error, text = name, path = %path.display(), ?error, "of {name}");
            });
            let line = text.strip_suffix('\n').unwrap();
            assert!(!line.contains(is_harmful), "{line:?}");
            let text = logged(true, || tracing::warn!("{name}: {name}"));
            let sequences = ["\x1b[33m", "\x1b[2m", "\x1b[0m"];
            let rest = sequences.into_iter().fold(text, |text, own| text.replace(own, ""));
            assert!(!rest.trim_end_matches('\n').contains(is_harmful), "{rest:?}");
        }
    }

    #[test]
    fn the_journal_is_known_by_its_stream() {
        assert!(is_stream("9:17", (9, 17)));
        // A child's own file, and other variables than the service manager's.
        for named in ["9:18", "8:17", "", "9", "9:", "x:17", "9:17:1"] {
            assert!(!is_stream(named, (9, 17)), "{named}");
        }
    }

    #[test]
    fn a_line_looks_as_others_of_its_kind() {
        let text = logged(false, || tracing::info!(a = 1, b = "x y", c = %"z", "said"));
        assert!(text.ends_with(": said a=1 b=\"x y\" c=z\n"), "{text}");
        let long = "x".repeat(10 * MAX_VALUE_BYTES);
        assert!(logged(false, || tracing::info!("{long}")).len() < MAX_VALUE_BYTES + 200);
    }
}

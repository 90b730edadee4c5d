//! `noised trace export`: a recording in the forms of others.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use noise_trace::clock::Clock;
use noise_trace::ctf::Reader;
use noise_trace::damage::Damage;
use noise_trace::export::Export;
use noise_trace::export::perfetto::Perfetto;
use noise_trace::export::tables::Tables;
use noise_trace::ftrace;
use noise_trace::record::{Recorded as _, Source};

use super::recording::Recording;
use super::report;
use super::span::Span;
use super::target::{Target, folder};
use crate::cli::{CommandError, interrupt, output};

/// What is ready is written in pieces of this length.
const PIECE_BYTES: usize = 64 << 10;
/// Standard output, in place of a file.
const STDOUT: &str = "-";

/// Arguments of `noised trace export`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true))]
pub struct ExportArgs {
    /// The recording: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Write trace packets, which ui.perfetto.dev and Perfetto's trace processor open.
    #[arg(long, value_name = "FILE", group = "form")]
    perfetto: Option<PathBuf>,
    /// Write tables into this folder: events.csv, states.csv, delays.csv, charges.csv.
    #[arg(long, value_name = "DIR", group = "form")]
    csv: Option<PathBuf>,
    /// Write one JSON object for each event, a line each; - is standard output.
    #[arg(long, value_name = "FILE", group = "form")]
    json_lines: Option<PathBuf>,
    #[command(flatten)]
    span: Span,
}

/// Where the forms go.
struct Targets {
    perfetto: Option<Target>,
    /// In the order of [`Tables::all`].
    tables: Vec<Target>,
    lines: Option<Target>,
}

/// Runs the command.
///
/// # Errors
/// See [`CommandError`].
pub fn run(args: &ExportArgs) -> Result<(), CommandError> {
    let recording = Recording::open(&args.recording)?;
    let interrupted = interrupt::flag()?;
    let (damage, left_out) = match &recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let begin_ns = || Reader::new(&ctf.layout, &files).first_ns().unwrap_or(0);
            let span = args.span.times_ns(begin_ns);
            let clock = ctf.layout.clocks.first().cloned().unwrap_or_else(Clock::epoch);
            let reader = Reader::new(&ctf.layout, &files);
            go(args, reader, span, export(args, &clock, &ctf.layout.env), &interrupted)?
        }
        Recording::Text(text) => {
            let begin_ns = || ftrace::Reader::new(text).next().map_or(0, |record| record.time_ns);
            let span = args.span.times_ns(begin_ns);
            let export = export(args, &Clock::trace(), &BTreeMap::new());
            go(args, ftrace::Reader::new(text), span, export, &interrupted)?
        }
    };
    report(&args.recording, &damage);
    if left_out > 0 {
        output::complain(&format!(
            "{left_out} events are not in the Perfetto file: Perfetto refuses CPUs above 1023"
        ));
    }
    Ok(())
}

fn export(args: &ExportArgs, clock: &Clock, environment: &BTreeMap<String, String>) -> Export {
    let mut export = Export::default();
    export.perfetto = args.perfetto.as_ref().map(|_| Perfetto::new(clock, environment));
    export.tables = args.csv.as_ref().map(|_| Tables::default());
    export.lines = args.json_lines.as_ref().map(|_| String::new());
    export
}

/// Goes over the events, and writes what they become. What could not be read, and events that are not in
/// the Perfetto file.
fn go<'t>(
    args: &ExportArgs,
    mut source: impl Source<'t>,
    span: (Option<u64>, Option<u64>),
    mut export: Export,
    interrupted: &AtomicBool,
) -> anyhow::Result<(Damage, u64)> {
    let (from_ns, to_ns) = span;
    let mut targets = Targets::create(args, &mut export)?;
    while let Some(record) = source.next() {
        if to_ns.is_some_and(|to_ns| record.time_ns() > to_ns) {
            break;
        }
        if from_ns.is_some_and(|from_ns| record.time_ns() < from_ns) {
            // Who runs, and who waits since when.
            export.pass(&record);
            continue;
        }
        export.add(&record);
        if !targets.write(&mut export, PIECE_BYTES)? {
            return Ok((Damage::default(), 0));
        }
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; no file was written");
        }
    }
    export.finish();
    targets.write(&mut export, 0)?;
    targets.keep()?;
    Ok((source.damage(), export.perfetto.map_or(0, |perfetto| perfetto.left_out())))
}

impl Targets {
    fn create(args: &ExportArgs, export: &mut Export) -> anyhow::Result<Self> {
        let mut tables = Vec::new();
        if let (Some(path), Some(wanted)) = (&args.csv, &mut export.tables) {
            refuse_inside(&args.recording, path)?;
            folder(path)?;
            for table in wanted.all() {
                tables.push(Target::create(&path.join(format!("{}.csv", table.name)))?);
            }
        }
        let create = |path: &PathBuf| {
            refuse_inside(&args.recording, path.parent().unwrap_or(Path::new("")))?;
            Target::create(path)
        };
        let file = args.json_lines.as_ref().filter(|path| path.as_os_str() != STDOUT);
        Ok(Self {
            perfetto: args.perfetto.as_ref().map(create).transpose()?,
            tables,
            lines: file.map(create).transpose()?,
        })
    }

    /// Writes what is at least so long; whether there is still a reader for more.
    fn write(&mut self, export: &mut Export, least_bytes: usize) -> anyhow::Result<bool> {
        if let (Some(target), Some(perfetto)) = (&mut self.perfetto, &mut export.perfetto) {
            let packets = perfetto.packets();
            if packets.bytes().len() >= least_bytes {
                target.write(packets.bytes())?;
                packets.clear();
            }
        }
        if let Some(tables) = &mut export.tables {
            for (target, table) in self.tables.iter_mut().zip(tables.all()) {
                if table.rows.len() >= least_bytes {
                    target.write(table.rows.as_bytes())?;
                    table.rows.clear();
                }
            }
        }
        let Some(lines) = export.lines.as_mut().filter(|lines| lines.len() >= least_bytes) else {
            return Ok(true);
        };
        match &mut self.lines {
            Some(target) => target.write(lines.as_bytes())?,
            None => match output::show_json(lines) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(false),
                shown => shown.context("cannot write the result")?,
            },
        }
        lines.clear();
        Ok(true)
    }

    /// Gives all files their names.
    fn keep(self) -> anyhow::Result<()> {
        let all = self.perfetto.into_iter().chain(self.tables).chain(self.lines);
        all.map(Target::keep).collect()
    }
}

/// A file in the folder of a recording would be taken for one of its streams.
fn refuse_inside(recording: &Path, folder: &Path) -> anyhow::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let is_of_recording = folder.join("metadata").is_file()
        || recording.canonicalize().is_ok_and(|recording| recording == folder);
    if is_of_recording {
        bail!(
            "{} is the folder of a recording, whose files are all taken for its streams; name another one",
            folder.display()
        );
    }
    Ok(())
}

//! `noised trace export`: writes a recording in the formats of other programs.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow, bail};
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstat, fstatat, stat};
use noise_command::{CommandError, interrupt, output};
use noise_system::output::{FILE_MODE, OutputPlace, OwnFolder, Spot, Target};
use noise_trace::clock::TraceClock;
use noise_trace::ctf::CtfReader;
use noise_trace::damage::Damage;
use noise_trace::delays::Begin;
use noise_trace::export::Export;
use noise_trace::export::perfetto::{Perfetto, packed};
use noise_trace::export::tables::Tables;
use noise_trace::record::Source;
use noise_trace::select::Select;

use super::part::RecordingOptions;
use super::recording::Recording;
use super::{NO_CGROUPS, report, report_nothing};

/// What is ready is written in pieces of this length; packets, which are compressed piece by piece, in longer ones.
const PIECE_BYTES: usize = 64 << 10;
pub const PACKED_BYTES: usize = 8 * PIECE_BYTES;
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
    part: RecordingOptions,
}

impl ExportArgs {
    /// Refuses standard output for what is no text, and one name for two forms.
    fn ensure_files(&self) -> Result<(), CommandError> {
        for (option, path) in [("--perfetto", &self.perfetto), ("--csv", &self.csv)] {
            path.as_deref().map(|path| refuse_stdout(option, path)).transpose()?;
        }
        let named = [&self.perfetto, &self.csv, &self.json_lines].map(Option::as_ref);
        let mut others = named.into_iter().flatten();
        while let Some(path) = others.next() {
            if others.clone().any(|other| other == path) {
                return Err(CommandError::misused(format!(
                    "{} is named for two forms, of which the last would replace the other: name one for each",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Whether a form goes to standard output.
    fn prints(&self) -> bool {
        self.json_lines.as_ref().is_some_and(|path| path.as_os_str() == STDOUT)
    }
}

struct Targets {
    perfetto: Option<Target>,
    /// In the order of [`Tables::all`].
    tables: Vec<Target>,
    lines: Option<Target>,
    /// Prints lines that have no file.
    print: fn(&str) -> io::Result<()>,
}

pub fn run(args: &ExportArgs) -> Result<(), CommandError> {
    args.ensure_files()?;
    let recording = Recording::open(&args.recording)?;
    let interrupted = interrupt::flag()?;
    let select = args.part.select(|| recording.first_ns());
    let is_part = select.is_part();
    let (damage, left_out) = match &recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let clock = ctf.layout.clocks.first().cloned().unwrap_or_else(TraceClock::epoch);
            let reader = CtfReader::new(&ctf.layout, &files);
            go(
                args,
                recording.shown(reader, args.prints()),
                export(args, select, ctf.begin(), &clock, &ctf.layout.env),
                is_part,
                &interrupted,
            )?
        }
        Recording::Text(text) => {
            let export = export(args, select, text.begin(), &TraceClock::trace(), &BTreeMap::new());
            go(args, recording.shown(text.reader(), args.prints()), export, is_part, &interrupted)?
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

fn export(
    args: &ExportArgs,
    select: Select,
    begin: Begin,
    clock: &TraceClock,
    environment: &BTreeMap<String, String>,
) -> Export {
    let perfetto = args.perfetto.as_ref().map(|_| Perfetto::new(clock, environment));
    let tables = args.csv.as_ref().map(|_| Tables::default());
    Export::new(select, begin, perfetto, tables, args.json_lines.is_some())
}

/// Goes over the events, and writes what they become. What could not be read, and events that are not in
/// the Perfetto file.
fn go(
    args: &ExportArgs,
    source: impl Source,
    mut export: Export,
    is_part: bool,
    interrupted: &AtomicBool,
) -> anyhow::Result<(Damage, u64)> {
    let folder = args.csv.as_deref().map(folder).transpose()?;
    let targets = Targets::create(args, folder.as_ref(), &mut export);
    let done =
        targets.and_then(|targets| write_to(args, targets, source, export, is_part, interrupted));
    if let (Err(_), Some(folder)) = (&done, folder) {
        let _ = folder.discard();
    }
    done
}

fn write_to(
    args: &ExportArgs,
    mut targets: Targets,
    mut source: impl Source,
    mut export: Export,
    is_part: bool,
    interrupted: &AtomicBool,
) -> anyhow::Result<(Damage, u64)> {
    let mut is_empty = true;
    while let Some(record) = source.read() {
        if export.is_over(record.time_ns) {
            break;
        }
        let is_wanted = export.add(&record)?;
        is_empty &= record.loss().is_some() || !is_wanted;
        if !targets.write(&mut export, (PIECE_BYTES, PACKED_BYTES))? {
            return Ok((Damage::default(), 0));
        }
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; no file was written");
        }
    }
    if export.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    let damage = source.damage();
    if is_empty {
        report_nothing(&args.recording, is_part, || report(&args.recording, &damage))?;
    }
    export.finish();
    targets.write(&mut export, (1, 1))?;
    targets.keep()?;
    Ok((damage, export.perfetto.map_or(0, |perfetto| perfetto.left_out())))
}

impl Targets {
    fn create(
        args: &ExportArgs,
        folder: Option<&OwnFolder>,
        export: &mut Export,
    ) -> anyhow::Result<Self> {
        let mut tables = Vec::new();
        if let (Some(folder), Some(wanted)) = (folder, &mut export.tables) {
            refuse_inside(&args.recording, folder, folder.path())?;
            for table in wanted.all() {
                let place = place_in(folder, &format!("{}.csv", table.name))?;
                tables.push(place.begin(FILE_MODE)?);
            }
        }
        let create = |path: &PathBuf| -> anyhow::Result<Target> {
            let place = output::place(path)?;
            refuse_inside(&args.recording, &place, path.parent().unwrap_or(path))?;
            Ok(place.begin(FILE_MODE)?)
        };
        let file = args.json_lines.as_ref().filter(|path| path.as_os_str() != STDOUT);
        Ok(Self {
            perfetto: args.perfetto.as_ref().map(create).transpose()?,
            tables,
            lines: file.map(create).transpose()?,
            print: output::show_json,
        })
    }

    /// Writes what is at least so long; whether anything is still to be written. Who has read enough lines ends them,
    /// and no file.
    fn write(
        &mut self,
        export: &mut Export,
        (least_bytes, least_packed): (usize, usize),
    ) -> anyhow::Result<bool> {
        if let (Some(target), Some(perfetto)) = (&mut self.perfetto, &mut export.perfetto) {
            let packets = perfetto.packets();
            if packets.bytes().len() >= least_packed {
                target.write(&packed(packets)?)?;
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
            None => match (self.print)(lines) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    export.lines = None;
                    return Ok(export.perfetto.is_some() || export.tables.is_some());
                }
                shown => shown.context("cannot write the result")?,
            },
        }
        lines.clear();
        Ok(true)
    }

    /// Gives all files their names.
    fn keep(self) -> anyhow::Result<()> {
        let mut all = self.perfetto.into_iter().chain(self.tables).chain(self.lines);
        Ok(all.try_for_each(Target::keep)?)
    }
}

/// A folder for several files, which is made where there is none.
/// Errors: where it cannot be made, or is not the caller's alone.
pub fn folder(path: &Path) -> anyhow::Result<OwnFolder> {
    let found = Spot::find(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => anyhow!(
            "cannot write into {} ({error}): name a folder of your own that nobody else may write to, or one that does \
             not exist yet",
            path.display()
        ),
        _ => anyhow!("cannot make the folder {}: {error}", path.display()),
    })?;
    found.make().with_context(|| format!("cannot make the folder {}", path.display()))
}

/// Where one of several files is to be.
/// Errors: where it cannot be there.
pub fn place_in(folder: &OwnFolder, name: &str) -> anyhow::Result<OutputPlace> {
    folder
        .place(name)
        .with_context(|| format!("cannot write {}", folder.path().join(name).display()))
}

/// Refuses standard output for what is no text.
/// Errors: where an option names it.
pub fn refuse_stdout(option: &str, path: &Path) -> Result<(), CommandError> {
    if path.as_os_str() == STDOUT {
        let what = if option == "--csv" { "folder" } else { "file" };
        return Err(CommandError::misused(format!(
            "{option} does not write to standard output: name a {what}"
        )));
    }
    Ok(())
}

/// A file in the folder of a recording would be taken for one of its streams.
/// Errors: where that is such a folder.
pub fn refuse_inside(recording: &Path, opened: &impl AsFd, folder: &Path) -> anyhow::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let metadata = fstatat(opened, "metadata", AtFlags::AT_SYMLINK_NOFOLLOW);
    let is_of_recording = metadata
        .is_ok_and(|found| found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits())
        || fstat(opened).ok().zip(stat(recording).ok()).is_some_and(|(folder, recording)| {
            (folder.st_dev, folder.st_ino) == (recording.st_dev, recording.st_ino)
        });
    if is_of_recording {
        bail!(
            "{} is the folder of a recording, whose files are all taken for its streams; name another one",
            folder.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use noise_command::fixtures::parsed;

    use super::*;
    use crate::sampled::unpacked;

    const TEXT: &str = "\
 a-11 [001] d.... 10.000000: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 10.000010: sched_wakeup: comm=a,\"b pid=11 prio=120 target_cpu=001
 b-12 [001] d.... 10.000030: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=a,\"b next_pid=11 next_prio=120
";

    fn export(folder: &Path, options: &[&str]) -> Result<(), CommandError> {
        let recording = folder.join("trace");
        if !recording.exists() {
            fs::write(&recording, TEXT).unwrap();
        }
        let mut words = vec![recording.display().to_string()];
        words.extend(options.iter().map(|word| word.replace("DIR", &folder.display().to_string())));
        run(&parsed(words).unwrap())
    }

    #[test]
    fn all_forms_are_written_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--perfetto=DIR/p", "--csv=DIR/t", "--json-lines=DIR/l"];
        export(folder.path(), &options).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("l").lines().count(), 3);
        assert_eq!(
            read("t/states.csv").lines().skip(1).collect::<Vec<_>>(),
            [
                r#"11,"a,""b",blocked,1,10000000000,10000010000,10000,true"#,
                "12,b,running,1,10000000000,10000030000,30000,true",
                r#"11,"a,""b",wakeup,1,10000010000,10000030000,20000,true"#,
                r#"11,"a,""b",running,1,10000030000,10000030000,0,false"#,
                "12,b,preempt,1,10000030000,10000030000,0,false",
            ]
        );
        assert!(fs::metadata(folder.path().join("p")).unwrap().len() > 100);
        for name in ["p", "l", "t/events.csv", "t/delays.csv", "t/charges.csv"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        export(folder.path(), &["--json-lines=DIR/l", "--from=+10us", "--to=+10us"]).unwrap();
        assert_eq!(read("l").lines().count(), 1);
    }

    #[test]
    fn a_recording_is_not_written_into() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("metadata"), "").unwrap();
        for options in ["--csv=DIR", "--perfetto=DIR/p", "--json-lines=DIR/l"] {
            let error = export(folder.path(), &[options]).unwrap_err().to_string();
            assert!(error.contains("is the folder of a recording"), "{options}: {error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_recording_without_cgroups_has_no_part_by_cgroup() {
        let folder = tempfile::tempdir().unwrap();
        let error = export(folder.path(), &["--csv=DIR/t", "--cgroup=a"]).unwrap_err().to_string();
        assert!(error.contains("does not say which cgroups"), "{error}");
        assert!(!folder.path().join("t").exists());
    }

    #[test]
    fn files_are_whole_though_nobody_reads_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let written = |options: &[&str]| {
            let words = options
                .iter()
                .map(|word| word.replace("DIR", &folder.path().display().to_string()));
            let words = ["trace", "--json-lines=-"].map(str::to_owned).into_iter().chain(words);
            let args: ExportArgs = parsed(words).unwrap();
            // The recording is longer than a piece, so that its reader goes in the middle.
            let text = TEXT.repeat(1_000);
            let source = noise_trace::ftrace::FtraceReader::new(text.as_bytes());
            let select = args.part.select(|| 0);
            let clock = TraceClock::trace();
            let mut export = super::export(&args, select, Begin::Wakeup, &clock, &BTreeMap::new());
            let print = |_: &str| Err(ErrorKind::BrokenPipe.into());
            let csv = args.csv.as_deref().map(|path| super::folder(path).unwrap());
            let targets = Targets::create(&args, csv.as_ref(), &mut export).unwrap();
            let targets = Targets { print, ..targets };
            write_to(&args, targets, source, export, false, &AtomicBool::new(false)).unwrap();
        };
        written(&["--perfetto=DIR/p", "--csv=DIR/t"]);
        let events = fs::read_to_string(folder.path().join("t/events.csv")).unwrap();
        assert_eq!(events.lines().count(), 1 + 3_000);
        let file = fs::read(folder.path().join("p")).unwrap();
        let packets = unpacked(&file);
        assert!(packets.len() > 10_000 && file.len() < packets.len() / 2, "{}", file.len());
        written(&[]);
    }

    #[test]
    fn one_name_is_for_one_form() {
        let folder = tempfile::tempdir().unwrap();
        let error = export(folder.path(), &["--perfetto=DIR/p", "--json-lines=DIR/p"]).unwrap_err();
        assert_eq!(error.exit, noise_command::Exit::Usage);
        assert!(error.to_string().contains("named for two forms"), "{error}");
    }

    #[test]
    fn only_lines_go_to_standard_output() {
        let folder = tempfile::tempdir().unwrap();
        for options in ["--perfetto=-", "--csv=-"] {
            let error = export(folder.path(), &[options]).unwrap_err();
            assert_eq!(error.exit, noise_command::Exit::Usage);
            assert!(error.to_string().contains("standard output"), "{error}");
        }
    }

    #[test]
    fn a_form_must_be_named() {
        let error = parsed::<ExportArgs>(["trace"]).unwrap_err().to_string();
        assert!(error.contains("--perfetto"), "{error}");
    }
}

//! `noised trace critical-path`: what executions in a recording really waited for.

pub mod picture;
mod segments;

use std::path::{Path, PathBuf};

use noise_command::CommandError;
use noise_command::output::{self, Painted};
use noise_pages::critical_path::{beside, page};
use noise_pages::width::columns;
use noise_paths::document::PathsDocument;
use noise_trace::damage::Damage;
use serde::Serialize;

use self::picture::Picture;
use super::asked::Asking;
use super::export::refuse_stdout;
use super::found::found;
use super::recording::Recording;
use super::several;

/// Arguments of `noised trace critical-path`.
#[derive(Debug, clap::Args)]
pub struct CriticalPathArgs {
    /// The recording: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// A recording of another machine at the same time, with which the first one exchanged packets: paths go on in it. Both
    /// need headers of packets, as LTTng records them; they also say how far the clocks are apart. May be given several
    /// times.
    #[arg(long = "with", value_name = "RECORDING", conflicts_with = "perfetto")]
    others: Vec<PathBuf>,
    /// Another recording of the same work, usually one in which nothing disturbed it: its path stands beside that of the first
    /// one, with what is longer and for whom. What else is asked for holds for both.
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["perfetto", "others"])]
    against: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write the paths as trace packets, which ui.perfetto.dev opens: a track for each thread of a path, with an
    /// arrow wherever it goes on with another one; below them what these threads did meanwhile, and all switches.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Also write the parts of the paths, and for whom they wait, as tables into this folder: segments.csv, culprits.csv.
    #[arg(long, value_name = "DIR", conflicts_with = "against")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

pub fn run(args: &CriticalPathArgs) -> Result<(), CommandError> {
    let path = args.recording.as_path();
    args.csv.as_deref().map(|folder| refuse_stdout("--csv", folder)).transpose()?;
    let recording = Recording::open(path)?;
    let one = |path: &Path,
               recording: &Recording|
     -> Result<(PathsDocument, Vec<Damage>), CommandError> {
        let picture = args.perfetto.as_deref().map(|to| Picture::begin(path, to)).transpose()?;
        Ok(found(&args.asking, recording, &args.others, picture)?)
    };
    let Some(other_path) = &args.against else {
        let (document, damages) = one(path, &recording)?;
        if let Some(folder) = &args.csv {
            segments::write(path, folder, &document)?;
        }
        print(args, &document, || page(&document, columns()))?;
        several::report(path, &args.others, &damages);
        return Ok(());
    };
    let other = Recording::open(other_path)?;
    let one = |path: &Path, recording: &Recording| {
        one(path, recording).map_err(|error| error.context(path.display().to_string()))
    };
    let (document, damages) = one(path, &recording)?;
    let (against, other_damages) = one(other_path, &other)?;
    let both = beside::BesideDocument::new(document, against);
    print(args, &both, || beside::page(&both, [path, other_path], columns()))?;
    several::report(path, &[], &damages);
    several::report(other_path, &[], &other_damages);
    Ok(())
}

fn print(
    args: &CriticalPathArgs,
    document: &impl Serialize,
    page: impl FnOnce() -> Painted,
) -> Result<(), CommandError> {
    match args.json {
        true => output::print_document(document)?,
        false => output::print_painted(&page())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use noise_command::fixtures::parsed;

    use super::*;
    use crate::sampled::with_unread_lines;

    #[test]
    fn lines_that_were_not_read_are_said() {
        const SENTENCE: &str = "10 of 20 lines cannot be read as events: figures may be far off\n";
        let folder = with_unread_lines(1);
        let path = folder.path().join("text");
        let words = [path.to_str().unwrap(), "--execution", "thread:91"];
        let args: CriticalPathArgs = parsed(words).unwrap();
        let recording = Recording::open(&path).unwrap();
        let (document, _) = found(&args.asking, &recording, &[], None).unwrap();
        let page = page(&document, 120).text(false);
        assert!(page.starts_with(SENTENCE), "{page}");
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["unread_lines"], serde_json::json!({"unread": 10, "of": 20}));
        let both = beside::BesideDocument::new(document, PathsDocument::default());
        let page = beside::page(&both, [&path, Path::new("other")], 120).text(false);
        assert!(page.starts_with(&format!("text: {SENTENCE}")), "{page}");
        assert!(Recording::open(&with_unread_lines(2).path().join("text")).is_err());
        let all = Recording::open(&with_unread_lines(0).path().join("text")).unwrap();
        let (document, _) = found(&args.asking, &all, &[], None).unwrap();
        assert_eq!(serde_json::to_value(&document).unwrap().get("unread_lines"), None);
    }
}

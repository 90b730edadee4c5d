//! What analyses of a recording have in common: they follow it from its begin on, and count the part that is wanted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use noise_command::{CommandError, output};
use noise_trace::damage::Damage;
use noise_trace::delays::Delays;
use noise_trace::event::Event;
use noise_trace::record::Source;
use noise_trace::select::Select;
use noise_trace::states::StatesOfThreads;
use serde::Serialize;

use super::part::RecordingOptions;
use super::{NO_CGROUPS, report, report_nothing};

/// Arguments of a command that analyses a recording.
#[derive(Debug, clap::Args)]
pub struct AnalysisArgs {
    /// The recording: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace.
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub part: RecordingOptions,
}

/// What takes the events of a recording, in the order of time.
pub trait Analysis {
    /// Takes the next event.
    fn follow(&mut self, event: &Event<'_>);
    /// Counts from now on only.
    fn begin(&mut self, from_ns: u64);
}

impl Analysis for Delays {
    fn follow(&mut self, event: &Event<'_>) {
        Self::follow(self, event);
    }

    fn begin(&mut self, from_ns: u64) {
        Self::begin(self, from_ns);
    }
}

impl Analysis for StatesOfThreads {
    fn follow(&mut self, event: &Event<'_>) {
        Self::follow(self, event);
    }

    fn begin(&mut self, from_ns: u64) {
        Self::begin(self, from_ns);
    }
}

/// What there was beside figures.
pub struct AnalysedPart {
    /// What could not be read.
    pub damage: Damage,
    /// Not a single event was wanted.
    pub is_empty: bool,
    /// Not all events were wanted.
    pub is_part: bool,
    /// Threads that are wanted, where not all are.
    wanted: Option<BTreeSet<i32>>,
}

impl AnalysedPart {
    pub fn wants(&self, tid: i32) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&tid))
    }
}

/// Threads and CPUs are followed from the begin on, so that the part that is wanted begins with what was under way.
pub fn analyse(
    mut source: impl Source,
    analysis: &mut impl Analysis,
    mut select: Select,
) -> anyhow::Result<AnalysedPart> {
    let is_part = select.is_part();
    let mut is_empty = true;
    let mut wanted = BTreeSet::new();
    let mut from_ns = select.from_ns;
    while let Some(record) = source.read() {
        if from_ns.is_some_and(|from_ns| record.time_ns >= from_ns) {
            analysis.begin(from_ns.take().unwrap_or_default());
        }
        if select.is_over(record.time_ns) {
            break;
        }
        is_empty &= from_ns.is_some();
        let event = record.event();
        if select.follows() {
            select.note(&event, &mut wanted);
        }
        analysis.follow(&event);
    }
    if let Some(from_ns) = from_ns {
        analysis.begin(from_ns);
    }
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    is_empty |= select.follows() && wanted.is_empty();
    let wanted = select.follows().then_some(wanted);
    Ok(AnalysedPart { damage: source.damage(), is_empty, is_part, wanted })
}

/// Prints a document as JSON or as a page, and says on standard error what was not there.
pub fn print_analysis<D: Serialize>(
    recording: &Path,
    is_json: bool,
    document: &D,
    page: impl FnOnce(&D) -> String,
    found: &AnalysedPart,
) -> Result<(), CommandError> {
    match is_json {
        true => {
            let json = serde_json::to_string_pretty(document).map_err(anyhow::Error::from)?;
            output::print_json(&(json + "\n"))?;
        }
        false => output::print(&page(document))?,
    }
    if found.is_empty {
        report_nothing(recording, found.is_part);
    }
    report(recording, &found.damage);
    Ok(())
}

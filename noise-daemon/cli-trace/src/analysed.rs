//! What commands that analyse a recording have in common: see [`Analysis`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use noise_command::{CommandError, output};
use noise_trace::analysis::Analysis;
use noise_trace::crowd::Crowd;
use noise_trace::ctf::CtfReader;
use noise_trace::damage::Damage;
use noise_trace::follow::Begin;
use noise_trace::ftrace::UnreadLines;
use noise_trace::record::Source;
use noise_trace::select::Select;
use serde::Serialize;

use super::part::RecordingOptions;
use super::recording::Recording;
use super::{NO_CGROUPS, WithUnread, report, report_nothing};

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

/// Analyses the recording, and prints the document as JSON or as a page.
pub fn run<A: Analysis>(
    args: &AnalysisArgs,
    page: impl FnOnce(&A::Document) -> String,
) -> Result<(), CommandError> {
    let recording = Recording::open(&args.recording)?;
    let select = args.part.select(|| recording.first_ns());
    let (document, found) = match &recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let source = recording.shown(CtfReader::new(&ctf.layout, &files), false);
            analyse::<A>(source, ctf.begin(), select, None)?
        }
        Recording::Text(text) => {
            let source = recording.shown(text.reader(), false);
            analyse::<A>(source, text.begin(), select, text.unread_lines())?
        }
    };
    print_analysis(&args.recording, args.json, &document, page, &found)
}

/// What there was beside figures.
pub struct AnalysedPart {
    pub damage: Damage,
    /// Not a single event was wanted.
    pub is_empty: bool,
    pub is_part: bool,
    /// Threads that are wanted, where not all are.
    wanted: Option<BTreeSet<i32>>,
}

impl AnalysedPart {
    fn wants(&self, tid: i32) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&tid))
    }
}

/// Threads and CPUs are followed from the begin on, so that the part that is wanted begins with what was under way.
pub fn analyse<A: Analysis>(
    mut source: impl Source,
    begin: Begin,
    mut select: Select,
    unread_lines: Option<UnreadLines>,
) -> anyhow::Result<(A::Document, AnalysedPart)> {
    let mut analysis = A::new(begin);
    let is_part = select.is_part();
    let mut is_empty = true;
    let mut from_ns = select.from_ns;
    let (mut wanted, mut crowd) = (BTreeSet::new(), Crowd::since(from_ns));
    while let Some(record) = source.read() {
        if from_ns.is_some_and(|from_ns| record.time_ns >= from_ns) {
            analysis.begin(from_ns.take().unwrap_or_default());
        }
        if select.is_over(record.time_ns) {
            break;
        }
        is_empty &= from_ns.is_some() || record.loss().is_some();
        let event = record.event();
        let ended = crowd.follow(0, &event)?;
        if select.follows() {
            select.note(&event, &mut wanted);
        }
        analysis.follow(&event);
        if let Some(tid) = ended {
            analysis.forget(tid);
        }
    }
    if let Some(from_ns) = from_ns {
        analysis.begin(from_ns);
    }
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    is_empty |= select.follows() && wanted.is_empty();
    let wanted = select.follows().then_some(wanted);
    let found = AnalysedPart { damage: source.damage(), is_empty, is_part, wanted };
    Ok((analysis.finish(|tid| found.wants(tid), unread_lines), found))
}

/// Prints a document as JSON or as a page, and says on standard error what was not there.
fn print_analysis<D: Serialize>(
    recording: &Path,
    is_json: bool,
    document: &D,
    page: impl FnOnce(&D) -> String,
    found: &AnalysedPart,
) -> Result<(), CommandError> {
    if found.is_empty {
        report_nothing(recording, found.is_part, || report(recording, &found.damage))?;
    }
    match is_json {
        true => output::print_document(&WithUnread::new(document, &found.damage))?,
        false => output::print(&page(document))?,
    }
    report(recording, &found.damage);
    Ok(())
}

#[cfg(test)]
mod tests {
    use noise_trace::delays::Delays;
    use noise_trace::event::TraceKind;
    use noise_trace::fixtures::{MadeEvent, MadeRecording, switch, task, wakeup};
    use noise_trace::states::StatesOfThreads;

    use super::*;

    const EXITS: i64 = 0x20;

    /// Two threads that stay, and so many that are there one after the other, with ids that come again.
    fn recording(count: i32) -> Vec<(u64, MadeEvent)> {
        let of = |number: i32| {
            let (at_ns, tid) = (1_000 + 100 * number.unsigned_abs() as u64, 10 + number % 7);
            let kinds = [
                wakeup(tid, 0),
                switch(1, 0, tid),
                wakeup(2, 0),
                switch(tid, 0, 2),
                switch(2, 1, tid),
                TraceKind::SchedProcessExit(task(tid)),
                switch(tid, EXITS, 1),
                TraceKind::SchedProcessFree(task(tid)),
            ];
            (at_ns..).step_by(10).zip(kinds.map(|kind| MadeEvent::new("", kind)))
        };
        (0..count).flat_map(of).collect()
    }

    fn same_without_what_ended_before<A: Analysis>() {
        let events = recording(40);
        for from_ns in (900..5_100).step_by(10) {
            let select = Select { from_ns: Some(from_ns), ..Select::default() };
            let source = MadeRecording::new(events.clone());
            let (found, _) = analyse::<A>(source, Begin::Wakeup, select, None).unwrap();
            let mut whole = A::new(Begin::Wakeup);
            let mut source = MadeRecording::new(events.clone());
            let mut has_begun = false;
            while let Some(record) = source.read() {
                if !has_begun && record.time_ns >= from_ns {
                    whole.begin(from_ns);
                    has_begun = true;
                }
                whole.follow(&record.event());
            }
            if !has_begun {
                whole.begin(from_ns);
            }
            let shown = |document: &A::Document| serde_json::to_value(document).unwrap();
            assert_eq!(shown(&found), shown(&whole.finish(|_| true, None)), "{from_ns}");
        }
    }

    #[test]
    fn what_ended_before_the_part_changes_nothing_in_it() {
        same_without_what_ended_before::<Delays>();
        same_without_what_ended_before::<StatesOfThreads>();
    }
}

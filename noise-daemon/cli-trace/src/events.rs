//! `noised trace events`: the events of a recording, or how many there are of each.

mod missing;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use jiff::tz::TimeZone;
use noise_command::{CommandError, output};
use noise_text::times::zone_of_recording;
use noise_trace::clock::TraceClock;
use noise_trace::crowd::Crowd;
use noise_trace::ctf::CtfReader;
use noise_trace::damage::Damage;
use noise_trace::json;
use noise_trace::reach::Reach;
use noise_trace::record::{Record, Source, Stored};
use noise_trace::select::Select;
use noise_trace::summary::TraceSummary;
use noise_trace::text::TextLines;

use self::missing::{losses, unpaired};
use super::part::RecordingOptions;
use super::recording::Recording;
use super::{NO_CGROUPS, report, report_nothing};

/// Text is handed on in pieces of this length.
const PIECE_BYTES: usize = 64 << 10;

/// Arguments of `noised trace events`.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// The recording: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace
    /// (/sys/kernel/tracing/trace, `trace-cmd report`).
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Count events by name and by CPU instead of printing them.
    #[arg(long)]
    summary: bool,
    /// Print JSON: one line for each event, one document with --summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    part: RecordingOptions,
}

pub fn run(args: &EventsArgs) -> Result<(), CommandError> {
    let recording = Recording::open(&args.recording)?;
    let (damage, reach) = match &recording {
        Recording::Ctf(ctf) => {
            let files = ctf.streams();
            let begin_ns = || recording.first_ns();
            let select = args.part.select(begin_ns);
            // Threads are followed from the begin on.
            let from_ns = select.from_ns.filter(|_| !select.follows()).unwrap_or(0);
            let reader = CtfReader::from(&ctf.layout, &files, from_ns);
            let clock = ctf.layout.clocks.first().cloned().unwrap_or_else(TraceClock::epoch);
            let summary = TraceSummary::new(&clock, ctf.layout.env.clone());
            go(args, &recording, recording.shown(reader, !args.summary), select, summary)?
        }
        Recording::Text(text) => {
            let begin_ns = || recording.first_ns();
            let mut summary = TraceSummary::new(&TraceClock::trace(), BTreeMap::new());
            summary.unread_lines = text.unread_lines();
            go(
                args,
                &recording,
                recording.shown(text.reader(), !args.summary),
                args.part.select(begin_ns),
                summary,
            )?
        }
    };
    report(&args.recording, &damage);
    if !reach.is_whole() {
        output::complain(&format!("{}: {reach}", args.recording.display()));
    }
    Ok(())
}

/// Goes over the events. What could not be read, and where the events that are printed do not say how far CPUs are known,
/// that as well: their summary does.
fn go(
    args: &EventsArgs,
    recording: &Recording,
    mut source: impl Source,
    mut select: Select,
    mut summary: TraceSummary,
) -> anyhow::Result<(Damage, Reach)> {
    let selects = select.is_part();
    let (mut is_empty, mut crowd) = (true, Crowd::alive());
    summary.begin(select.from_ns.unwrap_or(0));
    // What lies before the part may be passed over unread.
    let mut reach =
        select.from_ns.map_or_else(Reach::default, |_| Reach::since(recording.first_ns()));
    let mut text = None;
    let lines = |summary: &TraceSummary| {
        let begin_ns = recording.first_ns();
        let host = summary.environment.get("hostname").map_or("", String::as_str);
        TextLines::new(host).since(begin_ns, zone_of_recording(begin_ns, &TimeZone::system()))
    };
    let mut piece = String::with_capacity(PIECE_BYTES + 4096);
    while let Some(record) = source.read() {
        // A summary of all of it follows that itself.
        if !args.summary || selects {
            reach.follow(record.time_ns, record.cpu, record.loss().as_ref());
        }
        if selects {
            if select.is_over(record.time_ns) {
                break;
            }
            if select.follows() {
                crowd.follow(0, &record.event())?;
            }
            if !wants(&mut select, &record, args.summary) {
                if args.summary {
                    summary.pass(&record.event());
                }
                continue;
            }
        }
        is_empty &= record.loss().is_some();
        match (args.summary, args.json) {
            (true, _) => summary.add(&record),
            (false, false) => {
                let text = text.get_or_insert_with(|| lines(&summary));
                text.write(&record, &mut piece);
            }
            (false, true) => json::line(&record, &mut piece),
        }
        if piece.len() >= PIECE_BYTES && !hand_on(args, &mut piece)? {
            return Ok((Damage::default(), Reach::default()));
        }
    }
    let damage = source.damage();
    if select.lacks_cgroups() {
        bail!(NO_CGROUPS);
    }
    // It takes its line away before the result is printed.
    drop(source);
    if is_empty {
        report_nothing(&args.recording, selects, || report(&args.recording, &damage))?;
    }
    reach.begin(select.from_ns.unwrap_or(0));
    if args.summary && selects {
        summary.reach = std::mem::take(&mut reach);
    }
    match (args.summary, args.json) {
        (true, true) => {
            summary.finish(&damage);
            output::print_document(&summary)?;
        }
        (true, false) => {
            summary.finish(&damage);
            output::print(&page(&summary, recording.first_ns()))?;
        }
        (false, _) => {
            hand_on(args, &mut piece)?;
        }
    }
    Ok((damage, reach))
}

/// Whether a record is wanted. Where events are counted, so is what was lost since before the begin: it may have come
/// behind that.
fn wants<'t>(select: &mut Select, record: &Record<impl Stored<'t>>, counts: bool) -> bool {
    let from_ns = select.from_ns.unwrap_or(0);
    let is_under_way = record.loss().is_some_and(|loss| loss.to_ns > from_ns);
    select.wants(&record.event()) || (counts && is_under_way)
}

/// Prints a piece; whether there is still a reader for more.
fn hand_on(args: &EventsArgs, piece: &mut String) -> anyhow::Result<bool> {
    let shown = if args.json { output::show_json(piece) } else { output::show(piece) };
    piece.clear();
    match shown {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        shown => shown.map(|()| true).context("cannot write the result"),
    }
}

/// The counts of a recording that begins then.
fn page(summary: &TraceSummary, begin_ns: u64) -> String {
    let mut page = String::new();
    let seconds = summary.to_ns.saturating_sub(summary.from_ns) as f64 / 1e9;
    page.push_str(&format!(
        "{} events of {} kinds on {} CPUs in {seconds:.6} s ({} .. {})\n",
        summary.count,
        summary.events.len(),
        summary.cpus.len(),
        summary.from_ns,
        summary.to_ns,
    ));
    page.push_str(&summary.reach.line());
    page.push_str(&losses(summary, begin_ns));
    page.push_str(&unpaired(&summary.unpaired_switches));
    if let Some(unread) = &summary.unread_lines {
        page.push_str(&format!("{unread}\n"));
    }
    page.push('\n');
    let mut events: Vec<_> = summary.events.iter().collect();
    events.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    for (name, count) in events {
        page.push_str(&format!("{count:>12}  {name}\n"));
    }
    page.push('\n');
    for (cpu, count) in &summary.cpus {
        page.push_str(&format!("{count:>12}  CPU {cpu}\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use jiff::Timestamp;
    use noise_text::times::Moment;
    use noise_trace::ftrace::FtraceReader;

    use super::*;
    use crate::sampled::{small, with_losses};

    #[test]
    fn counts_are_shown_as_agreed() {
        let folder = small();
        let Recording::Ctf(ctf) = Recording::open(folder.path()).unwrap() else { panic!("no CTF") };
        let mut summary = TraceSummary::new(&ctf.layout.clocks[0], ctf.layout.env.clone());
        let mut lines = String::new();
        let mut text = TextLines::new("host");
        let mut reader = CtfReader::new(&ctf.layout, &ctf.streams());
        while let Some(record) = reader.read() {
            summary.add(&record);
            text.write(&record, &mut lines);
            json::line(&record, &mut lines);
        }
        summary.finish(&Damage::default());
        let begin_ns = summary.from_ns;
        insta::assert_snapshot!(format!("{}\n{lines}", page(&summary, begin_ns)));
    }

    #[test]
    fn a_loss_under_way_at_the_begin_is_counted() {
        let folder = with_losses();
        let recording = Recording::open(&folder.path().join("text")).unwrap();
        let Recording::Text(text) = &recording else { panic!("no text") };
        for (from_ns, lost) in [(1_000_000_000, 8), (2_500_000_000, 8), (3_000_000_000, 3)] {
            let mut select = Select { from_ns: Some(from_ns), ..Select::default() };
            let mut summary = TraceSummary::new(&TraceClock::trace(), BTreeMap::new());
            let mut reader = text.reader();
            while let Some(record) = reader.read() {
                if wants(&mut select, &record, true) {
                    summary.add(&record);
                }
            }
            assert_eq!((summary.discarded, summary.from_ns >= from_ns), (lost, true));
        }
    }

    #[test]
    fn times_of_long_recordings_are_read_as_they_are_shown() {
        let mut text = String::new();
        for hours in [0, 11, 13, 30] {
            let second = 1_457_113_582 + hours * 3600;
            let _ = writeln!(
                text,
                " x-1 [000] d.h2. {second}.823600: irq_handler_exit: irq=3 ret=handled"
            );
        }
        let mut reader = FtraceReader::new(text.as_bytes());
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = Timestamp::now().to_zoned(zone.clone());
        let (mut lines, mut begin_ns) = (None, 0);
        let mut shown = Vec::new();
        while let Some(record) = reader.read() {
            let lines = lines.get_or_insert_with(|| {
                begin_ns = record.time_ns;
                TextLines::new("").since(begin_ns, zone.clone())
            });
            let mut line = String::new();
            lines.write(&record, &mut line);
            let time = line.split_inclusive(']').next().unwrap().to_owned();
            let read = Moment::of_recording(&time).unwrap().in_recording(begin_ns, &now);
            assert_eq!(read, record.time_ns, "{time}");
            shown.push(time);
        }
        assert_eq!(shown[0], "[18:46:22.823600000]");
        assert_eq!(shown[2], "[2016-03-05 07:46:22.823600000]");
    }
}

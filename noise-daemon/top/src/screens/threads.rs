//! The threads behind a victim and its culprits, as far as single long waits say.

use noise_analysis::{Process, Report, ReportedOutlier, Side, processes};
use noise_model::labels::{ROOT, spoken_briefly};

use super::cells;
use crate::{Block, History, Table, TableRow, Tone};

/// Those of an incident, victim by victim.
pub(super) fn of_report(report: &Report) -> impl Iterator<Item = Block> {
    report.processes.chunk_by(|one, other| one.victim == other.victim).filter_map(table)
}

/// Those of a victim, of the long waits that the daemon has.
pub(super) fn of_victim(history: &History, victim: &str) -> Option<Block> {
    let overview = &history.latest()?.overview;
    let outliers = overview.outliers.iter().map(|one| &**one);
    table(&processes(outliers, victim, &overview.commands))
}

/// Those of a culprit, where it had what that victim waited for; and of the victim.
pub(super) fn of_pair(history: &History, victim: &str, culprit: &str) -> Option<Block> {
    let overview = &history.latest()?.overview;
    let is_of_pair =
        |one: &&ReportedOutlier| one.wait.parts.iter().any(|part| *part.culprit == *culprit);
    let outliers = overview.outliers.iter().map(|one| &**one).filter(is_of_pair);
    let mut all = processes(outliers, victim, &overview.commands);
    all.retain(|one| one.side == Side::Victim || *one.of == *culprit);
    table(&all)
}

/// The one of the root cgroup that waited longest; nothing of another cgroup.
pub(super) fn first_victim(history: &History, victim: &str) -> Option<String> {
    first(history, Side::Victim, (victim, victim))
}

/// The one of the root cgroup that had what a victim waited for longest; nothing of another cgroup.
pub(super) fn first_culprit(history: &History, victim: &str, culprit: &str) -> Option<String> {
    first(history, Side::Culprit, (victim, culprit))
}

fn first(history: &History, side: Side, (victim, of): (&str, &str)) -> Option<String> {
    if of != ROOT {
        return None;
    }
    let overview = &history.latest()?.overview;
    let outliers = overview.outliers.iter().map(|one| &**one);
    let all = processes(outliers, victim, &overview.commands);
    all.iter().find(|one| one.side == side && *one.of == *of).map(Process::name)
}

fn table(all: &[Process]) -> Option<Block> {
    let row = |one: &Process| TableRow {
        key: format!("{:?} {} {} {}", one.side, one.of, one.pid, one.comm),
        cells: vec![
            cells::text(match one.side {
                Side::Culprit => "had the CPU",
                Side::Victim => "waited",
            }),
            cells::cgroup(&one.of),
            cells::text(one.name()),
            cells::duration(one.ns as f64),
            cells::count(one.waits),
            cells::text(one.command.as_deref().unwrap_or("unknown")),
        ],
        tone: match one.side {
            Side::Culprit => Tone::Plain,
            Side::Victim => Tone::Dim,
        },
    };
    let victim = all.first().and_then(|one| one.victim.as_deref());
    let whose = victim.map_or_else(String::new, |victim| format!(" of {}", spoken_briefly(victim)));
    let table = Table {
        title: format!("Threads, of single waits{whose} for a CPU that were long"),
        columns: vec![
            cells::names("it", "side", 11).help("Whether it waited, or had the CPU meanwhile."),
            cells::names("of", "of", 14).help("Its cgroup."),
            cells::names("thread", "thread", 16).help("Its name and number."),
            cells::numbers("time", "seconds", 9).help("For how long of these waits."),
            cells::numbers("waits", "waits", 6).help("In how many of them."),
            cells::names("command", "command", 16).grows().help(
                "Its command line, where that could be read and may be seen: over TCP only with a \
                 password or a certificate.",
            ),
        ],
        rows: all.iter().map(row).collect(),
        sorted_by: 3,
        empty: "".into(),
    };
    (!all.is_empty()).then_some(Block::Table(table))
}

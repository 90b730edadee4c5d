//! What is taken from each CPU, and how long tasks wait for it.

use std::collections::BTreeSet;

use noise_model::{Cpu, TAKERS, Taker, total};
use noise_text::joined::joined;
use noise_text::units;

use super::cells;
use super::recent::{Recent, empty};
use super::tally;
use crate::{Block, Cell, Column, History, Page, ScreenLook, Table, TableRow, Tone};

/// Key and name of the row of all CPUs together.
const ALL: &str = "all";

/// The column of one taker of CPU time.
#[derive(Clone, Copy, Debug)]
struct TakerColumn {
    title: &'static str,
    key: &'static str,
    help: &'static str,
}

const OTHERS: usize = Taker::Other as usize;

/// All of them, in the order of [`Taker`].
const WHO: [TakerColumn; TAKERS] = [
    TakerColumn {
        title: "irq",
        key: "hardirq_share",
        help: "Taken by handlers of device interrupts.",
    },
    TakerColumn { title: "softirq", key: "softirq_share", help: "Taken by softirqs." },
    TakerColumn { title: "nmi", key: "nmi_share", help: "Taken by NMIs." },
    TakerColumn {
        title: "vector",
        key: "vector_share",
        help: "Taken by x86 vectors: timer, calls of other CPUs.",
    },
    TakerColumn { title: "steal", key: "steal_share", help: "Taken by the hypervisor." },
    TakerColumn { title: "other", key: "other_share", help: "Taken by something else." },
];

/// One CPU, or all: what came in the time that is looked at.
#[derive(Clone, Debug, Default)]
struct Load {
    sum: Cpu,
    /// Share that was taken in each step, all together.
    trend: Vec<f64>,
}

impl Load {
    fn is_quiet(&self) -> bool {
        self.sum.all_taken_ns() == 0 && self.sum.waited_ns == 0
    }
}

/// The CPUs that are online, and others that something happened on; where the list of CPUs is
/// missing, those that the sample has.
fn cpus(history: &History, recent: &Recent<'_>) -> Vec<u32> {
    let Some(latest) = history.latest() else { return Vec::new() };
    let mut cpus: BTreeSet<u32> = latest.host.cpus.iter().copied().collect();
    if cpus.is_empty() {
        let sample = &latest.sample;
        cpus.extend(sample.interrupted.iter().map(|(cpu, _, _)| *cpu));
        cpus.extend(sample.waited.iter().chain(&sample.stolen).map(|(cpu, _)| *cpu));
    }
    cpus.extend(recent.steps.iter().flat_map(|step| &step.cpus).map(|came| came.cpu));
    cpus.into_iter().collect()
}

/// The loads of some CPUs, in their order.
fn loads(history: &History, recent: &Recent<'_>, cpus: &[u32]) -> Vec<Load> {
    let steps = history.steps().count();
    let mut loads = vec![Load { trend: vec![0.0; steps], ..Load::default() }; cpus.len()];
    for (index, step) in history.steps().enumerate() {
        let counts = step.end_ns > recent.from_ns;
        let known = loads.iter_mut().zip(cpus);
        for (load, came) in joined(known, &step.cpus, |(_, cpu), came| cpu.cmp(&&came.cpu)) {
            let Some((load, _)) = load else { continue };
            if let Some(value) = load.trend.get_mut(index) {
                *value = step.per_second(came.all_taken_ns() as f64 / 1e9);
            }
            if counts {
                load.sum.add(came);
            }
        }
    }
    loads
}

/// All together; what of time is a share stays one.
fn sum(loads: &[Load]) -> Load {
    let mut sum = Load::default();
    for load in loads {
        sum.trend.resize(load.trend.len(), 0.0);
        sum.sum.add(&load.sum);
        for (sum, value) in sum.trend.iter_mut().zip(&load.trend) {
            *sum += value / loads.len() as f64;
        }
    }
    sum
}

fn number_of_share(share: f64) -> Cell {
    Cell::Number { text: units::share(share), value: Some(share) }
}

/// How a CPU is kept apart.
fn mark(history: &History, cpu: u32) -> &'static str {
    let Some(latest) = history.latest() else { return "" };
    let among = |cpus: &[u32]| cpus.contains(&cpu);
    match (among(&latest.host.isolated), among(&latest.host.nohz_full)) {
        (true, true) => "iso nohz",
        (true, false) => "iso",
        (false, true) => "nohz",
        (false, false) => "",
    }
}

/// What a row says of a load of that many CPUs.
fn cells(name: &str, mark: &str, load: Load, cpus: usize, recent: &Recent<'_>) -> Vec<Cell> {
    let share = |ns| recent.lost(ns) / cpus.max(1) as f64;
    let mut cells = vec![cells::text(name), cells::text(mark)];
    cells.extend(load.sum.taken_ns.iter().take(OTHERS).map(|ns| number_of_share(share(*ns))));
    cells.push(Cell::Share(share(load.sum.all_taken_ns()).clamp(0.0, 1.0)));
    cells.push(cells::lost(recent.lost(load.sum.waited_ns)));
    cells.push(Cell::Spark(load.trend));
    cells
}

fn columns() -> Vec<Column> {
    let cpu = cells::numbers("cpu", "cpu", 3).help("Its number.");
    let mark = "Whether the scheduler leaves it alone (iso: isolcpus=, isolated partitions), and \
                whether it has no tick while one task runs (nohz: nohz_full=). What hits such a CPU \
                is an alarm.";
    let mut columns = vec![cpu, cells::names("apart", "apart", 5).help(mark)];
    let shares = WHO.iter().take(OTHERS);
    columns.extend(shares.map(|who| cells::numbers(who.title, who.key, 6).help(who.help)));
    columns.extend([
        cells::pictures("taken", "taken_share", 8).help("All that is taken from it."),
        cells::numbers("waiting", "wait_seconds_per_second", 9).help(
            "Time that tasks wait for it in each second; more than 1 s/s where several wait.",
        ),
        cells::pictures("two minutes", "trend", 8)
            .grows()
            .help("The last minutes of what is taken."),
    ]);
    columns
}

/// A row for each CPU, and one for all.
pub fn table(history: &History, look: &ScreenLook) -> Table {
    let recent = Recent::new(history, look);
    let cpus = cpus(history, &recent);
    let loads = loads(history, &recent, &cpus);
    let all = sum(&loads);
    let mut rows = Vec::with_capacity(cpus.len() + 1);
    for (cpu, load) in cpus.iter().zip(loads) {
        let (name, mark) = (cpu.to_string(), mark(history, *cpu));
        let tone = match load.is_quiet() {
            false if !mark.is_empty() => Tone::Alarm,
            quiet => tally::tone(quiet),
        };
        rows.push(TableRow { cells: cells(&name, mark, load, 1, &recent), key: name, tone });
    }
    if !cpus.is_empty() {
        let cells = cells(ALL, "", all, cpus.len(), &recent);
        rows.push(TableRow { key: ALL.to_owned(), cells, tone: Tone::Strong });
    }
    Table {
        title: "CPUs".to_owned(),
        columns: columns(),
        rows,
        sorted_by: 0,
        empty: empty(history, "Nothing is known of any CPU.").into(),
    }
}

/// One CPU, or all, over time.
pub fn open(history: &History, look: &ScreenLook, key: &str) -> Option<Page> {
    let recent = Recent::new(history, look);
    let known = cpus(history, &recent);
    let chosen = match key {
        ALL => known,
        _ => {
            let wanted: u32 = key.parse().ok()?;
            known.into_iter().filter(|cpu| *cpu == wanted).collect()
        }
    };
    let all = sum(&loads(history, &recent, &chosen));
    let first = *chosen.first()?;
    let (title, mark) = match key {
        ALL => ("All CPUs".to_owned(), ""),
        _ => (format!("CPU {first}"), mark(history, first)),
    };
    let mut blocks = Vec::new();
    if !mark.is_empty() {
        let text = match mark {
            "iso" => "The scheduler leaves it alone: nothing should hit it.",
            "nohz" => "It has no tick while one task runs: nothing should hit it.",
            _ => {
                "The scheduler leaves it alone, and it has no tick while one task runs: nothing \
                 should hit it."
            }
        };
        let tone = if all.is_quiet() { Tone::Plain } else { Tone::Alarm };
        blocks.push(Block::Text(vec![(text.to_owned(), tone)]));
    }
    let over_time = |number: &dyn Fn(&Cpu) -> u64| {
        history.over_time(|step| {
            let own = step.cpus.iter().filter(|came| chosen.binary_search(&came.cpu).is_ok());
            step.per_second(total(own.map(number)) as f64 / 1e9)
        })
    };
    let share = |number: &dyn Fn(&Cpu) -> u64| {
        let mut shares = over_time(number);
        shares.iter_mut().for_each(|value| *value /= chosen.len() as f64);
        shares
    };
    let waited = over_time(&|came| came.waited_ns);
    let taken = share(&Cpu::all_taken_ns);
    blocks.push(tally::graph("Share taken, all together", taken, units::share));
    blocks.push(tally::graph("Waiting for it, per second", waited, units::lost));
    let mut rows = Vec::new();
    for (index, (who, ns)) in WHO.iter().zip(all.sum.taken_ns).enumerate() {
        let trend = share(&|came| came.taken_ns.get(index).copied().unwrap_or_default());
        if trend.iter().any(|value| *value > 0.0) {
            let title = format!("Share of {}", who.title);
            blocks.push(tally::graph(&title, trend.clone(), units::share));
        } else if index == OTHERS {
            continue;
        }
        let lost = recent.lost(ns);
        let cells = vec![
            cells::text(who.title),
            number_of_share(lost / chosen.len() as f64),
            cells::lost(lost),
            Cell::Spark(trend),
        ];
        rows.push(TableRow { key: who.title.to_owned(), cells, tone: tally::tone(ns == 0) });
    }
    blocks.push(Block::Table(sources(history, rows)));
    Some(Page { title, blocks })
}

fn sources(history: &History, rows: Vec<TableRow>) -> Table {
    Table {
        title: "What took it in the last seconds".to_owned(),
        columns: vec![
            cells::names("source", "source", 10).help("Who took it."),
            cells::numbers("share", "share", 7).help("Of its time."),
            cells::numbers("taken", "taken_seconds_per_second", 9).help("Time in each second."),
            cells::pictures("two minutes", "trend", 16).grows().help("The last minutes."),
        ],
        rows,
        sorted_by: 1,
        empty: empty(history, "").into(),
    }
}

#[cfg(test)]
mod tests;

//! What was found, for people and as JSON.

use serde::Serialize;

use super::{PROGRAMS, Program, Spent};
use crate::bench::align::align;
use crate::bench::machine::Machine;
use crate::bench::ratios::{Spread, median};

/// Median and quartiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Half of the values are below.
    pub median: f64,
    /// A quarter of the values is below.
    pub p25: f64,
    /// A quarter of the values is above.
    pub p75: f64,
}

impl From<Spread> for Figures {
    fn from(spread: Spread) -> Self {
        Self { median: spread.median, p25: spread.p25, p75: spread.p75 }
    }
}

/// A program.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramResult {
    /// What it does.
    pub program: &'static str,
    /// Events in a second of CPU time.
    pub events_per_cpu_second: Figures,
    /// Time of a run by the clock, seconds, median.
    pub wall_seconds: f64,
    /// The most resident memory of all runs.
    pub peak_bytes: u64,
    /// The same of a run over the trace that is repeated, once.
    pub peak_bytes_once: u64,
    /// What it is compared with.
    pub against: Option<&'static str>,
    /// CPU time of that in the same round, over its own.
    pub ratio: Option<Figures>,
    /// The same by the clock.
    pub wall_ratio: Option<Figures>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The CPU that all ran on.
    pub cpu: usize,
    /// How often the trace is repeated.
    pub times: u64,
    /// Events of all repetitions.
    pub events: u64,
    /// Bytes of all repetitions.
    pub bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// By program.
    pub programs: Vec<ProgramResult>,
}

/// One run of each program that takes part.
pub type Round = Vec<(Program, Spent)>;

fn find(round: &[(Program, Spent)], program: Program) -> Option<&Spent> {
    round.iter().find(|(found, _)| *found == program).map(|(_, spent)| spent)
}

/// Puts rounds together; `once` is a round over the trace that is repeated.
pub fn results(rounds: &[Round], once: &[(Program, Spent)], events: u64) -> Vec<ProgramResult> {
    let result = |program: Program| {
        let runs: Vec<&Spent> = rounds.iter().filter_map(|round| find(round, program)).collect();
        let rates: Vec<f64> =
            runs.iter().map(|run| events as f64 / run.cpu.as_secs_f64()).collect();
        let walls: Vec<f64> = runs.iter().map(|run| run.wall.as_secs_f64()).collect();
        let ratio = |time: fn(&Spent) -> f64| -> Option<Figures> {
            let pair = |round: &Round| {
                let other = find(round, program.against()?)?;
                Some(time(other) / time(find(round, program)?))
            };
            let ratios: Vec<f64> = rounds.iter().filter_map(pair).collect();
            Spread::of(&ratios).map(Figures::from)
        };
        let ratio_of_cpu = ratio(|spent| spent.cpu.as_secs_f64());
        Some(ProgramResult {
            program: program.name(),
            events_per_cpu_second: Spread::of(&rates)?.into(),
            wall_seconds: median(&walls)?,
            peak_bytes: runs.iter().map(|run| run.peak_bytes).max()?,
            peak_bytes_once: find(once, program)?.peak_bytes,
            against: ratio_of_cpu.and(program.against()).map(Program::name),
            ratio: ratio_of_cpu,
            wall_ratio: ratio(|spent| spent.wall.as_secs_f64()),
        })
    };
    PROGRAMS.into_iter().filter_map(result).collect()
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// For people.
pub fn render(report: &Report) -> String {
    let Report { machine, cpu, times, events, bytes, rounds, programs } = report;
    let kind = if machine.virtual_machine { ", virtual machine" } else { "" };
    let mut text = format!(
        "Linux {}, {} CPUs, {}{kind}\n{times} times the trace: {events} events, {bytes} bytes; {rounds} rounds on CPU {cpu}\n\n",
        machine.kernel, machine.cpus, machine.cpu_model
    );
    let words = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let head = ["program", "M events/CPU s", "p25", "p75", "wall s", "peak MiB", "once MiB"];
    let mut rows = vec![words(&head)];
    rows.extend(programs.iter().map(|program| {
        let rate = program.events_per_cpu_second;
        let millions = |rate: f64| format!("{:.2}", rate / 1e6);
        vec![
            program.program.to_owned(),
            millions(rate.median),
            millions(rate.p25),
            millions(rate.p75),
            format!("{:.2}", program.wall_seconds),
            mib(program.peak_bytes),
            mib(program.peak_bytes_once),
        ]
    }));
    text.push_str(&align(&rows));
    let mut rows = vec![words(&["program", "against", "ratio", "p25", "p75", "by wall clock"])];
    for program in programs {
        if let (Some(against), Some(ratio), Some(wall)) =
            (program.against, program.ratio, program.wall_ratio)
        {
            let mut row = words(&[program.program, against]);
            row.extend(
                [ratio.median, ratio.p25, ratio.p75, wall.median].map(|it| format!("{it:.2}")),
            );
            rows.push(row);
        }
    }
    text.push('\n');
    text.push_str(&align(&rows));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn programs_are_compared_within_their_round() {
        let spent = |ms, peak_bytes| {
            let wall = Duration::from_millis(ms);
            Spent { wall, cpu: wall, peak_bytes }
        };
        let round = |count, drop, peak_bytes| {
            vec![
                (Program::Count, spent(count, peak_bytes)),
                (Program::Drop, spent(drop, peak_bytes)),
            ]
        };
        // The machine slows down by half on the way; the ratio does not see it.
        let rounds = [round(10, 100, 5), round(20, 200, 7)];
        let results = results(&rounds, &round(1, 1, 3), 1000);
        assert_eq!(results.len(), 2);
        assert!((results[0].ratio.unwrap().median - 10.0).abs() < 1e-9);
        assert!((results[0].events_per_cpu_second.median - 75_000.0).abs() < 1e-6);
        assert_eq!((results[0].peak_bytes, results[0].peak_bytes_once), (7, 3));
        assert!(results[1].ratio.is_none() && results[1].against.is_none());
    }
}

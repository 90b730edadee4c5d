//! The report for people: aligned tables that can be pasted into a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::align::align;
use super::report::Report;

/// Hooks that fire less often than this for an operation are background, not the workload.
const RARE: f64 = 0.05;

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let kind = if machine.virtual_machine { ", virtual machine" } else { "" };
    push(
        &mut text,
        format_args!(
            "Linux {}, {} CPUs, {}{kind}\n",
            machine.kernel, machine.cpus, machine.cpu_model
        ),
    );
    if !report.results.is_empty() {
        push(&mut text, format_args!("\nslowdown of a workload by a set of programs\n"));
        text.push_str(&align(&slowdowns(report)));
    }
    if !report.programs.is_empty() {
        push(
            &mut text,
            format_args!("\ntime of one program run, ns (one reading of the clock included)\n"),
        );
        text.push_str(&align(&calls(report)));
    }
    if let Some(daemon) = &report.daemon {
        push(&mut text, format_args!("\nthe daemon's process\n"));
        let row = |cells: [String; 3]| cells.to_vec();
        text.push_str(&align(&[
            row(["".into(), "CPU".into(), "resident".into()]),
            row([
                "idle".into(),
                format!("{:.3} % of one CPU", daemon.idle_cpu_percent),
                mib(daemon.idle_rss_bytes),
            ]),
            row([
                "one scrape a second".into(),
                format!("{:.2} ms/s", daemon.scraped_cpu_ms_per_second),
                mib(daemon.scraped_rss_bytes),
            ]),
        ]));
        push(
            &mut text,
            format_args!(
                "a scrape takes {:.1} ms and brings {} bytes\n",
                daemon.scrape_ms, daemon.scrape_bytes
            ),
        );
    }
    if !report.view.is_empty() {
        push(
            &mut text,
            format_args!("\na frame of noised top: 500 cgroups, 128 CPUs, 200 irqs, 120x40\n"),
        );
        text.push_str(&align(&frames(report)));
    }
    for skipped in &report.skipped {
        push(&mut text, format_args!("\nskipped: {}: {}\n", skipped.what, skipped.reason));
    }
    text
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(what);
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// One row for each screen of the view.
fn frames(report: &Report) -> Vec<Vec<String>> {
    let head = ["screen", "frame ms", "p99 ms", "decode ms", "% of one CPU at 1/s", "resident"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.view.iter().map(|cost| {
        vec![
            cost.screen.clone(),
            format!("{:.2}", cost.frame_ms_median),
            format!("{:.2}", cost.frame_ms_p99),
            format!("{:.2}", cost.decode_ms_median),
            format!("{:.2}", cost.cpu_percent),
            mib(cost.resident_bytes),
        ]
    }));
    rows
}

fn slowdowns(report: &Report) -> Vec<Vec<String>> {
    let head = [
        "workload",
        "set",
        "ratio",
        "p25",
        "p75",
        "added ns/op",
        "alone ns/op",
        "turns",
        "toggle ms",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.results.iter().map(|result| {
        vec![
            result.workload.clone(),
            result.set.clone(),
            format!("{:.3}", result.ratio_median),
            format!("{:.3}", result.ratio_p25),
            format!("{:.3}", result.ratio_p75),
            format!("{:+.0}", result.added_ns),
            format!("{:.0}", result.without_ns),
            result.turns.to_string(),
            format!("{:.1}", result.toggle_ms),
        ]
    }));
    rows
}

/// One row for each workload and hook, one column for each set.
fn calls(report: &Report) -> Vec<Vec<String>> {
    let mut sets: Vec<&str> = Vec::new();
    for program in &report.programs {
        if !sets.contains(&program.set.as_str()) {
            sets.push(&program.set);
        }
    }
    // Of several programs on one hook, the sum is what one event costs.
    let mut cells: BTreeMap<(&str, &str, &str), f64> = BTreeMap::new();
    let mut rates: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let mut order: Vec<(&str, &str)> = Vec::new();
    let frequent: BTreeSet<(&str, &str)> = report
        .programs
        .iter()
        .filter(|program| program.runs_per_operation >= RARE)
        .map(|program| (program.workload.as_str(), program.hook.as_str()))
        .collect();
    for program in &report.programs {
        let row = (program.workload.as_str(), program.hook.as_str());
        if !frequent.contains(&row) {
            continue;
        }
        if !order.contains(&row) {
            order.push(row);
        }
        *cells.entry((row.0, row.1, &program.set)).or_default() += program.ns_per_run;
        let rate = rates.entry(row).or_default();
        *rate = rate.max(program.runs_per_operation);
    }
    let mut head = vec!["workload".to_owned(), "hook".to_owned(), "runs/op".to_owned()];
    head.extend(sets.iter().map(|set| (*set).to_owned()));
    let mut rows = vec![head];
    rows.extend(order.into_iter().map(|row| {
        let rate = rates.get(&row).copied().unwrap_or_default();
        let mut line = vec![row.0.to_owned(), row.1.to_owned(), format!("{rate:.2}")];
        line.extend(sets.iter().map(|set| {
            cells.get(&(row.0, row.1, *set)).map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"))
        }));
        line
    }));
    rows
}

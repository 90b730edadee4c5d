//! A report as text.

use std::fmt::{self, Write as _};

use super::{Report, Row};

const NAME_WIDTH: usize = 56;

fn figure(value: Option<f64>, unit: &str) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if unit.is_empty() => format!("{value:.0}"),
        Some(value) if value >= 1000.0 => format!("{value:.0} {unit}"),
        Some(value) => format!("{value:.2} {unit}"),
    }
}

fn factor(row: &Row) -> String {
    match (row.quiet, row.noisy) {
        (Some(quiet), Some(noisy)) if quiet > 0.0 => format!("x{:.2}", noisy / quiet),
        _ => String::new(),
    }
}

fn line(text: &mut String, name: &str, cells: [&str; 3]) -> fmt::Result {
    let [quiet, noisy, factor] = cells;
    writeln!(text, "  {name:<NAME_WIDTH$} {quiet:>14} {noisy:>14} {factor:>9}")
}

fn windows(text: &mut String, name: &str, counts: &[f64]) -> fmt::Result {
    let counts: Vec<String> = counts.iter().map(|count| format!("{count:.0}")).collect();
    writeln!(text, "  {name}: {}", counts.join(" "))
}

fn write(report: &Report) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let [quiet, noisy] = report.seconds;
    writeln!(text, "{}", report.plot)?;
    writeln!(text, "quiet {quiet:.1} s, noisy {noisy:.1} s; victim {}", report.victim)?;
    for section in &report.sections {
        writeln!(text, "\n{}", section.title)?;
        line(&mut text, "", ["quiet", "noisy", "noisy/quiet"])?;
        for row in &section.rows {
            let (quiet, noisy) = (figure(row.quiet, row.unit), figure(row.noisy, row.unit));
            line(&mut text, &row.name, [&quiet, &noisy, &factor(row)])?;
        }
    }
    writeln!(text, "\nContext switches of the host in each 500 ms")?;
    windows(&mut text, "quiet", &report.switches_per_window[0])?;
    windows(&mut text, "noisy", &report.switches_per_window[1])?;
    if !report.culprits.is_empty() {
        writeln!(text, "\nWho delayed {} (* planted)", report.victim)?;
        line(&mut text, "", ["quiet", "noisy", ""])?;
    }
    for row in &report.culprits {
        let mark = if row.planted { "*" } else { " " };
        let culprit = if row.culprit.is_empty() { "-" } else { &row.culprit };
        let name = format!("{mark} {culprit} ({}, {})", row.cause, row.resource);
        let quiet = format!("{:.4} s", row.quiet_seconds);
        line(&mut text, &name, [&quiet, &format!("{:.4} s", row.noisy_seconds), ""])?;
    }
    if let Some(named) = &report.named {
        let verdict = if report.planted.contains(named) {
            "the planted culprit"
        } else {
            "not a planted one; planted: "
        };
        write!(text, "\nnoised names {named} first: {verdict}")?;
        if !report.planted.contains(named) {
            write!(text, "{}", report.planted.join(", "))?;
        }
        writeln!(text)?;
    }
    if let [Some(quiet), Some(noisy)] = report.incidents {
        writeln!(text, "incidents opened: quiet {quiet:.0}, noisy {noisy:.0}")?;
    }
    for reason in &report.unshown {
        writeln!(text, "not shown: {reason}")?;
    }
    Ok(text)
}

/// The report for people.
pub fn render(report: &Report) -> String {
    // Writing to a string does not fail.
    write(report).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{factor, figure};
    use crate::scenario::Row;

    #[test]
    fn figures_bear_their_units() {
        assert_eq!(figure(None, "us"), "-");
        assert_eq!(figure(Some(253.0), ""), "253");
        assert_eq!(figure(Some(10.316), "us"), "10.32 us");
        assert_eq!(figure(Some(2609.9), "us"), "2610 us");
    }

    #[test]
    fn a_factor_needs_something_to_multiply() {
        assert_eq!(factor(&Row::new("", "", 2.0, 5.0)), "x2.50");
        assert_eq!(factor(&Row::new("", "", 0.0, 5.0)), "");
    }
}

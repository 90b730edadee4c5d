//! PURE: detours as text for a person.

use std::fmt::Write as _;

use noise_text::table::Columns;
use noise_text::units::{count, duration, frequency, per_second, share};

use super::{CpuSummary, SourceShare, SourceShares};
use crate::spectrum::Peak;
use crate::{DetourReport, tick};

/// The CPUs, then the sources. The tick is the frequency at which detours come, where they come at one.
pub fn text(report: &DetourReport) -> String {
    let mut text = cpus(report);
    let shares = SourceShares::of(report);
    if shares.detours > 0 {
        text.push('\n');
        text.push_str(&sources(&shares));
    }
    notes(&mut text, report);
    text
}

fn cpus(report: &DetourReport) -> String {
    let mut table = Columns::new(
        0,
        &[
            "CPU",
            "measured",
            "passes",
            "min loop",
            "clock step",
            "threshold",
            "detours",
            "rate",
            "overhead",
            "mean",
            "median",
            "max",
            "tick",
            "lost",
        ],
    );
    for cpu in &report.cpus {
        let starts_ns = cpu.detours.iter().map(|detour| detour.start_ns);
        table.push(&row(&CpuSummary::of(cpu), tick::of_starts(starts_ns, cpu.duration_ns)));
    }
    if report.cpus.len() > 1 {
        table.push(&row(&CpuSummary::of_all(report), None));
    }
    table.text()
}

fn row(summary: &CpuSummary, tick: Option<Peak>) -> [String; 14] {
    let length = |of: fn(&super::Lengths) -> f64| {
        summary.lengths.as_ref().map_or_else(|| "–".to_owned(), |lengths| duration(of(lengths)))
    };
    [
        summary.cpu.map_or_else(|| "all".to_owned(), |cpu| cpu.to_string()),
        duration(summary.duration_ns as f64),
        count(summary.passes),
        duration(summary.min_loop_ns),
        duration(summary.resolution_ns as f64),
        duration(summary.threshold_ns as f64),
        count(summary.detours),
        per_second(summary.per_second),
        share(summary.overhead),
        length(|lengths| lengths.mean_ns),
        length(|lengths| lengths.median_ns),
        length(|lengths| lengths.max_ns as f64),
        tick.map_or_else(|| "–".to_owned(), |peak| frequency(peak.hz)),
        count(summary.lost_detours),
    ]
}

/// Sources with a line of their own; JSON has all.
const MOST: usize = 20;

/// The sum of some sources, if there are any.
fn together(sources: &[&SourceShare]) -> Option<SourceShare> {
    let (first, rest) = sources.split_first()?;
    let mut sum = (*first).clone();
    for source in rest {
        sum.events += source.events;
        sum.detours += source.detours;
        sum.detours_share += source.detours_share;
        sum.time_ns += source.time_ns;
        sum.time_share += source.time_share;
        sum.max_ns = sum.max_ns.max(source.max_ns);
    }
    Some(sum)
}

fn sources(shares: &SourceShares) -> String {
    let mut table = Columns::new(
        1,
        &["source", "events", "detours", "of detours", "time", "of time", "mean", "max"],
    );
    let row = |name: String, of: &SourceShare| {
        let mean_ns = of.time_ns as f64 / (of.events as f64).max(1.0);
        [
            name,
            count(of.events),
            format!("{:.1}", of.detours),
            share(of.detours_share),
            duration(of.time_ns as f64),
            share(of.time_share),
            duration(mean_ns),
            duration(of.max_ns as f64),
        ]
    };
    // Ways in and out come last, whatever they took.
    let (ways, named): (Vec<_>, Vec<_>) =
        shares.sources.iter().partition(|source| source.class.is_none());
    let shown = if named.len() > MOST + 1 { MOST } else { named.len() };
    for source in &named[..shown] {
        table.push(&row(source.to_string(), source));
    }
    let others = &named[shown..];
    if let Some(sum) = together(others) {
        table.push(&row(format!("{} others", others.len()), &sum));
    }
    for source in ways {
        table.push(&row(source.to_string(), source));
    }
    let mut text = table.text();
    let explained = share(shares.explained as f64 / (shares.detours as f64).max(1.0));
    let _ = writeln!(text, "\n{explained} of the detours are explained by events of the kernel.");
    text
}

/// What the numbers above leave out.
fn notes(text: &mut String, report: &DetourReport) {
    let all = CpuSummary::of_all(report);
    if all.lost_detours > 0 {
        let lost = count(all.lost_detours);
        let _ = writeln!(
            text,
            "{lost} detours could not be kept: their time is missing above. A higher threshold, or \
             a shorter duration, keeps them all."
        );
    }
    if all.lost_events > 0 {
        let lost = count(all.lost_events);
        let _ = writeln!(
            text,
            "{lost} events of the kernel were lost: some of what is reported as hardware may be theirs."
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::generated::{any_report, report};
    use super::*;
    use crate::{Class, Detour};
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn detours_are_printed_as_agreed() {
        insta::assert_snapshot!(text(&report()));
    }

    #[test]
    fn sources_without_a_line_of_their_own_are_summed_up() {
        let source = |number: u64| SourceShare {
            class: Some(Class::Thread),
            name: format!("worker-{number}"),
            events: number,
            detours: 1.0,
            detours_share: 1.0 / 30.0,
            time_ns: 1_000,
            time_share: 1.0 / 30.0,
            max_ns: number,
        };
        let ways = SourceShare { class: None, name: String::new(), ..source(1) };
        let sources = (1..30).map(source).chain([ways]).collect();
        let text = super::sources(&SourceShares { sources, detours: 30, explained: 30 });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[20].starts_with("thread worker-20 "), "{text}");
        // 21 to 29.
        assert!(lines[21].split_whitespace().take(4).eq(["9", "others", "225", "9.0"]), "{text}");
        assert!(lines[22].starts_with("kernel entry/exit overhead "), "{text}");
    }

    #[test]
    fn quiet_cpus_have_no_sources() {
        let mut quiet = report();
        quiet.cpus.remove(0);
        quiet.cpus[0].lost_detours = 0;
        quiet.cpus[0].lost_events = 0;
        assert_eq!(text(&quiet).lines().count(), 2);
    }

    #[test]
    fn the_tick_is_reported() {
        let mut ticking = report();
        let detour = ticking.cpus[0].detours[0].clone();
        let at = |number: u64| Detour { start_ns: number * 4_000_000, ..detour.clone() };
        ticking.cpus[1].detours = (0..250).map(at).collect();
        assert!(text(&ticking).contains("  250.0 Hz     3\n"), "{}", text(&ticking));
    }

    proptest! {
        #[test]
        fn names_do_not_steer_the_terminal(report in any_report()) {
            prop_assert!(!text(&report).chars().any(|char| char.is_control() && char != '\n'));
        }
    }
}

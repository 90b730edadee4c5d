//! What drills showed, as lines, as a report and as rows of a table.

use super::judge::{Ending, Outcome};
use super::look::Shown;

/// The line above those of [`progress`].
pub fn heading() -> String {
    format!(
        "{:<12} {:<12} {:>6} {:>6} {:>8}  {:>7}  shown first by why",
        "drill", "points", "why", "screen", "incident", "felt"
    )
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"))
}

fn pair(shown: &Shown) -> String {
    let or = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    format!("{}: {}", or(&shown.resource), or(&shown.culprit))
}

fn ending(outcome: &Outcome) -> String {
    match &outcome.ending {
        Ending::Judged { points } if outcome.harm.is_empty() => format!("{points} of 3"),
        Ending::Judged { points } => format!("{points}, harm"),
        Ending::Inconclusive { .. } => "inconclusive".to_owned(),
        Ending::Skipped { .. } => "skipped".to_owned(),
    }
}

/// A drill that has been played, in a line.
pub fn progress(outcome: &Outcome) -> String {
    let said = match (&outcome.ending, &outcome.last) {
        (Ending::Inconclusive { reason } | Ending::Skipped { reason }, _) => reason.clone(),
        (_, Some(last)) => pair(&last.why),
        (_, None) => String::new(),
    };
    let felt = outcome.felt.map_or_else(|| "-".to_owned(), |felt| format!("{:.1}x", felt.times()));
    format!(
        "{:<12} {:<12} {:>6} {:>6} {:>8}  {felt:>7}  {said}",
        outcome.drill,
        ending(outcome),
        time(outcome.seconds.why),
        time(outcome.seconds.screen),
        time(outcome.seconds.incident),
    )
}

/// What each surface said in each drill, for people.
pub fn report(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    for outcome in outcomes {
        line(format!("\n{}: {}", outcome.drill, ending(outcome)));
        if let Some(felt) = outcome.felt {
            let (quiet, planted) = (felt.quiet, felt.planted);
            line(format!(
                "  answers took {:.2} ms before and {:.2} ms after (99 %: {:.2} and {:.2} ms)",
                quiet.mean_ms, planted.mean_ms, quiet.p99_ms, planted.p99_ms
            ));
        }
        if let Some(last) = &outcome.last {
            for (surface, shown) in
                [("why", &last.why), ("screen", &last.screen), ("incident", &last.incident)]
            {
                let mark = if shown.is_right { "right" } else { "not right" };
                let words = if shown.words.is_empty() { "nothing" } else { &shown.words };
                line(format!("  {surface}, {mark} ({}): {words}", pair(shown)));
            }
            line(format!("  incidents: {} of it, {} of others", last.incidents, last.others));
        }
        outcome.remedies.iter().for_each(|command| line(format!("  right: # {command}")));
        outcome.harm.iter().for_each(|command| line(format!("  HARM: # {command}")));
    }
    let judged: Vec<u32> = outcomes.iter().filter_map(Outcome::points).collect();
    let whole = judged.iter().filter(|points| **points == 3).count();
    let harm: usize = outcomes.iter().map(|outcome| outcome.harm.len()).sum();
    line(format!(
        "\n{} of {} points; {whole} of {} drills have all; {harm} commands would do harm; {} said nothing",
        judged.iter().sum::<u32>(),
        3 * judged.len(),
        judged.len(),
        outcomes.len() - judged.len()
    ));
    text
}

/// A row of `tests/drills.md`.
pub fn record(outcome: &Outcome, date: &str, revision: &str, note: &str) -> String {
    let (last, seconds) = (outcome.last.clone().unwrap_or_default(), outcome.seconds);
    let points = match &outcome.ending {
        Ending::Inconclusive { reason } => format!("inconclusive: {reason}"),
        Ending::Skipped { reason } => format!("skipped: {reason}"),
        Ending::Judged { .. } => ending(outcome),
    };
    let list = |commands: &[String]| match commands {
        [] => "none".to_owned(),
        [only] => format!("`{only}`"),
        [first, rest @ ..] => format!("`{first}` and {} more", rest.len()),
    };
    let shown = |shown: &Shown, seconds| format!("{}, {}", pair(shown), time(seconds));
    let cells = [
        date.to_owned(),
        revision.to_owned(),
        note.to_owned(),
        outcome.drill.to_owned(),
        points,
        outcome.felt.map_or_else(|| "-".to_owned(), |felt| format!("{:.1}x", felt.times())),
        shown(&last.why, seconds.why),
        shown(&last.screen, seconds.screen),
        shown(&last.incident, seconds.incident),
        list(&outcome.remedies),
        list(&outcome.harm),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::look::Look;
    use super::*;

    fn outcome() -> Outcome {
        let shown = Shown {
            resource: "cpu".to_owned(),
            culprit: "/hog".to_owned(),
            words: "shop waited".to_owned(),
            is_right: true,
            ..Shown::default()
        };
        let look = Look { why: shown.clone(), screen: shown, ..Look::default() };
        let mut outcome = Outcome::without("cpu", Ending::Judged { points: 1 });
        outcome.seconds.why = Some(2.34);
        outcome.last = Some(look);
        outcome.harm = vec!["echo 1 > /a|b".to_owned(), "echo 2".to_owned()];
        outcome
    }

    #[test]
    fn a_row_has_the_columns_of_the_table() {
        let row = record(&outcome(), "2026-11-27", "abc", "nothing");
        assert_eq!(
            row,
            "| 2026-11-27 | abc | nothing | cpu | 1, harm | - | cpu: /hog, 2.3 s | cpu: /hog, - | -: -, - | none | \
             `echo 1 > /a\\|b` and 1 more |\n"
        );
        let table = include_str!("../../drills.md");
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut lines = table.lines().filter(|line| line.starts_with('|'));
        assert!(lines.all(|line| bars(line) == bars(&row)));
        assert!(table.ends_with("|\n"));
    }

    #[test]
    fn a_report_says_who_was_wrong() {
        let skipped = Ending::Skipped { reason: "there is no swap".to_owned() };
        let text = report(&[outcome(), Outcome::without("swap", skipped.clone())]);
        for part in ["cpu: 1, harm", "why, right (cpu: /hog): shop waited", "incident, not right"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            text.contains(
                "1 of 3 points; 0 of 1 drills have all; 2 commands would do harm; 1 said"
            )
        );
        assert!(progress(&Outcome::without("swap", skipped)).ends_with("there is no swap"));
        assert!(progress(&outcome()).contains("2.3 s"));
    }
}

//! The tiers for people.

use std::fmt::Write as _;

use super::{Answer, Findings};

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Which tier an answer names, what that spent its time on, and for whom it waited.
pub fn said(answer: &Answer) -> String {
    let Some(first) = answer.tiers.first() else { return "no tier".to_owned() };
    let state = first.state();
    let culprit = first.culprit(state).map_or_else(String::new, |culprit| {
        format!(
            ", {:.0} % of that for {} ({})",
            100.0 * culprit.ns as f64 / first.spent_ns as f64 / first.part(state),
            culprit.comm,
            culprit.cause
        )
    });
    format!(
        "{} has {:.1} % of the time of {} requests; {:.1} % of it is {state}{culprit}",
        first.service,
        100.0 * first.share,
        answer.requests,
        100.0 * first.part(state)
    )
}

/// All that was found.
pub fn render(found: &Findings) -> String {
    let mut text = String::from(
        "nginx -> an application in Python -> redis\n\n\
         clients  planted ms  requests  joined rightly  its own ms  true latency ms     off\n",
    );
    for one in &found.recorded {
        let off = one.true_ns as f64 / one.own_ns.max(1) as f64 - 1.0;
        let _ = writeln!(
            text,
            "{:>7} {:>11} {:>9} {:>14.2}% {:>11.3} {:>16.3} {:>+6.2}%",
            one.clients,
            one.sleep_ms,
            one.requests,
            100.0 * one.right as f64 / one.requests.max(1) as f64,
            ms(one.own_ns),
            ms(one.true_ns),
            100.0 * off
        );
    }
    for one in &found.named {
        let _ = write!(text, "\nplanted: {}\n  {}\n", one.planted, said(&one.answer));
    }
    text.push_str("\ntime of a request beside        ratio (quartiles)     turns\n");
    for one in &found.costs {
        let ratio = one.ratio.map_or_else(
            || "not measured".to_owned(),
            |[low, median, high]| format!("{median:.3} ({low:.3} to {high:.3})"),
        );
        let _ = writeln!(text, "{:<44} {ratio:<24} {:>3}", one.tool, one.turns);
    }
    let rate = found.costs.iter().map(|one| one.rate).fold(0.0, f64::max);
    let _ = writeln!(text, "without: {rate:.0} requests a second");
    text
}

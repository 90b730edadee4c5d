//! PURE: an account as text and as JSON.

use std::fmt::Write as _;

use noise_model::labels::WATCHED_LABEL;
use noise_text::table::Columns;
use noise_text::units::{count, duration, share};
use serde_json::{Value, json};

use super::account::{Charge, SubjectAccount};
use super::subject::Usage;

/// Lines of each list.
const MOST: usize = 15;

fn part(ns: u64, of_ns: u64) -> String {
    if of_ns == 0 { "–".to_owned() } else { share(ns as f64 / of_ns as f64) }
}

/// For people. `subject` is its name.
pub fn text(account: &SubjectAccount, subject: &str) -> String {
    let mut text = format!("{subject}, {}\n\n", duration(account.passed_ns as f64));
    let stolen_ns = account.stolen_ns();
    let _ = match account.ran {
        Usage::Known(ran_ns) => writeln!(
            text,
            "ran     {} of CPU time; {} ({}) of it was taken from it",
            duration(ran_ns as f64),
            duration(stolen_ns as f64),
            part(stolen_ns, ran_ns)
        ),
        Usage::Unknown => writeln!(
            text,
            "ran     (for how long is unknown); {} was taken from it",
            duration(stolen_ns as f64)
        ),
    };
    let whole_ns = match account.ran {
        Usage::Known(ran_ns) => ran_ns,
        Usage::Unknown => 0,
    };
    list(&mut text, "taken by", "of running", &account.stolen, whole_ns);
    let waits = account.waits.count();
    let sum_ns = account.waits.sum_ns;
    let _ = write!(text, "\nwaited  {} for a CPU, {} times", duration(sum_ns as f64), count(waits));
    if waits != 0 {
        let quantile = |quantile: f64| {
            let bound = account.waits.quantile_ns(quantile);
            bound.map_or_else(|| "more".to_owned(), |ns| duration(ns as f64))
        };
        let mean = duration(sum_ns as f64 / waits as f64);
        let (half, most) = (quantile(0.5), quantile(0.99));
        let _ = write!(text, "; mean {mean}, half at most {half}, 99 % at most {most}");
    }
    text.push('\n');
    list(&mut text, "behind", "of waiting", &account.behind, sum_ns);
    text
}

fn list(text: &mut String, whose: &str, of: &str, charges: &[Charge], whole_ns: u64) {
    if charges.is_empty() {
        return;
    }
    let mut table = Columns::new(2, &[whose, "cause", "time", of]);
    for charge in charges.iter().take(MOST) {
        let time = duration(charge.ns as f64);
        let cause = charge.cause.name().to_owned();
        table.push(&[culprit(charge), cause, time, part(charge.ns, whole_ns)]);
    }
    let rest_ns: u64 = charges.iter().skip(MOST).map(|charge| charge.ns).sum();
    if rest_ns != 0 {
        let name = format!("{} others", charges.len() - MOST);
        let time = duration(rest_ns as f64);
        table.push(&[name, String::new(), time, part(rest_ns, whole_ns)]);
    }
    text.extend(table.text().lines().map(|line| format!("  {line}\n")));
}

/// The process itself, where it is its own culprit.
fn culprit(charge: &Charge) -> String {
    if &*charge.culprit == WATCHED_LABEL {
        "its own threads".to_owned()
    } else {
        charge.culprit.to_string()
    }
}

/// For scripts; times in nanoseconds, null where they are unknown.
pub fn json(account: &SubjectAccount, subject: &str) -> Value {
    let list = |charges: &[Charge]| -> Vec<Value> {
        let one = |charge: &Charge| {
            json!({
                "cause": charge.cause.name(),
                "culprit": &*charge.culprit,
                "ns": charge.ns,
            })
        };
        charges.iter().map(one).collect()
    };
    let ran = match account.ran {
        Usage::Known(ns) => Value::from(ns),
        Usage::Unknown => Value::Null,
    };
    json!({
        "format": "noised-account",
        "version": 1,
        "subject": subject,
        "passed_ns": account.passed_ns,
        "ran_ns": ran,
        "stolen_ns": account.stolen_ns(),
        "stolen": list(&account.stolen),
        "waits": account.waits.count(),
        "waited_ns": account.waits.sum_ns,
        "wait_p50_ns": account.waits.quantile_ns(0.5),
        "wait_p99_ns": account.waits.quantile_ns(0.99),
        "behind": list(&account.behind),
    })
}

#[cfg(test)]
mod tests {
    use noise_model::Histogram;

    use super::*;
    use crate::tenant::account::sampled::account;

    #[test]
    fn an_account_for_people() {
        insta::assert_snapshot!(text(&account(), "process db:77"));
    }

    #[test]
    fn an_account_of_nothing() {
        let nothing = SubjectAccount {
            passed_ns: 1_000_000_000,
            ran: Usage::Unknown,
            stolen: Vec::new(),
            waits: Histogram::default(),
            behind: Vec::new(),
        };
        insta::assert_snapshot!(text(&nothing, "cgroup /a"));
    }

    #[test]
    fn an_account_for_scripts() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&account(), "x")).unwrap());
    }
}

//! PURE: requests on a port for people: the answer first, then the tiers, what their time was spent on, for whom they
//! waited, and the slowest request.

#[cfg(any(test, feature = "fixtures"))]
pub mod made;

use noise_command::output::Painted;
use noise_sketches::requests::UnassignedCalls;
use noise_text::table::Columns;
use noise_text::units::{count, per_second};
use noise_why::request::{RequestFindings, Spent, Tier};

use crate::sketch::missing;
use crate::sketch::tree::tree;
use crate::victim::{STATES, behind, culprits_of, indented, part, prose, time};

/// Rows of each list.
const SHOWN: usize = 12;
/// Tiers whose culprits are listed, and the least part of the time that is worth it.
const SHOWN_CULPRITS: usize = 3;
const LEAST_PART: f64 = 0.01;

/// The whole page, in so many columns.
pub fn page(found: &RequestFindings<'_>, width: usize) -> Painted {
    let mut text = String::new();
    prose(&mut text, &answer(found), width);
    for note in &found.notes {
        prose(&mut text, &format!("note: {note}"), width);
    }
    let counts = &found.slowest.sketch.system.counts;
    text.push_str(&missing(counts, found.discarded, "a shorter time with --next"));
    tiers(&mut text, found);
    let rows = found.tiers.iter().map(|tier| (tier.link.service.to_string(), &tier.spent));
    spent(&mut text, "what its time was spent on", rows);
    for tier in found.tiers.iter().filter(|tier| waits(tier)).take(SHOWN_CULPRITS) {
        let heading = format!("who had the CPUs that {} waited for", tier.link.service);
        culprits_of(&mut text, &tier.spent.culprits, ("waiting_cpu", &heading), width);
    }
    let mut page = Painted::default();
    page.plain(&text);
    let slowest = &found.slowest;
    tree(&mut page, slowest.sketch.system, ("slowest request", slowest.slice), width);
    let mut text = String::new();
    let rows = slowest.tiers.iter().map(|own| (own.service.to_string(), &own.spent));
    spent(&mut text, "what its time was spent on", rows);
    if let Some(first) = slowest.tiers.first() {
        let heading = format!("who had the CPUs that {} waited for then", first.service);
        culprits_of(&mut text, &first.spent.culprits, ("waiting_cpu", &heading), width);
    }
    page.plain(&text);
    page
}

/// Whether waits for a CPU are a part of the requests' time that counts.
fn waits(tier: &Tier) -> bool {
    let waited = tier.spent.ns("waiting_cpu") as f64 / tier.spent.spent_ns.max(1) as f64;
    waited * tier.share >= LEAST_PART
}

fn answer(found: &RequestFindings<'_>) -> String {
    let requests = match found.requests {
        1 => "1 request was answered".to_owned(),
        many => format!("{} requests were answered", count(many)),
    };
    let mut sentence = format!(
        "Port {}: {requests} in {} ({}), half of them within {} and 99 % within {}{}.",
        found.port,
        time(found.span_ns),
        per_second(found.rate),
        time(found.latency_p50_ns),
        time(found.latency_p99_ns),
        unassigned(found)
    );
    let Some(first) = found.tiers.first() else { return sentence };
    let spent = &first.spent;
    let of_it = |ns: u64| part(ns, spent.spent_ns);
    sentence.push_str(&format!(
        " {} has {} of their time: its true latency is {} (half) and {} (99 %).",
        first.link.service,
        noise_text::units::share(first.share),
        time(first.link.tier.true_latency_p50_ns),
        time(first.link.tier.true_latency_p99_ns),
    ));
    let words =
        |state: &str| STATES.iter().find(|(name, _)| *name == state).map(|(_, words)| *words);
    let largest = spent.states_ns.iter().max_by_key(|(_, ns)| **ns);
    if let Some((state, ns)) = largest {
        let words = words(state).unwrap_or(BUSY);
        let whom = behind(&spent.culprits, state);
        sentence.push_str(&format!(" In {} of that it {words}{whom}.", of_it(*ns)));
    }
    let waited_ns = spent.ns("waiting_cpu");
    if largest.is_some_and(|(state, _)| *state != "waiting_cpu") && waits(first) {
        let whom = behind(&spent.culprits, "waiting_cpu");
        sentence.push_str(&format!(" In {} it waited for a CPU{whom}.", of_it(waited_ns)));
    }
    sentence
}

/// Which calls of a part that counts cannot be assigned to requests.
fn unassigned(found: &RequestFindings<'_>) -> String {
    let share = |of: &UnassignedCalls| of.unassigned as f64 / of.calls.max(1) as f64;
    let told: Vec<String> = found
        .unassigned
        .iter()
        .filter(|of| share(of) >= LEAST_PART)
        .take(SHOWN_CULPRITS)
        .map(|of| {
            let to = of.port.map_or_else(|| of.service.to_string(), |port| format!(":{port}"));
            format!("{} of the calls to {to}", noise_text::units::share(share(of)))
        })
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; {} cannot be assigned to a request", told.join(" and ")),
    }
}

pub const BUSY: &str = "ran before it came to it";

fn tiers(text: &mut String, found: &RequestFindings<'_>) {
    let mut table = Columns::new(
        1,
        &[
            "tier",
            "requests",
            "true p50",
            "true p99",
            "reached p50",
            "p99",
            "idle mean",
            "sd",
            "of all time",
        ],
    );
    for Tier { link, share, .. } in found.tiers.iter().take(SHOWN) {
        table.push(&[
            link.service.to_string(),
            count(link.tier.count),
            time(link.tier.true_latency_p50_ns),
            time(link.tier.true_latency_p99_ns),
            time(link.reach_p50_ns),
            time(link.reach_p99_ns),
            time(link.tier.idle_mean_ns as u64),
            time(link.tier.idle_variance.sqrt() as u64),
            noise_text::units::share(*share),
        ]);
    }
    text.push('\n');
    indented(text, &table);
    if found.divided < found.requests {
        text.push_str(&format!(
            "  the last column, and all below, are of the last {} requests\n",
            count(found.divided)
        ));
    }
}

/// What time was spent on: a column for each state that anyone was in.
fn spent<'f>(text: &mut String, heading: &str, rows: impl Iterator<Item = (String, &'f Spent)>) {
    let rows: Vec<_> = rows.take(SHOWN).collect();
    let states = [("busy", "busy before")].into_iter().chain(STATES);
    let states: Vec<_> =
        states.filter(|(state, _)| rows.iter().any(|(_, spent)| spent.ns(state) > 0)).collect();
    if states.is_empty() {
        return;
    }
    let headings: Vec<&str> = [heading, "time"]
        .into_iter()
        .chain(states.iter().map(|(state, words)| short(state, words)))
        .collect();
    let mut table = Columns::new(1, &headings);
    for (service, spent) in rows {
        let parts = states.iter().map(|(state, _)| match spent.ns(state) {
            0 => String::new(),
            ns => time(ns),
        });
        table.push(&[service, time(spent.spent_ns)].into_iter().chain(parts).collect::<Vec<_>>());
    }
    text.push('\n');
    indented(text, &table);
}

/// Headings of columns, which are short.
fn short<'w>(state: &str, words: &'w str) -> &'w str {
    match state {
        "running" => "ran",
        "waiting_cpu" => "CPU wait",
        "disk" => "disk",
        "futex" => "lock",
        "task" => "others ran",
        "network" => "packet",
        "timer" => "timer",
        "ipi" | "interrupt" => "interrupt",
        "unknown" => "unknown",
        _ => words,
    }
}

#[cfg(test)]
mod tests;

//! Where events do not say what a victim slept for: a look at requests on the victim's TCP ports, and what it shows, in
//! sentences.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noise_command::progress::Progress;
use noise_command::{CommandError, output};
use noise_pages::requests::BUSY;
use noise_pages::victim::{STATES, part, time};
use noise_sketches::requests::Entrance;
use noise_text::clean::clean;
use noise_verdict::argument;
use noise_why::request::{Heard, Looked, RequestFindings, Tier, nothing};
use noise_why::{Watching, on_ports};

/// How long it is looked.
const LENGTH: Duration = Duration::from_secs(3);
/// At most so many ports of a victim are shown, the busiest first.
const MOST_PORTS: usize = 3;
/// Where a request's time went, as far as a sentence names it: the least part of it, and how many of these.
const LEAST_PART: f64 = 0.1;
const MOST_PARTS: usize = 3;
/// The part of the time from which on a service is the next one to be asked about.
const MOSTLY: f64 = 0.5;

/// Whose requests are looked at.
pub struct LookTarget<'a> {
    /// As its sentences begin.
    pub name: &'a str,
    pub pids: BTreeSet<i32>,
    /// The ports that they listen on.
    pub ports: BTreeSet<u16>,
}

/// Why a look ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyEnd {
    /// The user ended it.
    Stopped,
    Ended,
}

impl LookTarget<'_> {
    /// Looks, and says what that shows. Whatever goes wrong is said in the place of that: the page was shown before.
    pub fn look(&self, stop: &AtomicBool) -> String {
        if self.ports.is_empty() {
            return format!(
                "{} listens on no TCP port, so there are no requests to look at.",
                self.name
            );
        }
        self.watch(stop).unwrap_or_else(|error| {
            format!("Its requests were not looked at: {}.", clean(&error.to_string()))
        })
    }

    fn watch(&self, stop: &AtomicBool) -> Result<String, CommandError> {
        let mut watching = Watching::start(&mut output::complain)?;
        let mut progress = Progress::new("looking at its requests", LENGTH);
        let mut cut = None;
        let over = |passed| {
            progress.at(passed);
            if stop.load(Ordering::Relaxed) {
                cut = Some(EarlyEnd::Stopped);
            } else if !self.pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
                cut = Some(EarlyEnd::Ended);
            }
            cut.is_some()
        };
        let (stretch, dump) = watching.next(LENGTH, over)?;
        // Detaches: what is found out slows nothing down.
        drop((watching, progress));
        let mut ports: Vec<u16> = self.ports.iter().copied().collect();
        let heard = Heard::of(&stretch, &ports);
        let looked = Looked::at(&heard);
        let count = |port: &u16| looked.answered(*port, Some(&self.pids)).len();
        ports.sort_by_cached_key(|port| std::cmp::Reverse(count(port)));
        let span_ns = stretch.to_ns.saturating_sub(stretch.from_ns);
        let mut answers = Vec::new();
        let told_of = ports.get(..MOST_PORTS).unwrap_or(&ports);
        on_ports(&looked, (&stretch, &dump), told_of, Some(&self.pids), |found| {
            answers.push(answer(self.name, found));
        });
        let none = || nothing(&ports, &heard, span_ns as f64 / 1e9);
        Ok(told(self.name, (cut, span_ns), &answers, none))
    }
}

/// All that is said: how the look ended, where that was early, and what it showed.
fn told(
    name: &str,
    (cut, span_ns): (Option<EarlyEnd>, u64),
    answers: &[String],
    none: impl FnOnce() -> String,
) -> String {
    let mut sentences = Vec::new();
    match cut {
        Some(EarlyEnd::Stopped) => {
            sentences.push(format!("The look at its requests was ended after {}.", time(span_ns)));
        }
        Some(EarlyEnd::Ended) => {
            sentences.push(format!("{name} ended while its requests were looked at."));
        }
        None => {}
    }
    match (answers, cut) {
        ([], None) => sentences.push(format!("{}: {}.", name, none())),
        ([], Some(_)) => sentences.push("No request was answered until then.".to_owned()),
        (some, _) => sentences.extend(some.iter().cloned()),
    }
    sentences.join(" ")
}

/// What a tier is called: its cgroup, where that names it, else its process.
fn called(tier: &Tier) -> String {
    let service = &tier.link.service;
    match (tier.spent.cgroup.as_deref().filter(|name| *name != "/"), service.entrance) {
        (Some(cgroup), Entrance::Port(port)) => format!("{} :{port}", clean(cgroup)),
        (Some(cgroup), _) => format!("{} of {}", clean(&service.to_string()), clean(cgroup)),
        (None, _) => clean(&service.to_string()).into_owned(),
    }
}

/// How long the requests on a port took, and where that time went; whom to ask next, where that is another one.
fn answer(name: &str, found: &RequestFindings<'_>) -> String {
    let is_own = |tier: &Tier| tier.link.service.entrance == Entrance::Port(found.port);
    let mut parts = Vec::new();
    for tier in &found.tiers {
        if parts.len() >= MOST_PARTS || tier.share < LEAST_PART {
            continue;
        }
        let mean = time((tier.share * found.latency_mean_ns as f64) as u64);
        let of_it = if parts.is_empty() { " of it" } else { "" };
        parts.push(match is_own(tier) {
            true => format!("{mean}{of_it} its own{}", did(tier)),
            false => format!("{mean}{of_it} waiting for {}", called(tier)),
        });
    }
    let count = match found.requests {
        1 => "1 request".to_owned(),
        many => format!("{} requests", noise_text::units::count(many)),
    };
    let lost = match found.discarded {
        0 => String::new(),
        lost => format!(" {} events were lost meanwhile.", noise_text::units::count(lost)),
    };
    let mut sentence = format!(
        "{name} answers in {} on average ({count} on port {} in {}): {}.{lost}",
        time(found.latency_mean_ns),
        found.port,
        time(found.span_ns),
        parts.join(", "),
    );
    let slowest = found.tiers.first();
    let other = slowest.filter(|tier| !is_own(tier) && tier.share >= MOSTLY);
    if let Some(next) = other.and_then(next) {
        sentence.push_str(&next);
    }
    sentence
}

/// What a tier did most of its time.
fn did(tier: &Tier) -> String {
    let spent = &tier.spent;
    let Some((state, ns)) = spent.states_ns.iter().max_by_key(|(_, ns)| **ns) else {
        return String::new();
    };
    let words = STATES.iter().find(|(name, _)| name == state).map_or(BUSY, |(_, words)| *words);
    format!(" (in {} of that it {words})", part(*ns, spent.spent_ns))
}

/// Whom to ask about a tier; `None` of what is not on this host.
fn next(tier: &Tier) -> Option<String> {
    let name = called(tier);
    let cgroup = tier.spent.cgroup.as_deref().filter(|name| *name != "/");
    let argument = match (cgroup, tier.spent.pids.first()) {
        (Some(cgroup), _) => argument(&clean(cgroup)),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => return None,
    };
    Some(format!(" Next: ask {name}: noised why {argument}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_pages::requests::made::found;
    use noise_pages::sketch::made::system;

    #[test]
    fn a_request_is_divided_among_who_worked_on_it() {
        let system = system();
        let mut found = found(&system);
        let ask = |found: &RequestFindings<'_>| answer("service app.service", found);
        let expected = "service app.service answers in 5.00 ms on average (2 requests on port 80 in 3.00 s): 3.77 ms of \
                        it waiting for db :5432, 1.23 ms its own (in 100 % of that it ran). 3 events were lost \
                        meanwhile.";
        assert_eq!(ask(&found), expected);
        found.discarded = 0;
        found.tiers[0].spent.pids = [31].into();
        assert!(
            ask(&found).ends_with("ran). Next: ask db :5432: noised why 31."),
            "{}",
            ask(&found)
        );
        found.tiers[0].spent.cgroup = Some("db.service".to_owned());
        let said = ask(&found);
        assert!(said.contains("3.77 ms of it waiting for db.service :5432, "), "{said}");
        assert!(said.ends_with(" Next: ask db.service :5432: noised why db.service."), "{said}");
        // Where most of it is its own, there is none to be asked.
        found.tiers.reverse();
        found.tiers[0].spent.spent_ns = 20_000_000;
        (found.tiers[0].share, found.tiers[1].share) = (0.6, 0.4);
        let said = ask(&found);
        assert!(
            said.contains("3.00 ms of it its own (in 15.0 % of that it ran), 2.00 ms waiting"),
            "{said}"
        );
        assert!(!said.contains("Next"), "{said}");
    }

    #[test]
    fn a_look_that_shows_nothing_says_why() {
        let told = |cut, answers: &[String]| {
            told("process web 7", (cut, 1_200_000_000), answers, || {
                "no request was answered".to_owned()
            })
        };
        assert_eq!(told(None, &[]), "process web 7: no request was answered.");
        assert_eq!(
            told(Some(EarlyEnd::Stopped), &[]),
            "The look at its requests was ended after 1.20 s. No request was answered until then."
        );
        assert_eq!(
            told(Some(EarlyEnd::Ended), &["It was fast.".to_owned()]),
            "process web 7 ended while its requests were looked at. It was fast."
        );
        let deaf = LookTarget { name: "process web 7", pids: [7].into(), ports: BTreeSet::new() };
        let said = deaf.look(&AtomicBool::new(false));
        assert_eq!(
            said,
            "process web 7 listens on no TCP port, so there are no requests to look at."
        );
    }
}

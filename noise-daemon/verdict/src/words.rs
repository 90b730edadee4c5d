//! The sentence that a verdict begins with.

use noise_common::charge::Cause;
use noise_text::units::{duration, share};

use crate::account::Account;
use crate::case::{Case, CulpritLoss, Reply, Standstill, UsualNote};
use crate::kind::Kind;

/// Places at which threads sleep that the sentence names.
const MOST_PLACES: usize = 4;

const MINUTE_NS: u64 = 60_000_000_000;
/// From when on a disturbance is said to be lasting.
const LONG_NS: u64 = 10 * MINUTE_NS;

/// What became of packets that wait for a late acknowledgement.
const HELD_BACK: &str =
    "TCP held back until a late acknowledgement (Nagle's algorithm), or sent again";

fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// The loss of a resource whose culprit is named: the first that a finding names.
fn first_named<'c>(losses: &[&'c CulpritLoss], resource: Account) -> Option<&'c CulpritLoss> {
    losses.iter().copied().find(|loss| loss.resource == resource && loss.who.is_some())
}

/// Who that is, and for how long, ns.
fn named<'c>(losses: &[&'c CulpritLoss], resource: Account) -> Option<&'c (String, u64)> {
    first_named(losses, resource)?.who.as_ref()
}

/// The same of so much time in all, as the phrase goes on. Where others are named, and more of it was for its own threads, that
/// is said as well.
fn of_whom(losses: &[&CulpritLoss], resource: Account, all_ns: u64) -> String {
    let Some(first) = first_named(losses, resource) else { return String::new() };
    let Some((who, ns)) = &first.who else { return String::new() };
    let is_own = |loss: &&&CulpritLoss| {
        loss.resource == resource && loss.culprit.cause == Cause::Own && loss.ns > *ns
    };
    let own = losses.iter().find(is_own).filter(|_| first.culprit.cause != Cause::Own);
    let crowding = first.crowding.map(|part| format!(", which had {} of the CPUs,", share(part)));
    let own = own.map(|own| {
        let crowding = crowding.unwrap_or_default();
        format!("{crowding} and {} for its own threads", time(own.ns))
    });
    let own = own.unwrap_or_default();
    match time(*ns) {
        t if t == time(all_ns) => format!(", all of it for {who}"),
        t => format!(", {t} of it for {who}{own}"),
    }
}

/// What interrupted most of so much time in all, as the phrase goes on.
fn by_what(losses: &[&CulpritLoss], all_ns: u64) -> String {
    let Some(first) = losses.iter().find(|loss| loss.resource == Account::Interrupt) else {
        return String::new();
    };
    let name = &first.culprit.name;
    let what = match first.culprit.cause {
        Cause::Softirq => format!("softirq {name}"),
        Cause::Nmi => "NMIs".to_owned(),
        _ => name.clone(),
    };
    match time(first.ns) {
        t if t == time(all_ns) => format!(", all of it to {what}"),
        t => format!(", {t} of it to {what}"),
    }
}

/// Waited for who was asked.
fn for_answers(
    losses: &[&CulpritLoss],
    resource: Account,
    t: &str,
    ns: u64,
    several: &str,
) -> String {
    let reply = first_named(losses, resource).map_or(Reply::Comes, |loss| loss.reply);
    match named(losses, resource) {
        Some((who, most_ns)) if *most_ns >= ns / 10 * 9 => match reply {
            Reply::Comes => format!("waited {t} for {who} to answer"),
            Reply::Never => format!("waited {t} for an answer from {who} that does not come"),
            Reply::HeldBack => format!("waited {t} for packets {who} that {HELD_BACK}"),
        },
        Some((who, most_ns)) => {
            let most = time(*most_ns);
            let all = format!("waited {t} for {several} to answer, {most} of it for");
            match reply {
                Reply::Comes => format!("{all} {who}"),
                Reply::Never => format!("{all} {who}, which does not answer"),
                Reply::HeldBack => format!("{all} packets {who} that {HELD_BACK}"),
            }
        }
        None => format!("waited {t} for {several} to answer"),
    }
}

/// How long; of a sleep, in the part of the time of which there are events.
fn time_of(case: &Case<'_>, resource: Account, ns: u64) -> String {
    match case.seen_ns.filter(|_| resource.is_slept()) {
        Some(seen_ns) => match case.standstill.threads {
            0 | 1 => format!("{} of the last {}", time(ns), time(seen_ns)),
            _ => format!("{} in the last {}, all threads together,", time(ns), time(seen_ns)),
        },
        None => time(ns),
    }
}

/// What the lack of a resource did to the victim; `None` of what is never lacking, and of what is a sentence of its own.
fn lacked(case: &Case<'_>, losses: &[&CulpritLoss], resource: Account, ns: u64) -> Option<String> {
    let t = time_of(case, resource, ns);
    Some(match resource {
        Account::Cpu => format!("waited {t} for a CPU{}", of_whom(losses, resource, ns)),
        Account::Quota => {
            let quota = losses.iter().find(|loss| loss.resource == resource);
            let quota = quota.map_or("a CPU quota", |loss| loss.culprit.name.as_str());
            format!("was stopped for {t} by {quota}")
        }
        Account::Interrupt => format!("lost {t} to interrupts{}", by_what(losses, ns)),
        Account::Hypervisor => format!("lost {t} to the hypervisor"),
        Account::Disk => format!("waited {t} for disks{}", of_whom(losses, resource, ns)),
        Account::Memory => {
            let why = named(losses, resource).map(|(why, _)| format!(", {why}"));
            format!("waited {t} for memory{}", why.unwrap_or_default())
        }
        Account::Tier => for_answers(losses, resource, &t, ns, "other services"),
        Account::Network => for_answers(losses, resource, &t, ns, "other hosts"),
        _ => return None,
    })
}

/// That its threads waited for each other.
fn locked(case: &Case<'_>, losses: &[&CulpritLoss], also: &str, ns: u64) -> String {
    let held = named(losses, Account::Lock);
    let held = held.map_or_else(String::new, |(who, _)| format!("; held {who}"));
    let at = first_named(losses, Account::Lock).and_then(|loss| loss.at.as_ref());
    let at = at.map_or_else(String::new, |at| format!(" {at}"));
    let t = time_of(case, Account::Lock, ns);
    format!("its threads {also}waited {t} for each other{at}{held}")
}

/// What it slept for, where that is not known to be waiting or idling.
fn slept(case: &Case<'_>, longest_held_ns: u64) -> Option<String> {
    let longer: Vec<_> = case
        .unclear_beyond(longest_held_ns)
        .into_iter()
        .map(|unclear| format!("{} {}", time(unclear.ns), unclear.until))
        .collect();
    let (first, rest) = longer.split_first()?;
    let rest: String = rest.iter().map(|one| format!(", {one}")).collect();
    let also = if longest_held_ns > 0 { " also" } else { "" };
    Some(format!(
        "Its threads{also} slept {first}{rest}; whether there was work for them is not known"
    ))
}

/// Where threads sleep, each place with how many, as the phrase goes on.
fn at(places: &[(String, usize)]) -> String {
    let shown = places.iter().take(MOST_PLACES);
    let shown: Vec<String> = shown.map(|(place, threads)| format!("{place} ({threads})")).collect();
    let others = if places.len() > MOST_PLACES { ", and elsewhere" } else { "" };
    match shown.is_empty() {
        true => String::new(),
        false => format!(", in {}{others}", shown.join(", ")),
    }
}

/// That its threads are stopped or frozen, all or a part of them.
fn halted(standstill: &Standstill) -> Vec<String> {
    let Standstill { threads, stopped, frozen, .. } = standstill;
    let how = [
        (*frozen, "frozen (docker pause or cgroup.freeze)"),
        (*stopped, "stopped (SIGSTOP or a debugger)"),
    ];
    let phrase = |(halted, how): (usize, &str)| match halted >= *threads {
        true => format!("is {how}"),
        false => format!("has {halted} of its {threads} threads {how}"),
    };
    how.into_iter().filter(|(halted, _)| *halted > 0).map(phrase).collect()
}

/// That nothing is seen to have held it up, with what is known beside that.
fn nothing(case: &Case<'_>, kind: Kind) -> String {
    let Standstill { threads, asleep_at, .. } = &case.standstill;
    let who = match threads {
        0 | 1 => "it".to_owned(),
        many => format!("its {many} threads"),
    };
    let asleep = asleep_at.as_ref().map(|places| format!("{who} slept all the time{}", at(places)));
    match (asleep, kind) {
        (Some(asleep), Kind::Unknown) => format!("nothing held it up that events show: {asleep}"),
        (Some(asleep), _) => format!("nothing held it up: {asleep}"),
        (None, Kind::Unknown) => "no CPU, quota, interrupt or disk held it up".to_owned(),
        (None, _) => "nothing held it up".to_owned(),
    }
}

fn begun(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

fn several(phrases: &[String]) -> String {
    match phrases {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}

/// How it is usual.
fn as_usual(note: UsualNote) -> String {
    match note.adopted_for_ns {
        Some(ns) => format!(", as it has been for {}", roughly(ns)),
        None if note.is_more_often => ", as long as usual each, and more often".to_owned(),
        None => ", as usual".to_owned(),
    }
}

/// For how long it has been so, where that is long.
fn so_long(ns: u64) -> Option<String> {
    (ns >= LONG_NS).then(|| format!("; it has been so for {}", roughly(ns)))
}

/// A length of time in whole minutes or hours.
fn roughly(ns: u64) -> String {
    match ns / MINUTE_NS {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes => format!("{} h", minutes / 60),
    }
}

/// What held the victim up, if anything is known: the resources in the order of the findings, each with its time, ns, and
/// the losses that are findings.
pub fn sentence(
    case: &Case<'_>,
    held: &[(Account, u64)],
    losses: &[&CulpritLoss],
    kind: Kind,
) -> String {
    let victim = case.victim;
    let longest = held.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    let mut phrases: Vec<String> =
        held.iter().filter_map(|(resource, ns)| lacked(case, losses, *resource, *ns)).collect();
    // What is said of the first is not said of the rest.
    let note = held.first().map(|(resource, _)| case.usual_note(*resource)).unwrap_or_default();
    let mut said = match kind {
        Kind::Unknown if !held.is_empty() => "; whether that is usual is not known".to_owned(),
        Kind::AsUsual => as_usual(note),
        Kind::HeldUp => note.disturbed_for_ns.and_then(so_long).unwrap_or_default(),
        _ => String::new(),
    };
    let asleep_ns = case.uninterruptible_ns.saturating_sub(case.locked_in_kernel_ns);
    let on_disk_ns = [Account::Disk, Account::Memory].map(|account| case.accounts.ns(account));
    let on_disk_ns = on_disk_ns.into_iter().fold(0, u64::saturating_add);
    // What it waited for disks and memory is part of that, and said already.
    let rest_ns = asleep_ns.saturating_sub(on_disk_ns);
    let slept_most = rest_ns >= case.least_ns() && rest_ns > longest && said.is_empty();
    if rest_ns >= case.least_ns() {
        let places = at(&case.standstill.uninterruptible_at);
        let phrase = format!("slept {} uninterruptibly{places}", time(rest_ns));
        // It stands first where nothing of which a culprit is known took so long.
        let place = if slept_most { 0 } else { phrases.len() };
        phrases.insert(place, phrase);
    }
    let is_halted = case.standstill.is_whole();
    // That memory is short is wrong whatever is usual.
    let has_usual = |one: &Account| !one.is_slept() && *one != Account::Memory;
    let first = held.first().map(|(resource, _)| *resource).filter(has_usual);
    let is_usual_unknown = first.is_some_and(|one| case.against_usual(one).1.is_none());
    let is_first = !slept_most && !is_halted;
    if kind == Kind::HeldUp && said.is_empty() && is_usual_unknown && is_first {
        said.push_str("; what is usual is not known");
    }
    let place = if is_halted { 0 } else { phrases.len() };
    phrases.splice(place..place, halted(&case.standstill));
    let lock = held.iter().position(|(resource, _)| *resource == Account::Lock);
    let lock_ns = case.accounts.ns(Account::Lock);
    let mut sentence = match (lock, phrases.as_slice()) {
        (Some(0), rest) => {
            let first = format!("{victim}: {}{said}", locked(case, losses, "", lock_ns));
            match rest {
                [] => first,
                rest => format!("{first}. It also {}", several(rest)),
            }
        }
        (_, []) => format!("{victim}: {}", nothing(case, kind)),
        (_, [only]) => format!("{victim} {only}{said}"),
        (_, [first, rest @ ..]) if !said.is_empty() => {
            format!("{victim} {first}{said}. It also {}", several(rest))
        }
        (_, [first, rest @ ..]) => format!("{victim} {first}; it also {}", several(rest)),
    };
    if lock.is_some_and(|place| place > 0) {
        sentence = format!("{sentence}. {}", begun(&locked(case, losses, "also ", lock_ns)));
    }
    // A service can be slow because its own program sleeps.
    let timer_ns = case.accounts.ns(Account::Timer);
    if timer_ns > longest && timer_ns >= case.least_ns() {
        let begin = if phrases.is_empty() && lock.is_none() { "; it" } else { ". It also" };
        let t = time_of(case, Account::Timer, timer_ns);
        sentence.push_str(&format!("{begin} slept {t} on timers of its own"));
    }
    if let Some(slept) = slept(case, longest) {
        sentence = format!("{sentence}. {slept}");
    }
    if let Some((thread, ns)) = case.at_its_limit() {
        let (ran, span) = (time(*ns), time(case.span_ns));
        sentence = format!(
            "{sentence}. Its thread {thread} ran for {ran} of {span}: it can do no more on one CPU"
        );
    }
    sentence
}

//! What an incident is, in a sentence: who lacks what, by how much, since when, and by whom.

use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_model::labels::{ROOT, spoken};
use noise_text::units::share;

use super::{ChargedCulprit, Disturbed, called, only_completes};
use crate::account::Account;
use crate::finding::{CulpritKind, Finding};

/// Other victims that are named.
const NAMED: usize = 2;
/// Where no culprit is known.
const UNKNOWN: &str = "by whom is not known";

/// A device's requests: the device, and which ones.
fn request(subject: &str) -> (&str, &str) {
    subject.rsplit_once(' ').unwrap_or((subject, ""))
}

/// Who is disturbed: what is in no cgroup, by the threads that waited longest.
fn victim(one: &Disturbed<'_>) -> String {
    let words = spoken(one.victim);
    let first = one.threads.first().filter(|_| one.victim == ROOT);
    first.map_or_else(|| words.to_owned(), |first| format!("{words}, above all {},", first.words()))
}

fn lacks(one: &Disturbed<'_>, resource: Account) -> String {
    let victim = victim(one);
    let is_many = one.victim == ROOT;
    let when = |now: &'static str, then: &'static str| if one.is_over { then } else { now };
    let does = |one: &'static str, many: &'static str, then: &'static str| {
        if is_many { when(many, then) } else { when(one, then) }
    };
    let Some(signal) = one.signal else {
        let to = match resource {
            Account::Hypervisor => "the hypervisor",
            _ => "interrupts",
        };
        return format!("{victim} {} CPU time to {to}", does("loses", "lose", "lost"));
    };
    let (info, waits) = (signal.info(), does("waits", "wait", "waited"));
    if signal == Signal::UninterruptibleWait {
        // The kernel's mark does not say whether a file system of another host was waited for.
        let of_io =
            |first: &ChargedCulprit<'_>| matches!(first.cause, Cause::Iowait | Cause::Writeback);
        let is_marked = one.charged.first().is_some_and(of_io);
        return match resource {
            Account::Disk if is_marked => format!("{victim} {waits} for I/O"),
            Account::Disk => format!("{victim} {waits} for disks"),
            Account::Memory => format!("{victim} {waits} for memory"),
            _ => format!("{victim} {} uninterruptibly", does("sleeps", "sleep", "slept")),
        };
    }
    let (device, operation) = request(one.victim);
    let words = info.disturbed.split(['{', '}']).enumerate().map(|(place, word)| match word {
        _ if place % 2 == 0 => word,
        "victim" => victim.as_str(),
        "device" => device,
        "operation" => operation,
        "waits" => waits,
        "wait" => when("wait", "waited"),
        "takes" => when("takes", "took"),
        "take" => when("take", "took"),
        "starts" => when("starts", "started"),
        "rises" => when("rises", "rose"),
        _ => info.name,
    });
    words.collect()
}

/// By whom: who is charged with what the first finding says.
fn by(one: &Disturbed<'_>, finding: &Finding, first: &ChargedCulprit<'_>) -> String {
    let name = finding.culprit.name.as_str();
    let is_sleep = one.signal == Some(Signal::UninterruptibleWait);
    let by = match first.cause {
        Cause::Throttle => format!("stopped by {name}"),
        Cause::Steal => "stopped by the hypervisor".to_owned(),
        Cause::Untracked => return UNKNOWN.to_owned(),
        Cause::Idle if is_sleep => "until an interrupt came while its CPU was idle".to_owned(),
        Cause::Idle => "for CPUs that were idle and had to wake up".to_owned(),
        Cause::Iowait => "until I/O was done".to_owned(),
        Cause::Writeback if first.name == one.victim => "behind what it wrote itself".to_owned(),
        Cause::Writeback => format!("behind what {name} wrote"),
        _ if only_completes(one.signal, first.cause, first.name) => {
            "until requests of a disk were done".to_owned()
        }
        Cause::Softirq if is_sleep => format!("until softirq {name} came"),
        Cause::Hardirq | Cause::Nmi if is_sleep => format!("until interrupt {name} came"),
        Cause::Kthread if is_sleep => format!("until {} was done", kernel_thread(first)),
        Cause::Own if is_sleep && first.name == one.victim => {
            "until its own threads woke it".to_owned()
        }
        Cause::Foreign | Cause::Own if is_sleep => format!("until {name} was done"),
        Cause::Own if first.name == one.victim => "behind its own threads".to_owned(),
        Cause::Own => format!("by {name}, whose requests queue behind each other"),
        Cause::Foreign => format!("held up by {name}"),
        Cause::Kthread => format!("held up by {}", kernel_thread(first)),
        Cause::Hardirq => format!("interrupted by {name}"),
        Cause::Softirq => format!("interrupted by softirq {name}"),
        Cause::Nmi => "interrupted by NMIs".to_owned(),
    };
    let part = share(first.part.clamp(0.0, 1.0));
    format!("{by} ({part}){}", above_all(finding, first))
}

fn kernel_thread(first: &ChargedCulprit<'_>) -> String {
    let words = called(first.cause, first.name);
    if words == first.name { format!("kernel thread {words}") } else { words.to_owned() }
}

/// Its thread that did most, where the name does not say it.
fn above_all(finding: &Finding, first: &ChargedCulprit<'_>) -> String {
    let thread = first.threads.first().filter(|_| finding.culprit.kind != CulpritKind::Process);
    thread.map_or_else(String::new, |thread| format!(", above all {}", thread.words()))
}

/// Another victim, with its main culprit if that is another one than that of the incident.
pub fn also(victim: &str, by: Option<&Finding>) -> String {
    let victim = spoken(victim);
    match by {
        Some(by) => format!("{victim} (above all by {})", by.culprit.name),
        None => victim.to_owned(),
    }
}

/// The sentence: the first finding, and who is charged with it, where that is known.
pub fn sentence(
    one: &Disturbed<'_>,
    first: Option<&Finding>,
    charged: Option<&ChargedCulprit<'_>>,
    others: &[String],
) -> String {
    let lacks = lacks(one, first.map_or(Account::Unknown, |first| first.resource));
    let by = match (&one.short, first.zip(charged)) {
        (Some(short), _) => short.words(),
        (None, Some((first, charged))) => by(one, first, charged),
        (None, None) => UNKNOWN.to_owned(),
    };
    let rose = match &one.rose {
        Some(rose) => format!(": {rose}"),
        None => String::new(),
    };
    let named = others.get(..NAMED.min(others.len())).unwrap_or_default().join(", ");
    let also = match others.len().saturating_sub(NAMED) {
        _ if others.is_empty() => String::new(),
        0 => format!("; also disturbed: {named}"),
        more => format!("; also disturbed: {named} and {more} more"),
    };
    format!("{lacks}{rose} {}, {by}{also}", one.when)
}

//! What two disturbances have to do with each other: a place, a contention, or a culprit.

use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_common::subject::{Domain, SubjectKind};
use noise_verdict::completes_requests;

use super::accused::{Accused, MAIN_SHARE};
use super::culprits::Culprit;
use super::incident::Incident;
use super::name::{Name, ROOT};
use super::watched::Watched;

/// Where the delays are: what a signal's subject has in common with that of another signal.
fn place(incident: &Incident) -> (&'static str, &str) {
    let subject = &*incident.subject;
    let Watched::Signal(signal) = incident.signal else { return (incident.signal.name(), subject) };
    let info = signal.info();
    match info.subject {
        SubjectKind::Request => {
            ("device", subject.rsplit_once(' ').map_or(subject, |(device, _)| device))
        }
        SubjectKind::Interface => ("interface", subject),
        SubjectKind::Host | SubjectKind::Kinds(_) => (info.domain.name(), ""),
        _ => (info.name, subject),
    }
}

/// Whether both wait for the same, so that their culprits are those of one queue. What an interface
/// sends and what it receives are not.
fn is_one_queue(one: &Incident, other: &Incident) -> bool {
    let is_block = |incident: &Incident| {
        let Watched::Signal(signal) = incident.signal else { return false };
        signal.info().subject == SubjectKind::Request
    };
    let alike = one.signal == other.signal || is_block(one) && is_block(other);
    alike && place(one) == place(other)
}

fn accused(incident: &Incident) -> Accused<'_> {
    Accused::new(incident.signal, &incident.culprits)
}

/// Whether a signal is itself what the culprit is charged with: the same interrupt.
fn is_itself(incident: &Incident, culprit: &Culprit<Name>) -> bool {
    let Watched::Signal(signal) = incident.signal else { return false };
    let (subject, name) = (&*incident.subject, &*culprit.culprit);
    let info = signal.info();
    if info.cause != Some(culprit.cause) {
        return false;
    }
    match info.subject {
        SubjectKind::Irq => subject.split_once(' ').is_some_and(|(irq, own)| {
            own == name || name.strip_prefix("irq ").is_some_and(|number| number == irq)
        }),
        SubjectKind::Host => true,
        _ => subject == name,
    }
}

/// Whether the subject of one, which waits itself, is whom the other waits for.
fn is_side(incident: &Incident, culprit: &Culprit<Name>) -> bool {
    // Who loses time to interrupts is in no contention with those who wait for him.
    incident.signal != Watched::Interruption && culprit.culprit == incident.subject
}

/// Whether it is of requests of a block device.
pub(super) fn is_of_requests(incident: &Incident) -> bool {
    matches!(incident.signal, Watched::Signal(signal) if signal.info().domain == Domain::Disk)
}

/// Whether the one is of sleeps that end as requests of a block device do or wait for what is written, and the other of such
/// requests.
pub(super) fn sleeps_for(sleep: &Incident, requests: &Incident) -> bool {
    sleep.signal == Signal::UninterruptibleWait
        && is_of_requests(requests)
        && accused(sleep)
            .main()
            .any(|one| one.cause == Cause::Writeback || completes_requests(one.cause, &one.culprit))
}

fn caused(victim: &Incident, by: &Incident) -> bool {
    if sleeps_for(victim, by) {
        return true;
    }
    let accused = accused(victim);
    accused
        .main()
        // Who waits for himself at a slow device is not why it is slow; and who is overloaded by
        // himself is so whatever befalls a small part of those whom he waits for.
        .filter(|culprit| culprit.cause != Cause::Own)
        .filter(|culprit| accused.part(culprit) >= MAIN_SHARE)
        .any(|culprit| is_side(by, culprit) || is_itself(by, culprit))
}

/// Whether one is where the other is, or they are two sides of one contention, or one is the
/// interrupts that the other suffers from, or the requests that the other sleeps for.
pub(super) fn related(one: &Incident, other: &Incident) -> bool {
    place(one) == place(other) || caused(one, other) || caused(other, one)
}

/// Whether the two have a main culprit in common. What interrupts take from all that has no cgroup
/// of its own has every interrupt among its culprits: it is another's doing unless it shares the
/// first of the other.
pub(super) fn share_culprit(one: &Incident, other: &Incident) -> bool {
    let is_class = |incident: &Incident| {
        incident.signal == Watched::Interruption && &*incident.subject == ROOT
    };
    match (is_class(one), is_class(other)) {
        (true, false) => has_first_of(other, one),
        (false, true) => has_first_of(one, other),
        _ => accused(one).shares(&accused(other)),
    }
}

/// Begins that are no further apart are in the same seconds, ns.
const SAME_SECONDS_NS: u64 = 5_000_000_000;

/// Whether one cgroup is behind both, which began in the same seconds, though its part in one of them is too small to be
/// sure of that alone: its victims queue behind their own threads, and its own threads behind each other. Nor is a sleep that
/// the victim's own threads end another disturbance where these threads wait for a CPU since the same seconds.
pub(super) fn have_one_suspect(one: &Incident, other: &Incident) -> bool {
    let blames = |incident: &Incident, name: &Name| {
        let is_cgroup = |cause| matches!(cause, Cause::Own | Cause::Foreign);
        suspect(incident) == Some(name)
            || accused(incident).main().any(|one| is_cgroup(one.cause) && one.culprit == *name)
    };
    let is_suspected = |one: &Incident, other: &Incident| {
        suspect(one).is_some_and(|suspect| blames(other, suspect))
    };
    let is_consequence = |sleep: &Incident, waits: &Incident| {
        sleep.signal == Signal::UninterruptibleWait
            && is_by_itself(sleep)
            && waits.signal == Signal::CgroupRunqueueWait
            && sleep.subject == waits.subject
    };
    one.start_ns.abs_diff(other.start_ns) <= SAME_SECONDS_NS
        && (is_suspected(one, other)
            || is_suspected(other, one)
            || is_consequence(one, other)
            || is_consequence(other, one))
}

/// The cgroup that is suspected: another one, or the victim itself where no other did a main part. Who ends a sleep is not the
/// reason for it.
fn suspect(incident: &Incident) -> Option<&Name> {
    let itself = || is_by_itself(incident).then_some(&incident.subject);
    match incident.signal {
        Watched::Signal(Signal::CgroupRunqueueWait) => accused(incident).suspect().or_else(itself),
        Watched::Signal(Signal::UninterruptibleWait) => itself(),
        _ => None,
    }
}

/// Whether one did not come back as the other: the culprits of both are known, and are others.
pub(super) fn succeeds(one: &Incident, other: &Incident) -> bool {
    accused(one).differs(&accused(other), true)
}

/// Whether two of one queue are by others.
pub(super) fn rivals(one: &Incident, other: &Incident) -> bool {
    is_one_queue(one, other) && succeeds(one, other)
}

/// Whether two of one queue have a main culprit in common.
pub(super) fn allies(one: &Incident, other: &Incident) -> bool {
    is_one_queue(one, other) && share_culprit(one, other)
}

/// Whether the first main culprit of one is a main culprit of the other.
pub(super) fn has_first_of(one: &Incident, other: &Incident) -> bool {
    let first = accused(one).main().next();
    first.is_some_and(|first| accused(other).main().any(|with| with.is_same(first)))
}

/// Whether it did the main part itself, as far as that is known.
pub(super) fn is_by_itself(incident: &Incident) -> bool {
    accused(incident).main().all(|one| one.cause == Cause::Own)
}

/// Whether two are disturbances of their own: by others, and neither the other's other side.
pub(super) fn is_apart(one: &Incident, other: &Incident) -> bool {
    let names = |victim: &Incident, by: &Incident| {
        accused(victim).main().any(|culprit| is_side(by, culprit) || is_itself(by, culprit))
    };
    let is_linked = || {
        let neighbours = place(one) == place(other) && !is_one_queue(one, other);
        let is_sleep_for = sleeps_for(one, other) || sleeps_for(other, one);
        neighbours || is_sleep_for || names(one, other) || names(other, one)
    };
    accused(one).differs(&accused(other), false) && !is_linked()
}

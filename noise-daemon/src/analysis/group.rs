//! One disturbance is one incident, however many signals of however many subjects it shows in.
//!
//! What opens while an incident is open joins it where one explains the other:
//! - it is back: the same signal of the same subject was a part of it and ended earlier;
//! - it is at the same place: another operation or another stage of the same device, interface, …;
//! - the two share a culprit that has at least a quarter of each, of what is beyond the usual;
//! - one's subject is such a culprit of the other: two sides of one contention;
//! - one is a signal of interrupts, and interrupts of that kind are such a culprit of the other.
//!
//! Otherwise it is an incident of its own: two that happen at a time are told as two. What joined
//! stays, even where its culprits turn out to be others. Where two turn out to have one cause only
//! after the second began, as who did it is not clear from the first windows, the second joins late
//! ([`Event::Merged`]). Shortly after its end, an incident goes on with what shares a culprit with it
//! and with what is back without being another's doing.
//!
//! Who is kept waiting queues behind himself as well: a cgroup's own tasks are left out of account
//! when it is asked who did a quarter of its delays. At a device or an interface they are not: who
//! floods it waits for himself most.

use std::collections::BTreeSet;
use std::sync::Arc;

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::culprits::{Culprit, nothing_beyond};
use super::feed::{Name, is_catch_all};
use super::incident::{Change, Incident};
use super::report::{Clock, Episode, Report};
use super::watched::Watched;

/// Least part in an incident that makes a culprit a reason to join another.
const MAIN_SHARE: f64 = 0.25;

/// The same where a cgroup's own tasks are left out of account: part of all that it must have.
const LEAST_SHARE: f64 = 0.1;

/// Most signals of subjects that are told of one incident; further ones are counted.
const TOLD: usize = 32;

type Key = (Watched, Name);

/// What became of an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It opened.
    Opened(Arc<Report>),
    /// Another signal of another subject joined it, the last of [`Report::also`].
    Joined(Arc<Report>),
    /// An incident that had opened by itself turned out to be of the same cause.
    Merged {
        /// The one that is no more.
        id: u64,
        /// The one that it joined.
        into: Arc<Report>,
    },
    /// All of it ended, and did not come back for a while.
    Closed(Arc<Report>),
}

/// Incidents that are open, or ended a few windows ago.
#[derive(Debug)]
pub(super) struct Groups {
    open: Vec<Group>,
    last_id: u64,
    linger: usize,
}

#[derive(Debug)]
struct Group {
    id: u64,
    /// What belongs to it, in the order of joining; never empty.
    members: Vec<Incident<Name, Name>>,
    untold: u64,
    open: BTreeSet<Key>,
    /// Windows since all of it ended.
    calm: usize,
}

impl Group {
    fn update(&mut self, incident: &Incident<Name, Name>) {
        // The newest of a signal and subject; one that ended before stays as it was.
        let own = self.members.iter_mut().rev().find(|member| key(member) == key(incident));
        if let Some(member) = own {
            *member = incident.clone();
        }
    }

    fn explains(&self, incident: &Incident<Name, Name>) -> bool {
        self.members.iter().any(|member| {
            let goes_on = self.open.contains(&key(member)) && related(member, incident);
            goes_on || share_culprit(member, incident)
        }) || self.comes_back(incident)
    }

    /// Whether it was a part of this one, and is not another's doing now.
    fn comes_back(&self, incident: &Incident<Name, Name>) -> bool {
        let was_here = self.members.iter().any(|member| key(member) == key(incident));
        let by_nobody_else = || main_culprits(incident).all(|one| one.cause == Cause::Own);
        was_here && (!self.open.is_empty() || by_nobody_else())
    }

    fn push(&mut self, incident: Incident<Name, Name>) {
        if self.members.len() > TOLD {
            self.untold += 1;
        } else {
            self.members.push(incident);
        }
    }

    fn report(&self, clock: Clock) -> Option<Report> {
        let (first, others) = self.members.split_first()?;
        Some(Report {
            id: self.id,
            open: !self.open.is_empty(),
            main: Episode::new(first, clock),
            also: others.iter().map(|member| Episode::new(member, clock)).collect(),
            untold: self.untold,
        })
    }
}

impl Groups {
    /// None. An incident is over when it did not come back for `linger` windows.
    pub fn new(linger: usize) -> Self {
        Self { open: Vec::new(), last_id: 0, linger }
    }

    /// Goes on with another `linger`.
    pub fn set(&mut self, linger: usize) {
        self.linger = linger;
    }

    /// Drops what is open, untold.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Numbers go on after that one.
    pub fn continue_after(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// Takes what opened and closed in the newest window, with what is open now.
    pub fn take(
        &mut self,
        changes: Vec<Change<Name, Name>>,
        active: impl Iterator<Item = Incident<Name, Name>>,
        clock: Clock,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        if changes.is_empty() && self.open.is_empty() {
            return events;
        }
        if !changes.is_empty() || self.open.len() > 1 {
            self.refresh(active);
        }
        for change in changes {
            match change {
                Change::Opened(incident) => events.extend(self.add(incident, clock)),
                Change::Closed(incident) => self.end(&incident),
            }
        }
        while let Some(event) = self.merge(clock) {
            events.push(event);
        }
        self.open.retain_mut(|group| {
            let is_over = group.open.is_empty() && group.calm >= self.linger;
            if group.open.is_empty() {
                group.calm += 1;
            }
            if is_over {
                events.extend(group.report(clock).map(Arc::new).map(Event::Closed));
            }
            !is_over
        });
        events
    }

    /// What is open, as it stands.
    pub fn reports(
        &mut self,
        active: impl Iterator<Item = Incident<Name, Name>>,
        clock: Clock,
    ) -> Vec<Arc<Report>> {
        self.refresh(active);
        self.open.iter().filter_map(|group| group.report(clock)).map(Arc::new).collect()
    }

    fn refresh(&mut self, active: impl Iterator<Item = Incident<Name, Name>>) {
        for incident in active {
            let key = key(&incident);
            if let Some(group) = self.open.iter_mut().find(|group| group.open.contains(&key)) {
                group.update(&incident);
            }
        }
    }

    fn add(&mut self, incident: Incident<Name, Name>, clock: Clock) -> Option<Event> {
        if let Some(group) = self.open.iter_mut().find(|group| group.explains(&incident)) {
            group.open.insert(key(&incident));
            group.calm = 0;
            let told = group.members.len();
            group.push(incident);
            let is_told = group.members.len() > told;
            let report = group.report(clock).filter(|_| is_told);
            return report.map(Arc::new).map(Event::Joined);
        }
        self.last_id += 1;
        let group = Group {
            id: self.last_id,
            open: BTreeSet::from([key(&incident)]),
            members: vec![incident],
            untold: 0,
            calm: 0,
        };
        let report = group.report(clock);
        self.open.push(group);
        report.map(Arc::new).map(Event::Opened)
    }

    fn end(&mut self, incident: &Incident<Name, Name>) {
        let key = key(incident);
        if let Some(group) = self.open.iter_mut().find(|group| group.open.contains(&key)) {
            group.update(incident);
            group.open.remove(&key);
        }
    }

    /// Lets an incident join an older one that explains it by now, if there are two such.
    fn merge(&mut self, clock: Clock) -> Option<Event> {
        let (older, newer) = self.open.iter().enumerate().find_map(|(index, older)| {
            let explained =
                |newer: &Group| newer.members.iter().any(|member| older.explains(member));
            let newer = self.open.iter().skip(index + 1).position(explained)?;
            Some((index, index + 1 + newer))
        })?;
        let newer = self.open.remove(newer);
        let group = self.open.get_mut(older)?;
        group.untold += newer.untold;
        group.open.extend(newer.open);
        group.calm = group.calm.min(newer.calm);
        newer.members.into_iter().for_each(|member| group.push(member));
        let into = Arc::new(group.report(clock)?);
        Some(Event::Merged { id: newer.id, into })
    }
}

fn key(incident: &Incident<Name, Name>) -> Key {
    (incident.signal, Arc::clone(&incident.subject))
}

/// Where the delays are: what a signal's subject has in common with that of another signal.
fn place(incident: &Incident<Name, Name>) -> (&'static str, &str) {
    let subject = &*incident.subject;
    let Watched::Signal(signal) = incident.signal else { return (incident.signal.name(), subject) };
    match signal {
        Signal::BlockQueueWait | Signal::BlockDeviceWait => {
            ("device", subject.rsplit_once(' ').map_or(subject, |(device, _)| device))
        }
        Signal::NetTxWait | Signal::NetRxWait => ("interface", subject),
        Signal::RunqueueWait => ("cpu", ""),
        Signal::DirectReclaim | Signal::Compaction => ("memory", ""),
        signal => (signal.info().name, subject),
    }
}

/// The cause that a signal is itself.
fn inherent(watched: Watched) -> Option<Cause> {
    let Watched::Signal(signal) = watched else { return None };
    match signal {
        Signal::Hardirq | Signal::Vector => Some(Cause::Hardirq),
        Signal::Softirq | Signal::SoftirqRaiseWait => Some(Cause::Softirq),
        Signal::Nmi => Some(Cause::Nmi),
        _ => None,
    }
}

/// Whether the subject is a cgroup, which is then no culprit of its own delays.
fn is_of_cgroup(incident: &Incident<Name, Name>) -> bool {
    matches!(incident.signal, Watched::Signal(Signal::CgroupRunqueueWait) | Watched::Interruption)
}

/// Culprits that two incidents can have in common. A victim's own tasks and its own quota are
/// nobody else's culprits, and those without a name may be different ones.
fn main_culprits(incident: &Incident<Name, Name>) -> impl Iterator<Item = &Culprit<Name>> + Clone {
    let nothing_beyond = nothing_beyond(&incident.culprits);
    let of_cgroup = is_of_cgroup(incident);
    let is_own = move |culprit: &Culprit<Name>| of_cgroup && culprit.cause == Cause::Own;
    let part = move |culprit: &Culprit<Name>| culprit.part(nothing_beyond);
    let own: f64 = incident.culprits.iter().filter(|one| is_own(one)).map(part).sum();
    let least = (MAIN_SHARE * (1.0 - own)).max(LEAST_SHARE);
    incident.culprits.iter().filter(move |culprit| {
        let nobody = matches!(culprit.cause, Cause::Throttle | Cause::Idle | Cause::Untracked);
        let named = !nobody && !is_own(culprit) && !is_catch_all(&culprit.culprit);
        named && part(culprit) >= least
    })
}

/// Whether two culprits are the same. A cgroup is, whoever waits for it.
fn is_same(one: &Culprit<Name>, other: &Culprit<Name>) -> bool {
    let is_cgroup = |culprit: &Culprit<Name>| matches!(culprit.cause, Cause::Own | Cause::Foreign);
    let alike = one.cause == other.cause || is_cgroup(one) && is_cgroup(other);
    alike && one.culprit == other.culprit
}

fn share_culprit(one: &Incident<Name, Name>, other: &Incident<Name, Name>) -> bool {
    let of_other = main_culprits(other);
    main_culprits(one).any(|culprit| of_other.clone().any(|with| is_same(with, culprit)))
}

fn related(one: &Incident<Name, Name>, other: &Incident<Name, Name>) -> bool {
    let caused = |victim: &Incident<Name, Name>, by: &Incident<Name, Name>| {
        let nothing_beyond = nothing_beyond(&victim.culprits);
        main_culprits(victim)
            // Who waits for himself at a slow device is not why it is slow; and who is overloaded by
            // himself is so whatever befalls a small part of those whom he waits for.
            .filter(|culprit| culprit.cause != Cause::Own)
            .filter(|culprit| culprit.part(nothing_beyond) >= MAIN_SHARE)
            .any(|culprit| {
                culprit.culprit == by.subject || Some(culprit.cause) == inherent(by.signal)
            })
    };
    place(one) == place(other) || caused(one, other) || caused(other, one)
}

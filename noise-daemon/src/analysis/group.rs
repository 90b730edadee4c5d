//! One disturbance is one incident, however many signals of however many subjects it shows in.
//!
//! What opens while an incident is open joins it where one explains the other:
//! - it is back: the same signal of the same subject was a part of it and ended earlier;
//! - it is at the same place: another operation or another stage of the same device, interface, …;
//! - the two share a culprit that is charged with at least a quarter of each;
//! - one's subject is such a culprit of the other: two sides of one contention;
//! - one is a signal of interrupts, and interrupts of that kind are such a culprit of the other.
//!
//! Otherwise it is an incident of its own: two that happen at a time are told as two. What joined
//! stays, even where its culprits turn out to be others.

use std::collections::BTreeSet;
use std::sync::Arc;

use noise_common::charge::Cause;
use noise_common::signals::Signal;

use super::culprits::Culprit;
use super::feed::{Name, is_catch_all};
use super::incident::{Change, Incident};
use super::report::{Clock, Episode, Report};

/// Least share of the delays of an incident that makes a culprit a reason to join another.
const MAIN_SHARE: f64 = 0.25;

/// Most signals of subjects that are told of one incident; further ones are counted.
const TOLD: usize = 32;

type Key = (Signal, Name);

/// What became of an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It opened.
    Opened(Arc<Report>),
    /// Another signal of another subject joined it, the last of [`Report::also`].
    Joined(Arc<Report>),
    /// All of it ended.
    Closed(Arc<Report>),
}

/// Incidents that are open.
#[derive(Debug, Default)]
pub(super) struct Groups {
    open: Vec<Group>,
    last_id: u64,
}

#[derive(Debug)]
struct Group {
    id: u64,
    /// What belongs to it, in the order of joining; never empty.
    members: Vec<Incident<Name, Name>>,
    untold: u64,
    open: BTreeSet<Key>,
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
            let comes_back = key(member) == key(incident);
            comes_back || self.open.contains(&key(member)) && related(member, incident)
        })
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
    /// Numbers go on after that one.
    pub fn continue_after(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// Takes what opened and closed, with what is open now.
    pub fn take(
        &mut self,
        changes: Vec<Change<Name, Name>>,
        active: impl Iterator<Item = Incident<Name, Name>>,
        clock: Clock,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        if changes.is_empty() {
            return events;
        }
        self.refresh(active);
        for change in changes {
            let event = match change {
                Change::Opened(incident) => self.add(incident, clock),
                Change::Closed(incident) => self.end(&incident, clock),
            };
            events.extend(event);
        }
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
            if group.members.len() > TOLD {
                group.untold += 1;
                return None;
            }
            group.members.push(incident);
            return group.report(clock).map(Arc::new).map(Event::Joined);
        }
        self.last_id += 1;
        let group = Group {
            id: self.last_id,
            open: BTreeSet::from([key(&incident)]),
            members: vec![incident],
            untold: 0,
        };
        let report = group.report(clock);
        self.open.push(group);
        report.map(Arc::new).map(Event::Opened)
    }

    fn end(&mut self, incident: &Incident<Name, Name>, clock: Clock) -> Option<Event> {
        let key = key(incident);
        let index = self.open.iter().position(|group| group.open.contains(&key))?;
        let group = self.open.get_mut(index)?;
        group.update(incident);
        group.open.remove(&key);
        if !group.open.is_empty() {
            return None;
        }
        self.open.remove(index).report(clock).map(Arc::new).map(Event::Closed)
    }
}

fn key(incident: &Incident<Name, Name>) -> Key {
    (incident.signal, Arc::clone(&incident.subject))
}

/// Where the delays are: what a signal's subject has in common with that of another signal.
fn place(incident: &Incident<Name, Name>) -> (&'static str, &str) {
    let subject = &*incident.subject;
    match incident.signal {
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
fn inherent(signal: Signal) -> Option<Cause> {
    match signal {
        Signal::Hardirq | Signal::Vector => Some(Cause::Hardirq),
        Signal::Softirq | Signal::SoftirqRaiseWait => Some(Cause::Softirq),
        Signal::Nmi => Some(Cause::Nmi),
        _ => None,
    }
}

/// Culprits that two incidents can have in common. A victim's own tasks and its own quota are
/// nobody else's culprits, and those without a name may be different ones.
fn main_culprits(incident: &Incident<Name, Name>) -> impl Iterator<Item = &Culprit<Name>> + Clone {
    incident.culprits.iter().filter(|culprit| {
        let own = matches!(culprit.cause, Cause::Own | Cause::Throttle | Cause::Untracked);
        !own && !is_catch_all(&culprit.culprit) && culprit.time.share >= MAIN_SHARE
    })
}

fn related(one: &Incident<Name, Name>, other: &Incident<Name, Name>) -> bool {
    let (of_one, of_other) = (main_culprits(one), main_culprits(other));
    let shared = of_one.clone().any(|culprit| {
        let same =
            |with: &Culprit<Name>| with.cause == culprit.cause && with.culprit == culprit.culprit;
        of_other.clone().any(same)
    });
    let caused = |victim: &Incident<Name, Name>, by: &Incident<Name, Name>| {
        main_culprits(victim).any(|culprit| {
            culprit.culprit == by.subject || Some(culprit.cause) == inherent(by.signal)
        })
    };
    place(one) == place(other) || shared || caused(one, other) || caused(other, one)
}

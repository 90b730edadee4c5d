//! One signal of one subject in an incident: it may calm down and come back.

use std::borrow::Cow;

use super::super::incident::Incident;
use super::super::relation::succeeds;
use super::super::report::{Clock, Episode};
use super::super::track::Key;

/// A disturbance, with its begin and, if it is over, its end, ns since boot: the clock of its windows stands still while
/// the host is suspended.
#[derive(Clone, Debug)]
struct Disturbance {
    incident: Incident,
    start_ns: u64,
    end_ns: Option<u64>,
}

impl Disturbance {
    fn together(one: &Self, other: &Self) -> Self {
        Self {
            incident: Incident::together(&one.incident, &other.incident),
            start_ns: one.start_ns.min(other.start_ns),
            end_ns: one.end_ns.zip(other.end_ns).map(|(one, other)| one.max(other)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Member {
    /// The one that goes on, or all that is over.
    newest: Disturbance,
    /// What was before the one that goes on, as one.
    past: Option<Disturbance>,
    /// Windows since it ended.
    calm: usize,
}

impl Member {
    pub fn new(incident: Incident, clock: Clock) -> Self {
        let start_ns = clock.since_boot_ns(incident.start_ns);
        Self { newest: Disturbance { incident, start_ns, end_ns: None }, past: None, calm: 0 }
    }

    pub fn is_of(&self, key: &Key) -> bool {
        let one = self.newest();
        one.signal == key.0 && one.subject == key.1
    }

    pub fn is_open(&self) -> bool {
        self.newest.end_ns.is_none()
    }

    /// Whether it ended no more than so many windows ago, if it did.
    pub fn is_live(&self, linger: usize) -> bool {
        self.is_open() || self.calm <= linger
    }

    /// Whether it ended so many windows ago.
    pub fn is_over(&self, linger: usize) -> bool {
        !self.is_open() && self.calm >= linger
    }

    /// One more window has passed.
    pub fn rest(&mut self) {
        if !self.is_open() {
            self.calm = self.calm.saturating_add(1);
        }
    }

    /// Its disturbances, those that are over as one: what it is known by, first.
    pub fn disturbances(&self) -> impl Iterator<Item = &Incident> {
        self.past.iter().chain([&self.newest]).map(|one| &one.incident)
    }

    /// What it is known by.
    pub fn first(&self) -> &Incident {
        &self.past.as_ref().unwrap_or(&self.newest).incident
    }

    pub fn newest(&self) -> &Incident {
        &self.newest.incident
    }

    fn whole(&self) -> Cow<'_, Disturbance> {
        match &self.past {
            None => Cow::Borrowed(&self.newest),
            Some(past) => Cow::Owned(Disturbance::together(past, &self.newest)),
        }
    }

    /// As it is reported.
    pub fn episode(&self, clock: Clock) -> Episode {
        let whole = self.whole();
        Episode::new(&whole.incident, whole.start_ns, whole.end_ns, clock)
    }

    /// The one that goes on, as it stands.
    pub fn update(&mut self, incident: Incident) {
        self.newest.incident = incident;
    }

    /// The one that went on is over.
    pub fn end(&mut self, incident: Incident, clock: Clock) {
        self.newest.end_ns = Some(clock.since_boot_ns(incident.end_ns));
        self.newest.incident = incident;
        self.newest = self.whole().into_owned();
        (self.past, self.calm) = (None, 0);
    }

    /// Whether what goes on is the doing of others than what was before.
    pub fn is_another(&self) -> bool {
        let past = self.past.as_ref().filter(|_| self.is_open());
        past.is_some_and(|past| succeeds(&past.incident, self.newest()))
    }

    /// Parts what goes on from what was before, if there was something.
    pub fn part(self) -> (Option<Self>, Self) {
        let Self { newest, past, calm } = self;
        let before = past.map(|newest| Self { newest, past: None, calm });
        (before, Self { newest, past: None, calm: 0 })
    }

    /// Takes what another incident knew of the same.
    pub fn absorb(&mut self, other: Self) {
        let both = |one: &Disturbance, past: Option<&Disturbance>| {
            past.map_or_else(|| one.clone(), |past| Disturbance::together(past, one))
        };
        if other.is_open() {
            self.past = Some(both(&self.whole(), other.past.as_ref()));
            self.newest = other.newest;
        } else if self.is_open() {
            self.past = Some(both(&other.whole(), self.past.as_ref()));
        } else {
            self.newest = Disturbance::together(&self.newest, &other.newest);
            self.calm = self.calm.min(other.calm);
        }
    }
}

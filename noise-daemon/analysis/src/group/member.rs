//! One signal of one subject in an incident: it may calm down and come back.

use std::borrow::Cow;

use jiff::Timestamp;

use super::super::incident::Incident;
use super::super::relation::succeeds;
use super::super::report::{Clock, Episode};
use super::super::track::Key;

#[derive(Debug)]
pub(super) struct Member {
    /// The newest: the one that goes on, or all that is over.
    incident: Incident,
    /// What was before the one that goes on, as one.
    past: Option<Incident>,
    /// When all of it began, and when the newest did, as the wall clock was then: that of the windows stands still while
    /// the host is suspended.
    start: Timestamp,
    newest_start: Timestamp,
    is_open: bool,
    /// Windows since it ended.
    calm: usize,
}

impl Member {
    pub fn new(incident: Incident, clock: Clock) -> Self {
        let start = clock.wall(incident.start_ns);
        Self { incident, past: None, start, newest_start: start, is_open: true, calm: 0 }
    }

    pub fn is_of(&self, key: &Key) -> bool {
        self.incident.signal == key.0 && self.incident.subject == key.1
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it ended no more than so many windows ago, if it did.
    pub fn is_live(&self, linger: usize) -> bool {
        self.is_open || self.calm <= linger
    }

    /// Whether it ended so many windows ago.
    pub fn is_over(&self, linger: usize) -> bool {
        !self.is_open && self.calm >= linger
    }

    /// One more window has passed.
    pub fn rest(&mut self) {
        if !self.is_open {
            self.calm = self.calm.saturating_add(1);
        }
    }

    /// Its disturbances, those that are over as one: what it is known by, first.
    pub fn disturbances(&self) -> impl Iterator<Item = &Incident> {
        self.past.iter().chain([&self.incident])
    }

    /// What it is known by.
    pub fn first(&self) -> &Incident {
        self.past.as_ref().unwrap_or(&self.incident)
    }

    pub fn newest(&self) -> &Incident {
        &self.incident
    }

    fn whole(&self) -> Cow<'_, Incident> {
        match &self.past {
            None => Cow::Borrowed(&self.incident),
            Some(past) => Cow::Owned(Incident::together(past, &self.incident)),
        }
    }

    /// As it is reported.
    pub fn episode(&self, clock: Clock) -> Episode {
        Episode { start: self.start, ..Episode::new(&self.whole(), clock) }
    }

    /// The one that goes on, as it stands.
    pub fn update(&mut self, incident: Incident) {
        self.incident = incident;
    }

    /// The one that went on is over.
    pub fn end(&mut self, incident: Incident) {
        self.incident = incident;
        self.incident = self.whole().into_owned();
        (self.past, self.is_open, self.calm) = (None, false, 0);
        self.newest_start = self.start;
    }

    /// Whether what goes on is the doing of others than what was before.
    pub fn is_another(&self) -> bool {
        self.is_open && self.past.as_ref().is_some_and(|past| succeeds(past, &self.incident))
    }

    /// Parts what goes on from what was before, if there was something.
    pub fn part(self) -> (Option<Self>, Self) {
        let Self { incident, past, start, newest_start, calm, .. } = self;
        let before = past.map(|past| Self {
            incident: past,
            past: None,
            start,
            newest_start: start,
            is_open: false,
            calm,
        });
        let start = newest_start;
        (before, Self { incident, past: None, start, newest_start, is_open: true, calm: 0 })
    }

    /// Takes what another incident knew of the same.
    pub fn absorb(&mut self, other: Self) {
        let both = Incident::together;
        self.start = self.start.min(other.start);
        if other.is_open {
            self.newest_start = other.newest_start;
            let past = self.whole();
            let past =
                other.past.map_or_else(|| past.clone().into_owned(), |one| both(&past, &one));
            (self.past, self.incident, self.is_open) = (Some(past), other.incident, true);
        } else if self.is_open {
            let past = other.whole();
            let past = self
                .past
                .as_ref()
                .map_or_else(|| past.clone().into_owned(), |one| both(one, &past));
            self.past = Some(past);
        } else {
            self.incident = both(&self.incident, &other.incident);
            (self.newest_start, self.calm) = (self.start, self.calm.min(other.calm));
        }
    }
}

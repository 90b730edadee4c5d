//! What subjects counted under a name that they bear no more, as an interface that was renamed: it
//! stays under that name, and the new name counts what came since.

use std::borrow::Cow;
use std::collections::BTreeMap;

use noise_common::signals::Signal;

use super::counters::Label;
use crate::model::Totals;

/// Former names whose counts are kept; beyond them, one gives way for each new one.
const NAMES: usize = 256;

/// What is counted.
pub trait Amount: Clone + Default {
    /// Adds more of it.
    fn add(&mut self, other: &Self);
    /// What came since an earlier reading.
    fn since(&self, earlier: &Self) -> Self;
}

impl Amount for Totals {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }

    fn since(&self, earlier: &Self) -> Self {
        Self::since(self, earlier)
    }
}

impl Amount for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn since(&self, earlier: &Self) -> Self {
        self.saturating_sub(*earlier)
    }
}

/// A signal and its subject.
type Subject = (Signal, u64);

/// The former names of subjects.
#[derive(Debug)]
pub struct Former<A> {
    /// Those that got another name since they were read last, with the one before.
    renamed: BTreeMap<Subject, Label>,
    /// What each had counted when it got its present name.
    before: BTreeMap<Subject, A>,
    /// What stays with names.
    kept: BTreeMap<Label, A>,
}

impl<A> Default for Former<A> {
    fn default() -> Self {
        Self { renamed: BTreeMap::new(), before: BTreeMap::new(), kept: BTreeMap::new() }
    }
}

impl<A: Amount> Former<A> {
    /// A subject has another name than this from its next reading on.
    pub fn rename(&mut self, (signal, subject): Subject, labels: Vec<String>) {
        self.renamed.entry((signal, subject)).or_insert((signal, labels));
    }

    /// What a subject that has counted so much altogether counted under its present name.
    pub fn own<'a>(&mut self, subject: Subject, total: &'a A) -> Cow<'a, A> {
        if let Some(label) = self.renamed.remove(&subject) {
            let counted = match self.before.get(&subject) {
                Some(before) => total.since(before),
                None => total.clone(),
            };
            if self.kept.len() >= NAMES && !self.kept.contains_key(&label) {
                self.kept.pop_first();
            }
            self.kept.entry(label).or_default().add(&counted);
            self.before.insert(subject, total.clone());
        }
        match self.before.get(&subject) {
            Some(before) => Cow::Owned(total.since(before)),
            None => Cow::Borrowed(total),
        }
    }

    /// What stays with former names.
    pub fn kept(&self) -> impl Iterator<Item = (&Label, &A)> {
        self.kept.iter()
    }

    /// Forgets a subject that is gone.
    pub fn forget(&mut self, subject: Subject) {
        self.renamed.remove(&subject);
        self.before.remove(&subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject = (Signal::TcpRetransmit, 7);

    fn label(name: &str) -> Label {
        (SUBJECT.0, vec![name.to_owned()])
    }

    #[test]
    fn what_was_counted_stays_with_the_name_and_the_next_begins_at_nothing() {
        let mut former = Former::<u64>::default();
        assert_eq!(*former.own(SUBJECT, &10), 10);
        former.rename(SUBJECT, label("eth0").1);
        // Until the next reading it may have had either name.
        assert_eq!(*former.own(SUBJECT, &12), 0);
        assert_eq!(*former.own(SUBJECT, &15), 3);
        former.rename(SUBJECT, label("lan").1);
        assert_eq!(*former.own(SUBJECT, &20), 0);
        // Back again: the name goes on where it was.
        former.rename(SUBJECT, label("wan").1);
        former.rename(SUBJECT, label("eth0").1);
        assert_eq!(*former.own(SUBJECT, &25), 0);
        let kept: Vec<(Label, u64)> = former.kept().map(|(label, n)| (label.clone(), *n)).collect();
        assert_eq!(kept, [(label("eth0"), 12), (label("lan"), 8), (label("wan"), 5)]);
        former.forget(SUBJECT);
        assert_eq!(*former.own(SUBJECT, &2), 2);
    }

    #[test]
    fn former_names_are_bounded() {
        let mut former = Former::<u64>::default();
        for number in 0..=NAMES as u64 {
            former.rename(SUBJECT, vec![number.to_string()]);
            former.own(SUBJECT, &number);
        }
        assert_eq!(former.kept().count(), NAMES);
    }
}

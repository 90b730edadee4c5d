//! Who counts under which label. What a subject has counted stays with the label under which it did,
//! as long as others bear it: when the subject gets another name (an interface that is renamed), and
//! when it is forgotten (one that was made anew under its name).

use std::collections::BTreeMap;

use noise_common::event::CellKey;
use noise_model::{Amount, Label};

#[derive(Debug)]
struct Bearer<V> {
    label: Label,
    /// What it had counted under other labels.
    before: Option<Box<V>>,
}

/// The subjects, and what they left.
#[derive(Debug)]
pub struct Bearers<V> {
    bearers: BTreeMap<CellKey, Bearer<V>>,
    left: BTreeMap<Label, V>,
}

impl<V> Default for Bearers<V> {
    fn default() -> Self {
        Self { bearers: BTreeMap::new(), left: BTreeMap::new() }
    }
}

impl<V: Amount> Bearers<V> {
    /// The label of a subject that has counted `amount`, and how much of it is counted there. `label`
    /// is how it is called now; one that is gone keeps its name.
    pub fn bear(
        &mut self,
        key: CellKey,
        label: Label,
        amount: V,
        is_named: impl FnOnce() -> bool,
    ) -> (Label, V) {
        let Some(bearer) = self.bearers.get_mut(&key) else {
            self.bearers.insert(key, Bearer { label: label.clone(), before: None });
            return (label, amount);
        };
        if bearer.label == label {
            return (label, part(&bearer.before, amount));
        }
        if is_named() {
            let old = std::mem::replace(&mut bearer.label, label);
            let before = bearer.before.replace(Box::new(amount.clone()));
            self.left.entry(old).or_default().add(&part(&before, amount.clone()));
        }
        (bearer.label.clone(), part(&bearer.before, amount))
    }

    /// The label of a subject that was there before.
    pub fn label(&self, key: CellKey) -> Option<&Label> {
        self.bearers.get(&key).map(|bearer| &bearer.label)
    }

    /// Takes what a subject has counted that is forgotten.
    pub fn forget(&mut self, key: CellKey, amount: V) {
        let Some(bearer) = self.bearers.remove(&key) else { return };
        self.left.entry(bearer.label).or_default().add(&part(&bearer.before, amount));
    }

    /// Shows what was left to labels. What was left to one that nothing bears any more is forgotten, as `show` says.
    pub fn add_left(&mut self, mut show: impl FnMut(&Label, &V) -> bool) {
        self.left.retain(|label, left| show(label, left));
    }
}

/// What of an amount came after `before`.
fn part<V: Amount>(before: &Option<Box<V>>, amount: V) -> V {
    match before {
        Some(before) => amount.since(before),
        None => amount,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::signals::Signal;

    fn label(name: &str) -> Label {
        (Signal::TcpRetransmit, [name.to_owned()].into())
    }

    fn key(subject: u64) -> CellKey {
        CellKey { signal: Signal::TcpRetransmit as u32, padding: 0, subject }
    }

    /// What the labels have when these subjects have these names and have counted so much.
    fn counted(
        bearers: &mut Bearers<u64>,
        subjects: &[(u64, &str, u64, bool)],
    ) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<Label, u64> = BTreeMap::new();
        for (subject, name, amount, exists) in subjects {
            let (label, part) = bearers.bear(key(*subject), label(name), *amount, || *exists);
            *counts.entry(label).or_default() += part;
        }
        bearers
            .add_left(|label, left| counts.get_mut(label).map(|count| *count += *left).is_some());
        counts.into_iter().map(|((_, labels), count)| (labels.join(","), count)).collect()
    }

    fn sums(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_label_keeps_what_its_subjects_counted() {
        let mut bearers = Bearers::default();
        counted(&mut bearers, &[(1, "eth0", 10, true), (2, "eth0", 5, true), (3, "eth1", 7, true)]);
        bearers.forget(key(1), 10);
        bearers.forget(key(2), 5);
        bearers.forget(key(3), 7);
        for own in [2, 3] {
            let now = counted(&mut bearers, &[(4, "eth0", own, true)]);
            assert_eq!(now, sums(&[("eth0", own + 15)]));
        }
        // Nothing bore it: it is gone, and begins anew.
        assert_eq!(counted(&mut bearers, &[(5, "eth1", 1, true)]), sums(&[("eth1", 1)]));
    }

    #[test]
    fn what_was_counted_under_the_old_name_stays_there() {
        let mut bearers = Bearers::default();
        counted(&mut bearers, &[(1, "eth0", 10, true), (2, "eth1", 100, true)]);
        let now = counted(&mut bearers, &[(1, "wan", 12, true), (2, "eth1", 100, true)]);
        assert_eq!(now, sums(&[("eth1", 100), ("wan", 0)]));
        let now = counted(&mut bearers, &[(1, "wan", 15, true), (2, "eth1", 100, true)]);
        assert_eq!(now, sums(&[("eth1", 100), ("wan", 3)]));
        // Two that swap their names.
        let now = counted(&mut bearers, &[(1, "eth1", 16, true), (2, "wan", 101, true)]);
        assert_eq!(now, sums(&[("eth1", 101), ("wan", 4)]));
        bearers.forget(key(1), 20);
        assert_eq!(counted(&mut bearers, &[(2, "wan", 101, true)]), sums(&[("wan", 4)]));
    }

    #[test]
    fn what_is_gone_keeps_its_name() {
        let mut bearers = Bearers::default();
        counted(&mut bearers, &[(7, "veth0", 10, true)]);
        let now = counted(&mut bearers, &[(7, "if7", 12, false), (8, "veth0", 1, true)]);
        assert_eq!(now, sums(&[("veth0", 13)]));
        assert_eq!(bearers.label(key(7)), Some(&label("veth0")));
    }
}

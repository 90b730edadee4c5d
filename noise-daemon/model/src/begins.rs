//! PURE: series that are exported as they are sampled, and since when they count.
//!
//! A series that is missing in a sample is gone, and begins at 0 if it comes again: an interface or a device that is made
//! anew under its name. It counts from then on, and says since when; one that is there from the first sample on counts
//! since the start. Only the series of the rest never falls: it goes on also while none of its members is there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use noise_common::signals::Signal;
use noise_common::subject::SubjectKind;

use super::amount::Amount;
use super::bounded::Foldable;
use super::changes::changes;
use super::histogram::Histogram;
use super::labels::OTHER;
use super::sample::{Count, Label, Labels, Series};

/// A series of a sample.
pub trait Sampled: Clone {
    type Counted: Amount;

    /// Its signal and label values.
    fn label(&self) -> (Signal, &Labels);

    fn counted(&self) -> &Self::Counted;

    /// One of that label that has so much.
    fn new(label: &Label, counted: Self::Counted) -> Self;
}

impl Sampled for Series {
    type Counted = Histogram;

    fn label(&self) -> (Signal, &Labels) {
        (self.signal, &self.labels)
    }

    fn counted(&self) -> &Histogram {
        &self.totals
    }

    fn new((signal, labels): &Label, totals: Histogram) -> Self {
        Self { signal: *signal, labels: labels.clone(), totals, recent_max_ns: 0 }
    }
}

impl Sampled for Count {
    type Counted = u64;

    fn label(&self) -> (Signal, &Labels) {
        (self.signal, &self.labels)
    }

    fn counted(&self) -> &u64 {
        &self.total
    }

    fn new((signal, labels): &Label, total: u64) -> Self {
        Self { signal: *signal, labels: labels.clone(), total }
    }
}

impl Foldable for Label {
    fn rest(&self) -> Self {
        let (signal, labels) = self;
        let other = |(index, own): (usize, &String)| match (signal.info().subject, index) {
            // Devices are many, operations are not.
            (SubjectKind::Request, 1) => own.clone(),
            _ => OTHER.to_owned(),
        };
        (*signal, labels.iter().enumerate().map(other).collect())
    }
}

fn label_of(one: &impl Sampled) -> Label {
    let (signal, labels) = one.label();
    (signal, Arc::clone(labels))
}

/// A counter or histogram that is exported.
#[derive(Clone, Debug)]
pub struct Exported<T> {
    pub series: T,
    /// What it counts came after that time, ns; 0 = after the start.
    pub from_ns: u64,
}

/// Since when the series of one kind count.
#[derive(Clone, Debug)]
pub struct Begins<T: Sampled> {
    /// Of those that have not been there from the first sample on.
    from_ns: BTreeMap<Label, u64>,
    /// What series of the rest had before they were gone or began anew.
    rest: BTreeMap<Label, T::Counted>,
}

impl<T: Sampled> Default for Begins<T> {
    fn default() -> Self {
        Self { from_ns: BTreeMap::new(), rest: BTreeMap::new() }
    }
}

impl<T: Sampled> Begins<T> {
    /// Takes the next sample, and the time of the one before, 0 for none. Both are in order of their labels.
    pub fn advance<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a T>,
        now: impl IntoIterator<Item = &'a T>,
        before_ns: u64,
    ) where
        T: 'a,
    {
        let (series, gone) = changes(before, now, |a, b| a.label().cmp(&b.label()));
        for one in gone {
            self.leave(one);
        }
        for (before, now) in series {
            let is_new = match before {
                None => before_ns > 0,
                Some(before) if now.counted().reaches(before.counted()) => false,
                Some(before) => {
                    self.leave(before);
                    true
                }
            };
            let label = is_new.then(|| label_of(now));
            if let Some(label) = label.filter(|label| *label != label.rest()) {
                self.from_ns.insert(label, before_ns);
            }
        }
    }

    fn leave(&mut self, one: &T) {
        let label = label_of(one);
        if label == label.rest() {
            self.rest.entry(label).or_default().add(one.counted());
        } else {
            self.from_ns.remove(&label);
        }
    }

    /// What to export of a sample that was taken, in order.
    pub fn exported<'a>(
        &'a self,
        sampled: impl IntoIterator<Item = &'a T>,
    ) -> Vec<Exported<Cow<'a, T>>> {
        let from_ns = |one: &T| match self.from_ns.is_empty() {
            true => 0,
            false => self.from_ns.get(&label_of(one)).copied().unwrap_or(0),
        };
        let as_sampled = |one| Exported { series: Cow::Borrowed(one), from_ns: from_ns(one) };
        let mut all: Vec<_> = sampled.into_iter().map(as_sampled).collect();
        for (label, more) in &self.rest {
            let (signal, labels) = label;
            let mut counted = more.clone();
            match all.binary_search_by(|one| one.series.label().cmp(&(*signal, labels))) {
                Ok(at) => {
                    if let Some(one) = all.get_mut(at) {
                        counted.add(one.series.counted());
                        one.series = Cow::Owned(T::new(label, counted));
                    }
                }
                Err(at) => {
                    let series = Cow::Owned(T::new(label, counted));
                    all.insert(at, Exported { series, from_ns: 0 });
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    const SECOND: u64 = 1_000_000_000;

    fn count(name: &str, total: u64) -> Count {
        let labels = [name.to_owned()].into();
        Count { signal: Signal::TcpRetransmit, labels, total }
    }

    /// What is exported of samples, one after the other: how much, and since when.
    #[derive(Default)]
    struct Bench {
        begins: Begins<Count>,
        before: (u64, Vec<Count>),
    }

    impl Bench {
        fn export(&mut self, at_ns: u64, now: Vec<Count>) -> BTreeMap<String, (u64, u64)> {
            let (before_ns, before) = std::mem::replace(&mut self.before, (at_ns, now));
            let now = &self.before.1;
            self.begins.advance(&before, now, before_ns);
            let all = self.begins.exported(now);
            assert!(all.is_sorted_by(|a, b| a.series.label() < b.series.label()), "{all:?}");
            let shown = |one: &Exported<Cow<'_, Count>>| {
                (one.series.labels.join(","), (one.series.total, one.from_ns))
            };
            all.iter().map(shown).collect()
        }
    }

    fn want(rows: &[(&str, u64, u64)]) -> BTreeMap<String, (u64, u64)> {
        rows.iter().map(|(name, total, from)| ((*name).to_owned(), (*total, *from))).collect()
    }

    #[test]
    fn what_is_made_anew_counts_from_then_on() {
        let mut bench = Bench::default();
        let first = bench.export(1, vec![count("a", 10), count("b", 1)]);
        assert_eq!(first, want(&[("a", 10, 0), ("b", 1, 0)]));
        assert_eq!(bench.export(2, vec![count("b", 2)]), want(&[("b", 2, 0)]));
        let back = bench.export(3, vec![count("a", 3), count("b", 2)]);
        assert_eq!(back, want(&[("a", 3, 2), ("b", 2, 0)]));
        // Between two samples.
        let anew = bench.export(4, vec![count("a", 1), count("b", 2)]);
        assert_eq!(anew, want(&[("a", 1, 3), ("b", 2, 0)]));
        let on = bench.export(5, vec![count("a", 4), count("b", 2)]);
        assert_eq!(on, want(&[("a", 4, 3), ("b", 2, 0)]));
        assert_eq!(bench.begins.from_ns.len(), 1);
        bench.export(6, vec![]);
        assert!(bench.begins.from_ns.is_empty());
    }

    #[test]
    fn the_rest_never_falls() {
        let mut bench = Bench::default();
        assert_eq!(bench.export(1, vec![count(OTHER, 7)]), want(&[(OTHER, 7, 0)]));
        assert_eq!(bench.export(2, vec![]), want(&[(OTHER, 7, 0)]));
        assert_eq!(bench.export(3, vec![count(OTHER, 2)]), want(&[(OTHER, 9, 0)]));
        assert_eq!(bench.export(4, vec![count(OTHER, 1)]), want(&[(OTHER, 10, 0)]));
    }

    #[test]
    fn a_device_of_the_rest_keeps_its_operation() {
        let label = |signal, names: [&str; 2]| (signal, Labels::from(names.map(str::to_owned)));
        let device = label(Signal::BlockQueueWait, ["loop3", "read"]);
        assert_eq!(device.rest(), label(Signal::BlockQueueWait, [OTHER, "read"]));
        let irq = label(Signal::Hardirq, ["36", "virtio1"]);
        assert_eq!(irq.rest(), label(Signal::Hardirq, [OTHER, OTHER]));
    }

    /// What may happen to one series: it is gone, or it has so much more, counted on or anew.
    fn step() -> impl Strategy<Value = (u8, Option<(bool, u8)>)> {
        (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(name, kind, more)| match kind % 8 {
            0..=2 => (name % 9, None),
            3 => (name % 9, Some((true, more))),
            _ => (name % 9, Some((false, more))),
        })
    }

    proptest! {
        #[test]
        fn what_is_lower_than_it_was_has_begun_anew(
            steps in proptest::collection::vec(
                (1u64..600, proptest::collection::vec(step(), 1..4)), 0..120
            ),
        ) {
            let mut bench = Bench::default();
            let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let mut sampled: BTreeMap<String, u64> = BTreeMap::new();
            let (mut at_ns, mut rest) = (0, 0);
            for (passed, changes) in steps {
                at_ns += passed * SECOND;
                let before = sampled.clone();
                for (name, change) in changes {
                    // One of the names is that of the rest.
                    let name = if name == 8 { OTHER.to_owned() } else { format!("eth{name}") };
                    match change {
                        None => drop(sampled.remove(&name)),
                        Some((anew, more)) => {
                            let total = sampled.entry(name).or_default();
                            *total = if anew { u64::from(more) } else { *total + u64::from(more) };
                        }
                    }
                }
                let [known, now] = [&before, &sampled].map(|all| all.get(OTHER).copied().unwrap_or(0));
                rest += if now >= known { now - known } else { now };
                let now = sampled.iter().map(|(name, total)| count(name, *total)).collect();
                let exported = bench.export(at_ns, now);
                for (name, (total, from)) in &exported {
                    let (known, known_from) = seen.get(name).copied().unwrap_or((0, 0));
                    prop_assert!(*from >= known_from);
                    prop_assert!(*total >= known || *from > known_from, "{} from {}", name, known);
                    let own = sampled.get(name).copied();
                    prop_assert!(name == OTHER || own == Some(*total));
                    seen.insert(name.clone(), (*total, *from));
                }
                prop_assert_eq!(exported.get(OTHER).map_or(0, |(total, _)| *total), rest);
                prop_assert!(sampled.keys().all(|name| exported.contains_key(name)));
                prop_assert!(bench.begins.from_ns.len() <= sampled.len());
            }
        }
    }
}

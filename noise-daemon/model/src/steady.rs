//! PURE: series that are exported as they are sampled, without ever running backwards.
//!
//! In a sample, a series that is missing is gone, and begins at 0 if it comes again: an interface or
//! a device that is made anew under its name. Exported, it goes on where it was. Of the series that
//! are gone so many are remembered as [`GONE`] says; one that had to be forgotten is counted for all
//! of its kind (`~other`) if it comes back too early.
//!
//! Few series are exported otherwise than sampled, and those alone are kept: see [`Corrections`].

use std::collections::BTreeMap;
use std::iter::from_fn;
use std::sync::Arc;

use noise_common::signals::Signal;
use noise_common::subject::SubjectKind;

use super::amount::Amount;
use super::bounded::{Bounded, Foldable};
use super::changes::changes;
use super::histogram::Histogram;
use super::labels::OTHER;
use super::remembered::Remembered;
use super::sample::{Count, Label, Labels, Series};

/// Series that are gone and remembered.
const GONE: usize = 128;

/// A series of a sample.
pub trait Sampled: Clone {
    /// What it counts.
    type Counted: Amount;

    /// Its signal and label values.
    fn label(&self) -> (Signal, &Labels);

    /// What it has.
    fn counted(&self) -> &Self::Counted;

    /// The same, to be changed.
    fn counted_mut(&mut self) -> &mut Self::Counted;

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

    fn counted_mut(&mut self) -> &mut Histogram {
        &mut self.totals
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

    fn counted_mut(&mut self) -> &mut u64 {
        &mut self.total
    }

    fn new((signal, labels): &Label, total: u64) -> Self {
        Self { signal: *signal, labels: labels.clone(), total }
    }
}

fn borrowed((signal, labels): &Label) -> (Signal, &Labels) {
    (*signal, labels)
}

/// The series of a sample that are exported otherwise than sampled. One without a series is not
/// exported at all: it is counted for the rest.
#[derive(Clone, Debug)]
pub struct Corrections<T>(BTreeMap<Label, Option<T>>);

impl<T> Default for Corrections<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Sampled> Corrections<T> {
    /// What to export of a sample. Both are in order of their labels.
    pub fn apply<'a>(&'a self, sampled: &'a [T]) -> impl Iterator<Item = &'a T> {
        let (mut sampled, mut corrections) = (sampled.iter().peekable(), self.0.iter().peekable());
        from_fn(move || {
            loop {
                let Some((label, exported)) = corrections.peek().copied() else {
                    return sampled.next();
                };
                if let Some(as_it_is) = sampled.next_if(|one| one.label() < borrowed(label)) {
                    return Some(as_it_is);
                }
                sampled.next_if(|one| one.label() == borrowed(label));
                corrections.next();
                if exported.is_some() {
                    return exported.as_ref();
                }
            }
        })
    }
}

/// How a series that is exported differs from what is sampled.
#[derive(Debug, Default)]
struct Bent<V> {
    /// What it had before it began anew.
    more: V,
    /// What was counted for the rest instead.
    less: V,
    /// Until when all of it is, ns.
    away_ns: Option<u64>,
}

impl<V: Amount> Bent<V> {
    /// What is exported; `None` where it is counted for the rest.
    fn exported(&self, sampled: &V) -> Option<V> {
        if self.away_ns.is_some() {
            return None;
        }
        let mut exported = self.more.clone();
        exported.add(&sampled.since(&self.less));
        Some(exported)
    }
}

/// The series of one kind.
#[derive(Debug)]
pub struct Steady<T: Sampled> {
    /// Those that are exported otherwise than sampled.
    bent: BTreeMap<Label, Bent<T::Counted>>,
    gone: Remembered<Label, T::Counted>,
    most_gone: usize,
    /// None has room of its own here.
    rest: Bounded<Label, T::Counted>,
    folded: BTreeMap<Signal, u64>,
}

impl<T: Sampled> Default for Steady<T> {
    fn default() -> Self {
        Self {
            bent: BTreeMap::new(),
            gone: Remembered::default(),
            most_gone: GONE,
            rest: Bounded::new(0),
            folded: BTreeMap::new(),
        }
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

impl<T: Sampled> Steady<T> {
    /// Takes the next sample. Both are in order of their labels.
    pub fn advance<'a>(
        &mut self,
        before: impl IntoIterator<Item = &'a T>,
        now: impl IntoIterator<Item = &'a T>,
        at_ns: u64,
    ) where
        T: 'a,
    {
        let (series, gone) = changes(before, now, |a, b| a.label().cmp(&b.label()));
        for one in gone {
            self.leave(one, at_ns);
        }
        for (before, now) in &series {
            match before {
                None => self.appear(now, at_ns),
                Some(before) if !now.counted().reaches(before.counted()) => {
                    self.begin_anew(before, now);
                }
                Some(_) => {}
            }
        }
        self.go_on(&series, at_ns);
        self.gone.trim(self.most_gone, at_ns);
    }

    fn leave(&mut self, one: &T, at_ns: u64) {
        let label = label_of(one);
        let exported = match self.bent.remove(&label) {
            Some(bent) => bent.exported(one.counted()),
            None => Some(one.counted().clone()),
        };
        let Some(exported) = exported else { return };
        if label.rest() == label {
            // The series of the rest stays, also while none of its members is there.
            self.rest.value(label).add(&exported);
        } else {
            self.gone.insert(label, exported, at_ns);
        }
    }

    fn appear(&mut self, one: &T, at_ns: u64) {
        if self.gone.is_empty() {
            return;
        }
        let label = label_of(one);
        if label.rest() == label {
            return;
        }
        if let Some(more) = self.gone.take(&label) {
            self.bent.entry(label).or_default().more = more;
            return;
        }
        let away_until_ns = self.gone.away_until_ns(&label);
        if away_until_ns > at_ns {
            *self.folded.entry(label.0).or_default() += 1;
            self.rest.value(label.clone()).add(one.counted());
            let bent = self.bent.entry(label).or_default();
            (bent.less, bent.away_ns) = (one.counted().clone(), Some(away_until_ns));
        }
    }

    fn begin_anew(&mut self, before: &T, now: &T) {
        let label = label_of(now);
        let bent = self.bent.entry(label.clone()).or_default();
        let Some(exported) = bent.exported(before.counted()) else {
            bent.less = now.counted().clone();
            return self.rest.value(label).add(now.counted());
        };
        (bent.more, bent.less) = (exported, T::Counted::default());
    }

    /// Counts what has come for the rest, of series that have to stay away.
    fn go_on(&mut self, series: &[(Option<&T>, &T)], at_ns: u64) {
        for (label, bent) in &mut self.bent {
            let Some(away_until_ns) = bent.away_ns else { continue };
            let found = series.binary_search_by(|(_, one)| one.label().cmp(&borrowed(label)));
            let Some((_, now)) = found.ok().and_then(|found| series.get(found)) else { continue };
            let more = now.counted().since(&bent.less);
            bent.less = now.counted().clone();
            bent.away_ns = (away_until_ns > at_ns).then_some(away_until_ns);
            self.rest.value(label.clone()).add(&more);
        }
    }

    /// What is exported otherwise than it is in a sample.
    pub fn corrections(&self, now: &[T]) -> Corrections<T> {
        let find = |label: &Label| {
            let found = now.binary_search_by(|one| one.label().cmp(&borrowed(label)));
            found.ok().and_then(|found| now.get(found))
        };
        let bent = self.bent.iter().filter_map(|(label, bent)| {
            let mut one = find(label)?.clone();
            let exported = bent.exported(one.counted()).map(|exported| {
                *one.counted_mut() = exported;
                one
            });
            Some((label.clone(), exported))
        });
        let mut all: BTreeMap<Label, Option<T>> = bent.collect();
        for (label, more) in self.rest.iter() {
            let rest = all.entry(label.clone()).or_insert_with(|| find(label).cloned());
            rest.get_or_insert_with(|| T::new(label, T::Counted::default()))
                .counted_mut()
                .add(more);
        }
        Corrections(all)
    }

    /// How often a series was counted for the rest, by signal.
    pub fn folded(&self) -> impl Iterator<Item = (Signal, u64)> {
        self.folded.iter().map(|(signal, count)| (*signal, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remembered::COMPARED_NS;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    const SECOND: u64 = 1_000_000_000;

    fn count(signal: Signal, name: &str, total: u64) -> Count {
        Count { signal, labels: [name.to_owned()].into(), total }
    }

    /// What is exported of samples, one after the other.
    #[derive(Default)]
    struct Bench {
        steady: Steady<Count>,
        before: Vec<Count>,
    }

    impl Bench {
        fn export(&mut self, at_ns: u64, now: Vec<Count>) -> BTreeMap<String, u64> {
            self.steady.advance(&self.before, &now, at_ns);
            let exported: Vec<Count> = self.steady.corrections(&now).apply(&now).cloned().collect();
            self.before = now;
            assert!(exported.is_sorted_by(|a, b| a.label() < b.label()), "{exported:?}");
            exported.into_iter().map(|one| (one.labels.join(","), one.total)).collect()
        }
    }

    fn want(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, total)| ((*name).to_owned(), *total)).collect()
    }

    #[test]
    fn what_is_made_anew_goes_on_where_it_was() {
        let mut bench = Bench::default();
        let sent = |name, total| count(Signal::TcpRetransmit, name, total);
        assert_eq!(
            bench.export(1, vec![sent("a", 10), sent("b", 1)]),
            want(&[("a", 10), ("b", 1)])
        );
        assert_eq!(bench.export(2, vec![sent("b", 2)]), want(&[("b", 2)]));
        assert_eq!(bench.export(3, vec![sent("a", 3), sent("b", 2)]), want(&[("a", 13), ("b", 2)]));
        // Between two samples.
        assert_eq!(bench.export(4, vec![sent("a", 1), sent("b", 2)]), want(&[("a", 14), ("b", 2)]));
        assert_eq!(bench.export(5, vec![sent("a", 4), sent("b", 2)]), want(&[("a", 17), ("b", 2)]));
    }

    #[test]
    fn what_had_to_be_forgotten_is_counted_for_the_rest() {
        let mut bench = Bench::default();
        let other = |total| count(Signal::TcpRetransmit, OTHER, total);
        let names: Vec<String> = (0..GONE + 2).map(|number| format!("veth{number:03}")).collect();
        let all = names.iter().map(|name| count(Signal::TcpRetransmit, name, 5)).collect();
        bench.export(1, all);
        assert_eq!(bench.export(2, vec![other(7)]), want(&[(OTHER, 7)]));
        let back = |total| count(Signal::TcpRetransmit, &names[0], total);
        assert_eq!(bench.export(3, vec![back(2), other(7)]), want(&[(OTHER, 9)]));
        assert_eq!(bench.export(4, vec![back(3)]), want(&[(OTHER, 10)]));
        assert_eq!(bench.steady.folded().collect::<Vec<_>>(), [(Signal::TcpRetransmit, 1)]);
        let later = 2 * COMPARED_NS;
        assert_eq!(bench.export(later, vec![back(4)]), want(&[(&names[0], 0), (OTHER, 11)]));
        assert_eq!(bench.export(later + 1, vec![back(6)]), want(&[(&names[0], 2), (OTHER, 11)]));
        let remembered = &names[GONE + 1];
        let back = vec![count(Signal::TcpRetransmit, remembered, 1)];
        assert_eq!(bench.export(later + 2, back), want(&[(remembered, 6), (OTHER, 11)]));
    }

    #[test]
    fn a_device_that_is_counted_for_the_rest_keeps_its_operation() {
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
        fn nothing_is_lower_than_it_was(
            steps in proptest::collection::vec(
                (0u64..600, proptest::collection::vec(step(), 1..4)), 0..120
            ),
        ) {
            let mut bench = Bench::default();
            bench.steady.most_gone = 2;
            let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let mut sampled: BTreeMap<String, u64> = BTreeMap::new();
            let (mut at_ns, mut all, mut shown_before) = (0, 0, 0);
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
                for (name, total) in &sampled {
                    let known = before.get(name).copied().unwrap_or(0);
                    all += if *total >= known { total - known } else { *total };
                }
                let now = sampled.iter().map(|(name, total)| {
                    count(Signal::TcpRetransmit, name, *total)
                });
                let exported = bench.export(at_ns, now.collect());
                for (name, total) in &exported {
                    let (known, known_ns) = seen.get(name).copied().unwrap_or((0, 0));
                    let is_compared = known_ns + COMPARED_NS > at_ns;
                    prop_assert!(
                        *total >= known || !is_compared, "{} from {} to {}", name, known, total
                    );
                    seen.insert(name.clone(), (*total, at_ns));
                }
                let shown = exported.values().sum::<u64>();
                prop_assert!(bench.steady.gone.len() <= 2);
                prop_assert!(shown <= all, "{} of {}", shown, all);
                if before.keys().eq(sampled.keys()) {
                    prop_assert!(shown >= shown_before);
                }
                shown_before = shown;
            }
            prop_assert_eq!(bench.before.len(), sampled.len());
        }
    }
}

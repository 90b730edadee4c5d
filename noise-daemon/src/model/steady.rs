//! PURE: series that are exported as they are sampled, without ever running backwards.
//!
//! In a sample, a series that is missing is gone, and begins at 0 if it comes again: an interface or
//! a device that is made anew under its name. Exported, it goes on where it was. Of the series that
//! are gone so many are remembered as [`GONE`] says; one that had to be forgotten is counted for all
//! of its kind (`~other`) if it comes back too early.

use std::collections::BTreeMap;

use noise_common::signals::Signal;
use noise_common::subject::SubjectKind;

use super::amount::Amount;
use super::changes::changes;
use super::histogram::Histogram;
use super::remembered::Remembered;
use super::sample::{Count, Series};
use crate::model::labels::OTHER;

/// Series that are gone and remembered.
const GONE: usize = 128;

type Label = (Signal, Vec<String>);

/// A series of a sample.
pub trait Sampled: Clone {
    /// What it counts.
    type Counted: Amount;

    /// Its signal and label values.
    fn label(&self) -> (Signal, &[String]);

    /// What it has.
    fn counted(&self) -> &Self::Counted;

    /// One of that label that has so much.
    fn new(label: &Label, counted: Self::Counted) -> Self;

    /// The same with another amount.
    fn with(&self, counted: Self::Counted) -> Self;
}

impl Sampled for Series {
    type Counted = Histogram;

    fn label(&self) -> (Signal, &[String]) {
        (self.signal, &self.labels)
    }

    fn counted(&self) -> &Histogram {
        &self.totals
    }

    fn new((signal, labels): &Label, totals: Histogram) -> Self {
        Self { signal: *signal, labels: labels.clone(), totals, recent_max_ns: 0 }
    }

    fn with(&self, totals: Histogram) -> Self {
        let labels = self.labels.clone();
        Self { signal: self.signal, labels, totals, recent_max_ns: self.recent_max_ns }
    }
}

impl Sampled for Count {
    type Counted = u64;

    fn label(&self) -> (Signal, &[String]) {
        (self.signal, &self.labels)
    }

    fn counted(&self) -> &u64 {
        &self.total
    }

    fn new((signal, labels): &Label, total: u64) -> Self {
        Self { signal: *signal, labels: labels.clone(), total }
    }

    fn with(&self, total: u64) -> Self {
        Self { signal: self.signal, labels: self.labels.clone(), total }
    }
}

/// How a series that is exported differs from what is sampled.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug)]
pub struct Steady<T: Sampled> {
    /// Those that are exported otherwise than sampled.
    bent: BTreeMap<Signal, BTreeMap<Vec<String>, Bent<T::Counted>>>,
    gone: Remembered<Label, T::Counted>,
    most_gone: usize,
    rest: BTreeMap<Label, T::Counted>,
    folded: BTreeMap<Signal, u64>,
}

impl<T: Sampled> Default for Steady<T> {
    fn default() -> Self {
        Self {
            bent: BTreeMap::new(),
            gone: Remembered::default(),
            most_gone: GONE,
            rest: BTreeMap::new(),
            folded: BTreeMap::new(),
        }
    }
}

/// The label of those of a signal that have none of their own.
fn rest_of(signal: Signal, labels: &[String]) -> Vec<String> {
    let other = |index| match (signal.info().subject, index) {
        // Devices are many, operations are not.
        (SubjectKind::Request, 1) => None,
        _ => Some(OTHER.to_owned()),
    };
    labels.iter().enumerate().map(|(index, own)| other(index).unwrap_or(own.clone())).collect()
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
        for (before, now) in series {
            match before {
                None => self.appear(now, at_ns),
                Some(before) if !now.counted().reaches(before.counted()) => {
                    self.begin_anew(before, now);
                }
                Some(_) if self.bent.is_empty() => {}
                Some(_) => self.go_on(now, at_ns),
            }
        }
        self.gone.trim(self.most_gone, at_ns);
    }

    fn bent(&mut self, one: &T) -> Option<&mut Bent<T::Counted>> {
        let (signal, labels) = one.label();
        self.bent.get_mut(&signal)?.get_mut(labels)
    }

    fn bend(&mut self, one: &T) -> &mut Bent<T::Counted> {
        let (signal, labels) = one.label();
        self.bent.entry(signal).or_default().entry(labels.to_vec()).or_default()
    }

    fn count_for_rest(&mut self, (signal, labels): (Signal, &[String]), more: &T::Counted) {
        let rest = (signal, rest_of(signal, labels));
        self.rest.entry(rest).or_default().add(more);
    }

    fn leave(&mut self, one: &T, at_ns: u64) {
        let (signal, labels) = one.label();
        let bent = match self.bent.get_mut(&signal) {
            Some(of_signal) => of_signal.remove(labels),
            None => None,
        };
        self.bent.retain(|_, of_signal| !of_signal.is_empty());
        let exported = match bent {
            Some(bent) => bent.exported(one.counted()),
            None => Some(one.counted().clone()),
        };
        let Some(exported) = exported else { return };
        if rest_of(signal, labels) == labels {
            // What is exported of all together stays, whoever of them is there.
            self.count_for_rest((signal, labels), &exported);
        } else {
            self.gone.insert((signal, labels.to_vec()), exported, at_ns);
        }
    }

    fn appear(&mut self, one: &T, at_ns: u64) {
        let (signal, labels) = one.label();
        if self.gone.is_empty() || rest_of(signal, labels) == labels {
            return;
        }
        let label = (signal, labels.to_vec());
        if let Some(more) = self.gone.take(&label) {
            self.bend(one).more = more;
            return;
        }
        let away_until_ns = self.gone.away_until_ns(&label);
        if away_until_ns > at_ns {
            *self.folded.entry(signal).or_default() += 1;
            self.count_for_rest((signal, labels), one.counted());
            let bent = self.bend(one);
            (bent.less, bent.away_ns) = (one.counted().clone(), Some(away_until_ns));
        }
    }

    fn begin_anew(&mut self, before: &T, now: &T) {
        let bent = self.bend(now);
        let Some(exported) = bent.exported(before.counted()) else {
            bent.less = now.counted().clone();
            return self.count_for_rest(now.label(), now.counted());
        };
        (bent.more, bent.less) = (exported, T::Counted::default());
    }

    /// Counts what has come for the rest, of a series that has to stay away.
    fn go_on(&mut self, now: &T, at_ns: u64) {
        let Some(bent) = self.bent(now) else { return };
        let Some(away_until_ns) = bent.away_ns else { return };
        let more = now.counted().since(&bent.less);
        bent.less = now.counted().clone();
        bent.away_ns = (away_until_ns > at_ns).then_some(away_until_ns);
        self.count_for_rest(now.label(), &more);
    }

    /// What to export instead of a sample; `None` where it is exported as it is.
    pub fn exported<'a>(&self, now: impl IntoIterator<Item = &'a T>) -> Option<Vec<T>>
    where
        T: 'a,
    {
        if self.bent.is_empty() && self.rest.is_empty() {
            return None;
        }
        let mut rest = self.rest.clone();
        let mut all = Vec::new();
        for one in now {
            let (signal, labels) = one.label();
            let bent = self.bent.get(&signal).and_then(|of_signal| of_signal.get(labels));
            let exported = match bent {
                Some(bent) => bent.exported(one.counted()),
                None => Some(one.counted().clone()),
            };
            let Some(mut exported) = exported else { continue };
            if !rest.is_empty()
                && let Some(more) = rest.remove(&(signal, labels.to_vec()))
            {
                exported.add(&more);
            }
            all.push(one.with(exported));
        }
        all.extend(rest.into_iter().map(|(label, counted)| T::new(&label, counted)));
        all.sort_by(|a, b| a.label().cmp(&b.label()));
        Some(all)
    }

    /// How often a series was counted for the rest, by signal.
    pub fn folded(&self) -> impl Iterator<Item = (Signal, u64)> {
        self.folded.iter().map(|(signal, count)| (*signal, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::remembered::COMPARED_NS;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    const SECOND: u64 = 1_000_000_000;

    fn count(signal: Signal, name: &str, total: u64) -> Count {
        Count { signal, labels: vec![name.to_owned()], total }
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
            let exported = self.steady.exported(&now).unwrap_or_else(|| now.clone());
            self.before = now;
            assert!(exported.is_sorted_by(|a, b| a.label() < b.label()), "{exported:?}");
            exported.into_iter().map(|one| (one.labels.join(","), one.total)).collect()
        }
    }

    fn told(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, total)| ((*name).to_owned(), *total)).collect()
    }

    #[test]
    fn what_is_made_anew_goes_on_where_it_was() {
        let mut bench = Bench::default();
        let sent = |name, total| count(Signal::TcpRetransmit, name, total);
        assert_eq!(
            bench.export(1, vec![sent("a", 10), sent("b", 1)]),
            told(&[("a", 10), ("b", 1)])
        );
        assert_eq!(bench.export(2, vec![sent("b", 2)]), told(&[("b", 2)]));
        assert_eq!(bench.export(3, vec![sent("a", 3), sent("b", 2)]), told(&[("a", 13), ("b", 2)]));
        // Between two samples.
        assert_eq!(bench.export(4, vec![sent("a", 1), sent("b", 2)]), told(&[("a", 14), ("b", 2)]));
        assert_eq!(bench.export(5, vec![sent("a", 4), sent("b", 2)]), told(&[("a", 17), ("b", 2)]));
    }

    #[test]
    fn what_had_to_be_forgotten_is_counted_for_the_rest() {
        let mut bench = Bench::default();
        let other = |total| count(Signal::TcpRetransmit, OTHER, total);
        let names: Vec<String> = (0..GONE + 2).map(|number| format!("veth{number:03}")).collect();
        let all = names.iter().map(|name| count(Signal::TcpRetransmit, name, 5)).collect();
        bench.export(1, all);
        assert_eq!(bench.export(2, vec![other(7)]), told(&[(OTHER, 7)]));
        let back = |total| count(Signal::TcpRetransmit, &names[0], total);
        assert_eq!(bench.export(3, vec![back(2), other(7)]), told(&[(OTHER, 9)]));
        assert_eq!(bench.export(4, vec![back(3)]), told(&[(OTHER, 10)]));
        assert_eq!(bench.steady.folded().collect::<Vec<_>>(), [(Signal::TcpRetransmit, 1)]);
        let later = 2 * COMPARED_NS;
        assert_eq!(bench.export(later, vec![back(4)]), told(&[(&names[0], 0), (OTHER, 11)]));
        assert_eq!(bench.export(later + 1, vec![back(6)]), told(&[(&names[0], 2), (OTHER, 11)]));
        let remembered = &names[GONE + 1];
        let back = vec![count(Signal::TcpRetransmit, remembered, 1)];
        assert_eq!(bench.export(later + 2, back), told(&[(remembered, 6), (OTHER, 11)]));
    }

    #[test]
    fn a_device_that_is_counted_for_the_rest_keeps_its_operation() {
        let labels = |names: [&str; 2]| names.map(str::to_owned);
        let device = rest_of(Signal::BlockQueueWait, &labels(["loop3", "read"]));
        assert_eq!(device, labels([OTHER, "read"]));
        let irq = rest_of(Signal::Hardirq, &labels(["36", "virtio1"]));
        assert_eq!(irq, labels([OTHER, OTHER]));
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

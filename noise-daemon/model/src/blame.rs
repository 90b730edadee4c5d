//! Who delayed whom: what came between one sample and the next, counted for those that cost most.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::{SIGNALS, Signal};

use super::amount::{Amount as _, total};
use super::begins::Sampled as _;
use super::begins::{Begins, Exported};
use super::bounded::Foldable;
use super::fold::Fold;
use super::histogram::Histogram;
use super::labels::OTHER;
use super::sample::{Count, Interference, Labels, Sample, Series, is_held_up, is_of_threads};
use super::step::{Step, run};

/// Name of the metric of delays by who caused them.
pub const INTERFERENCE_METRIC: &str = "noised_interference_seconds_total";
/// Name of the metric of preemptions by who took the CPU.
pub const PREEMPTIONS_METRIC: &str = "noised_preemptions_total";

/// How many subjects of each kind have counters of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Combinations of resource, victim, culprit and cause.
    pub interference: usize,
    /// Combinations of victim, culprit and relation.
    pub preemptions: usize,
    /// Cgroups, of each signal that has a histogram for each.
    pub cgroups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { interference: 200, preemptions: 100, cgroups: 50 }
    }
}

/// Who delayed whom, at all places together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation {
    /// What the victim had to wait for, or what was taken from it.
    pub resource: Resource,
    pub victim: Arc<str>,
    pub culprit: Arc<str>,
    pub cause: Cause,
}

impl Relation {
    fn of(one: &Interference) -> Self {
        Self {
            resource: one.resource,
            victim: Arc::clone(&one.victim),
            culprit: Arc::clone(&one.culprit),
            cause: one.cause,
        }
    }
}

impl Foldable for Relation {
    /// The pair that stands for all folded pairs of a resource and cause.
    fn rest(&self) -> Self {
        let other: Arc<str> = Arc::from(OTHER);
        Self { victim: Arc::clone(&other), culprit: other, ..self.clone() }
    }
}

impl Foldable for Labels {
    fn rest(&self) -> Self {
        self.iter().map(|_| OTHER.to_owned()).collect()
    }
}

/// Who was delayed over the last seconds, and by whom most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// Who: a cgroup's label.
    pub name: Arc<str>,
    /// How long something else held it up, ns: see [`Interference::held_up_ns`].
    pub held_up_ns: u64,
    /// How long its threads could not go on, ns: see [`Interference::of_threads_ns`].
    pub lost_ns: u64,
    /// Who held it up most, with the main cause, and for how long, ns.
    pub culprit: Option<(Arc<str>, Cause, u64)>,
    /// What that was, and for how long, ns.
    pub held_up: Vec<(Resource, Cause, u64)>,
}

/// The counters of who delayed whom.
#[derive(Debug)]
pub struct Attribution {
    interference: Fold<Relation, Charged>,
    preemptions: Fold<Relation, Charged>,
    /// The signals that have so many subjects that only some are shown.
    folded: BTreeMap<Signal, Fold<Labels, Histogram>>,
    series: Begins<Series>,
    counts: Begins<Count>,
    recent: VecDeque<(u64, BTreeMap<Relation, u64>)>,
    horizon_ns: u64,
}

impl Attribution {
    /// Counters for that many, and a look back over `horizon_ns`.
    pub fn new(limits: Limits, horizon_ns: u64) -> Self {
        Self {
            interference: Fold::new(limits.interference),
            preemptions: Fold::new(limits.preemptions),
            folded: folded_signals().map(|signal| (signal, Fold::new(limits.cgroups))).collect(),
            series: Begins::default(),
            counts: Begins::default(),
            recent: VecDeque::new(),
            horizon_ns,
        }
    }

    pub fn set_limits(&mut self, limits: Limits) {
        self.interference.set_limit(limits.interference);
        self.preemptions.set_limit(limits.preemptions);
        self.folded.values_mut().for_each(|fold| fold.set_limit(limits.cgroups));
    }

    /// Takes the next sample, with the one before and what came in between.
    pub fn advance(&mut self, previous: &Sample, sample: &Sample, step: &Step) {
        let at_ns = sample.at_ns;
        self.interference.advance(at_ns);
        self.preemptions.advance(at_ns);
        self.folded.values_mut().for_each(|fold| fold.advance(at_ns));
        self.series.advance(of_others(previous), of_others(sample), previous.at_ns);
        self.counts.advance(&previous.counts, &sample.counts, previous.at_ns);
        self.turn_recent(at_ns);
        for one in &step.gone_charges {
            self.fold_of(one.resource).release(&Relation::of(one));
        }
        for one in &step.charges {
            self.charge(Relation::of(one), one.charged);
        }
        for (signal, labels) in &step.gone_series {
            if let Some(fold) = self.folded.get_mut(signal) {
                fold.release(labels);
            }
        }
        for (signal, fold) in &mut self.folded {
            for (labels, delays) in step.delays_of(*signal) {
                let more = delays.owned();
                fold.add(labels, &more, more.sum_ns.max(1));
            }
        }
    }

    fn fold_of(&mut self, resource: Resource) -> &mut Fold<Relation, Charged> {
        match resource {
            Resource::Preemption => &mut self.preemptions,
            _ => &mut self.interference,
        }
    }

    fn charge(&mut self, pair: Relation, more: Charged) {
        if pair.resource == Resource::Preemption {
            return self.preemptions.add(&pair, &more, more.count);
        }
        self.interference.add(&pair, &more, more.ns.max(1));
        if let Some((_, recent)) = self.recent.back_mut() {
            *recent.entry(pair).or_default() += more.ns;
        }
    }

    /// Begins a new slice of the recent past, where the last is long enough.
    fn turn_recent(&mut self, at_ns: u64) {
        while self.recent.front().is_some_and(|(began, _)| began + self.horizon_ns < at_ns) {
            self.recent.pop_front();
        }
        let slice_ns = self.horizon_ns / 20;
        if self.recent.back().is_none_or(|(began, _)| began + slice_ns <= at_ns) {
            self.recent.push_back((at_ns, BTreeMap::new()));
        }
    }

    /// The combinations with counters of their own, and the rest.
    pub fn interference(&self) -> Vec<Exported<(Relation, Charged)>> {
        counters(&self.interference)
    }

    /// The same of preemptions.
    pub fn preemptions(&self) -> Vec<Exported<(Relation, Charged)>> {
        counters(&self.preemptions)
    }

    /// The histograms of the signals of which only some subjects are shown: those subjects, and the rest, in order.
    pub fn folded_series(&self) -> Vec<Exported<Series>> {
        let counters = self.folded.iter().flat_map(|(signal, fold)| {
            fold.counters().map(move |(labels, totals, from_ns)| {
                let label = (*signal, Arc::clone(labels));
                Exported { series: Series::new(&label, totals.clone()), from_ns }
            })
        });
        counters.collect()
    }

    /// Since when the other histograms of the newest sample count.
    pub fn series_begins(&self) -> Begins<Series> {
        self.series.clone()
    }

    /// The same of its counters.
    pub fn counts_begins(&self) -> Begins<Count> {
        self.counts.clone()
    }

    /// How often something became one of the rest here, by metric.
    pub fn folded(&self) -> Vec<(&'static str, u64)> {
        let own = self.folded.iter().map(|(signal, fold)| (signal.info().metric, fold.folded()));
        let mut folded: Vec<(&'static str, u64)> = own.collect();
        folded.extend([
            (INTERFERENCE_METRIC, self.interference.folded()),
            (PREEMPTIONS_METRIC, self.preemptions.folded()),
        ]);
        folded
    }

    /// Those who lost something over the last seconds, who was held up most first.
    pub fn victims(&self) -> Vec<Victim> {
        /// What a victim lost, and what held it up, by culprit and cause.
        #[derive(Default)]
        struct Sum<'a> {
            lost_ns: u64,
            culprits: BTreeMap<(&'a Arc<str>, Cause), u64>,
            held_up: BTreeMap<(Resource, Cause), u64>,
        }
        let mut sums: BTreeMap<&Arc<str>, Sum<'_>> = BTreeMap::new();
        for (pair, ns) in
            self.recent.iter().flat_map(|(_, recent)| recent).filter(|(_, ns)| **ns > 0)
        {
            let sum = sums.entry(&pair.victim).or_default();
            if is_of_threads(pair.resource) {
                sum.lost_ns.add(ns);
            }
            if is_held_up(pair.resource, pair.cause, &pair.victim, &pair.culprit) {
                sum.culprits.entry((&pair.culprit, pair.cause)).or_default().add(ns);
                sum.held_up.entry((pair.resource, pair.cause)).or_default().add(ns);
            }
        }
        let victim = |(name, sum): (&Arc<str>, Sum<'_>)| {
            let mut by_culprit: BTreeMap<&Arc<str>, (u64, Cause, u64)> = BTreeMap::new();
            for ((culprit, cause), ns) in &sum.culprits {
                let (whole_ns, main, most_ns) = by_culprit.entry(culprit).or_insert((0, *cause, 0));
                whole_ns.add(ns);
                if ns > most_ns {
                    (*main, *most_ns) = (*cause, *ns);
                }
            }
            // The order of the map settles ties.
            let culprit = by_culprit.into_iter().rev().max_by_key(|(_, (ns, ..))| *ns);
            let held_up = sum.held_up.iter();
            Victim {
                name: Arc::clone(name),
                held_up_ns: total(sum.culprits.values().copied()),
                lost_ns: sum.lost_ns,
                culprit: culprit.map(|(name, (ns, cause, _))| (Arc::clone(name), cause, ns)),
                held_up: held_up.map(|((resource, cause), ns)| (*resource, *cause, *ns)).collect(),
            }
        };
        let mut victims: Vec<Victim> = sums.into_iter().map(victim).collect();
        victims.sort_by_key(|one| std::cmp::Reverse((one.held_up_ns, one.lost_ns)));
        victims
    }
}

fn counters(fold: &Fold<Relation, Charged>) -> Vec<Exported<(Relation, Charged)>> {
    let counters = fold.counters();
    counters
        .map(|(pair, charged, from_ns)| Exported { series: (pair.clone(), *charged), from_ns })
        .collect()
}

/// The signals that have so many subjects that only some are shown.
fn folded_signals() -> impl Iterator<Item = Signal> {
    SIGNALS.iter().filter(|info| info.is_folded()).map(|info| info.signal)
}

/// The part of a sample that is about the other signals; series are ordered by signal.
pub fn of_others(sample: &Sample) -> impl Iterator<Item = &Series> {
    let others = SIGNALS.iter().filter(|info| !info.is_folded());
    others.flat_map(|info| run(&sample.series, |series| series.signal, info.signal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use noise_common::hist::bucket_of;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    const SECOND: u64 = 1_000_000_000;

    fn charge(resource: Resource, place: &str, pair: (&str, &str), ns: u64) -> Interference {
        Interference {
            resource,
            cause: Cause::Foreign,
            place: place.into(),
            victim: pair.0.into(),
            culprit: pair.1.into(),
            charged: Charged { ns, count: 1 },
        }
    }

    fn sample(at_ns: u64, mut interference: Vec<Interference>) -> Sample {
        interference.sort_by(Interference::order);
        Sample { at_ns, interference, ..Sample::default() }
    }

    /// Counters that are shown one sample after the other.
    struct Bench {
        attribution: Attribution,
        previous: Sample,
    }

    impl Bench {
        fn new(limits: Limits) -> Self {
            let attribution = Attribution::new(limits, 5 * SECOND);
            Self { attribution, previous: Sample::default() }
        }

        fn advance(&mut self, sample: Sample) {
            let step = Step::between(&self.previous, &sample);
            self.attribution.advance(&self.previous, &sample, &step);
            self.previous = sample;
        }
    }

    fn rows(counters: &[Exported<(Relation, Charged)>]) -> Vec<(String, u64)> {
        counters
            .iter()
            .map(|Exported { series: (pair, charged), .. }| {
                (format!("{}<{}", pair.victim, pair.culprit), charged.ns)
            })
            .collect()
    }

    #[test]
    fn places_count_together_and_preemptions_apart() {
        let mut bench = Bench::new(Limits::default());
        bench.advance(sample(
            SECOND,
            vec![
                charge(Resource::BlockQueue, "sda", ("a", "b"), 10),
                charge(Resource::BlockQueue, "sdb", ("a", "b"), 20),
                charge(Resource::Preemption, "", ("a", "b"), 0),
            ],
        ));
        assert_eq!(rows(&bench.attribution.interference()), [("a<b".to_owned(), 30)]);
        assert_eq!(bench.attribution.preemptions()[0].series.1.count, 1);
        let victims = bench.attribution.victims();
        assert_eq!(victims.len(), 1);
        assert_eq!((victims[0].held_up_ns, victims[0].lost_ns), (30, 0));
        assert_eq!(victims[0].culprit, Some(("b".into(), Cause::Foreign, 30)));
    }

    #[test]
    fn what_disappears_and_comes_again_begins_anew() {
        let mut bench = Bench::new(Limits::default());
        let cpu = |ns| charge(Resource::Cpu, "", ("a", "b"), ns);
        bench.advance(sample(SECOND, vec![cpu(10)]));
        bench.advance(sample(2 * SECOND, vec![]));
        assert_eq!(rows(&bench.attribution.interference()), [("a<b".to_owned(), 10)]);
        bench.advance(sample(3 * SECOND, vec![cpu(4)]));
        bench.advance(sample(4 * SECOND, vec![cpu(5)]));
        bench.advance(sample(5 * SECOND, vec![cpu(2)]));
        assert_eq!(rows(&bench.attribution.interference()), [("a<b".to_owned(), 17)]);
    }

    #[test]
    fn the_recent_past_ends() {
        let mut bench = Bench::new(Limits::default());
        let of = |a, b| {
            vec![charge(Resource::Cpu, "", ("a", "b"), a), charge(Resource::Cpu, "", ("c", "d"), b)]
        };
        bench.advance(sample(SECOND, of(100, 1)));
        bench.advance(sample(7 * SECOND, of(101, 5)));
        let victims = bench.attribution.victims();
        let names: Vec<_> = victims.iter().map(|one| (&*one.name, one.held_up_ns)).collect();
        assert_eq!(names, [("c", 4), ("a", 1)]);
    }

    #[test]
    fn who_waits_for_itself_comes_after_who_is_held_up() {
        let mut bench = Bench::new(Limits::default());
        let one =
            |resource, cause, pair, ns| Interference { cause, ..charge(resource, "", pair, ns) };
        bench.advance(sample(
            SECOND,
            vec![
                one(Resource::Cpu, Cause::Own, ("batch", "batch"), 900),
                one(Resource::Cpu, Cause::Idle, ("batch", "idle"), 90),
                one(Resource::Uninterruptible, Cause::Softirq, ("batch", "block"), 800),
                one(Resource::Cpu, Cause::Foreign, ("web", "backup"), 30),
                one(Resource::BlockQueue, Cause::Foreign, ("web", "backup"), 20),
                one(Resource::Running, Cause::Hardirq, ("web", "nic"), 40),
                one(Resource::Cpu, Cause::Own, ("web", "web"), 10),
            ],
        ));
        let victims = bench.attribution.victims();
        let [web, batch] = victims.as_slice() else { panic!("{victims:?}") };
        assert_eq!((&*web.name, web.held_up_ns, web.lost_ns), ("web", 90, 80));
        assert_eq!(web.culprit, Some(("backup".into(), Cause::Foreign, 50)));
        assert_eq!((&*batch.name, batch.held_up_ns, batch.lost_ns), ("batch", 0, 1790));
        assert_eq!(batch.culprit, None);
    }

    #[test]
    fn a_thread_loses_no_more_than_its_time_however_many_requests_wait_for_it_meanwhile() {
        let mut bench = Bench::new(Limits::default());
        let sleep = Interference {
            cause: Cause::Softirq,
            ..charge(Resource::Uninterruptible, "", ("web", "block"), 700_000_000)
        };
        bench.advance(sample(
            SECOND,
            vec![
                charge(Resource::Cpu, "", ("web", "backup"), 300_000_000),
                charge(Resource::BlockQueue, "vda", ("web", "backup"), 8 * SECOND),
                charge(Resource::BlockDevice, "vda", ("web", "backup"), 5 * SECOND),
                charge(Resource::NetTx, "eth0", ("web", "backup"), SECOND),
                sleep,
            ],
        ));
        let victims = bench.attribution.victims();
        assert_eq!((&*victims[0].name, victims[0].lost_ns), ("web", SECOND));
    }

    #[test]
    fn who_waits_for_pages_that_another_one_wrote_is_held_up_by_that() {
        let mut bench = Bench::new(Limits::default());
        let one = |cause, culprit, ns| Interference {
            cause,
            ..charge(Resource::Uninterruptible, "", ("web", culprit), ns)
        };
        bench.advance(sample(
            SECOND,
            vec![
                one(Cause::Writeback, "backup", 300),
                one(Cause::Writeback, "web", 400),
                one(Cause::Own, "web", 500),
                one(Cause::Iowait, "iowait", 60),
            ],
        ));
        let victims = bench.attribution.victims();
        assert_eq!((victims[0].held_up_ns, victims[0].lost_ns), (360, 1_260));
        assert_eq!(victims[0].culprit, Some(("backup".into(), Cause::Writeback, 300)));
    }

    #[test]
    fn kernel_threads_that_write_back_are_no_victims() {
        let mut bench = Bench::new(Limits::default());
        let one = |resource, victim, ns| charge(resource, "vda", (victim, "backup"), ns);
        bench.advance(sample(
            SECOND,
            vec![
                one(Resource::BlockQueue, "/", 900),
                one(Resource::BlockDevice, "/", 800),
                one(Resource::Uninterruptible, "/", 700),
                one(Resource::Cpu, "/", 5),
                one(Resource::BlockQueue, "web", 20),
            ],
        ));
        let victims = bench.attribution.victims();
        let held_up: Vec<_> = victims.iter().map(|one| (&*one.name, one.held_up_ns)).collect();
        assert_eq!(held_up, [("web", 20), ("/", 5)]);
        assert_eq!(victims[1].lost_ns, 705);
    }

    fn waits(cgroup: &str, count: u64) -> Series {
        let totals = Histogram::new(count * 1000, [(bucket_of(1000), count)]);
        Series {
            signal: Signal::CgroupRunqueueWait,
            labels: [cgroup.to_owned()].into(),
            totals,
            recent_max_ns: 0,
        }
    }

    #[test]
    fn cgroups_that_are_gone_stay_counted() {
        let mut bench = Bench::new(Limits { cgroups: 1, ..Limits::default() });
        let of = |at_ns, series| Sample { at_ns, series, ..Sample::default() };
        bench.advance(of(1, vec![waits("a", 3), waits("b", 1)]));
        bench.advance(of(2, vec![waits("b", 5)]));
        bench.advance(of(3, vec![waits("b", 6), waits("~other", 2)]));
        let cgroups = bench.attribution.folded_series();
        let counts: Vec<_> = cgroups
            .iter()
            .map(|Exported { series, .. }| (series.labels[0].as_str(), series.totals.count()))
            .collect();
        // `a` left its place to `b`, which had counted for the rest until then.
        assert_eq!(counts, [("b", 5), ("~other", 3)]);
        assert_eq!(bench.attribution.folded()[0].1, 1);
    }

    #[test]
    fn signals_are_folded_apart() {
        let mut bench = Bench::new(Limits { cgroups: 1, ..Limits::default() });
        let of = |signal, cgroup, count| Series { signal, ..waits(cgroup, count) };
        let both = |signal| [of(signal, "a", signal as u64 + 1), of(signal, "b", 7)];
        let series = folded_signals().flat_map(both).collect();
        bench.advance(Sample { at_ns: 1, series, ..Sample::default() });
        let shown = bench.attribution.folded_series();
        for (signal, own) in folded_signals().zip(shown.chunks(2)) {
            assert_eq!(own[0].series, of(signal, "a", signal as u64 + 1));
            assert_eq!(own[1].series, of(signal, OTHER, 7));
        }
        assert_eq!(shown.len(), 2 * folded_signals().count());
        let folded = bench.attribution.folded();
        for signal in folded_signals() {
            assert!(folded.contains(&(signal.info().metric, 1)), "{folded:?}");
        }
    }

    proptest! {
        #[test]
        fn with_room_for_all_every_total_is_shown(
            samples in proptest::collection::vec(
                proptest::collection::btree_map(any::<u8>(), any::<u8>(), 0..20), 0..20
            ),
        ) {
            let limits = Limits { interference: 256, ..Limits::default() };
            let mut bench = Bench::new(limits);
            let mut totals = BTreeMap::new();
            for (step, more) in samples.into_iter().enumerate() {
                for (victim, ns) in more {
                    *totals.entry(format!("{victim:03}")).or_insert(0) += u64::from(ns) + 1;
                }
                let rows = totals
                    .iter()
                    .map(|(victim, ns)| charge(Resource::Cpu, "", (victim, "x"), *ns))
                    .collect();
                bench.advance(sample(step as u64 * SECOND, rows));
            }
            let shown: BTreeMap<String, u64> = bench
                .attribution
                .interference()
                .into_iter()
                .map(|Exported { series: (pair, charged), .. }| (pair.victim.to_string(), charged.ns))
                .collect();
            prop_assert_eq!(shown, totals);
        }
    }
}

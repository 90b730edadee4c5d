//! From samples to the pages of `/metrics`: a scraper that forgets nothing finds no series lower than it
//! was within the last hour, whatever comes and goes, gets other names or other limits.

use std::collections::{BTreeMap, BTreeSet};

use noise_analysis::Overview;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::hist::bucket_of;
use noise_common::signals::Signal;
use noise_model::{Builder, Count, Histogram, Interference, Limits, Sample, Series};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, proptest};

use super::metrics::decoded::families;
use super::metrics::{Format, render};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// What happens between two samples.
#[derive(Clone, Debug)]
enum Step {
    /// Nothing, for so many seconds.
    Wait(u64),
    /// Something of a number has so much more.
    Grow(u8, u16),
    /// It is gone. If it comes again, it begins at 0.
    Leave(u8),
    /// It is gone and comes again between two samples.
    BeginAnew(u8, u16),
    /// It goes on under the name of another.
    Rename(u8, u8),
    /// Other limits.
    Limits(u8),
    Sample,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..24, any::<u8>(), any::<u16>()).prop_map(|(kind, number, more)| match kind {
        0 => Step::Wait(u64::from(more) % 900),
        1..=3 => Step::Leave(number),
        4 => Step::BeginAnew(number, more),
        5 => Step::Rename(number, more as u8),
        6 => Step::Limits(number % 4),
        7..=12 => Step::Sample,
        // A few cost much more than the others.
        _ => Step::Grow(number, more >> (number % 4 * 3)),
    })
}

/// What there is: by number, what has been counted under which name.
#[derive(Default)]
struct World {
    counted: BTreeMap<u8, u64>,
    names: BTreeMap<u8, u8>,
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Grow(number, more) => {
                *self.counted.entry(number).or_default() += u64::from(more);
            }
            Step::Leave(number) => {
                self.counted.remove(&number);
                self.names.remove(&number);
            }
            Step::BeginAnew(number, more) => {
                self.counted.insert(number, u64::from(more));
            }
            Step::Rename(number, name) => {
                self.names.insert(number, name);
                // As it is sampled: what was counted under the old name stays there.
                self.counted.insert(number, 0);
            }
            Step::Wait(_) | Step::Limits(_) | Step::Sample => {}
        }
    }

    /// What is counted under each name.
    fn by_name(&self) -> BTreeMap<u8, u64> {
        let mut all = BTreeMap::new();
        for (number, amount) in &self.counted {
            let name = self.names.get(number).unwrap_or(number);
            *all.entry(*name).or_default() += amount;
        }
        all
    }

    fn sample(&self, at_ns: u64) -> Sample {
        let mut sample = Sample { at_ns, ..Sample::default() };
        for (name, amount) in self.by_name() {
            let text = match name {
                255 => "~other".to_owned(),
                254 => "~gone".to_owned(),
                _ => format!("/{:02}", name % 40),
            };
            let total = amount;
            let totals = Histogram::new(amount, [(bucket_of(u64::from(name) << 12), amount)]);
            let series = |signal, name: String| Series {
                signal,
                labels: [name].into(),
                totals: totals.clone(),
                recent_max_ns: 0,
            };
            match name % 4 {
                0 => sample.series.push(series(Signal::CgroupRunqueueWait, text)),
                1 => sample.interference.push(Interference {
                    resource: if name % 3 == 0 { Resource::Preemption } else { Resource::Cpu },
                    cause: Cause::Foreign,
                    place: "".into(),
                    victim: text.into(),
                    culprit: format!("/{:02}", name % 7).into(),
                    charged: Charged { ns: amount, count: amount },
                }),
                2 => sample.series.push(series(Signal::NetTxWait, text)),
                _ => sample.counts.push(Count {
                    signal: Signal::TcpRetransmit,
                    labels: [text].into(),
                    total,
                }),
            }
        }
        merge(&mut sample);
        sample
    }
}

/// Samples are in order, each label once.
fn merge(sample: &mut Sample) {
    sample.series.sort_by(|a, b| (a.signal, &a.labels).cmp(&(b.signal, &b.labels)));
    sample.series.dedup_by(|more, one| {
        let same = (more.signal, &more.labels) == (one.signal, &one.labels);
        if same {
            one.totals.add(&more.totals);
        }
        same
    });
    sample.counts.sort_by(|a, b| a.labels.cmp(&b.labels));
    sample.counts.dedup_by(|more, one| {
        let same = more.labels == one.labels;
        one.total += if same { more.total } else { 0 };
        same
    });
    sample.interference.sort_by(Interference::order);
    sample.interference.dedup_by(|more, one| {
        let same = more.order(one).is_eq();
        if same {
            one.charged.ns += more.charged.ns;
            one.charged.count += more.charged.count;
        }
        same
    });
}

/// Every sample of the text that may only rise.
fn rising(text: &str) -> BTreeMap<&str, f64> {
    let mut rises = BTreeSet::new();
    for line in text.lines() {
        if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
            && matches!(kind, "counter" | "histogram")
        {
            rises.insert(name);
        }
    }
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.filter_map(|line| line.rsplit_once(' '));
    let of_family = samples.filter(|(series, _)| {
        let name = series.split('{').next().unwrap_or_default();
        let plain = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        rises.contains(name) || plain.is_some_and(|plain| rises.contains(plain))
    });
    of_family.map(|(series, value)| (series, value.parse().unwrap())).collect()
}

/// Every bucket of native histograms.
fn rising_natively(page: &[u8]) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for family in families(page) {
        for metric in &family.metric {
            let Some(histogram) = &metric.histogram else { continue };
            let series = format!("{} {:?}", family.name(), metric.labels());
            all.push((format!("{series} zero"), histogram.zero_count() as f64));
            let buckets = histogram.native().into_iter();
            all.extend(buckets.map(|(number, count)| (format!("{series} {number}"), count as f64)));
        }
    }
    all
}

fn limits(number: u8) -> Limits {
    let [interference, preemptions, cgroups] =
        [[3, 2, 2], [1, 1, 1], [6, 4, 5], [2, 3, 1]][usize::from(number)];
    Limits { interference, preemptions, cgroups }
}

proptest! {
    // Pages take their time.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_is_lower_than_it_was(steps in proptest::collection::vec(step(), 0..300)) {
        let mut builder = Builder::new(limits(0));
        let mut world = World::default();
        let mut seen: BTreeMap<String, (f64, u64)> = BTreeMap::new();
        let mut at_ns = SECOND;
        for step in steps {
            world.take(&step);
            match step {
                Step::Wait(seconds) => at_ns += seconds * SECOND,
                Step::Limits(number) => builder.set_limits(limits(number)),
                _ => {}
            }
            if !matches!(step, Step::Sample) {
                continue;
            }
            at_ns += SECOND;
            let model = builder.model_after(world.sample(at_ns));
            let text = render(Format::Text, &model, &Overview::default(), None);
            let text = String::from_utf8(text).unwrap();
            let page = render(Format::Protobuf, &model, &Overview::default(), None);
            let plain = rising(&text).into_iter().map(|(series, now)| (series.to_owned(), now));
            for (series, now) in plain.chain(rising_natively(&page)) {
                let (before, seen_ns) = seen.get(&series).copied().unwrap_or((0.0, 0));
                prop_assert!(
                    now >= before || seen_ns + HOUR <= at_ns,
                    "{} from {} to {} after {} s", series, before, now, (at_ns - seen_ns) / SECOND
                );
                seen.insert(series, (now, at_ns));
            }
        }
    }
}

//! From samples to the pages of `/metrics`: a scraper that forgets nothing finds no series lower than it was, unless it says
//! that it has begun anew, whatever comes and goes, gets other names or other limits. `~other` never falls.

use std::collections::BTreeMap;

use noise_analysis::Overview;
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::hist::bucket_of;
use noise_common::signals::Signal;
use noise_model::{Builder, Count, Histogram, Interference, Limits, Sample, Series};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, proptest};

use super::metrics::decoded::families;
use super::metrics::{Format, render};

const SECOND: u64 = 1_000_000_000;

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

/// What may only rise: its series, how much it has, and since when.
type Rising = (String, f64, f64);

/// Every sample of the text that may only rise: behind those of a metric stands when it began.
fn rising(text: &str) -> Vec<Rising> {
    let (mut all, mut of_metric) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if line.starts_with('#') {
            of_metric.clear();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        match series.split('{').next().unwrap().ends_with("_created") {
            true => all.extend(of_metric.drain(..).map(|(series, now)| (series, now, value))),
            false => of_metric.push((series.to_owned(), value)),
        }
    }
    all
}

/// Every bucket of native histograms.
fn rising_natively(page: &[u8]) -> Vec<Rising> {
    let mut all = Vec::new();
    for family in families(page) {
        for metric in &family.metric {
            let Some(histogram) = &metric.histogram else { continue };
            let series = format!("{} {:?}", family.name(), metric.labels());
            let began = histogram.created.clone().unwrap_or_default().seconds as f64;
            all.push((format!("{series} zero"), histogram.zero_count() as f64, began));
            let buckets = histogram.native().into_iter();
            let bucket = |(number, count)| (format!("{series} {number}"), count as f64, began);
            all.extend(buckets.map(bucket));
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
    fn what_is_lower_than_it_was_has_begun_anew(
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut builder = Builder::new(limits(0));
        let mut world = World::default();
        let mut seen: BTreeMap<String, (f64, f64)> = BTreeMap::new();
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
            let text = render(Format::OpenMetrics, &model, &Overview::default(), None);
            let text = String::from_utf8(text).unwrap();
            let page = render(Format::Protobuf, &model, &Overview::default(), None);
            for (series, now, from) in rising(&text).into_iter().chain(rising_natively(&page)) {
                let (before, from_before) = seen.get(&series).copied().unwrap_or((0.0, 0.0));
                prop_assert!(from >= from_before, "{} from {}", series, from);
                prop_assert!(now >= before || from > from_before, "{} {}", series, before);
                let is_rest = series.contains("\"~other\"") && !series.contains("\"/");
                prop_assert!(!is_rest || from == 0.0, "{} from {}", series, from);
                seen.insert(series, (now, from));
            }
        }
    }
}

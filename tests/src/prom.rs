//! The text format of Prometheus, or OpenMetrics, read strictly enough to notice a malformed page.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

/// What a page in OpenMetrics ends with.
const END: &str = "# EOF\n";

/// A series' labels by name.
pub type LabelSet = BTreeMap<String, String>;

/// What `# TYPE` and `# HELP` say of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// `counter`, `gauge`, `histogram`, ...
    pub kind: String,
    /// One line for people.
    pub help: String,
}

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    /// Metrics by name.
    pub families: BTreeMap<String, Family>,
    values: BTreeMap<(String, LabelSet), f64>,
    /// When counters and histograms began, by their names in OpenMetrics and labels, where the page says so.
    begins: BTreeMap<(String, LabelSet), f64>,
    is_open: bool,
}

/// One histogram of a scrape. All counts are cumulative, as the format has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bound in nanoseconds (inclusive) and the count up to it; without `+Inf`.
    pub buckets: Vec<(u64, f64)>,
    /// Number of observations.
    pub count: f64,
    /// Their sum, seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bound| {
            earlier.buckets.iter().find(|bucket| bucket.0 == bound).map_or(0.0, |bucket| bucket.1)
        };
        Self {
            buckets: self
                .buckets
                .iter()
                .map(|&(bound, count)| (bound, count - before(bound)))
                .collect(),
            count: self.count - earlier.count,
            sum_seconds: self.sum_seconds - earlier.sum_seconds,
        }
    }

    /// Adds another of the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.buckets.resize_with(other.buckets.len(), Default::default);
        for (own, (bound, count)) in self.buckets.iter_mut().zip(&other.buckets) {
            *own = (*bound, own.1 + count);
        }
        self.count += other.count;
        self.sum_seconds += other.sum_seconds;
    }

    /// Observations above a bucket bound.
    /// Errors: if there is no bucket with this bound.
    pub fn above(&self, bound_ns: u64) -> Result<f64> {
        let (_, up_to) = self
            .buckets
            .iter()
            .find(|bucket| bucket.0 == bound_ns)
            .with_context(|| format!("no bucket ends at {bound_ns} ns"))?;
        Ok(self.count - up_to)
    }
}

/// A label set from pairs.
pub fn label_set(pairs: &[(&str, &str)]) -> LabelSet {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Scrape {
    /// Parses a page.
    /// Errors: on lines that are no comment and no sample, samples before their `# TYPE`, series that occur
    /// twice, and values that are no numbers.
    pub fn parse(text: &str) -> Result<Self> {
        ensure!(text.ends_with('\n'), "the last line is not complete");
        let is_open = text.ends_with(END);
        let mut scrape = Self { is_open, ..Self::default() };
        for (index, line) in text.lines().enumerate() {
            scrape.line(line).with_context(|| format!("line {}: {line:?}", index + 1))?;
        }
        Ok(scrape)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap_or((help, ""));
            let counter = format!("{name}_total");
            let is_counter = self.is_open && self.families.contains_key(&counter);
            let name = if is_counter { counter } else { name.to_owned() };
            self.families.entry(name).or_default().help = help.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("a TYPE without a type")?;
            let end = if self.is_open && kind == "counter" { "_total" } else { "" };
            let family = self.families.entry(format!("{name}{end}")).or_default();
            ensure!(family.kind.is_empty(), "a second TYPE");
            family.kind = kind.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let (name, labels, value) = sample(line)?;
            if let Some(name) = name.strip_suffix("_created").filter(|_| self.is_open) {
                let before = self.begins.insert((name.to_owned(), labels), value.parse()?);
                ensure!(before.is_none(), "a series begins twice");
                return Ok(());
            }
            ensure!(self.family_of(&name).is_some(), "a sample of a metric without a TYPE");
            let value = match value {
                "+Inf" => f64::INFINITY,
                number => number.parse()?,
            };
            ensure!(self.values.insert((name, labels), value).is_none(), "a series occurs twice");
        }
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The family that a sample's name belongs to.
    fn family_of(&self, name: &str) -> Option<&Family> {
        self.families.get(name).or_else(|| {
            ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
                let family = self.families.get(name.strip_suffix(suffix)?)?;
                (family.kind == "histogram").then_some(family)
            })
        })
    }

    /// Every sample that may only rise: of counters, and the buckets, counts and sums of histograms.
    pub fn counters(&self) -> impl Iterator<Item = (&(String, LabelSet), f64)> {
        let rises = |name: &str| {
            self.family_of(name)
                .is_some_and(|family| matches!(&*family.kind, "counter" | "histogram"))
        };
        let all = self.values.iter().filter(move |((name, _), _)| rises(name));
        all.map(|(series, value)| (series, *value))
    }

    /// When a series began that [`Self::counters`] has, seconds since 1970.
    pub fn began(&self, (name, labels): &(String, LabelSet)) -> Option<f64> {
        let mut labels = labels.clone();
        labels.remove("le");
        let ends = ["_total", "_bucket", "_sum", "_count"];
        let name = ends.iter().find_map(|end| name.strip_suffix(end))?;
        self.begins.get(&(name.to_owned(), labels)).copied()
    }

    /// The value of a counter or gauge.
    pub fn value(&self, name: &str, labels: &LabelSet) -> Option<f64> {
        self.values.get(&(name.to_owned(), labels.clone())).copied()
    }

    /// All series of a counter or gauge.
    pub fn series(&self, name: &str) -> BTreeMap<LabelSet, f64> {
        self.values
            .range((name.to_owned(), LabelSet::new())..)
            .take_while(|((found, _), _)| found == name)
            .map(|((_, labels), value)| (labels.clone(), *value))
            .collect()
    }

    /// The sum over all series of a counter or gauge.
    pub fn total(&self, name: &str) -> f64 {
        self.series(name).values().sum()
    }

    /// All histograms of a metric by their labels (less `le`).
    /// Errors: if one lacks its `+Inf` bucket, sum or count, or its buckets run backwards.
    pub fn histograms(&self, name: &str) -> Result<BTreeMap<LabelSet, Histogram>> {
        let mut found: BTreeMap<LabelSet, (Histogram, Option<f64>)> = BTreeMap::new();
        for (mut labels, value) in self.series(&format!("{name}_bucket")) {
            let bound = labels.remove("le").context("a bucket without le")?;
            let (histogram, infinity) = found.entry(labels).or_default();
            if bound == "+Inf" {
                *infinity = Some(value);
            } else {
                histogram.buckets.push((nanoseconds(bound.parse()?), value));
            }
        }
        let sums = self.series(&format!("{name}_sum"));
        let counts = self.series(&format!("{name}_count"));
        let mut histograms = BTreeMap::new();
        for (labels, (mut histogram, infinity)) in found {
            histogram.buckets.sort_by_key(|bucket| bucket.0);
            histogram.count = *counts.get(&labels).context("a histogram without its count")?;
            histogram.sum_seconds = *sums.get(&labels).context("a histogram without its sum")?;
            ensure!(infinity == Some(histogram.count), "{name}: +Inf is not the count");
            let rising = histogram.buckets.windows(2).all(|pair| match pair {
                [lower, upper] => lower.1 <= upper.1,
                _ => true,
            });
            ensure!(rising, "{name}: the buckets of {labels:?} run backwards");
            histograms.insert(labels, histogram);
        }
        Ok(histograms)
    }
}

/// Seconds as the page has them, in whole nanoseconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// `name{label="value",...} value` in parts. Timestamps are not used by the daemon.
fn sample(line: &str) -> Result<(String, LabelSet, &str)> {
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ').context("a sample without a value")?;
        return Ok((name.to_owned(), LabelSet::new(), value.trim()));
    };
    let mut labels = LabelSet::new();
    let mut rest = rest;
    loop {
        if let Some(value) = rest.strip_prefix('}') {
            return Ok((name.to_owned(), labels, value.trim()));
        }
        let (label, after) = rest.split_once("=\"").context("a label without a value")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next() {
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                    _ => bail!("an unknown escape"),
                },
                Some((_, character)) => value.push(character),
                None => bail!("a label value without its end"),
            }
        };
        ensure!(labels.insert(label.to_owned(), value).is_none(), "a label occurs twice");
        rest = after.get(end..).unwrap_or_default();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::{Scrape, label_set};

    const PAGE: &str = "# HELP a_total Things.\n# TYPE a_total counter\n\
        a_total{x=\"1\",y=\"q\\\"\\\\\\n,}\"} 3\na_total{x=\"2\"} 4.5\n\
        # HELP w_seconds Waits.\n# TYPE w_seconds histogram\n\
        w_seconds_bucket{c=\"k\",le=\"0.000001024\"} 1\nw_seconds_bucket{c=\"k\",le=\"17.179869184\"} 2\n\
        w_seconds_bucket{c=\"k\",le=\"+Inf\"} 3\nw_seconds_sum{c=\"k\"} 20.5\nw_seconds_count{c=\"k\"} 3\n";

    #[test]
    fn reads_values_labels_and_escapes() {
        let scrape = Scrape::parse(PAGE).unwrap();
        assert_eq!(scrape.value("a_total", &label_set(&[("x", "2")])), Some(4.5));
        assert_eq!(
            scrape.value("a_total", &label_set(&[("x", "1"), ("y", "q\"\\\n,}")])),
            Some(3.0)
        );
        assert!((scrape.total("a_total") - 7.5).abs() < 1e-9);
        assert_eq!(scrape.families["a_total"].help, "Things.");
        let open = "# TYPE a counter\n# HELP a Things.\na_total{x=\"2\"} 4.5\na_created{x=\"2\"} 7.5\n# EOF\n";
        let open = Scrape::parse(open).unwrap();
        assert_eq!(
            (&*open.families["a_total"].kind, &*open.families["a_total"].help),
            ("counter", "Things.")
        );
        assert_eq!(open.began(&("a_total".to_owned(), label_set(&[("x", "2")]))), Some(7.5));
        assert_eq!(open.len(), 1);
    }

    #[test]
    fn reads_histograms_in_nanoseconds() {
        let scrape = Scrape::parse(PAGE).unwrap();
        let histogram = &scrape.histograms("w_seconds").unwrap()[&label_set(&[("c", "k")])];
        assert_eq!(histogram.buckets, [(1024, 1.0), (17_179_869_184, 2.0)]);
        assert!((histogram.above(1024).unwrap() - 2.0).abs() < 1e-9);
        assert!(histogram.above(1025).is_err());
        assert!(histogram.since(histogram).count.abs() < 1e-9);
    }

    #[test]
    fn malformed_pages_are_refused() {
        assert!(Scrape::parse("no_type 1\n").is_err());
        assert!(Scrape::parse("# TYPE a counter\na{x=\"1\"} 1\na{x=\"1\"} 2\n").is_err());
        assert!(Scrape::parse("# TYPE a counter\na{x=\"1} 1\n").is_err());
        assert!(Scrape::parse("# TYPE a counter\na one\n").is_err());
        assert!(Scrape::parse("# TYPE a counter\na 1").is_err());
        let broken = PAGE.replace("le=\"17.179869184\"} 2", "le=\"17.179869184\"} 0");
        assert!(Scrape::parse(&broken).unwrap().histograms("w_seconds").is_err());
    }
}

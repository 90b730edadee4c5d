//! A scraper that remembers: every series that a page ever had, with its value and when it began. It notices each that is
//! lower, unless it says that it has begun anew: that it left its place and came back. What `~other` counts begins once.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, ensure};

use crate::prom::{LabelSet, Scrape};

/// What stands for the rest.
const OTHER: &str = "~other";

/// A series that is lower than it was, though it has not begun anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Decrease {
    /// The sample's name.
    pub name: String,
    /// Its labels.
    pub labels: LabelSet,
    /// What it had.
    pub before: f64,
    /// What it has now.
    pub now: f64,
    /// Pages without it between the two.
    pub missing: u64,
}

impl fmt::Display for Decrease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, labels, before, now, missing } = self;
        write!(formatter, "{name} {labels:?}: {before} became {now}")?;
        if *missing > 0 {
            write!(formatter, ", {missing} pages after it left")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    value: f64,
    began: f64,
    page: u64,
}

/// Every counter, and the buckets, counts and sums of histograms.
#[derive(Clone, Debug, Default)]
pub struct Recall {
    seen: BTreeMap<(String, LabelSet), Seen>,
    pages: u64,
    returned: u64,
    anew: u64,
}

impl Recall {
    /// Takes the next page, in OpenMetrics, and says what is lower in it than it was. A decrease is reported once: what
    /// comes later is compared with the lower value.
    /// Errors: if a counter does not say when it began, or a rest has begun anew.
    pub fn take(&mut self, scrape: &Scrape) -> Result<Vec<Decrease>> {
        self.pages += 1;
        let page = self.pages;
        let mut decreases = Vec::new();
        for (series, value) in scrape.counters() {
            let began = scrape.began(series).with_context(|| format!("{series:?} has no begin"))?;
            let now = Seen { value, began, page };
            let Some(seen) = self.seen.get_mut(series) else {
                self.seen.insert(series.clone(), now);
                continue;
            };
            let before = std::mem::replace(seen, now);
            let missing = page - before.page - 1;
            self.returned += u64::from(missing > 0);
            let is_rest = series.1.values().any(|value| value == OTHER)
                && !series.1.values().any(|value| value.starts_with('/'));
            ensure!(!is_rest || began == before.began, "{series:?} began anew");
            let is_anew = began > before.began;
            self.anew += u64::from(is_anew);
            if value < before.value && !is_anew {
                let (name, labels) = series.clone();
                decreases.push(Decrease {
                    name,
                    labels,
                    before: before.value,
                    now: value,
                    missing,
                });
            }
        }
        Ok(decreases)
    }

    /// Takes the next page, and requires that nothing is lower in it than it was.
    /// Errors: if something is, with all of it.
    pub fn ensure_rising(&mut self, scrape: &Scrape) -> Result<()> {
        let decreases: Vec<String> = self.take(scrape)?.iter().map(ToString::to_string).collect();
        ensure!(decreases.is_empty(), "counters ran backwards: {}", decreases.join("; "));
        Ok(())
    }

    /// Pages so far.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How often a metric of a series was found to have begun anew.
    pub fn anew(&self) -> u64 {
        self.anew
    }

    /// Series so far.
    pub fn series(&self) -> usize {
        self.seen.len()
    }

    /// How often a series came back that was missing from at least one page.
    pub fn returned(&self) -> u64 {
        self.returned
    }
}

#[cfg(test)]
mod tests {
    use super::Recall;
    use crate::prom::Scrape;

    fn page(samples: &str) -> Scrape {
        let types = "# TYPE a counter\n# TYPE g gauge\n# TYPE w_seconds histogram\n";
        Scrape::parse(&format!("{types}{samples}\n# EOF\n")).unwrap()
    }

    fn counters(of: &[(&str, u64, u64)]) -> Scrape {
        let line = |(name, value, began): &(&str, u64, u64)| {
            format!("a_total{{x=\"{name}\"}} {value}\na_created{{x=\"{name}\"}} {began}\n")
        };
        page(&format!("{}g 1", of.iter().map(line).collect::<String>()))
    }

    #[test]
    fn counters_that_fall_are_found_unless_they_began_anew() {
        let mut recall = Recall::default();
        assert!(recall.take(&counters(&[("1", 3, 0), ("2", 5, 0)])).unwrap().is_empty());
        let lower = recall.take(&counters(&[("1", 2, 0), ("2", 5, 0)])).unwrap();
        assert_eq!(lower.len(), 1, "{lower:?}");
        assert_eq!(lower[0].to_string(), "a_total {\"x\": \"1\"}: 3 became 2");
        assert!(recall.take(&counters(&[("1", 2, 0), ("2", 1, 7)])).unwrap().is_empty());
        let error = recall.ensure_rising(&counters(&[("1", 1, 0)])).unwrap_err();
        assert!(error.to_string().contains("2 became 1"), "{error}");
        assert!(recall.take(&page("a_total{x=\"3\"} 1")).is_err());
        assert_eq!((recall.pages(), recall.series(), recall.anew()), (5, 2, 1));
    }

    #[test]
    fn the_rest_does_not_begin_anew() {
        let mut recall = Recall::default();
        assert!(recall.take(&counters(&[("~other", 3, 0)])).unwrap().is_empty());
        assert!(recall.take(&counters(&[("~other", 1, 2)])).is_err());
    }

    #[test]
    fn what_comes_back_lower_is_found() {
        let mut recall = Recall::default();
        let histogram = |count: u64| {
            page(&format!(
                "w_seconds_bucket{{le=\"+Inf\"}} {count}\nw_seconds_count {count}\nw_seconds_created 0"
            ))
        };
        assert!(recall.take(&histogram(7)).unwrap().is_empty());
        assert!(recall.take(&counters(&[])).unwrap().is_empty());
        assert!(recall.take(&counters(&[])).unwrap().is_empty());
        let lower = recall.take(&histogram(6)).unwrap();
        assert_eq!(lower.iter().map(|one| one.missing).collect::<Vec<_>>(), [2, 2]);
        assert!(recall.take(&histogram(6)).unwrap().is_empty());
        assert_eq!((recall.pages(), recall.series(), recall.returned()), (5, 2, 2));
    }
}

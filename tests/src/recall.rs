//! A scraper that remembers: every series that a page had within the last hour, with its value. It
//! notices each that is lower, whether it ran backwards or left and came back.
//!
//! `rate()` takes any decrease for a counter that began anew, and counts all that it has as new.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::prom::{LabelSet, Scrape};

/// How far back the daemon promises that nothing was higher.
const COMPARED: Duration = Duration::from_secs(3_600);

/// A series that is lower than it was.
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
    page: u64,
    at: Instant,
}

/// Every counter of the last hour, and the buckets, counts and sums of histograms.
#[derive(Clone, Debug, Default)]
pub struct Recall {
    seen: BTreeMap<(String, LabelSet), Seen>,
    pages: u64,
    returned: u64,
}

impl Recall {
    /// Takes the next page, and says what is lower in it than it was. A decrease is reported once: what
    /// comes later is compared with the lower value.
    pub fn take(&mut self, scrape: &Scrape) -> Vec<Decrease> {
        self.take_at(scrape, Instant::now())
    }

    fn take_at(&mut self, scrape: &Scrape, at: Instant) -> Vec<Decrease> {
        self.pages += 1;
        let page = self.pages;
        self.seen.retain(|_, seen| at.saturating_duration_since(seen.at) < COMPARED);
        let mut decreases = Vec::new();
        for (series, value) in scrape.counters() {
            let now = Seen { value, page, at };
            let Some(seen) = self.seen.get_mut(series) else {
                self.seen.insert(series.clone(), now);
                continue;
            };
            let (before, missing) = (seen.value, page - seen.page - 1);
            *seen = now;
            self.returned += u64::from(missing > 0);
            if value < before {
                let (name, labels) = series.clone();
                decreases.push(Decrease { name, labels, before, now: value, missing });
            }
        }
        decreases
    }

    /// Takes the next page, and requires that nothing is lower in it than it was.
    ///
    /// # Errors
    /// If something is, with all of it.
    pub fn ensure_rising(&mut self, scrape: &Scrape) -> Result<()> {
        let decreases: Vec<String> = self.take(scrape).iter().map(ToString::to_string).collect();
        ensure!(decreases.is_empty(), "counters ran backwards: {}", decreases.join("; "));
        Ok(())
    }

    /// Pages so far.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Series within the last hour.
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
    use std::time::Instant;

    use super::{COMPARED, Recall};
    use crate::prom::Scrape;

    fn page(samples: &str) -> Scrape {
        let types = "# TYPE a_total counter\n# TYPE g gauge\n# TYPE w_seconds histogram\n";
        Scrape::parse(&format!("{types}{samples}\n")).unwrap()
    }

    #[test]
    fn counters_that_fall_are_found_and_gauges_may() {
        let mut recall = Recall::default();
        assert!(recall.take(&page("a_total{x=\"1\"} 3\na_total{x=\"2\"} 5\ng 9")).is_empty());
        let lower = recall.take(&page("a_total{x=\"1\"} 2\na_total{x=\"2\"} 5\ng 1"));
        assert_eq!(lower.len(), 1, "{lower:?}");
        assert_eq!(lower[0].to_string(), "a_total {\"x\": \"1\"}: 3 became 2");
        assert!(recall.take(&page("a_total{x=\"1\"} 2")).is_empty());
        let error = recall.ensure_rising(&page("a_total{x=\"1\"} 1")).unwrap_err();
        assert!(error.to_string().contains("2 became 1"), "{error}");
    }

    #[test]
    fn what_comes_back_lower_is_found() {
        let mut recall = Recall::default();
        let histogram = |count: u64| {
            page(&format!("w_seconds_bucket{{le=\"+Inf\"}} {count}\nw_seconds_count {count}"))
        };
        assert!(recall.take(&histogram(7)).is_empty());
        assert!(recall.take(&page("a_total 1")).is_empty());
        assert!(recall.take(&page("a_total 1")).is_empty());
        let lower = recall.take(&histogram(6));
        assert_eq!(lower.iter().map(|one| one.missing).collect::<Vec<_>>(), [2, 2]);
        assert!(recall.take(&histogram(6)).is_empty());
        assert_eq!((recall.pages(), recall.series(), recall.returned()), (5, 3, 2));
    }

    #[test]
    fn what_comes_back_after_an_hour_may_begin_anew() {
        let (mut recall, begin) = (Recall::default(), Instant::now());
        assert!(recall.take_at(&page("a_total 7\n"), begin).is_empty());
        assert!(recall.take_at(&page("a_total{x=\"2\"} 5\n"), begin + COMPARED).is_empty());
        assert!(recall.take_at(&page("a_total 1\n"), begin + COMPARED).is_empty());
        assert_eq!(recall.series(), 2);
    }
}

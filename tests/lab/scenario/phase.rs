//! A stretch of time with planted work, and what the daemon measured in it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Stage;
use crate::attribution::{Blame, charged};
use crate::daemon::Daemon;
use crate::load::{Figures, Worker};
use crate::prom::{Histogram, LabelSet, Scrape};

/// The paper's window.
const WINDOW: Duration = Duration::from_millis(500);

/// What was measured.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Metrics before.
    pub first: Scrape,
    /// Metrics after.
    pub last: Scrape,
    /// Time between them.
    pub seconds: f64,
    /// Context switches of the host in each window.
    pub switches: Vec<f64>,
    /// What the delayed work got done.
    pub done: Figures,
}

impl Phase {
    /// What histograms of a metric grew by.
    /// Errors: if the metric is malformed.
    pub fn histograms(&self, metric: &str) -> Result<BTreeMap<LabelSet, Histogram>> {
        let earlier = self.first.histograms(metric)?;
        let grown = self.last.histograms(metric)?.into_iter().map(|(labels, histogram)| {
            let before = earlier.get(&labels).cloned().unwrap_or_default();
            let grown = histogram.since(&before);
            (labels, grown)
        });
        Ok(grown.collect())
    }

    /// Count and seconds that the histograms of a metric grew by, of the series that fit.
    pub fn sum(&self, metric: &str, fits: impl Fn(&LabelSet) -> bool) -> Result<(f64, f64)> {
        let histograms = self.histograms(metric)?;
        let chosen = histograms.iter().filter(|(labels, _)| fits(labels));
        Ok(chosen.fold((0.0, 0.0), |(count, seconds), (_, histogram)| {
            (count + histogram.count, seconds + histogram.sum_seconds)
        }))
    }

    /// Whether the daemon exports a metric.
    pub fn has(&self, metric: &str) -> bool {
        self.last.families.contains_key(metric)
    }

    /// What the daemon charged for delays of this cgroup.
    pub fn charged(&self, victim: &str) -> Result<BTreeMap<Blame, f64>> {
        charged(&self.first, &self.last, victim)
    }

    /// How many incidents were opened, where the daemon counts them.
    pub fn incidents(&self) -> Option<f64> {
        const METRIC: &str = "noised_incidents_total";
        self.has(METRIC).then(|| self.last.total(METRIC) - self.first.total(METRIC))
    }

    /// The mean number of context switches in a window.
    pub fn switches_per_window(&self) -> Option<f64> {
        let windows = self.switches.len();
        (windows > 0).then(|| self.switches.iter().sum::<f64>() / windows as f64)
    }
}

fn add(total: &mut Figures, figures: Figures) {
    for (name, number) in figures {
        *total.entry(name).or_default() += number;
    }
}

/// Lets the victims work for so long, beside the culprits or without them; `look` is called while all
/// are still at work.
pub fn play(
    daemon: &Daemon,
    stage: &dyn Stage,
    noisy: bool,
    length: Duration,
    mut progress: impl FnMut(Duration),
    look: impl FnOnce() -> Result<()>,
) -> Result<Phase> {
    let switches = |scrape: &Scrape| scrape.total("noised_context_switches_total");
    let mut culprits = if noisy { stage.start_culprits()? } else { Vec::new() };
    let mut victims = stage.start_victims()?;
    let first = daemon.scrape()?;
    let begin = Instant::now();
    let mut counted = switches(&first);
    let mut windows = Vec::new();
    loop {
        let passed = begin.elapsed();
        if passed >= length {
            break;
        }
        progress(passed);
        thread::sleep(WINDOW.min(length - passed));
        if length - passed >= WINDOW {
            let count = switches(&daemon.scrape()?);
            windows.push(count - counted);
            counted = count;
        }
    }
    look()?;
    let mut done = Figures::new();
    victims.iter_mut().chain(&mut culprits).for_each(Worker::ask_to_stop);
    for victim in victims {
        add(&mut done, victim.stop()?);
    }
    for culprit in culprits {
        let figures = culprit.stop()?;
        ensure!(figures.values().any(|&number| number > 0), "an idle culprit: {figures:?}");
    }
    let last = daemon.scrape()?;
    Ok(Phase { first, last, seconds: begin.elapsed().as_secs_f64(), switches: windows, done })
}

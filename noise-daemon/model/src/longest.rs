//! PURE: the longest delays of the last seconds. A sample has the longest since the sample before, which
//! another client may have requested; each client gets the longest since its own last request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Label, Sample};

/// How far back longest delays are known, ns.
const HORIZON_NS: u64 = 60_000_000_000;

/// Longest delays by the samples that had them.
#[derive(Debug, Default)]
pub struct Longest {
    /// The next sample is taken for a client that will use [`Self::raised`].
    asks: bool,
    /// Time of the last such sample, ns; `None` where it is older than the horizon.
    asked_ns: Option<u64>,
    samples: VecDeque<(u64, BTreeMap<Label, u64>)>,
}

impl Longest {
    /// Announces that [`Self::raised`] will be called with the next sample.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Takes the next sample. Keeps something of it only where [`Self::ask`] was called within the last
    /// minute: without clients, the labels of all delayed series would be copied in vain.
    pub fn advance(&mut self, sample: &Sample) {
        let is_recent = |then: u64| then.saturating_add(HORIZON_NS) >= sample.at_ns;
        if std::mem::take(&mut self.asks) {
            // What is older than the horizon goes with the next sample: this client still gets it.
            self.asked_ns = Some(sample.at_ns);
        } else {
            self.samples.retain(|(then, _)| is_recent(*then));
        }
        if !self.asked_ns.is_some_and(is_recent) {
            self.asked_ns = None;
            return;
        }
        let delayed = sample.series.iter().filter(|one| one.recent_max_ns > 0);
        let longest: BTreeMap<Label, u64> =
            delayed.map(|one| ((one.signal, one.labels.clone()), one.recent_max_ns)).collect();
        if !longest.is_empty() {
            self.samples.push_back((sample.at_ns, longest));
        }
    }

    /// The newest sample with its longest delays raised to those since a time, ns on the clock of the samples.
    pub fn raised(&self, newest: &Arc<Sample>, since_ns: u64) -> Arc<Sample> {
        let mut longest: BTreeMap<&Label, u64> = BTreeMap::new();
        for (key, ns) in
            self.samples.iter().filter(|(at_ns, _)| *at_ns > since_ns).flat_map(|one| &one.1)
        {
            let known = longest.entry(key).or_default();
            *known = (*known).max(*ns);
        }
        let mut longest = longest.into_iter().peekable();
        let mut raises = Vec::new();
        for (index, one) in newest.series.iter().enumerate() {
            let key = (one.signal, &one.labels);
            while longest.next_if(|(known, _)| (known.0, &known.1) < key).is_some() {}
            if let Some((_, ns)) = longest.next_if(|(known, _)| (known.0, &known.1) == key)
                && ns > one.recent_max_ns
            {
                raises.push((index, ns));
            }
        }
        let mut sample = Arc::clone(newest);
        if !raises.is_empty() {
            let series = &mut Arc::make_mut(&mut sample).series;
            for (index, ns) in raises {
                if let Some(one) = series.get_mut(index) {
                    one.recent_max_ns = ns;
                }
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, Series};
    use noise_common::signals::Signal;

    fn sample(at_ns: u64, longest: &[(&str, u64)]) -> Sample {
        let series = longest.iter().map(|(label, recent_max_ns)| Series {
            signal: Signal::BlockQueueWait,
            labels: [(*label).to_owned()].into(),
            totals: Histogram::default(),
            recent_max_ns: *recent_max_ns,
        });
        Sample { at_ns, series: series.collect(), ..Sample::default() }
    }

    fn raised(longest: &mut Longest, sample: Sample, since_ns: u64) -> Vec<u64> {
        longest.ask();
        longest.advance(&sample);
        let sample = longest.raised(&Arc::new(sample), since_ns);
        sample.series.iter().map(|one| one.recent_max_ns).collect()
    }

    #[test]
    fn each_client_gets_the_longest_since_its_own_time() {
        let mut longest = Longest::default();
        assert_eq!(raised(&mut longest, sample(10, &[("a", 1)]), 0), [1]);
        longest.advance(&sample(11, &[("a", 5), ("b", 0), ("gone", 9)]));
        longest.advance(&sample(12, &[("a", 3), ("b", 7)]));
        let now = || sample(13, &[("0", 2), ("a", 4), ("b", 0)]);
        assert_eq!(raised(&mut longest, now(), 10), [2, 5, 7]);
        assert_eq!(raised(&mut longest, now(), 11), [2, 4, 7]);
        assert_eq!(raised(&mut longest, now(), 12), [2, 4, 0]);
    }

    #[test]
    fn nothing_is_kept_without_clients() {
        let mut longest = Longest::default();
        longest.advance(&sample(1, &[("a", 5)]));
        assert!(longest.samples.is_empty());
        raised(&mut longest, sample(2, &[]), 0);
        for second in 0..180 {
            longest.advance(&sample(second * 1_000_000_000, &[("a", 5)]));
            assert!(longest.samples.len() <= 61);
        }
        assert!(longest.samples.is_empty());
    }
}

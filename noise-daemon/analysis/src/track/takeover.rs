//! A culprit that takes over from another while a signal stays disturbed: one incident ends where
//! the other begins.
//!
//! The windows that belong to the incident for certain are held against the latest ones. Both must
//! be as many as close an incident, and name culprits that had nothing to do with the other part;
//! what the new one did must be enough for an incident of its own, and in as many of the latest
//! windows as the other's. So a culprit that does more now and less then, two that disturb at the
//! same time, or a burst of another in between, remain one incident.

use std::cmp::Ordering;

use super::super::accused::Accused;
use super::super::culprits::{Culprit, Ranking, Usual};
use super::super::incident::{Change, Ending};
use super::super::name::Name;
use super::super::settings::Settings;
use super::super::watched::Watched;
use super::{Key, OngoingIncident, Settled, Track};

/// Part of the latest windows that must lie behind the begin of the new culprit.
const LEAST_PART: usize = 2;

impl OngoingIncident {
    /// Number of the tail's windows before another culprit took over; `None` where none did.
    fn taken_over(&self, of: Watched, usual: &Usual, settings: &Settings) -> Option<usize> {
        let enough = settings.closing_windows;
        if self.settled.windows < enough || self.tail.len() < enough {
            return None;
        }
        let tail_ns = self.tail.front()?.window.start_ns;
        let mut latest = Settled::default();
        self.tail.iter().for_each(|slice| latest.add(slice));
        let before = self.settled.ranking(self.start_ns, usual);
        let after = latest.ranking(tail_ns, usual);
        if !is_other(of, &before, &after) {
            return None;
        }
        let [before, after] = [&before, &after].map(|ranking| -> Vec<&Culprit<Name>> {
            Accused::new(of, &ranking.culprits).known().collect()
        });
        let by_both =
            self.tail.iter().map(|slice| [&before, &after].map(|by| slice.charged.charged_to(by)));
        let whose: Vec<Ordering> = by_both.map(|[before, after]| after.cmp(&before)).collect();
        // A short burst outweighs all others, and the one before is still at work.
        let windows = |of: Ordering| whose.iter().filter(|whose| **whose == of).count();
        if windows(Ordering::Greater) < windows(Ordering::Less) {
            return None;
        }
        whose.iter().position(|whose| whose.is_gt())
    }
}

impl Settled {
    fn ranking(&self, start_ns: u64, usual: &Usual) -> Ranking {
        let length_ns = self.end_ns.unwrap_or(start_ns).saturating_sub(start_ns);
        self.charged.ranking(self.delays.sum_ns, &usual.within(length_ns))
    }
}

fn is_other(of: Watched, before: &Ranking, after: &Ranking) -> bool {
    let [before, after] = [before, after].map(|ranking| Accused::new(of, &ranking.culprits));
    before.differs(&after, true)
}

impl Track {
    /// Ends the incident, and begins another, where another culprit took over.
    pub(super) fn hand_over(&mut self, key: &Key, settings: &Settings) -> Option<[Change; 2]> {
        let usual = &self.normal.charges;
        let open = self.open.as_ref()?;
        let own = open.taken_over(key.0, usual, settings)?;
        let others = open.tail.len() - own;
        let least = (settings.closing_windows / LEAST_PART).max(2);
        let is_enough = others >= least
            && open.loses(open.tail.iter().skip(own), settings.minimum(key.0))
            && self.lasts(open, open.tail.iter().skip(own));
        if !is_enough {
            return None;
        }
        let mut ended = OngoingIncident::clone(open);
        let begin = ended.tail.split_off(own);
        let start_ns = begin.front()?.window.start_ns;
        let mut begun = OngoingIncident::new(ended.rule, start_ns, ended.before, settings);
        begin.into_iter().for_each(|slice| begun.push(slice, settings));
        let disturbed = self.disturbed_in(&ended);
        let closed = ended.report(key, disturbed, Some(Ending::Over), usual);
        let opened = begun.report(key, begun.tail.len(), None, usual);
        let differ = Accused::new(key.0, &closed.culprits)
            .differs(&Accused::new(key.0, &opened.culprits), true);
        if !differ {
            return None;
        }
        // The disturbance goes on, by another.
        begun.since_ns = ended.since_ns;
        let mut lasting = ended.next;
        ended.tail.iter().take(disturbed).for_each(|slice| lasting.learn(slice));
        begun.next = lasting;
        // What lies between the two was calm.
        for slice in ended.tail.iter().skip(disturbed) {
            if slice.window.is_empty() {
                self.normal.learn_quiet(slice.length_ns());
            } else {
                self.normal.learn(slice);
            }
        }
        self.open = Some(Box::new(begun));
        Some([Change::Closed(closed), Change::Opened(opened)])
    }
}

#[cfg(test)]
mod tests {
    use noise_common::charge::Cause;
    use noise_common::signals::Signal;

    use super::{Change, Ending, Settings};
    use crate::properties::{LENGTH_NS, name, window};
    use crate::track::ADOPT_NS;
    use crate::{Charge, Incident, Monitor, Name};

    /// The incident of a culprit at work for sixty windows, in the midst of which another does far
    /// more for some: who did most in which windows, in the order of their ends.
    fn with_burst(burst: u64) -> Vec<(u64, u64, Name)> {
        let mut monitor = Monitor::new(Settings::default()).unwrap();
        let mut changes = Vec::new();
        for number in 0..200 + 120 {
            let (culprit, delay) = match number {
                230.. if number < 230 + burst => (8, 500_000_000),
                200..260 => (7, 10_000_000),
                _ => (7, 100_000 + number % 2 * 1000),
            };
            let charges =
                [Charge { culprit: name(culprit), cause: Cause::Foreign, charged_ns: 10 * delay }];
            let window = window(number, &[delay; 10]);
            changes.extend(monitor.observe(Signal::RunqueueWait, &name(0), &window, &charges));
        }
        let closed = |change| match change {
            Change::Closed(Incident { start_ns, end_ns, culprits, .. }) => {
                Some((start_ns / LENGTH_NS, end_ns / LENGTH_NS, culprits[0].culprit.clone()))
            }
            Change::Opened(_) => None,
        };
        changes.into_iter().filter_map(closed).collect()
    }

    #[test]
    fn a_short_burst_of_another_is_a_part_of_the_incident() {
        assert_eq!(with_burst(0), [(200, 260, name(7))]);
        for burst in 1..5 {
            let incidents = with_burst(burst);
            let [(start, end, _)] = incidents[..] else { panic!("{burst}: {incidents:?}") };
            assert_eq!((start, end), (200, 260), "{burst}");
        }
        let takes_over = with_burst(20);
        assert_eq!(takes_over, [(200, 230, name(7)), (230, 250, name(8)), (250, 260, name(7))]);
    }

    #[test]
    fn what_lasts_becomes_the_usual_though_its_culprits_take_turns() {
        let mut monitor = Monitor::new(Settings::default()).unwrap();
        let (mut endings, lasting) = (Vec::new(), ADOPT_NS / LENGTH_NS);
        for number in 0..200 + lasting {
            let delay = if number < 200 { 100_000 + number % 2 * 1000 } else { 10_000_000 };
            let culprit = name(7 + number / 600 % 2);
            let charges = [Charge { culprit, cause: Cause::Foreign, charged_ns: 10 * delay }];
            let window = window(number, &[delay; 10]);
            let changes = monitor.observe(Signal::RunqueueWait, &name(0), &window, &charges);
            endings.extend(changes.into_iter().filter_map(|change| match change {
                Change::Closed(incident) => incident.ending,
                Change::Opened(_) => None,
            }));
        }
        assert_eq!(endings.pop(), Some(Ending::Adopted));
        assert_eq!(endings, vec![Ending::Over; (200 + lasting as usize) / 600]);
        let usual = monitor.baseline(Signal::RunqueueWait, &name(0)).unwrap();
        assert_eq!(usual.adopted_since_ns(), Some(200 * LENGTH_NS));
        assert_eq!((usual.learnt(), usual.mean_ns()), (lasting, 10_000_000.0));
    }

    #[test]
    fn who_takes_over_has_an_incident_of_his_own() {
        let mut monitor = Monitor::new(Settings::default()).unwrap();
        let mut changes = Vec::new();
        for number in 0..200 + 120 {
            let slow = (200..200 + 60).contains(&number);
            let culprit = if number < 200 + 30 { 7 } else { 8 };
            let delay = if slow { 10_000_000 } else { 100_000 + number % 2 * 1000 };
            let charges =
                [Charge { culprit: name(culprit), cause: Cause::Foreign, charged_ns: 10 * delay }];
            changes.extend(monitor.observe(
                Signal::RunqueueWait,
                &name(0),
                &window(number, &[delay; 10]),
                &charges,
            ));
        }
        let kinds: Vec<_> =
            changes.iter().map(|change| matches!(change, Change::Opened(_))).collect();
        assert_eq!(kinds, [true, false, true, false]);
        let incidents: Vec<_> = changes
            .into_iter()
            .filter_map(|change| match change {
                Change::Closed(incident) => Some(incident),
                Change::Opened(_) => None,
            })
            .collect();
        let windows = |incident: &Incident| {
            (incident.start_ns / LENGTH_NS - 200, incident.end_ns / LENGTH_NS - 200)
        };
        assert_eq!(incidents.iter().map(windows).collect::<Vec<_>>(), [(0, 30), (30, 60)]);
        for (incident, culprit) in incidents.iter().zip([7, 8]) {
            assert_eq!(
                (&incident.culprits[0].culprit, incident.ending),
                (&name(culprit), Some(Ending::Over))
            );
            assert!((incident.culprits[0].time.seconds - 3.0).abs() < 1e-9, "{incident:?}");
            assert!((incident.lost_seconds - 2.97).abs() < 1e-3, "{incident:?}");
        }
        let both = Incident::together(&incidents[1], &incidents[0]);
        assert_eq!(windows(&both), (0, 60));
        assert_eq!(both.disturbed_ns, 60 * LENGTH_NS);
        assert_eq!(both.after.lost, incidents[0].after.lost);
        assert_eq!((both.culprits.len(), both.delays.count()), (2, 600));
        assert!((both.culprits[0].time.share - 0.5).abs() < 1e-9, "{both:?}");
        // The first was there as usual before.
        assert_eq!(&*both.culprits[0].culprit, "8");
    }
}

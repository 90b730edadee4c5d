//! The two coarse rules of critical-path anomaly detection, applied to the latest windows of a
//! signal: each window's mean delay takes the place of an execution's time in a state.

use super::baseline::Baseline;
use super::settings::Settings;
use super::window::Slice;

/// The rule that an incident broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The mean of the latest windows exceeded the baseline's by so many standard deviations.
    Mean,
    /// Many more of the latest windows than usual lay above the baseline's mean.
    Share,
    /// Memory was short, and there was no such delay before: that needs no baseline.
    Memory,
}

/// Rule 1: standard deviations by which the mean of the latest windows exceeds the baseline's (t1 of the critical-path
/// paper, whose study used 1.5).
const DEVIATIONS: f64 = 1.5;

/// Rule 2: how many times the usual share of windows lies above the baseline's mean (t2 of the same paper).
const SHARE_FACTOR: f64 = 1.5;

/// Rule 2: how probable such a share may be by chance, for windows that are independent of each other: the false alarms
/// to expect per window and subject, one in six days for each subject.
const CHANCE: f64 = 1e-6;

/// How far the thresholds go down for an open incident: half way to the baseline, so that what hovers around a
/// threshold is one incident.
pub(super) const CLOSING_FRACTION: f64 = 0.5;

/// Least time lost, seconds per second, to memory that is short.
const LEAST_FOR_MEMORY: f64 = 0.05;

/// How many windows a rule is about at least.
pub(super) fn least_windows(settings: &Settings) -> usize {
    settings.recent_windows.div_ceil(3).max(3)
}

/// Whether windows are lost to memory that is short, where the baseline has not learnt enough to say what is usual.
pub(super) fn lost_to_memory<'a>(
    slices: impl DoubleEndedIterator<Item = &'a Slice> + ExactSizeIterator,
    baseline: &Baseline,
    minimum: f64,
    settings: &Settings,
) -> bool {
    let latest = least_windows(settings);
    // Those before may be long ago: there were hardly any such delays.
    baseline.learnt() < settings.warmup_windows
        && slices.len() >= latest
        && loses(slices.rev().take(latest), 0.0, minimum.max(LEAST_FOR_MEMORY))
}

/// The rule that the latest windows break, given their means in ns.
///
/// Rule 1 leaves out the largest window, so that one alone does not open an incident. Rule 2
/// considers how probable the share is by chance, too: with few windows, or where most are usually
/// below the mean, a multiple of the usual share comes about easily.
pub(super) fn broken(means: &[f64], baseline: &Baseline, settings: &Settings) -> Option<Rule> {
    if baseline.learnt() < settings.warmup_windows || means.len() < least_windows(settings) {
        return None;
    }
    let largest = means.iter().copied().fold(f64::MIN, f64::max);
    let trimmed = (means.iter().sum::<f64>() - largest) / (means.len() - 1) as f64;
    if trimmed > baseline.mean_ns() + DEVIATIONS * baseline.deviation_ns() {
        return Some(Rule::Mean);
    }
    let above = above_mean(means, baseline);
    let share = above as f64 / means.len() as f64;
    let unusual = share > SHARE_FACTOR * baseline.share_above()
        && chance_of(above, means.len(), baseline.share_above_at_most()) < CHANCE;
    unusual.then_some(Rule::Share)
}

/// Whether an incident that a rule opened goes on: the same rule, with a threshold that is nearer
/// to the baseline. Fewer than half of the windows above the mean never keep it open: with so few
/// windows, a multiple of a small usual share comes about easily.
pub(super) fn lasts(rule: Rule, means: &[f64], baseline: &Baseline) -> bool {
    if means.is_empty() {
        return false;
    }
    match rule {
        Rule::Mean => {
            let mean = means.iter().sum::<f64>() / means.len() as f64;
            mean > baseline.mean_ns() + DEVIATIONS * CLOSING_FRACTION * baseline.deviation_ns()
        }
        Rule::Share => {
            let share = above_mean(means, baseline) as f64 / means.len() as f64;
            const FACTOR: f64 = 1.0 + (SHARE_FACTOR - 1.0) * CLOSING_FRACTION;
            share > (FACTOR * baseline.share_above()).max(0.5)
        }
        // How much is lost decides alone.
        Rule::Memory => true,
    }
}

fn above_mean(means: &[f64], baseline: &Baseline) -> usize {
    means.iter().filter(|mean| **mean > baseline.mean_ns()).count()
}

/// What windows lose beyond what as many events usually lose, and the most that one with a storm loses, seconds per second of
/// the time that they are of, with the silence between them. Of what interrupts and the hypervisor take, it is no loss where
/// no CPU lost as large a part of its time as `least`: where one did is a storm.
fn losses<'a>(slices: impl Iterator<Item = &'a Slice>, usual_ns: f64, least: f64) -> (f64, f64) {
    let (mut lost_ns, mut most_ns, mut start_ns, mut end_ns) = (0.0, 0.0_f64, u64::MAX, 0);
    for slice in slices {
        if slice.most_taken.is_none_or(|taken| taken >= least) {
            let delays = &slice.window.delays;
            let own_ns = delays.sum_ns as f64 - delays.count() as f64 * usual_ns;
            lost_ns += own_ns;
            most_ns = slice.most_taken.map_or(most_ns, |_| own_ns.max(most_ns));
        }
        start_ns = start_ns.min(slice.window.start_ns);
        end_ns = end_ns.max(slice.window.end_ns);
    }
    let span_ns = end_ns.saturating_sub(start_ns).max(1) as f64;
    (lost_ns / span_ns, most_ns / span_ns)
}

/// Whether windows lose at least that much.
pub(super) fn loses<'a>(
    slices: impl Iterator<Item = &'a Slice>,
    usual_ns: f64,
    least: f64,
) -> bool {
    losses(slices, usual_ns, least).0 >= least
}

/// Whether they lose as much without the storm that took most: as of rule 1, no window of one opens an incident alone.
pub(super) fn opens<'a>(
    slices: impl Iterator<Item = &'a Slice>,
    usual_ns: f64,
    least: f64,
) -> bool {
    let (lost, most) = losses(slices, usual_ns, least);
    lost - most >= least
}

/// What parts disturbed windows from calm ones, ns: half way to the mean of an incident, the
/// reference value of Page's cumulative sum test.
pub(super) fn divide_ns(mean_ns: f64, baseline: &Baseline) -> f64 {
    baseline.mean_ns() + ((mean_ns - baseline.mean_ns()) / 2.0).max(0.0)
}

/// Length of the first part of the windows that exceeds `divide_ns` by the largest sum: what lies
/// behind it is calm. 0 where no part does. Windows without a mean weigh nothing.
pub(super) fn disturbed_prefix(means: impl Iterator<Item = Option<f64>>, divide_ns: f64) -> usize {
    let (mut sum, mut largest, mut length) = (0.0, 0.0, 0);
    for (index, mean) in means.enumerate() {
        sum += mean.map_or(0.0, |mean| mean - divide_ns);
        if sum > largest {
            (largest, length) = (sum, index + 1);
        }
    }
    length
}

/// How many of the newest windows are disturbed, at least 1: those for which a change of the mean
/// at their begin is the likeliest (the largest S²/m of the sum S of their m excesses).
pub(super) fn disturbed_suffix(
    newest_first: impl Iterator<Item = f64>,
    baseline: &Baseline,
) -> usize {
    let (mut sum, mut largest, mut length) = (0.0, 0.0, 1);
    for (index, mean) in newest_first.enumerate() {
        sum += mean - baseline.mean_ns();
        let likelihood = sum / ((index + 1) as f64).sqrt();
        if likelihood > largest {
            (largest, length) = (likelihood, index + 1);
        }
    }
    length
}

/// The newest windows by which it is said how large an excess is that begins: the first of them may be disturbed in part.
const NEWEST: usize = 3;
/// How much a calm window weighs against a disturbed one: a disturbance may leave out two windows of three.
const CALM_WEIGHT: f64 = 0.5;

/// How many of these disturbed windows, the newest first, belong to the excess that goes on, at least 1: those from which on
/// more of them have half of its size than have not. What is left out is a blip of before, however large, or the begin of a
/// slow rise. Time without events is calm.
pub(super) fn lasting_suffix<'a>(
    newest_first: impl ExactSizeIterator<Item = &'a Slice> + Clone,
    baseline: &Baseline,
) -> usize {
    let excess = |slice: &Slice| slice.mean_ns().unwrap_or(0.0) - baseline.mean_ns();
    let newest = newest_first.clone().take(NEWEST);
    let size = newest.clone().map(excess).sum::<f64>() / newest.len().max(1) as f64;
    if size <= 0.0 {
        return newest_first.len();
    }
    let (mut sum, mut largest, mut length) = (0.0, 0.0, 1);
    let mut newer: Option<&Slice> = None;
    for (index, slice) in newest_first.enumerate() {
        let end_ns = slice.window.end_ns;
        let silence_ns = newer.map_or(0, |one| one.window.start_ns.saturating_sub(end_ns));
        let silent = silence_ns as f64 / slice.length_ns().max(1) as f64;
        let beyond = excess(slice).min(size) - size / 2.0;
        sum += beyond.max(0.0) + CALM_WEIGHT * (beyond.min(0.0) - silent * size / 2.0);
        if sum > largest {
            (largest, length) = (sum, index + 1);
        }
        newer = Some(slice);
    }
    length
}

/// Probability of at least `hits` in `tries` independent tries of probability `chance`.
fn chance_of(hits: usize, tries: usize, chance: f64) -> f64 {
    if hits == 0 || chance >= 1.0 {
        return 1.0;
    }
    if chance <= 0.0 {
        return 0.0;
    }
    // The logarithm of each term of the binomial distribution from the one before.
    let odds = chance.ln() - (-chance).ln_1p();
    let mut term = tries as f64 * (-chance).ln_1p();
    let mut sum = 0.0;
    for hit in 1..=tries {
        term += odds + ((tries - hit + 1) as f64 / hit as f64).ln();
        if hit >= hits {
            sum += term.exp();
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprits::ChargeSums;
    use crate::properties::window;

    /// Mean 1000 ns, deviation 200 ns, half of the windows above the mean.
    fn baseline() -> Baseline {
        let mut baseline = Baseline::new(10_000);
        for index in 0..2000 {
            let value = if index % 2 == 0 { 800 } else { 1200 };
            baseline.learn(&Slice::new(&window(0, &[value]), ChargeSums::default()));
        }
        baseline
    }

    fn rule(means: &[f64]) -> Option<Rule> {
        broken(means, &baseline(), &Settings::default())
    }

    #[test]
    fn rule_1_is_about_the_mean_without_the_largest() {
        assert_eq!(rule(&[1310.0; 10]), Some(Rule::Mean));
        assert_eq!(rule(&[1290.0; 10]), None);
        let mut spike = [1000.0; 10];
        spike[3] = 1e9;
        assert_eq!(rule(&spike), None);
        spike[4] = 1e9;
        assert_eq!(rule(&spike), Some(Rule::Mean));
    }

    #[test]
    fn rule_2_is_about_the_share_above_the_mean() {
        assert_eq!(rule(&[1050.0; 30]), Some(Rule::Share));
        // 80 % are 1.6 times the usual share, and come about by chance.
        let mut most = [1050.0; 30];
        most[..6].fill(950.0);
        assert_eq!(rule(&most), None);
        assert_eq!(rule(&[1050.0; 10]), None);
    }

    #[test]
    fn nothing_is_judged_before_the_warm_up_nor_by_few_windows() {
        let mut young = Baseline::new(10_000);
        for _ in 0..119 {
            young.learn(&Slice::new(&window(0, &[1000]), ChargeSums::default()));
        }
        assert_eq!(broken(&[1e9; 30], &young, &Settings::default()), None);
        young.learn(&Slice::new(&window(0, &[1000]), ChargeSums::default()));
        assert_eq!(broken(&[1e9; 30], &young, &Settings::default()), Some(Rule::Mean));
        assert_eq!(rule(&[1e9; 9]), None);
        assert_eq!(rule(&[]), None);
    }

    #[test]
    fn an_incident_lasts_at_what_would_not_open_it() {
        let lasts = |rule, means: &[f64]| lasts(rule, means, &baseline());
        assert!(lasts(Rule::Mean, &[1160.0; 10]));
        assert!(!lasts(Rule::Mean, &[1140.0; 10]));
        assert!(!lasts(Rule::Mean, &[]));
        let mut seven = [1010.0; 10];
        seven[..3].fill(990.0);
        assert!(lasts(Rule::Share, &seven));
        seven[3] = 990.0;
        assert!(!lasts(Rule::Share, &seven));
    }

    #[test]
    fn delays_of_no_length_are_as_usual_where_there_are_no_others() {
        let mut baseline = Baseline::new(10_000);
        for _ in 0..200 {
            baseline.learn(&Slice::new(&window(0, &[0]), ChargeSums::default()));
        }
        assert_eq!(broken(&[0.0; 30], &baseline, &Settings::default()), None);
        for rule in [Rule::Mean, Rule::Share] {
            assert!(!lasts(rule, &[0.0; 10], &baseline));
        }
    }

    #[test]
    fn the_newest_windows_are_disturbed_from_where_the_change_is_likeliest() {
        let suffix = |means: &[f64]| disturbed_suffix(means.iter().copied(), &baseline());
        assert_eq!(suffix(&[9000.0, 8000.0, 1200.0, 1200.0, 800.0]), 2);
        assert_eq!(suffix(&[800.0, 9000.0, 9000.0, 1200.0]), 3);
        assert_eq!(suffix(&[800.0]), 1);
        assert_eq!(suffix(&[1400.0, 900.0, 900.0, 900.0]), 1);
    }

    #[test]
    fn an_excess_begins_where_it_has_half_of_its_size() {
        let baseline = baseline();
        // The newest first, one in each window unless it says another number.
        let of = |windows: &[(u64, u64)]| {
            let slice = |(number, mean): &(u64, u64)| {
                Slice::new(&window(*number, &[*mean]), ChargeSums::default())
            };
            let slices: Vec<Slice> = windows.iter().map(slice).collect();
            lasting_suffix(slices.iter(), &baseline)
        };
        let suffix = |means: &[u64]| {
            let windows = (1..=100).rev().zip(means);
            of(&windows.map(|(number, mean)| (number, *mean)).collect::<Vec<_>>())
        };
        assert_eq!(suffix(&[9000, 8000, 1200, 1200, 800]), 2);
        // A window that was disturbed in part, two of three without, and a blip of before.
        assert_eq!(suffix(&[9000, 8000, 6000, 1000]), 3);
        assert_eq!(suffix(&[9000, 1000, 9000, 1000, 1000, 9000, 9000, 1000]), 7);
        assert_eq!(suffix(&[3000, 1000, 1000, 1000, 1000, 90_000]), 1);
        // A slow rise begins at half.
        assert_eq!(suffix(&[9000, 8000, 7000, 6000, 5000, 4000, 3000, 2000]), 5);
        // Long ago, with nothing in between.
        assert_eq!(of(&[(100, 9000), (99, 9000), (80, 9000), (79, 9000)]), 2);
        assert_eq!(suffix(&[900]), 1);
    }

    #[test]
    fn binomial_tails() {
        assert_eq!(chance_of(0, 10, 0.5), 1.0);
        assert!((chance_of(1, 1, 0.25) - 0.25).abs() < 1e-12);
        assert!((chance_of(8, 10, 0.5) - 56.0 / 1024.0).abs() < 1e-12);
        assert!((chance_of(30, 30, 0.5) / 0.5f64.powi(30) - 1.0).abs() < 1e-9);
        assert!((chance_of(1, 1000, 1e-9) / 1e-6 - 1.0).abs() < 1e-3);
        assert_eq!(chance_of(1, 10, 0.0), 0.0);
        assert_eq!(chance_of(5, 10, 1.0), 1.0);
    }

    #[test]
    fn the_divide_lies_where_the_sum_is_largest() {
        let prefix = |means: &[f64]| disturbed_prefix(means.iter().copied().map(Some), 10.0);
        assert_eq!(prefix(&[20.0, 20.0, 5.0, 5.0]), 2);
        assert_eq!(prefix(&[20.0, 8.0, 20.0, 5.0, 11.0]), 3);
        assert_eq!(prefix(&[5.0, 5.0]), 0);
        assert_eq!(prefix(&[]), 0);
        assert_eq!(disturbed_prefix([Some(20.0), None, None].into_iter(), 10.0), 1);
    }

    #[test]
    fn usual_delays_lose_nothing_beyond() {
        let slice = Slice::new(&window(0, &[1000; 10]), ChargeSums::default());
        let loses = |usual_ns, least| loses([&slice].into_iter(), usual_ns, least);
        assert!(loses(1000.0, 0.0) && !loses(1000.0, 1e-9));
        // 5 us in half a second.
        assert!(loses(500.0, 10e-6) && !loses(500.0, 10.1e-6));
        // Twice as much in ten times the time.
        let later = Slice::new(&window(9, &[1000; 10]), ChargeSums::default());
        let lose = |least| super::loses([&slice, &later].into_iter(), 500.0, least);
        assert!(lose(2e-6) && !lose(2.1e-6));
    }
}

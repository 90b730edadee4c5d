//! PURE: the last 15 minutes in few figures: of each second what every signal lost, and who was held up most. A daemon keeps
//! them, and hands them to those who begin to look.
//!
//! Memory is bounded, however many cgroups there are and however long their names: where it would be too much, less than 15 minutes
//! are kept. Not kept: delays by label, culprits, and what a daemon does not read each time (page faults, what the hypervisor
//! took).

mod names;
mod written;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use noise_common::charge::Resource;
use noise_common::signals::{ExportKind, SIGNALS, Signal};

use super::amount::total;
use super::name::name;
use super::step::Step;

use self::names::{Id, TrendNames};
use self::written::Written;

/// How far back, ns.
pub const TRENDS_NS: u64 = 900_000_000_000;
pub const MOST_TREND_BYTES: usize = 4 << 20;
/// Most victims of a point.
const VICTIMS: usize = 32;
/// Steps are put together until they are that long, ns: a second, but for timers that are early.
const POINT_NS: u64 = 950_000_000;
/// Bytes of a name beside its text.
const NAME_BYTES: usize = 112;
/// Most values of a curve.
const CURVE: usize = 180;

/// What a signal did in a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SignalPoint {
    signal: Signal,
    count: u32,
    /// What they took, µs.
    lost_us: u64,
}

/// For how long something else held a victim up in a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VictimPoint {
    victim: Id,
    held_up_us: u64,
}

/// How a victim was held up over the time that is known.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HeldUp {
    #[serde(deserialize_with = "name")]
    pub subject: Arc<str>,
    /// The time that is known, seconds: until now.
    pub seconds: f64,
    /// Seconds in a second that something else held it up, in parts of that time of the same length, the newest last.
    pub held_up_seconds_per_second: Vec<f64>,
}

/// About a second.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TrendPoint {
    start_ns: u64,
    end_ns: u64,
    signals: Box<[SignalPoint]>,
    victims: Box<[VictimPoint]>,
}

impl TrendPoint {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.signals) + size_of_val(&*self.victims)
    }

    fn ids(&self) -> impl Iterator<Item = Id> {
        self.victims.iter().map(|one| one.victim)
    }
}

/// What came since the last point.
#[derive(Clone, Debug, Default, PartialEq)]
struct PendingPoint {
    start_ns: u64,
    end_ns: u64,
    /// How many, and what they took, ns.
    signals: BTreeMap<u8, (u64, u64)>,
    /// What each victim lost.
    victims: BTreeMap<Arc<str>, Lost>,
}

/// What a victim lost; the first counts most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lost {
    /// For how long something else held it up, ns.
    held_up_ns: u64,
    all_ns: u64,
}

/// The last 15 minutes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Trends {
    points: VecDeque<TrendPoint>,
    names: TrendNames,
    open: PendingPoint,
    /// What the points take.
    bytes: usize,
}

fn micros(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

impl Trends {
    /// Takes the next step. One that is not of this time begins anew.
    pub fn push(&mut self, step: &Step) {
        if step.start_ns == 0 || step.end_ns <= step.start_ns {
            // The first one is of all time before.
            return;
        }
        let newest_ns = self.open.end_ns.max(self.newest_ns());
        if step.start_ns < newest_ns {
            *self = Self::default();
        }
        if self.open.end_ns == 0 {
            self.open.start_ns = step.start_ns;
        }
        self.open.add(step);
        if self.open.end_ns - self.open.start_ns >= POINT_NS {
            let open = std::mem::take(&mut self.open);
            let point = open.point(&mut self.names);
            self.append(point);
        }
    }

    fn append(&mut self, point: TrendPoint) {
        let end_ns = point.end_ns;
        self.bytes += point.bytes();
        self.points.push_back(point);
        let is_old = |point: &TrendPoint| point.end_ns.saturating_add(TRENDS_NS) <= end_ns;
        while self.points.len() > 1
            && (self.points.front().is_some_and(is_old) || self.bytes() > MOST_TREND_BYTES)
        {
            let Some(oldest) = self.points.pop_front() else { break };
            self.bytes -= oldest.bytes();
            oldest.ids().for_each(|id| self.names.release(id));
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes + self.names.bytes()
    }

    /// How far back it goes, seconds.
    pub fn seconds(&self) -> f64 {
        let start_ns = self.points.front().map_or(0, |point| point.start_ns);
        self.newest_ns().saturating_sub(start_ns) as f64 / 1e9
    }

    fn newest_ns(&self) -> u64 {
        self.points.back().map_or(0, |point| point.end_ns)
    }

    /// Seconds that a signal lost in a second; events in a second, of one that is only counted.
    pub fn signal(&self, signal: Signal) -> Vec<f64> {
        let is_counted = matches!(signal.info().kind, ExportKind::Counter);
        self.curve(|point| {
            let own = point.signals.iter().find(|one| one.signal == signal);
            own.map_or(0.0, |one| match is_counted {
                true => f64::from(one.count),
                false => one.lost_us as f64 / 1e6,
            })
        })
    }

    /// Seconds in a second that something else held a victim up.
    pub fn victim(&self, victim: &str) -> Vec<f64> {
        let Some(id) = self.names.id(victim) else { return self.curve(|_| 0.0) };
        self.curve(|point| {
            let own = point.victims.iter().find(|one| one.victim == id);
            own.map_or(0.0, |one| one.held_up_us as f64 / 1e6)
        })
    }

    /// How a victim was held up, where it was.
    pub fn held_up(&self, victim: &str) -> Option<HeldUp> {
        self.names.id(victim)?;
        let round = |seconds: f64| (seconds * 1e6).round() / 1e6;
        let curve = self.victim(victim).into_iter().map(round).collect();
        let (subject, seconds) = (victim.into(), self.seconds());
        Some(HeldUp { subject, seconds, held_up_seconds_per_second: curve })
    }

    /// A number of each point as so much in a second, over all of the time that is known, in parts of the same length: a second
    /// where that is short. The newest is last.
    fn curve(&self, number: impl Fn(&TrendPoint) -> f64) -> Vec<f64> {
        let Some(oldest) = self.points.front() else { return Vec::new() };
        let parts = self.points.len().min(CURVE);
        let since_s = |ns: u64| ns.saturating_sub(oldest.start_ns) as f64 / 1e9;
        let part_s = since_s(self.newest_ns()) / parts as f64;
        let mut curve = vec![(0.0, 0.0); parts];
        for point in &self.points {
            let (from_s, to_s) = (since_s(point.start_ns), since_s(point.end_ns));
            let rate = number(point) / (to_s - from_s);
            let first = (from_s / part_s) as usize;
            for (part, (sum, length_s)) in curve.iter_mut().enumerate().skip(first) {
                let begin_s = part as f64 * part_s;
                if begin_s >= to_s {
                    break;
                }
                let both_s = (to_s.min(begin_s + part_s) - from_s.max(begin_s)).max(0.0);
                *sum += rate * both_s;
                *length_s += both_s;
            }
        }
        curve
            .into_iter()
            .map(|(sum, length_s)| if length_s > 0.0 { sum / length_s } else { 0.0 })
            .collect()
    }
}

impl PendingPoint {
    fn add(&mut self, step: &Step) {
        self.end_ns = step.end_ns;
        for (index, info) in (0_u8..).zip(&SIGNALS) {
            let signal = info.signal;
            let counted = total(step.counts_of(signal).map(|(_, count)| count));
            let mut delays = step.delays_of(signal).peekable();
            if counted == 0 && delays.peek().is_none() {
                continue;
            }
            let (count, sum_ns) = self.signals.entry(index).or_default();
            *count = count.saturating_add(counted);
            for (_, delays) in delays {
                *count = count.saturating_add(delays.count());
                *sum_ns = sum_ns.saturating_add(delays.sum_ns);
            }
        }
        for one in step.charges.iter().filter(|one| one.resource != Resource::Preemption) {
            let lost = self.victims.entry(Arc::clone(&one.victim)).or_default();
            lost.all_ns = lost.all_ns.saturating_add(one.charged.ns);
            lost.held_up_ns = lost.held_up_ns.saturating_add(one.held_up_ns());
        }
    }

    fn point(self, names: &mut TrendNames) -> TrendPoint {
        let signal = |(index, (count, sum_ns)): (u8, (u64, u64))| {
            Some(SignalPoint {
                signal: SIGNALS.get(usize::from(index))?.signal,
                count: u32::try_from(count).unwrap_or(u32::MAX),
                lost_us: micros(sum_ns),
            })
        };
        let mut victims: Vec<_> =
            self.victims.into_iter().filter(|(_, lost)| lost.all_ns > 0).collect();
        victims.sort_by_key(|(_, lost)| Reverse(*lost));
        let named = victims.iter().take(VICTIMS).filter_map(|(name, lost)| {
            Some(VictimPoint { victim: names.take(name)?, held_up_us: micros(lost.held_up_ns) })
        });
        let victims = named.collect();
        TrendPoint {
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            signals: self.signals.into_iter().filter_map(signal).collect(),
            victims,
        }
    }
}

#[cfg(test)]
mod tests;

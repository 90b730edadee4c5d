//! Trends as they are written: names once, points as bare numbers. What a peer or a file breaks is refused.

use std::collections::HashMap;
use std::sync::Arc;

use noise_common::charge::Cause;
use noise_common::signals::Signal;
use serde::{Deserialize, Serialize};

use super::{SignalPoint, TrendPoint, Trends, VICTIMS, VictimPoint};

/// Signal, events, µs, and a place that earlier versions expect.
type WrittenSignal = (Signal, u32, u64, u64);
/// Victim, µs that it was held up in the fourth place, and places that earlier versions expect.
type WrittenVictimPoint = (u16, Option<u16>, Cause, u64, u32, u32);
/// Earlier versions read no number of µs that is larger.
const MOST_US: u64 = u32::MAX as u64;

#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    names: Vec<(u16, Arc<str>)>,
    points: Vec<WrittenPoint>,
}

#[derive(Serialize, Deserialize)]
struct WrittenPoint {
    start_ns: u64,
    end_ns: u64,
    signals: Vec<WrittenSignal>,
    victims: Vec<WrittenVictimPoint>,
}

impl From<Trends> for Written {
    fn from(trends: Trends) -> Self {
        let signal = |one: &SignalPoint| (one.signal, one.count, one.lost_us.min(MOST_US), 0);
        let victim = |one: &VictimPoint| {
            (one.victim, None, Cause::Untracked, one.held_up_us.min(MOST_US), 0, 0)
        };
        let point = |point: &TrendPoint| WrittenPoint {
            start_ns: point.start_ns,
            end_ns: point.end_ns,
            signals: point.signals.iter().map(signal).collect(),
            victims: point.victims.iter().map(victim).collect(),
        };
        Self {
            names: trends.names.all().map(|(id, name)| (id, Arc::clone(name))).collect(),
            points: trends.points.iter().map(point).collect(),
        }
    }
}

impl TryFrom<Written> for Trends {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let names: HashMap<u16, Arc<str>> = written.names.into_iter().collect();
        let mut trends = Self::default();
        for point in written.points {
            let WrittenPoint { start_ns, end_ns, signals, victims } = point;
            if start_ns >= end_ns || start_ns < trends.newest_ns() {
                return Err("trends whose points are not in order");
            }
            if victims.len() > VICTIMS || signals.len() > noise_common::signals::SIGNALS.len() {
                return Err("trends with too much in a point");
            }
            let mut victim = |(victim, _, _, held_up_us, ..): WrittenVictimPoint| {
                let name = names.get(&victim).ok_or("trends that lack a name")?;
                let victim = trends.names.take(name).ok_or("trends with too many names")?;
                Ok(VictimPoint { victim, held_up_us })
            };
            let victims =
                victims.into_iter().map(&mut victim).collect::<Result<_, Self::Error>>()?;
            let signal = |(signal, count, lost_us, _)| SignalPoint { signal, count, lost_us };
            let signals = signals.into_iter().map(signal).collect();
            trends.append(TrendPoint { start_ns, end_ns, signals, victims });
        }
        Ok(trends)
    }
}

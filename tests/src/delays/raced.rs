//! Interrupts that may have come while a program looked at the clock for a softirq, before it noted what
//! interrupts had taken by then: the daemon counts those on the other side of the begin or the end of that
//! softirq than their times say.
//!
//! Such an interrupt is the next event of its CPU. Behind the begin of a softirq, any may be one; behind its end,
//! where the interrupted task goes on without events, only one that comes as soon as a program runs at the
//! longest, and few of the others: a hypervisor that takes the CPU away in the middle of a program hands over the
//! interrupts of that time when it gives it back, however late that is.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::run;
use crate::events::SOFTIRQS;

/// One program in so many, and one of each softirq, may lose the CPU to the hypervisor.
const PROGRAMS_PER_STOLEN: usize = 1000;

/// Time of interrupts by softirq, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raced {
    /// Of those that may count for the softirq though they are behind its begin.
    pub begins: BTreeMap<&'static str, f64>,
    /// Of those that may be taken off it though they are behind its end.
    pub ends: BTreeMap<&'static str, f64>,
}

/// Those that come first behind the ends of a softirq, but late.
#[derive(Debug, Default)]
struct Late {
    ends: usize,
    interrupts_ns: Vec<u64>,
}

impl Late {
    /// How long those may be that count.
    fn most_ns(mut self) -> f64 {
        self.interrupts_ns.sort_unstable();
        let stolen = self.ends.div_ceil(PROGRAMS_PER_STOLEN);
        self.interrupts_ns.iter().rev().take(stolen).sum::<u64>() as f64
    }
}

#[derive(Deserialize)]
struct Line<'t> {
    time_ns: u64,
    cpu: u32,
    name: &'t str,
    #[serde(default)]
    fields: Fields,
}

#[derive(Default, Deserialize)]
struct Fields {
    #[serde(default)]
    vec: usize,
}

#[derive(Clone, Copy)]
enum Edge {
    Begin,
    End,
}

/// What a CPU did last.
#[derive(Clone, Copy, Default)]
struct Last {
    softirq: Option<(&'static str, Edge)>,
    /// The begin or end of the softirq, or the end of the latest interrupt behind it.
    time_ns: u64,
    /// Since when an interrupt runs behind it.
    interrupted_ns: Option<u64>,
    is_late: bool,
}

impl Raced {
    /// Those of a recording in a span of its clock; a program runs for `longest_ns` at most.
    /// Errors: if it cannot be read.
    pub fn of(folder: &Path, span: &RangeInclusive<u64>, longest_ns: u64) -> Result<Self> {
        let (from, to) = (span.start().to_string(), span.end().to_string());
        let lines = run(folder, &["events", "--from", &from, "--to", &to])?;
        Self::among(lines.lines(), longest_ns)
    }

    fn among<'t>(lines: impl Iterator<Item = &'t str>, longest_ns: u64) -> Result<Self> {
        let mut raced = Self::default();
        let mut late: BTreeMap<&'static str, Late> = BTreeMap::new();
        let mut cpus: HashMap<u32, Last> = HashMap::new();
        for line in lines {
            let event: Line<'_> = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let last = cpus.entry(event.cpu).or_default();
            raced.step(last, &mut late, &event, longest_ns);
        }
        for (vector, late) in late {
            *raced.ends.entry(vector).or_default() += late.most_ns();
        }
        Ok(raced)
    }

    fn step(
        &mut self,
        last: &mut Last,
        late: &mut BTreeMap<&'static str, Late>,
        event: &Line<'_>,
        longest_ns: u64,
    ) {
        let now_ns = event.time_ns;
        let edge = match event.name {
            "irq_softirq_entry" => Some(Edge::Begin),
            "irq_softirq_exit" => Some(Edge::End),
            _ => None,
        };
        if let Some(edge) = edge {
            let softirq = SOFTIRQS.get(event.fields.vec).map(|vector| (*vector, edge));
            if let Some((vector, Edge::End)) = softirq {
                late.entry(vector).or_default().ends += 1;
            }
            *last = Last { softirq, time_ns: now_ns, interrupted_ns: None, is_late: false };
            return;
        }
        let is_interrupt =
            event.name.starts_with("irq_handler_") || event.name.starts_with("x86_irq_vectors_");
        if let Some(since_ns) = last.interrupted_ns {
            if is_interrupt && event.name.ends_with("_exit") {
                let length_ns = now_ns - since_ns;
                match last.softirq {
                    Some((vector, Edge::Begin)) => {
                        *self.begins.entry(vector).or_default() += length_ns as f64;
                    }
                    Some((vector, Edge::End)) if last.is_late => {
                        late.entry(vector).or_default().interrupts_ns.push(length_ns);
                    }
                    Some((vector, Edge::End)) => {
                        *self.ends.entry(vector).or_default() += length_ns as f64;
                    }
                    None => {}
                }
                (last.time_ns, last.interrupted_ns) = (now_ns, None);
            }
            return;
        }
        if is_interrupt && event.name.ends_with("_entry") && last.softirq.is_some() {
            last.is_late |= now_ns - last.time_ns > longest_ns;
            last.interrupted_ns = Some(now_ns);
        } else {
            last.softirq = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_right_behind_an_edge_are_in_doubt() {
        let line = |time_ns: u64, name: &str| {
            format!(r#"{{"time_ns":{time_ns},"cpu":0,"name":"{name}","fields":{{"vec":3}}}}"#)
        };
        let lines = [
            line(10, "irq_softirq_entry"),
            line(500, "x86_irq_vectors_local_timer_entry"),
            line(510, "irq_softirq_raise"),
            line(530, "x86_irq_vectors_local_timer_exit"),
            line(540, "netif_receive_skb"),
            line(550, "irq_handler_entry"),
            line(560, "irq_handler_exit"),
            line(600, "irq_softirq_exit"),
            line(650, "irq_handler_entry"),
            line(657, "irq_handler_exit"),
            line(900, "irq_handler_entry"),
            line(950, "irq_handler_exit"),
            line(1200, "irq_softirq_entry"),
            line(1300, "irq_softirq_exit"),
            line(1500, "irq_handler_entry"),
            line(1540, "irq_handler_exit"),
            line(1700, "irq_softirq_entry"),
            line(1800, "irq_softirq_exit"),
            line(1850, "sched_switch"),
            line(1900, "irq_handler_entry"),
            line(1999, "irq_handler_exit"),
        ];
        let raced = Raced::among(lines.iter().map(String::as_str), 100).unwrap();
        assert_eq!(raced.begins, [("net_rx", 30.0)].into());
        // The soon one, and of the two late ones, of 50 and 40 ns, the longer one.
        assert_eq!(raced.ends, [("net_rx", 57.0)].into());
    }
}

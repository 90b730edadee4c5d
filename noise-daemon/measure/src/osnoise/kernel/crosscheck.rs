//! The same seconds seen twice: noised's programs watch the threads of the kernel's tracer as if they
//! were its own, and both counts are laid side by side, source by source. Times are not compared:
//! the two read the clock at different places.
//!
//! This is `--cross-check`, a documented option, and no test: it answers whether the two agree on the kernel at hand,
//! which is most often none that the tests ever saw. A test that did it instead would need the same watcher and the same
//! session of the tracer, so it would move these lines and take the answer away from operators.

use std::collections::BTreeMap;

use noise_common::watch::NoiseEvent;
use noise_text::table::Columns;
use serde_json::{Value, json};

use crate::clock::now_ns;
use crate::explain::place_ns;
use crate::naming::Naming;
use crate::osnoise::period::PeriodReport;
use crate::source::{Class, GapSource};
use crate::watcher::{WatchError, Watcher};

const CLASSES: [Class; 4] = [Class::Nmi, Class::Irq, Class::Softirq, Class::Thread];
/// Counts agree up to this share of the larger one.
const TOLERANCE: f64 = 0.05;
/// Fewer events than this prove nothing about a source.
const ENOUGH: u64 = 20;
/// Events of a CPU that are kept until its period is over.
const KEPT_MAX: usize = 1_000_000;

/// How often something was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both {
    /// By the kernel's tracer.
    pub kernel: u64,
    pub noised: u64,
}

impl Both {
    fn largest(self) -> u64 {
        self.kernel.max(self.noised)
    }

    /// Difference over the larger count.
    fn difference(self) -> f64 {
        let largest = self.largest().max(1);
        self.kernel.abs_diff(self.noised) as f64 / largest as f64
    }

    fn agrees(self) -> bool {
        self.largest() < ENOUGH || self.difference() <= TOLERANCE
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    sources: BTreeMap<GapSource, Both>,
    /// The tracer counts softirqs: it does not with PREEMPT_RT.
    softirqs: bool,
    /// Events that either of them lost.
    lost: u64,
    periods: u64,
}

impl Agreement {
    /// Threads of one name are one source; those of one kind are not.
    fn add(&mut self, mut source: GapSource, kernel: u64, noised: u64) {
        if source.class == Class::Thread {
            source.id = 0;
        }
        let both = self.sources.entry(source).or_default();
        both.kernel += kernel;
        both.noised += noised;
    }

    fn class(&self, class: Class) -> Both {
        let own = self.sources.iter().filter(|(source, _)| source.class == class);
        own.fold(Both::default(), |sum, (_, both)| Both {
            kernel: sum.kernel + both.kernel,
            noised: sum.noised + both.noised,
        })
    }

    fn compared(&self, class: Class) -> bool {
        class != Class::Softirq || self.softirqs
    }

    /// What does not agree; empty where everything does.
    pub fn disagreements(&self) -> Vec<String> {
        let line = |name: &str, both: Both| {
            format!("{name}: {} by the kernel, {} by noised", both.kernel, both.noised)
        };
        let mut wrong = Vec::new();
        if self.periods == 0 {
            wrong.push("no period was measured to its end".to_owned());
        }
        if self.lost != 0 {
            wrong.push(format!("{} events were lost", self.lost));
        }
        for class in CLASSES.into_iter().filter(|class| self.compared(*class)) {
            let both = self.class(class);
            if !both.agrees() {
                wrong.push(line(&format!("all of class {class}"), both));
            }
        }
        for (source, both) in &self.sources {
            if self.compared(source.class) && !both.agrees() {
                wrong.push(line(&source.to_string(), *both));
            }
        }
        wrong
    }

    /// A table, the sums of the classes first.
    pub fn text(&self) -> String {
        let mut table = Columns::new(1, &["counted by", "kernel", "noised", "difference"]);
        let mut row = |name: String, class, both: Both| {
            let difference = if self.compared(class) {
                format!("{:.2} %", 100.0 * both.difference())
            } else {
                "not compared".to_owned()
            };
            table.push(&[name, both.kernel.to_string(), both.noised.to_string(), difference]);
        };
        for class in CLASSES {
            row(format!("all {class}"), class, self.class(class));
        }
        for (source, both) in &self.sources {
            let name = match source.class {
                Class::Thread => format!("thread {}", source.name),
                _ => source.to_string(),
            };
            row(name, source.class, *both);
        }
        let mut text = table.text();
        if !self.softirqs {
            text.push_str("with PREEMPT_RT the kernel's tracer does not count softirqs\n");
        }
        text
    }

    /// The same for scripts.
    pub fn json(&self) -> Value {
        let row = |(source, both): (&GapSource, &Both)| {
            json!({
                "class": source.class,
                "name": source.name,
                "kernel": both.kernel,
                "noised": both.noised,
            })
        };
        json!({
            "periods": self.periods,
            "lost_events": self.lost,
            "softirqs_compared": self.softirqs,
            "sources": self.sources.iter().map(row).collect::<Vec<Value>>(),
            "disagreements": self.disagreements(),
        })
    }
}

/// noised's programs at work beside the tracer.
pub struct CrossCheck {
    watcher: Watcher,
    waiting: BTreeMap<u32, Vec<NoiseEvent>>,
    unkept: u64,
    /// Since when, CLOCK_MONOTONIC, ns.
    since_ns: u64,
    agreement: Agreement,
}

impl CrossCheck {
    /// Loads and attaches the programs. With PREEMPT_RT softirqs are not compared.
    /// Errors: those of [`WatchError`].
    pub fn start(preempt_rt: bool) -> Result<Self, WatchError> {
        let agreement = Agreement { softirqs: !preempt_rt, ..Agreement::default() };
        let watcher = Watcher::start()?;
        Ok(Self { watcher, waiting: BTreeMap::new(), unkept: 0, since_ns: 0, agreement })
    }

    /// Watches these threads, by CPU.
    pub fn watch(&mut self, threads: &BTreeMap<u32, u32>) {
        for (cpu, thread) in threads {
            self.watcher.workload(*cpu).begin_of(*thread);
            self.waiting.insert(*cpu, Vec::new());
        }
        self.since_ns = now_ns();
    }

    /// Adds what both saw of a period of the tracer; one that began before its thread was watched does not count.
    pub fn add(&mut self, period: &PeriodReport, naming: &mut Naming) {
        self.drain();
        if period.start_ns < self.since_ns {
            return;
        }
        self.agreement.periods += 1;
        self.agreement.lost += period.lost_events;
        for event in &period.events {
            self.agreement.add(naming.source(event), 1, 0);
        }
        let Some(own) = self.waiting.get_mut(&period.cpu) else { return };
        own.sort_by_key(place_ns);
        let end_ns = period.start_ns.saturating_add(period.runtime_ns);
        let first = own.partition_point(|event| place_ns(event) < period.start_ns);
        let behind = own.partition_point(|event| place_ns(event) <= end_ns);
        for event in &own[first..behind] {
            self.agreement.add(naming.source(event), 0, 1);
        }
        own.drain(..behind);
    }

    /// Takes the events of the programs, so that their ring does not fill up.
    pub fn drain(&mut self) {
        let (waiting, unkept) = (&mut self.waiting, &mut self.unkept);
        self.watcher.drain(|event| match waiting.get_mut(&event.cpu) {
            Some(own) if own.len() < KEPT_MAX => own.push(event),
            Some(_) => *unkept += 1,
            None => {}
        });
    }

    pub fn finish(mut self) -> Agreement {
        let lost: u64 = self.waiting.keys().map(|cpu| self.watcher.lost(*cpu)).sum();
        self.agreement.lost += self.unkept + lost;
        self.agreement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(rows: &[(Class, &str, u64, u64)]) -> Agreement {
        let mut agreement = Agreement { periods: 1, ..Agreement::default() };
        for (class, name, kernel, noised) in rows {
            let source = GapSource { class: *class, name: (*name).to_owned(), id: 1 };
            agreement.add(source, *kernel, *noised);
        }
        agreement
    }

    #[test]
    fn counts_agree_within_five_percent() {
        let good = agreement(&[
            (Class::Irq, "local_timer", 1_000, 951),
            (Class::Thread, "sh", 19, 0),
            (Class::Thread, "ksoftirqd/1", 400, 400),
            (Class::Softirq, "timer", 0, 4_000),
        ]);
        assert_eq!(good.disagreements(), Vec::<String>::new());
        insta::assert_snapshot!(good.text());
    }

    #[test]
    fn what_differs_is_named() {
        let mut bad = agreement(&[
            (Class::Irq, "local_timer", 1_000, 949),
            (Class::Irq, "ttyS1", 949, 1_000),
            (Class::Softirq, "timer", 0, 4_000),
        ]);
        bad.softirqs = true;
        bad.lost = 2;
        assert_eq!(
            bad.disagreements(),
            [
                "2 events were lost",
                "all of class softirq: 0 by the kernel, 4000 by noised",
                "irq local_timer:1: 1000 by the kernel, 949 by noised",
                "irq ttyS1:1: 949 by the kernel, 1000 by noised",
                "softirq timer:1: 0 by the kernel, 4000 by noised",
            ]
        );
        assert_eq!(
            Agreement { softirqs: true, ..Agreement::default() }.disagreements(),
            ["no period was measured to its end"]
        );
    }
}

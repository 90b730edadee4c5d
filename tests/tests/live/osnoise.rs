//! What `noised osnoise` says of noise that was planted, against ftrace.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::slowest_program_ns;
use noise_tests::ftrace::{Recording, Trace, interference_events};
use noise_tests::load::{Figures, Worker, figure};
use noise_tests::measuring::{
    Amount, Amounts, Judgement, Measuring, by_ftrace, by_osnoise, ensure_planted, lost_switches,
    member, number, of_cpu, stretch,
};
use noise_tests::namespace::VethPair;
use noise_tests::task::cpus;
use serde_json::Value;

use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("planted_thread", planted_thread),
    ("planted_timers", planted_timers),
    ("planted_softirqs", planted_softirqs),
    ("timers_in_softirqs", timers_in_softirqs),
];

/// The CPU that is measured; everything else is to be elsewhere.
pub(crate) const CPU: u32 = 1;
/// The name of this run's planted threads: others may be testing on this machine as well, and noised
/// takes threads of one name together.
pub(crate) fn planter_name() -> String {
    format!("planter-{}", std::process::id())
}

/// How long what does not end by itself is planted.
const LENGTH: Duration = Duration::from_secs(3);
const BUFFER_MIB: usize = 64;

/// One CPU is measured, and another one left.
pub(crate) fn two_cpus() -> Result<()> {
    ensure!(cpus() >= 2, Impossible("needs two CPUs".into()));
    Ok(())
}

/// A planter on the measured CPU that runs so long and so often, `count` times.
pub(crate) fn planter(run_us: u64, period_us: u64, count: u64) -> Result<Worker> {
    let [run_us, period_us] = [run_us, period_us].map(|us| us.to_string());
    Worker::start(
        "planter",
        &[&CPU.to_string(), &planter_name(), &run_us, &period_us, &count.to_string()],
    )
}

/// What was measured and what was recorded meanwhile.
struct Seen {
    found: Amounts,
    certain: Amounts,
    possible: Amounts,
    resolution_ns: f64,
    figures: Figures,
}

impl Seen {
    fn judgement(&self) -> Judgement<'_> {
        let Self { found, certain, possible, resolution_ns, .. } = self;
        println!("stamps may be {resolution_ns:.0} ns apart");
        Judgement { found, certain, possible, resolution_ns: *resolution_ns }
    }

    fn judge(&self, class: &str, name: &str) -> Result<(Amount, Amount)> {
        let judgement = self.judgement();
        judgement.print();
        let found = judgement.agree(class, name)?;
        judgement.agree_on_interrupts()?;
        let key = (class.to_owned(), name.to_owned());
        Ok((found, self.possible.get(&key).copied().unwrap_or_default()))
    }
}

/// How long something is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    /// Until it ends by itself.
    UntilDone,
    /// For [`LENGTH`].
    UntilStopped,
}

/// Measures while something is planted, from before it begins until after it ends. Gaps of every
/// length are noise, so that all events are in one.
fn measure(lasts: Lasts, plant: impl FnOnce() -> Result<Vec<Worker>>) -> Result<Seen> {
    let recording = Recording::start(&interference_events(), BUFFER_MIB)?;
    let _statistics = bpf::Statistics::enable()?;
    let cpu = CPU.to_string();
    // Between two periods nothing is measured, on a busy machine for some time: one is long enough.
    let place = ["osnoise", "--cpus", &cpu, "--housekeeping", "0"];
    let arguments = ["--period", "1m", "--threshold", "300ns", "--json"];
    let measuring = Measuring::start(CPU, &[&place[..], &arguments].concat())?;
    let before = bpf::programs_of(measuring.process.pid())?;
    let mut workers = plant()?;
    recording.mark("planting")?;
    let name = planter_name();
    let planters = workers.iter().map(|worker| (worker.pid(), name.as_str())).collect();
    if lasts == Lasts::UntilStopped {
        thread::sleep(LENGTH);
        workers.iter_mut().for_each(Worker::ask_to_stop);
    }
    let mut figures = Figures::new();
    for mut worker in workers {
        figures.append(&mut worker.figures()?);
    }
    let after = bpf::programs_of(measuring.process.pid())?;
    let thread = measuring.thread;
    let outcome = measuring.stop()?;
    let trace = recording.stop()?;
    let report: Value = serde_json::from_str(&outcome.stdout)?;
    let part = of_cpu(&report, CPU)?;
    ensure!(number(part, "lost_samples")? == 0, "samples were lost");
    ensure!(number(part, "lost_events")? == 0, "events were lost");
    ensure!(number(part, "periods")? == 1, "there were breaks");
    let stretch = stretch(&trace, CPU, thread, number(part, "runtime_ns")?)?;
    println!("{:?}, available {}", stretch, member(part, "available_percent")?);
    if lasts == Lasts::UntilDone {
        // Before and behind it the CPU may be idle, and the idle task's switches are not to be seen.
        ensure_seen(&trace, stretch.certain)?;
    }
    let planting_ns = trace.mark_ns("planting")?;
    let amounts = |(from_ns, to_ns): (u64, u64)| {
        let mut amounts = by_ftrace(&trace, CPU, (from_ns, to_ns), &BTreeMap::new());
        if lasts == Lasts::UntilDone {
            // What a planter takes to start is under another name.
            let threads = by_ftrace(&trace, CPU, (planting_ns, to_ns), &planters);
            amounts.extend(threads.into_iter().filter(|((class, _), _)| class == "thread"));
        }
        amounts
    };
    Ok(Seen {
        found: by_osnoise(&report, CPU)?,
        certain: amounts(stretch.certain),
        possible: amounts(stretch.possible),
        resolution_ns: trace.shortest_gap_ns as f64 + slowest_program_ns(&before, &after),
        figures,
    })
}

/// Requires that ftrace saw nearly all switches, from which the runs of threads are known.
pub(crate) fn ensure_seen(trace: &Trace, stretch: (u64, u64)) -> Result<()> {
    let (switches, lost) = lost_switches(trace, CPU, stretch)?;
    println!("{switches} switches, {lost} missing from the recording");
    ensure!(
        lost * 100 <= switches,
        "the recording is inconclusive: of {switches} switches {lost} are missing"
    );
    Ok(())
}

fn planted_thread() -> Result<()> {
    two_cpus()?;
    let seen = measure(Lasts::UntilDone, || Ok(vec![planter(200, 10_000, 400)?]))?;
    let (found, expected) = seen.judge("thread", &planter_name())?;
    ensure_planted(found.count, expected.count, figure(&seen.figures, "runs")?)?;
    Ok(())
}

fn planted_timers() -> Result<()> {
    two_cpus()?;
    // No multiple of the tick's period, so that they seldom expire together.
    let period_ns = 193_000;
    let seen = measure(Lasts::UntilStopped, || {
        Ok(vec![Worker::start("clock-storm", &[&CPU.to_string(), &period_ns.to_string(), "1"])?])
    })?;
    let (found, expected) = seen.judge("irq", "local_timer")?;
    let expired = figure(&seen.figures, "ran_ns")? / period_ns;
    println!("the storm expired {expired} times");
    ensure!(expired > 5_000, "{INCONCLUSIVE}: {expired} expiries are too few to compare");
    // While the hypervisor has the CPU, one interrupt serves several: then neither sees them all.
    ensure!(
        expected.count as f64 > 0.98 * expired as f64,
        "{INCONCLUSIVE}: the storm expired {expired} times, ftrace has {}",
        expected.count
    );
    // Both may be off to one side by that much.
    ensure!(found.count as f64 > 0.96 * expired as f64, "noised has {} of {expired}", found.count);
    Ok(())
}

fn planted_softirqs() -> Result<()> {
    two_cpus()?;
    let pair = VethPair::new()?;
    pair.receive_on(CPU as usize)
        .map_err(|error| Impossible(format!("packets cannot be steered: {error:#}")))?;
    let seen = measure(Lasts::UntilStopped, || {
        Ok(vec![Worker::start("frames", &["0", &pair.near, "200", "1", "300"])?])
    })?;
    let (found, expected) = seen.judge("softirq", "net_rx")?;
    ensure_planted(found.count, expected.count, figure(&seen.figures, "sent")?)?;
    Ok(())
}

/// Softirqs are reported while interrupts are on: one that comes in between is reported too, not instead.
fn timers_in_softirqs() -> Result<()> {
    two_cpus()?;
    let cpu = CPU.to_string();
    let seen = measure(Lasts::UntilStopped, || {
        Ok(vec![
            Worker::start("clock-storm", &[&cpu, "20000", "1"])?,
            Worker::start("udp-flood", &[&cpu, "500", "0"])?,
        ])
    })?;
    let judgement = seen.judgement();
    judgement.print();
    judgement.agree_on_interrupts()?;
    for (class, name) in [("softirq", "net_rx"), ("irq", "local_timer")] {
        let found = judgement.agree_within(class, name, 0.001)?;
        ensure!(found.count > 5_000, "{INCONCLUSIVE}: {class} {name}: too few to tell");
    }
    Ok(())
}

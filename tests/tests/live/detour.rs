//! What `noised bench detour` says of planted noise and of the tick.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use noise_tests::bpf;
use noise_tests::compare::slowest_program_ns;
use noise_tests::ftrace::{Recording, interference_events};
use noise_tests::load::figure;
use noise_tests::measuring::{
    Judgement, Measuring, array, by_detour, by_ftrace, ensure_planted, number, of_cpu,
};
use noise_tests::task::monotonic_ns;
use serde_json::Value;

use crate::osnoise::{CPU, ensure_seen, planter, planter_name, two_cpus};
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("planted_thread", planted_thread), ("the_tick", the_tick)];

/// How far counts of the tick may be apart.
const TICKS: f64 = 0.03;

fn arguments(cpu: &str) -> [&str; 7] {
    ["bench", "detour", "--cpus", cpu, "--duration", "1m", "--json"]
}

fn planted_thread() -> Result<()> {
    two_cpus()?;
    let recording = Recording::start(&interference_events(), 64)?;
    let _statistics = bpf::Statistics::enable()?;
    let measuring = Measuring::start(CPU, &arguments(&CPU.to_string()))?;
    let before = bpf::programs_of(measuring.process.pid())?;
    let mut worker = planter(200, 10_000, 400)?;
    recording.mark("planting")?;
    let (pid, name) = (worker.pid(), planter_name());
    let figures = worker.figures()?;
    let after = bpf::programs_of(measuring.process.pid())?;
    let outcome = measuring.stop()?;
    let trace = recording.stop()?;
    let report: Value = serde_json::from_str(&outcome.stdout)?;
    let part = of_cpu(&report, CPU)?;
    ensure!(number(part, "lost_detours")? == 0, "detours were lost");
    ensure!(number(part, "lost_events")? == 0, "events were lost");
    let start_ns = number(part, "start_ns")?;
    let measured = (start_ns, start_ns + number(part, "duration_ns")?);
    ensure_seen(&trace, measured)?;
    let planting_ns = trace.mark_ns("planting")?;
    ensure!(planting_ns > start_ns, "it was planted before it was measured");
    let mut expected = by_ftrace(&trace, CPU, measured, &BTreeMap::new());
    let runs = (planting_ns, measured.1);
    let threads = by_ftrace(&trace, CPU, runs, &BTreeMap::from([(pid, name.as_str())]));
    expected.extend(threads.into_iter().filter(|((class, _), _)| class == "thread"));
    let found = by_detour(&report, CPU)?;
    let resolution_ns = trace.shortest_gap_ns as f64 + slowest_program_ns(&before, &after);
    let judgement =
        Judgement { found: &found, certain: &expected, possible: &expected, resolution_ns };
    println!("stamps may be {resolution_ns:.0} ns apart");
    judgement.print();
    let amount = judgement.agree("thread", &name)?;
    judgement.agree("irq", "local_timer")?;
    let by_ftrace = expected.get(&("thread".to_owned(), name));
    let by_ftrace = by_ftrace.context("ftrace has no planter")?.count;
    ensure_planted(amount.count, by_ftrace, figure(&figures, "runs")?)?;
    Ok(())
}

/// What has interrupted a CPU since boot, by the kernel's own counts: interrupts and softirqs, each by
/// the name of its line.
fn kernel_counts(cpu: u32) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for file in ["/proc/interrupts", "/proc/softirqs"] {
        for line in fs::read_to_string(file)?.lines().skip(1) {
            let Some((name, rest)) = line.trim_start().split_once(':') else { continue };
            // Some lines are of the whole machine.
            let count = rest.split_whitespace().nth(cpu as usize).and_then(|it| it.parse().ok());
            if let Some(count) = count {
                counts.insert(name.to_owned(), count);
            }
        }
    }
    Ok(counts)
}

/// The line of local timer interrupts.
const TIMER: &str = "LOC";

/// On a CPU where nothing but the measuring thread runs, what remains is the tick.
fn the_tick() -> Result<()> {
    two_cpus()?;
    ensure!(
        kernel_counts(CPU)?.contains_key(TIMER),
        Impossible("this architecture does not count its ticks".into())
    );
    // Of a higher priority than whatever else this machine does.
    let cpu = CPU.to_string();
    let measuring =
        Measuring::start(CPU, &[&arguments(&cpu)[..], &["--priority", "f:3"]].concat())?;
    let look = || -> Result<_> { Ok((kernel_counts(CPU)?, monotonic_ns()?)) };
    let (first, from_ns) = look()?;
    thread::sleep(Duration::from_secs(5));
    let (last, to_ns) = look()?;
    let outcome = measuring.stop()?;
    let report: Value = serde_json::from_str(&outcome.stdout)?;
    let part = of_cpu(&report, CPU)?;
    let start_ns = number(part, "start_ns")?;
    ensure!(start_ns < from_ns, "it was not measured yet");
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all: BTreeMap<u64, u64> = BTreeMap::new();
    for detour in array(part, "detours")? {
        for part in array(detour, "parts")? {
            let source = number(part, "source")?;
            *all.entry(source).or_default() += 1;
            if (from_ns..to_ns).contains(&(start_ns + number(part, "start_ns")?)) {
                *counts.entry(source).or_default() += 1;
            }
        }
    }
    let named = |index: u64| -> Result<String> {
        let source = array(&report, "sources")?.get(usize::try_from(index)?);
        let source = source.context("a part of no source")?;
        Ok(format!("{} {}", source["class"], source["name"]).replace('"', ""))
    };
    let mut by_count: Vec<_> = counts.iter().map(|(source, count)| (*count, *source)).collect();
    by_count.sort_unstable_by_key(|(count, _)| std::cmp::Reverse(*count));
    for (count, source) in by_count.iter().take(5) {
        println!("{count:>6} {}", named(*source)?);
    }
    let mut tick = None;
    for (count, source) in &by_count {
        if named(*source)? == "irq local_timer" {
            tick = Some((*count, *source));
        }
    }
    let (found, source) = tick.context("no detour is explained by the tick")?;
    let grown = |name: &String| {
        let [first, last] = [&first, &last].map(|it| it.get(name).copied().unwrap_or_default());
        last.saturating_sub(first)
    };
    let counted = grown(&TIMER.to_owned());
    let seconds = (to_ns - from_ns) as f64 / 1e9;
    println!(
        "/proc/interrupts: {counted}, {:.1} a second; noised: {found}, {:.1} a second",
        counted as f64 / seconds,
        found as f64 / seconds
    );
    ensure!(
        (found as f64 / counted as f64 - 1.0).abs() <= TICKS,
        "{found} of {counted} local timer interrupts"
    );
    let whole = number(part, "duration_ns")? as f64 / 1e9;
    let ticks = all.get(&source).copied().unwrap_or_default() as f64;
    println!("over all {whole:.1} s: {:.1} a second", ticks / whole);
    if let Some(frequency) = tick_frequency() {
        // Timers of other threads interrupt beside the tick. While the kernel holds up real-time threads,
        // an otherwise idle CPU has no tick.
        let rate = found as f64 / seconds;
        let share = real_time_share()?;
        println!("CONFIG_HZ={frequency}, real-time threads may have {share} of the time");
        ensure!(
            rate >= f64::from(frequency) * share * (1.0 - TICKS),
            "{rate} ticks of {frequency} a second"
        );
    }
    if by_count.first().is_none_or(|(_, first)| *first != source) {
        // Where the kernel counts more of something else, the CPU was not idle, and that is no mistake.
        let others = last.keys().filter(|name| *name != TIMER);
        let busiest = others.max_by_key(|name| grown(name)).context("no other interrupts")?;
        ensure!(grown(busiest) < counted, "{}", not_idle(busiest, grown(busiest), counted));
        anyhow::bail!("the most frequent source is not the tick, and the kernel says it is");
    }
    Ok(())
}

/// The part of its time that a CPU gives to real-time threads.
fn real_time_share() -> Result<f64> {
    let read = |name: &str| -> Result<f64> {
        Ok(fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us"))?.trim().parse()?)
    };
    let (runtime, period) = (read("runtime")?, read("period")?);
    // Without a limit it is -1.
    Ok(if runtime < 0.0 { 1.0 } else { runtime / period })
}

fn not_idle(name: &str, count: u64, ticks: u64) -> String {
    format!(
        "the recording is inconclusive: CPU {CPU} was not idle, {name} came {count} times, the tick \
         {ticks} times"
    )
}

/// `CONFIG_HZ`, where the kernel tells its configuration.
fn tick_frequency() -> Option<u32> {
    let output = std::process::Command::new("zcat").arg("/proc/config.gz").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?.parse().ok()
}

//! PURE: metrics of a sample that are no signals: what was taken from CPUs, and how the daemon works.

use std::borrow::Cow;

use noise_common::signals::Signal;
use noise_model::{HookSample, Model, NoiseSource};

use super::family::{Family, Point, seconds};

/// The revision that this was built from.
pub(super) const REVISION: &str = match option_env!("NOISED_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Counters that the kernel has counted since boot.
pub(super) const SINCE_BOOT: [&str; 2] = ["noised_steal_seconds_total", "noised_page_faults_total"];

/// Where datagrams are lost that are no events.
const MARKS: &str = "marks";

/// 1 for what holds.
fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// The families about the daemon's own working; of marks, what became nothing and why.
pub fn families(
    model: &Model,
    marks: impl IntoIterator<Item = (&'static str, u64)>,
) -> Vec<Family<'_>> {
    let sample = &model.sample;
    let dropped = sample.drops.iter().map(|(signal, reason, total)| {
        Point::new([signal.info().name, reason.name()], *total as f64)
    });
    let missed = sample
        .hooks
        .iter()
        .map(|hook| Point::new([hook.hook.tracepoint(), "recursion"], hook.missed as f64));
    let marks = marks.into_iter().map(|(reason, count)| Point::new([MARKS, reason], count as f64));
    let by_hook = |value: fn(&HookSample) -> f64| {
        let ran = sample.hooks.iter().filter(|hook| hook.runs > 0);
        ran.map(move |hook| Point::new([hook.hook.tracepoint()], value(hook)))
    };
    let is_absent = |source: &str| {
        let of_source = |signal: Signal| signal.info().interrupts == Some(source);
        sample.absent.iter().any(|(signal, _)| of_source(*signal))
    };
    let interrupted = sample.interrupted.iter().filter(|(_, source, _)| !is_absent(source));
    let interrupted = interrupted.map(|(cpu, source, ns)| {
        Point::new([Cow::from(cpu.to_string()), (&**source).into()], seconds(*ns))
    });
    let stolen = sample.stolen.iter().map(|(cpu, ns)| Point::new([cpu.to_string()], seconds(*ns)));
    let faults =
        sample.page_faults.iter().map(|(kind, count)| Point::new([&**kind], *count as f64));
    let folded = model.folded.iter().map(|(metric, count)| Point::new([&**metric], *count as f64));
    let attached =
        sample.hooks.iter().map(|own| Point::new([own.hook.tracepoint()], flag(own.attached)));
    let hierarchies =
        sample.hierarchies.iter().map(|(kind, is_found)| Point::new([&**kind], flag(*is_found)));
    let reload = sample.reload;
    vec![
        Family::counters(
            "noised_cpu_interrupted_seconds_total",
            "Net time that interrupts took from a CPU; the sources add up.",
            &["cpu", "source"],
            interrupted,
        ),
        Family::counters(
            "noised_steal_seconds_total",
            "Time that the hypervisor took from a CPU since boot, as /proc/stat has it.",
            &["cpu"],
            stolen,
        ),
        Family::counters(
            "noised_page_faults_total",
            "Page faults of the host since boot that were served from memory (minor) or had to wait for a device (major), as /proc/vmstat has them.",
            &["kind"],
            faults,
        ),
        Family::gauges(
            "noised_build_info",
            "Version of this daemon; always 1.",
            &["version", "revision"],
            [Point::new([env!("CARGO_PKG_VERSION"), REVISION], 1.0)],
        ),
        Family::gauge(
            "noised_config_last_reload_successful",
            "Whether the last attempt to read the configuration succeeded.",
            flag(!reload.failed),
        ),
        Family::gauge(
            "noised_config_last_reload_success_timestamp_seconds",
            "When the configuration was last read without a mistake, since 1970.",
            reload.read_at_s as f64,
        ),
        Family::gauge(
            "noised_history_seconds",
            "How far back the daemon knows what signals and victims lost in each second: 15 minutes at most.",
            model.trends.seconds(),
        ),
        Family::gauge(
            "noised_history_bytes",
            "Memory that this history takes: 4 MiB at most.",
            model.trends.bytes() as f64,
        ),
        Family::gauges(
            "noised_cgroup_hierarchy_found",
            "Whether there is a cgroup hierarchy that names the cgroups of tasks, block requests and sockets; where there is none, they count as ~gone.",
            &["kind"],
            hierarchies,
        ),
        Family::gauges(
            "noised_probe_attached",
            "Whether the program of a hook is attached; hooks that this kernel does not have are missing.",
            &["hook"],
            attached,
        ),
        Family::counters(
            "noised_probe_run_seconds_total",
            "Time in the program of a hook (kernel.bpf_stats_enabled).",
            &["hook"],
            by_hook(|hook| seconds(hook.run_ns)),
        ),
        Family::counters(
            "noised_probe_runs_total",
            "Runs of the program of a hook (kernel.bpf_stats_enabled).",
            &["hook"],
            by_hook(|hook| hook.runs as f64),
        ),
        Family::counters(
            "noised_dropped_total",
            "Events that were not counted, or later than due, by place and reason.",
            &["where", "reason"],
            dropped.chain(missed).chain(marks),
        ),
        Family::counters(
            "noised_series_folded_total",
            "How often a series was folded into ~other: it was new and there was no room for it, or it gave way to one that cost more.",
            &["metric"],
            folded,
        ),
    ]
}

/// The families of CPUs that are measured from the inside.
pub fn noise_families(model: &Model) -> [Family<'_>; 4] {
    let noise = &model.sample.noise;
    let of_cpu = noise.iter().map(|own| Point::new([own.cpu.to_string()], seconds(own.runtime_ns)));
    let by_source = |value: fn(&NoiseSource) -> f64| {
        let all = noise.iter().flat_map(|cpu| cpu.sources.iter().map(move |own| (cpu.cpu, own)));
        all.map(move |(cpu, own)| {
            Point::new([Cow::from(cpu.to_string()), (&*own.source).into()], value(own))
        })
    };
    let labels = &["cpu", "source"];
    [
        Family::counters(
            "noised_osnoise_runtime_seconds_total",
            "How long a thread watched the clock on a CPU to measure its noise.",
            &["cpu"],
            of_cpu,
        ),
        Family::counters(
            "noised_osnoise_seconds_total",
            "Time that was taken from the thread that measures a CPU, net, by source; the sources add up.",
            labels,
            by_source(|own| seconds(own.ns)),
        ),
        Family::gauges(
            "noised_osnoise_max_single_seconds",
            "The longest that a source took at once from the thread that measures a CPU.",
            labels,
            by_source(|own| seconds(own.longest_ns)),
        ),
        Family::counters(
            "noised_osnoise_interferences_total",
            "Events that interrupted the thread that measures a CPU, by source.",
            labels,
            by_source(|own| own.count as f64),
        ),
    ]
}

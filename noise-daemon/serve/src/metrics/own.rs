//! PURE: metrics of a sample that are no signals: what was taken from CPUs, and how the daemon works.

use noise_common::signals::Signal;
use noise_model::{Model, NoiseSource};
use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::{counter, family, gauge, seconds};

/// The revision that this was built from.
pub(super) const REVISION: &str = match option_env!("NOISED_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Counters that the kernel has counted since boot.
pub(super) const SINCE_BOOT: [&str; 2] = ["noised_steal_seconds_total", "noised_page_faults_total"];

/// The families about the daemon's own working.
pub fn families(model: &Model) -> Vec<MetricFamily> {
    let sample = &model.sample;
    let mut dropped: Vec<Metric> = sample
        .drops
        .iter()
        .map(|(signal, reason, total)| {
            let values = [signal.info().name, reason.name()];
            counter(&["where", "reason"], &values, *total as f64)
        })
        .collect();
    dropped.extend(sample.hooks.iter().map(|hook| {
        let values = [hook.hook.tracepoint(), "recursion"];
        counter(&["where", "reason"], &values, hook.missed as f64)
    }));
    let ran: Vec<_> = sample.hooks.iter().filter(|hook| hook.runs > 0).collect();
    let by_hook = |value: &dyn Fn(&noise_model::HookSample) -> f64| -> Vec<Metric> {
        ran.iter().map(|hook| counter(&["hook"], &[hook.hook.tracepoint()], value(hook))).collect()
    };
    let is_absent = |source: &str| {
        let of_source = |signal: Signal| signal.info().interrupts == Some(source);
        sample.absent.iter().any(|(signal, _)| of_source(*signal))
    };
    let interrupted = sample.interrupted.iter().filter(|(_, source, _)| !is_absent(source));
    let interrupted = interrupted.map(|(cpu, source, ns)| {
        counter(&["cpu", "source"], &[&cpu.to_string(), source], seconds(*ns))
    });
    let stolen =
        sample.stolen.iter().map(|(cpu, ns)| counter(&["cpu"], &[&cpu.to_string()], seconds(*ns)));
    let faults =
        sample.page_faults.iter().map(|(kind, count)| counter(&["kind"], &[kind], *count as f64));
    let folded =
        model.folded.iter().map(|(metric, count)| counter(&["metric"], &[metric], *count as f64));
    let attached = sample.hooks.iter().map(|hook| {
        gauge(&["hook"], &[hook.hook.tracepoint()], f64::from(u8::from(hook.attached)))
    });
    let hierarchies = sample
        .hierarchies
        .iter()
        .map(|(kind, is_found)| gauge(&["kind"], &[kind], f64::from(u8::from(*is_found))));
    let reload = sample.reload;
    let build = gauge(&["version", "revision"], &[env!("CARGO_PKG_VERSION"), REVISION], 1.0);
    vec![
        family(
            "noised_cpu_interrupted_seconds_total",
            "Net time that interrupts took from a CPU; the sources add up.",
            MetricType::COUNTER,
            interrupted.collect(),
        ),
        family(
            "noised_steal_seconds_total",
            "Time that the hypervisor took from a CPU since boot, as /proc/stat has it.",
            MetricType::COUNTER,
            stolen.collect(),
        ),
        family(
            "noised_page_faults_total",
            "Page faults of the host since boot that were served from memory (minor) or had to wait for a device (major), as /proc/vmstat has them.",
            MetricType::COUNTER,
            faults.collect(),
        ),
        family(
            "noised_build_info",
            "Version of this daemon; always 1.",
            MetricType::GAUGE,
            vec![build],
        ),
        family(
            "noised_config_last_reload_successful",
            "Whether the last attempt to read the configuration succeeded.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], f64::from(u8::from(!reload.failed)))],
        ),
        family(
            "noised_config_last_reload_success_timestamp_seconds",
            "When the configuration was last read without a mistake, since 1970.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], reload.read_at_s as f64)],
        ),
        family(
            "noised_history_seconds",
            "How far back the daemon knows what signals and victims lost in each second: 15 minutes at most.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], model.trends.seconds())],
        ),
        family(
            "noised_history_bytes",
            "Memory that this history takes: 4 MiB at most.",
            MetricType::GAUGE,
            vec![gauge(&[], &[], model.trends.bytes() as f64)],
        ),
        family(
            "noised_cgroup_hierarchy_found",
            "Whether there is a cgroup hierarchy that names the cgroups of tasks, block requests and sockets; where there is none, they count as ~gone.",
            MetricType::GAUGE,
            hierarchies.collect(),
        ),
        family(
            "noised_probe_attached",
            "Whether the program of a hook is attached.",
            MetricType::GAUGE,
            attached.collect(),
        ),
        family(
            "noised_probe_run_seconds_total",
            "Time in the program of a hook (kernel.bpf_stats_enabled).",
            MetricType::COUNTER,
            by_hook(&|hook| seconds(hook.run_ns)),
        ),
        family(
            "noised_probe_runs_total",
            "Runs of the program of a hook (kernel.bpf_stats_enabled).",
            MetricType::COUNTER,
            by_hook(&|hook| hook.runs as f64),
        ),
        family(
            "noised_dropped_total",
            "Events that were not counted, or later than due, by place and reason.",
            MetricType::COUNTER,
            dropped,
        ),
        family(
            "noised_series_folded_total",
            "How often a series was folded into ~other: it was new and there was no room for it, or it gave way to one that cost more.",
            MetricType::COUNTER,
            folded.collect(),
        ),
    ]
}

/// The families of CPUs that are measured from the inside.
pub fn noise_families(model: &Model) -> Vec<MetricFamily> {
    let noise = &model.sample.noise;
    let of_cpu = noise
        .iter()
        .map(|cpu| counter(&["cpu"], &[&cpu.cpu.to_string()], seconds(cpu.runtime_ns)))
        .collect();
    let by_source = |make: fn(&[&str], &[&str], f64) -> Metric, value: fn(&NoiseSource) -> f64| {
        let all = noise.iter().flat_map(|cpu| cpu.sources.iter().map(move |own| (cpu.cpu, own)));
        all.map(|(cpu, own)| make(&["cpu", "source"], &[&cpu.to_string(), &own.source], value(own)))
            .collect()
    };
    vec![
        family(
            "noised_osnoise_runtime_seconds_total",
            "How long a thread watched the clock on a CPU to measure its noise.",
            MetricType::COUNTER,
            of_cpu,
        ),
        family(
            "noised_osnoise_seconds_total",
            "Time that was taken from the thread that measures a CPU, net, by source; the sources add up.",
            MetricType::COUNTER,
            by_source(counter, |own| seconds(own.ns)),
        ),
        family(
            "noised_osnoise_max_single_seconds",
            "The longest that a source took at once from the thread that measures a CPU.",
            MetricType::GAUGE,
            by_source(gauge, |own| seconds(own.longest_ns)),
        ),
        family(
            "noised_osnoise_interferences_total",
            "Events that interrupted the thread that measures a CPU, by source.",
            MetricType::COUNTER,
            by_source(counter, |own| own.count as f64),
        ),
    ]
}

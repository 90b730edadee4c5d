//! PURE but for the process metrics: a model as Prometheus text.

mod recorder;

use std::io;
use std::slice;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use noise_analysis::Overview;
use noise_common::hist::buckets_within;
use noise_common::signals::{Buckets, Kind, SIGNALS, Signal, SignalInfo};
use noise_model::clean::clean;
use noise_model::{INTERFERENCE_METRIC, Model, NoiseSource, PREEMPTIONS_METRIC, Series};
use prometheus::core::Collector as _;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder as _, TextEncoder};

use super::web::{Costs, Web};

/// The revision that this was built from.
const REVISION: &str = match option_env!("NOISED_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Room for the text of most hosts.
const USUAL_BYTES: usize = 128 << 10;

/// The metrics of this process itself.
pub struct Process {
    collector: prometheus::process_collector::ProcessCollector,
    web: Web,
    costs: Costs,
}

impl Process {
    /// Those of the running process.
    pub fn of_self(web: Web, costs: Costs) -> Self {
        let collector = prometheus::process_collector::ProcessCollector::for_self();
        Self { collector, web, costs }
    }

    /// Their families. The library counts whole seconds of CPU time, of which this process needs few.
    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.collector.collect();
        let cpu = families.iter_mut().find(|family| family.name() == "process_cpu_seconds_total");
        if let (Some(family), Ok(usage)) = (cpu, getrusage(UsageWho::RUSAGE_SELF)) {
            let used = [usage.user_time(), usage.system_time()];
            let used: f64 = used.map(|time| time.num_microseconds() as f64 / 1e6).iter().sum();
            family.set_metric(vec![counter(&[], &[], used)]);
        }
        let hangups = self.costs.hangups.counts();
        families.push(family(
            "noised_http_hangups_total",
            "Connections that this daemon ended before their clients were done, by reason: unused or slow while others waited, or late.",
            MetricType::COUNTER,
            hangups.map(|(why, count)| counter(&["reason"], &[why], count as f64)).collect(),
        ));
        families.push(family(
            "noised_http_requests_delayed_total",
            "Requests that waited for their turn, because answering had used up its part of a CPU.",
            MetricType::COUNTER,
            vec![counter(&[], &[], self.costs.budget.delayed() as f64)],
        ));
        let marks = self.costs.marks.all();
        families.push(family(
            "noised_marks_total",
            "Datagrams that came to the socket of marks, by what became of them.",
            MetricType::COUNTER,
            marks.map(|(what, count)| counter(&["result"], &[what], count as f64)).into(),
        ));
        let expiry = self.web.expiry_s().map(|seconds| gauge(&[], &[], seconds as f64));
        families.push(family(
            "noised_tls_certificate_expiry_timestamp_seconds",
            "When the first certificate of the server's chain expires, since 1970.",
            MetricType::GAUGE,
            expiry.into_iter().collect(),
        ));
        families
    }
}

fn labels(names: &[&str], values: &[&str]) -> Vec<LabelPair> {
    names
        .iter()
        .zip(values)
        .map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(clean(value).into_owned());
            pair
        })
        .collect()
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn counter(names: &[&str], values: &[&str], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(labels(names, values));
    metric.set_counter(counter);
    metric
}

fn gauge(names: &[&str], values: &[&str], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(labels(names, values));
    metric.set_gauge(gauge);
    metric
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn histogram(names: &[&str], series: &Series, buckets: Buckets) -> Metric {
    let mut histogram = Histogram::default();
    histogram.set_sample_count(series.totals.count());
    histogram.set_sample_sum(seconds(series.totals.sum_ns));
    let (mut counts, mut seen) = (series.totals.buckets().peekable(), 0_u64);
    let buckets = buckets.exponents().map(|exponent| {
        while let Some((_, count)) = counts.next_if(|(at, _)| *at < buckets_within(exponent)) {
            seen = seen.saturating_add(count);
        }
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(seconds(1 << exponent));
        bucket.set_cumulative_count(seen);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    let values: Vec<&str> = series.labels.iter().map(String::as_str).collect();
    let mut metric = Metric::default();
    metric.set_label(labels(names, &values));
    metric.set_histogram(histogram);
    metric
}

/// The family of one signal, of the series and folded series of all.
fn signal_family(
    model: &Model,
    [series, folded]: &[Vec<&Series>; 2],
    info: &SignalInfo,
) -> MetricFamily {
    let (kind, metrics): (_, Vec<Metric>) = match info.kind {
        Kind::Histogram(buckets) => {
            let from = if info.is_folded() { folded } else { series };
            let own = from.iter().filter(|series| series.signal == info.signal);
            let metrics = own.map(|series| histogram(info.labels, series, buckets)).collect();
            (MetricType::HISTOGRAM, metrics)
        }
        Kind::Counter => {
            let own = model.counts().filter(|count| count.signal == info.signal);
            let metrics = own.map(|count| {
                let values: Vec<&str> = count.labels.iter().map(String::as_str).collect();
                counter(info.labels, &values, count.total as f64)
            });
            (MetricType::COUNTER, metrics.collect())
        }
    };
    family(info.metric, info.help, kind, metrics)
}

/// The families of who delayed whom.
fn blame_families(model: &Model) -> Vec<MetricFamily> {
    let interference = model.interference.iter().map(|(pair, charged)| {
        let values = [pair.resource.name(), &pair.victim, &pair.culprit, pair.cause.name()];
        counter(&["resource", "victim", "culprit", "cause"], &values, seconds(charged.ns))
    });
    let preemptions = model.preemptions.iter().map(|(pair, charged)| {
        let values = [&pair.victim, &*pair.culprit, pair.cause.name()];
        counter(&["victim", "culprit", "relation"], &values, charged.count as f64)
    });
    vec![
        family(
            INTERFERENCE_METRIC,
            "Time that a cgroup was delayed, by what it waited for or what was taken from it, by whom, and why.",
            MetricType::COUNTER,
            interference.collect(),
        ),
        family(
            PREEMPTIONS_METRIC,
            "How often a cgroup lost a CPU that it could have used on, by who took it.",
            MetricType::COUNTER,
            preemptions.collect(),
        ),
    ]
}

/// The families about the daemon's own working.
fn own_families(model: &Model) -> Vec<MetricFamily> {
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
fn noise_families(model: &Model) -> Vec<MetricFamily> {
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

/// The families about incidents.
fn incident_families(overview: &Overview) -> Vec<MetricFamily> {
    let active = overview
        .active
        .iter()
        .map(|(signal, subject)| gauge(&["signal", "subject"], &[signal.name(), subject], 1.0));
    let opened = overview
        .opened
        .iter()
        .map(|(signal, count)| counter(&["signal"], &[signal.name()], *count as f64));
    vec![
        family(
            "noised_incident_active",
            "Signals of subjects that are disturbed now, each as a part of an open incident; always 1.",
            MetricType::GAUGE,
            active.collect(),
        ),
        family(
            "noised_incidents_total",
            "Incidents that opened, by the signal that left its baseline first.",
            MetricType::COUNTER,
            opened.collect(),
        ),
    ]
}

/// The text as it grows. The encoder writes it in ten thousand pieces of a few bytes, for which calling
/// `memcpy` costs more than copying them, above all musl's.
struct Text(Vec<u8>);

impl Text {
    /// Adds a piece of N to 2 N bytes: its first and its last N, which may overlap.
    fn add<const N: usize>(&mut self, piece: &[u8]) {
        if let (Some(first), Some(last)) = (piece.first_chunk::<N>(), piece.last_chunk::<N>()) {
            let overlap = 2 * N - piece.len();
            self.0.extend_from_slice(first);
            self.0.truncate(self.0.len() - overlap);
            self.0.extend_from_slice(last);
        }
    }
}

impl io::Write for Text {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        match piece.len() {
            0..4 => piece.iter().for_each(|byte| self.0.push(*byte)),
            4..8 => self.add::<4>(piece),
            8..16 => self.add::<8>(piece),
            16..32 => self.add::<16>(piece),
            32..=64 => self.add::<32>(piece),
            _ => self.0.extend_from_slice(piece),
        }
        Ok(piece.len())
    }

    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write(piece).map(|_| ())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A family of the page.
enum Family {
    Made(MetricFamily),
    /// The families of signals are most of the page: each is made when it is written, so that the
    /// memory of one serves the next.
    Of(&'static SignalInfo),
}

impl Family {
    fn name(&self) -> &str {
        match self {
            Self::Made(family) => family.name(),
            Self::Of(info) => info.metric,
        }
    }
}

/// Renders a model and the incidents, with the metrics of the process where given, in the text
/// format 0.0.4; families in order of their names.
///
/// # Errors
/// Where the encoder refuses a family, which would be a defect.
pub fn render(
    model: &Model,
    overview: &Overview,
    process: Option<&Process>,
) -> anyhow::Result<Vec<u8>> {
    // What was counted before a signal was switched off would look like calm.
    let is_absent = |signal| model.sample.absent.iter().any(|(absent, _)| *absent == signal);
    let measured = SIGNALS.iter().filter(|info| !is_absent(info.signal));
    let mut made = blame_families(model);
    made.extend(own_families(model));
    made.extend(noise_families(model));
    made.extend(recorder::families(model));
    made.extend(incident_families(overview));
    made.extend(process.map(Process::collect).into_iter().flatten());
    let mut families: Vec<Family> =
        measured.map(Family::Of).chain(made.into_iter().map(Family::Made)).collect();
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let series = [model.series().collect(), model.folded_series.iter().collect()];
    let mut text = Text(Vec::with_capacity(USUAL_BYTES));
    for family in families {
        let family = match family {
            Family::Made(family) => family,
            Family::Of(info) => signal_family(model, &series, info),
        };
        // The encoder refuses a family without metrics.
        if !family.get_metric().is_empty() {
            TextEncoder::new().encode(slice::from_ref(&family), &mut text)?;
        }
    }
    Ok(text.0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::made::report;
    use noise_common::charge::{Cause, Charged, Resource};
    use noise_common::hooks::Hook;
    use noise_common::loss::Loss;
    use noise_common::signals::Signal;
    use noise_model::{Builder, Count, CpuNoise, Histogram, HookSample, Interference, Sample};

    fn series(signal: Signal, labels: &[&str], values: &[u64]) -> Series {
        let totals = Histogram::of(values);
        let labels = labels.iter().map(ToString::to_string).collect();
        Series { signal, labels, totals, recent_max_ns: 0 }
    }

    fn charge(resource: Resource, cause: Cause, culprit: &str, ns: u64) -> Interference {
        Interference {
            resource,
            cause,
            place: "".into(),
            victim: "web.service".into(),
            culprit: culprit.into(),
            charged: Charged { ns, count: 3 },
        }
    }

    #[test]
    fn cpu_time_of_the_process_is_given_in_fractions_of_a_second() {
        let spent = || {
            let families = Process::of_self(Web::plain(), Costs::default()).collect();
            let cpu = families.iter().find(|family| family.name() == "process_cpu_seconds_total");
            cpu.unwrap().get_metric()[0].get_counter().get_value()
        };
        let before = spent();
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(50) {}
        let after = spent();
        assert!(after > before && after - before < 1.0, "{before}, then {after}");
    }

    #[test]
    fn pieces_of_any_length_are_put_together() {
        let bytes: Vec<u8> = (0..200).collect();
        let mut text = Text(Vec::new());
        let mut whole = Vec::new();
        for piece in (0..200).filter_map(|length| bytes.get(..length)) {
            text.write_all(piece).unwrap();
            whole.extend_from_slice(piece);
        }
        assert_eq!(text.0, whole);
    }

    #[test]
    fn the_exposition_is_as_agreed() {
        let sample = Sample {
            at_ns: 1,
            series: vec![
                series(Signal::RunqueueWait, &["wakeup"], &[1024, 1025, 1 << 34, 1 << 35]),
                series(Signal::Hardirq, &["36", "virtio1-req.0"], &[4096]),
                series(Signal::BlockQueueWait, &["vda", "read"], &[70_000]),
                series(Signal::CgroupRunqueueWait, &["web.service"], &[5_000]),
            ],
            interference: vec![
                charge(Resource::Cpu, Cause::Foreign, "batch.service", 1_500_000_000),
                charge(Resource::Cpu, Cause::Throttle, "throttle", 250_000_000),
                charge(Resource::Preemption, Cause::Own, "web.service", 0),
            ],
            counts: vec![Count {
                signal: Signal::ContextSwitch,
                labels: vec!["voluntary".into()],
                total: 7,
            }],
            interrupted: vec![(0, "softirq".into(), 1_500_000_000)],
            stolen: vec![(1, 20_000_000)],
            page_faults: vec![("minor".into(), 5)],
            hierarchies: vec![("tasks".into(), true), ("sockets".into(), false)],
            noise: vec![CpuNoise {
                cpu: 3,
                runtime_ns: 10_000_000,
                sources: vec![NoiseSource {
                    source: "irq".into(),
                    ns: 5_000,
                    count: 2,
                    longest_ns: 3_000,
                }],
            }],
            drops: vec![(Signal::RunqueueWait, Loss::NoStart, 3)],
            recorder: Some(noise_model::Recorder {
                bytes: 1 << 20,
                events: 9,
                overwritten: 4,
                held_ns: 1_500_000_000,
            }),
            hooks: vec![HookSample {
                hook: Hook::SchedSwitch,
                attached: true,
                runs: 2,
                run_ns: 300,
                missed: 0,
            }],
            ..Sample::default()
        };
        let opened = vec![(Signal::CgroupRunqueueWait.into(), 2), (Signal::NetTxWait.into(), 0)];
        let overview = Overview {
            incidents: vec![report(true), report(false)],
            opened,
            active: vec![(Signal::CgroupRunqueueWait.into(), "/system.slice/a.service".into())],
            ..Overview::default()
        };
        let text = render(&Builder::default().model_after(sample), &overview, None).unwrap();
        let text = String::from_utf8(text).unwrap();
        let revision = format!("revision=\"{REVISION}\"");
        insta::assert_snapshot!(text.replace(&revision, "revision=\"<revision>\""));
    }
}

//! The whole page in each format.

use super::own::REVISION;
use super::*;
use std::sync::Arc;

use crate::made::report;
use noise_analysis::{Culprit, Ending, Report, Time};
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::event::Cell;
use noise_common::hooks::{HOOKS, Hook};
use noise_common::loss::{LOSSES, Loss};
use noise_common::signals::{OPERATIONS, SIGNALS, Signal, SignalInfo, Storage};
use noise_common::subject::SubjectKind;
use noise_model::{
    Builder, CgroupInfo, Count, CpuNoise, Histogram, HookSample, Interference, NoiseSource, Sample,
};

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

fn cgroups() -> Arc<noise_model::Cgroups> {
    let info = |[namespace, pod, container, unit, engine]: [&str; 5]| {
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        Arc::new(CgroupInfo { namespace, pod, container, unit: unit.into(), engine: engine.into() })
    };
    let known = [
        ("pod:shop/front", ["shop", "front", "", "kubepods-pod1.slice", ""]),
        ("pod:shop/front/nginx", ["shop", "front", "nginx", "", "cri-o"]),
        ("web.service", ["", "", "", "web.service", ""]),
        ("unseen.service", ["", "", "", "unseen.service", ""]),
    ];
    Arc::new(known.into_iter().map(|(label, names)| (label.into(), info(names))).collect())
}

/// A model and incidents with something of everything.
fn everything() -> (Model, Overview) {
    let sample = Sample {
        at_ns: 1,
        series: vec![
            series(Signal::RunqueueWait, &["wakeup"], &[1024, 1025, 1 << 34, 1 << 35]),
            series(Signal::Hardirq, &["36", "virtio1-req.0"], &[4096]),
            series(Signal::BlockQueueWait, &["vda", "read"], &[70_000]),
            series(Signal::CgroupRunqueueWait, &["pod:shop/front"], &[6_000]),
            series(Signal::CgroupRunqueueWait, &["pod:shop/front/nginx"], &[7_000]),
            series(Signal::CgroupRunqueueWait, &["web.service"], &[5_000]),
        ],
        cgroups: cgroups(),
        interference: vec![
            charge(Resource::Cpu, Cause::Foreign, "pod:shop/front/nginx", 2_000_000),
            charge(Resource::Cpu, Cause::Kthread, "batch.service", 1_000_000),
            charge(Resource::Cpu, Cause::Foreign, "batch.service", 1_500_000_000),
            charge(Resource::Cpu, Cause::Throttle, "throttle", 250_000_000),
            charge(Resource::Preemption, Cause::Own, "web.service", 0),
        ],
        counts: vec![Count {
            signal: Signal::ContextSwitch,
            labels: ["voluntary".into()].into(),
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
            held_median_ns: 4_500_000_000,
            next_bytes: 1 << 21,
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
    let mut open = Report::clone(&report(true));
    let culprit = |name: &str, cause, beyond: f64| Culprit {
        culprit: name.into(),
        cause,
        time: Time { seconds: 1.0, share: 0.2 },
        beyond: Time { seconds: beyond, share: beyond },
    };
    open.main.culprits = vec![
        culprit("backup.service", Cause::Foreign, 0.625),
        culprit("/", Cause::Foreign, 0.25),
        culprit("/", Cause::Kthread, 0.0625),
        culprit("cron.service", Cause::Foreign, 0.03125),
    ];
    // Usual for its subject, and no culprit is known to do more than usual.
    let mut also = open.main.clone();
    also.signal = Signal::UninterruptibleWait.into();
    also.culprits = vec![culprit("jbd2", Cause::Kthread, 0.0), culprit("/", Cause::Own, -0.5)];
    // Over, while the rest goes on.
    let mut over = open.main.clone();
    over.subject = "/over".into();
    over.ending = Some(Ending::Over);
    open.also = vec![also, over];
    let mut past = Report::clone(&report(false));
    past.main.culprits = open.main.culprits.clone();
    let overview = Overview {
        incidents: vec![Arc::new(past), Arc::new(open)],
        opened,
        no_room: 3,
        active: vec![(Signal::CgroupRunqueueWait.into(), "/system.slice/a.service".into())],
        ..Overview::default()
    };
    (Builder::default().model_after(sample), overview)
}

fn page(format: Format) -> Vec<u8> {
    let (model, overview) = everything();
    render(format, &model, &overview, None)
}

fn text(format: Format) -> String {
    String::from_utf8(page(format)).unwrap()
}

#[test]
fn the_exposition_is_as_agreed() {
    let revision = format!("revision=\"{REVISION}\"");
    insta::assert_snapshot!(text(Format::Text).replace(&revision, "revision=\"<revision>\""));
}

/// Lines that are samples.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn openmetrics_has_the_same_samples_and_when_they_began() {
    let (plain, open) = (text(Format::Text), text(Format::OpenMetrics));
    let is_created = |line: &&&str| {
        let name = line.split(['{', ' ']).next().unwrap();
        name.ends_with("_created")
    };
    let all = samples(&open);
    let (created, others): (Vec<&str>, Vec<&str>) = all.iter().partition(|line| is_created(line));
    assert_eq!(others, samples(&plain));
    // One for each counter and histogram, and none for a gauge.
    let counted = |line: &&&str| {
        let name = line.split(['{', ' ']).next().unwrap();
        name.ends_with("_total") || name.ends_with("_count")
    };
    assert_eq!(created.len(), others.iter().filter(counted).count());
    assert!(created.iter().all(|line| line.ends_with(" 0")), "{created:?}");
    for line in [
        "# TYPE noised_dropped counter",
        "# TYPE noised_hardirq_seconds histogram",
        "# UNIT noised_hardirq_seconds seconds",
        "# UNIT noised_recorder_bytes bytes",
        "# TYPE noised_build_info gauge",
    ] {
        assert!(open.lines().any(|own| own == line), "{line}");
    }
    assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1);
}

/// A family that was read, as text.
fn written_again(family: &decoded::Family, lines: &mut Vec<String>) {
    let name = family.name();
    for metric in &family.metric {
        let labels = metric.labels();
        let mut line = |end: &str, le: Option<String>, value: f64| {
            let all: Vec<_> = labels.iter().cloned().chain(le).collect();
            let braces =
                if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
            lines.push(format!("{name}{end}{braces} {value}"));
        };
        let number = metric.counter.as_ref().or(metric.gauge.as_ref());
        number.iter().for_each(|number| line("", None, number.value()));
        let Some(histogram) = &metric.histogram else { continue };
        for bucket in &histogram.bucket {
            let le = format!("le=\"{}\"", bucket.upper_bound());
            line("_bucket", Some(le), bucket.cumulative_count() as f64);
        }
        line("_bucket", Some("le=\"+Inf\"".to_owned()), histogram.count() as f64);
        line("_sum", None, histogram.sum());
        line("_count", None, histogram.count() as f64);
    }
}

#[test]
fn protocol_buffers_have_the_same_samples_and_native_histograms() {
    let plain = text(Format::Text);
    let families = decoded::families(&page(Format::Protobuf));
    let mut lines = Vec::new();
    families.iter().for_each(|family| written_again(family, &mut lines));
    assert_eq!(lines, samples(&plain));
    for family in &families {
        let (name, kind) = (family.name(), family.kind());
        let word = ["counter", "gauge", "", "", "histogram"][kind as usize];
        assert!(plain.contains(&format!("# TYPE {name} {word}\n")), "{name} {kind}");
        assert!(plain.contains(&format!("# HELP {name} {}\n", family.help())), "{name}");
        let unit = name.trim_end_matches("_total").ends_with("_seconds").then_some("seconds");
        assert_eq!(family.unit.as_deref(), unit.or(name.ends_with("_bytes").then_some("bytes")));
        for metric in &family.metric {
            let counted = metric.counter.as_ref().and_then(|counter| counter.created.as_ref());
            let created = metric.histogram.as_ref().and_then(|own| own.created.as_ref());
            assert_eq!(counted.is_some(), kind == 0);
            assert_eq!(metric.histogram.is_some(), kind == 4);
            let Some(histogram) = &metric.histogram else { continue };
            assert!(created.is_some());
            assert_eq!((histogram.schema(), histogram.zero_threshold()), (2, 256e-9));
            let buckets: u64 = histogram.native().values().sum();
            assert_eq!(histogram.zero_count() + buckets, histogram.count(), "{name}");
        }
    }
    // 1024, 1025, 2^34 and 2^35 ns. The programs have 1025 in (1024, 1280], more of which is above the
    // native bound 1134 than below it.
    let wait = families.iter().find(|family| family.name() == "noised_runqueue_wait_seconds");
    let native = wait.unwrap().metric[0].histogram.as_ref().unwrap().native();
    let number = |ns: f64| ((ns / 1e9).log2() * 4.0).ceil() as i32;
    let expected = [1024.0, 1280.0, 17_179_869_184.0, 34_359_738_368.0].map(number);
    assert_eq!(native.into_keys().collect::<Vec<_>>(), expected);
    assert_eq!(number(1025.0), number(1024.0));
}

#[test]
fn series_of_pods_bear_the_labels_that_the_cluster_has_for_them() {
    let text = text(Format::Text);
    let named = |part: &str| -> Vec<&str> {
        let lines = text.lines().filter(|line| line.contains(part));
        lines.filter_map(|line| Some(line.split_once('{')?.1.rsplit_once('}')?.0)).collect()
    };
    assert_eq!(
        named("noised_cgroup_runqueue_wait_seconds_sum{"),
        [
            r#"cgroup="pod:shop/front",namespace="shop",pod="front",container="""#,
            r#"cgroup="pod:shop/front/nginx",namespace="shop",pod="front",container="nginx""#,
            r#"cgroup="web.service",namespace="",pod="",container="""#,
        ]
    );
    // Of victims and culprits; a kernel thread is no cgroup, whatever it is called.
    assert_eq!(
        named("noised_cgroup_info{"),
        [
            r#"cgroup="pod:shop/front/nginx",namespace="shop",pod="front",container="nginx",unit="",engine="cri-o""#,
            r#"cgroup="web.service",namespace="",pod="",container="",unit="web.service",engine="""#,
        ]
    );
}

#[test]
fn without_names_series_have_the_cgroup_alone() {
    let (model, overview) = everything();
    let sample = Sample { cgroups: Arc::default(), ..Sample::clone(&model.sample) };
    let model = Builder::default().model_after(sample);
    let page = String::from_utf8(render(Format::Text, &model, &overview, None)).unwrap();
    assert!(!page.contains("namespace=") && !page.contains("noised_cgroup_info"), "{page}");
    assert!(
        page.contains(
            r#"noised_cgroup_runqueue_wait_seconds_count{cgroup="pod:shop/front/nginx"} 1"#
        )
    );
}

#[test]
fn a_size_after_a_restart_that_is_not_known_is_not_exported() {
    let (model, overview) = everything();
    let with = |next_bytes| {
        let recorder =
            model.sample.recorder.map(|held| noise_model::Recorder { next_bytes, ..held });
        let model =
            Builder::default().model_after(Sample { recorder, ..Sample::clone(&model.sample) });
        String::from_utf8(render(Format::Text, &model, &overview, None)).unwrap()
    };
    assert!(with(1 << 20).contains("\nnoised_recorder_next_bytes 1048576\n"));
    let unknown = with(0);
    assert!(!unknown.contains("noised_recorder_next_bytes"), "{unknown}");
    assert!(unknown.contains("\nnoised_recorder_bytes "), "{unknown}");
}

/// All that a host with 256 CPUs, 64 disks and 128 interfaces may export: programs keep interrupts in 16 places of each CPU
/// and in a table of 64 MiB for all.
fn largest() -> Sample {
    const CPUS: usize = 256;
    const DISKS: usize = 64;
    const INTERFACES: usize = 128;
    let spilled = ((64 << 20) / size_of::<Cell>() / CPUS).clamp(256, 4_096);
    let interrupts = Storage::Keyed.cells() * CPUS + spilled;
    let subjects = |info: &SignalInfo| match (info.storage, info.subject) {
        (Storage::Fixed { subjects }, _) => subjects,
        (Storage::Rotating, _) => 1_000,
        (_, SubjectKind::Request) => DISKS * OPERATIONS.len(),
        (_, SubjectKind::Interface) => INTERFACES,
        (_, SubjectKind::Irq) => interrupts,
        _ => 256,
    };
    let labels = |info: &SignalInfo, number: usize| {
        info.labels.iter().map(|label| format!("{label} {number:05}")).collect()
    };
    let mut sample = Sample::default();
    for info in &SIGNALS {
        for number in 0..subjects(info) {
            let (signal, labels) = (info.signal, labels(info, number));
            match info.kind {
                ExportKind::Counter => sample.counts.push(Count { signal, labels, total: 1 }),
                ExportKind::Histogram(_) => sample.series.push(Series {
                    signal,
                    labels,
                    totals: Histogram::of(&[1_000]),
                    recent_max_ns: 0,
                }),
            }
        }
    }
    for number in 0..CPUS {
        let cpu = u32::try_from(number).unwrap();
        let sources = ["hardirq", "nmi", "softirq", "vector"];
        sample.interrupted.extend(sources.map(|source| (cpu, source.into(), 1)));
        sample.stolen.push((cpu, 1));
    }
    for number in 0..1_000 {
        let victim = format!("{number:04}").into();
        let pair = charge(Resource::Cpu, Cause::Foreign, "backup.service", 1);
        sample.interference.push(Interference { victim, ..pair });
    }
    sample.hooks = HOOKS
        .map(|hook| HookSample { hook, attached: true, runs: 1, run_ns: 1, missed: 0 })
        .to_vec();
    let losses = SIGNALS.iter().flat_map(|info| LOSSES.map(|loss| (info.signal, loss, 1)));
    sample.drops = losses.collect();
    sample
}

#[test]
fn the_largest_host_stays_below_the_limit_of_a_scrape() {
    let model = Builder::default().model_after(largest());
    let page = render(Format::Text, &model, &Overview::default(), None);
    let page = String::from_utf8(page).unwrap();
    let count = page.lines().filter(|line| !line.starts_with('#')).count();
    for (file, key) in [
        (include_str!("../../../../deploy/prometheus/prometheus.yml"), "sample_limit: "),
        (include_str!("../../../../deploy/prometheus/kubernetes.yml"), "sample_limit: "),
        (include_str!("../../../../deploy/kubernetes/podmonitor.yaml"), "sampleLimit: "),
    ] {
        let limit = file.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
        let limit: usize = limit.parse().unwrap();
        assert!(count < limit && count > limit / 2, "{count} samples, {key}{limit}");
    }
}

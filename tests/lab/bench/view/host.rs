//! Frames of a large host, generated: always the same.

use std::sync::Arc;
use std::time::Duration;

use noise_analysis::{
    Culprit, Ending, Episode, Level, Overview, Remedy, Report, ReportedOutlier, Rule, Time,
};
use noise_common::charge::{Cause, Charged, Resource};
use noise_common::signals::{SIGNALS, Signal, SignalInfo};
use noise_common::subject::SubjectKind;
use noise_model::{
    Count, Histogram, Host, Interference, Labels, OutlierPart, OutlierRecord, Sample, Series,
};
use noise_wire::Frame;

const CGROUPS: u64 = 500;
const CPUS: u32 = 128;
const IRQS: u64 = 200;
const PAIRS: u64 = 3_000;
/// One in so many pairs changes from frame to frame.
const CHANGING: u64 = 3;
const DEVICES: u64 = 16;
const INTERFACES: u64 = 16;
const INCIDENTS: u64 = 64;
/// Of them are open.
const OPEN: u64 = 6;
const OUTLIERS: u64 = 256;

const SECOND_NS: u64 = 1_000_000_000;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    /// From 0 on, below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}

fn cgroup(index: u64) -> String {
    format!("/kubepods.slice/kubepods-burstable.slice/kubepods-pod{:08x}.slice", index * 7_919)
}

fn irq(index: u64) -> String {
    format!("nvme{}q{}", index / 32, index % 32)
}

/// All series, without a value.
fn series() -> Vec<Series> {
    let named = |number: u64, name: fn(u64) -> String| -> Vec<Labels> {
        (0..number).map(|index| [name(index)].into()).collect()
    };
    let fixed = |names: &[&str]| -> Vec<Labels> {
        names.iter().map(|name| [(*name).to_owned()].into()).collect()
    };
    let labels = |info: &SignalInfo| match info.subject {
        _ if !info.is_delay() => Vec::new(),
        SubjectKind::Host => vec![Labels::default()],
        SubjectKind::Kinds(names) | SubjectKind::Vectors(names) => fixed(names),
        SubjectKind::Irq => {
            (0..IRQS).map(|index| [(index + 24).to_string(), irq(index)].into()).collect()
        }
        SubjectKind::Request => (0..DEVICES)
            .flat_map(|index| {
                let device = format!("nvme{index}n1");
                ["read", "write", "flush"].map(|what| [device.clone(), what.to_owned()].into())
            })
            .collect(),
        SubjectKind::Interface => named(INTERFACES, |index| format!("eth{index}")),
        SubjectKind::Cgroup => named(CGROUPS, cgroup),
        SubjectKind::DropReason => Vec::new(),
    };
    let of = |info: &SignalInfo| {
        let signal = info.signal;
        let new =
            move |labels| Series { signal, labels, totals: Histogram::default(), recent_max_ns: 0 };
        labels(info).into_iter().map(new)
    };
    let mut series: Vec<Series> = SIGNALS.iter().flat_map(of).collect();
    series.sort_by(|a, b| (a.signal, &a.labels).cmp(&(b.signal, &b.labels)));
    series
}

fn counts() -> Vec<Count> {
    let count = |signal, label: &str| Count { signal, labels: [label.to_owned()].into(), total: 0 };
    let mut counts: Vec<Count> = ["involuntary", "voluntary"]
        .map(|kind| count(Signal::ContextSwitch, kind))
        .into_iter()
        .chain((0..INTERFACES).map(|i| count(Signal::TcpRetransmit, &format!("eth{i}"))))
        .chain((0..12).map(|i| count(Signal::PacketDrop, &format!("reason_{i}"))))
        .collect();
    counts.sort_by(|a, b| (a.signal, &a.labels).cmp(&(b.signal, &b.labels)));
    counts
}

fn pair(index: u64) -> Interference {
    let victim = index % CGROUPS;
    let (resource, cause, place, culprit) = match index % 10 {
        0 => (Resource::BlockDevice, Cause::Foreign, format!("nvme{}n1", index % DEVICES), None),
        1 => (Resource::Running, Cause::Hardirq, String::new(), Some(irq(index % IRQS))),
        2 => (Resource::Running, Cause::Softirq, String::new(), Some("net_rx".to_owned())),
        3 => (Resource::Preemption, Cause::Foreign, String::new(), None),
        _ => (Resource::Cpu, Cause::Foreign, String::new(), None),
    };
    let other = cgroup((victim + 1 + index / CGROUPS * 37) % CGROUPS);
    Interference {
        resource,
        cause,
        place: place.into(),
        victim: cgroup(victim).into(),
        culprit: culprit.unwrap_or(other).into(),
        charged: Charged { ns: 50_000, count: 1 },
    }
}

fn pairs() -> Vec<Interference> {
    let mut pairs: Vec<Interference> = (0..PAIRS).map(pair).collect();
    pairs.sort_by(|a, b| {
        let key = |one: &Interference| (one.resource, one.cause);
        let names =
            |one: &Interference| [&one.place, &one.victim, &one.culprit].map(ToString::to_string);
        key(a).cmp(&key(b)).then_with(|| names(a).cmp(&names(b)))
    });
    pairs
}

fn report(index: u64) -> Report {
    let is_open = index + OPEN >= INCIDENTS;
    let start = Frame::default().time + Duration::from_secs(index * 10);
    let level = |mean: f64| Level {
        p50_ns: Some(12_288),
        p99_ns: Some(131_072),
        mean_ns: Some(mean),
        rate: 210.0,
        lost: 0.0042,
    };
    let time = Time { seconds: 10.0, share: 0.2 };
    let culprit = |other: u64| Culprit {
        culprit: cgroup((index * 31 + other) % CGROUPS).into(),
        cause: Cause::Foreign,
        time,
        beyond: time,
    };
    let episode = |number: u64| Episode {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: cgroup((index * 17 + number) % CGROUPS).into(),
        start,
        end: start + Duration::from_secs(100),
        seconds: 100.0,
        ending: (!is_open).then_some(Ending::Over),
        rule: Rule::Mean,
        before: level(2e4),
        after: level(5e6),
        lost_seconds: 11.2,
        culprits: (1..=4).map(culprit).collect(),
        others: time,
        untracked: time,
        remedies: vec![Remedy::CpuWeight],
    };
    let also = (1..=3).map(episode).collect();
    Report::new(index, is_open, episode(0), also)
}

fn outlier(index: u64) -> ReportedOutlier {
    let part = |other: u64| OutlierPart {
        culprit: cgroup((index * 13 + other) % CGROUPS).into(),
        cause: Cause::Foreign,
        pid: 1_000 + other as u32,
        comm: "worker".into(),
        ns: 4_000_000,
    };
    let wait = OutlierRecord {
        at_ns: 0,
        wait_ns: 20_000_000,
        victim: cgroup(index % CGROUPS).into(),
        pid: 4_000,
        comm: "server".into(),
        cpu: index as u32 % CPUS,
        made_runnable: "wakeup".into(),
        parts: (0..4).map(part).collect(),
        rest_ns: 4_000_000,
    };
    ReportedOutlier { time: Frame::default().time + Duration::from_secs(index), wait }
}

/// A host of 500 cgroups, 128 CPUs and 200 irqs on which something happens everywhere every second.
pub struct LargeHost {
    dice: Dice,
    host: Arc<Host>,
    sample: Sample,
    overview: Overview,
    seconds: u64,
}

impl LargeHost {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let taken = |cpu| {
            ["hardirq", "nmi", "softirq", "vector"].map(|source| (cpu, source.into(), 0)).to_vec()
        };
        Self {
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            host: Arc::new(Host {
                name: "node-17.example".to_owned(),
                kernel: "6.12.0-generic".to_owned(),
                noised: "0.1.0".to_owned(),
                cpus: (0..CPUS).collect(),
                isolated: (120..CPUS).collect(),
                nohz_full: (120..CPUS).collect(),
            }),
            sample: Sample {
                series: series(),
                counts: counts(),
                interference: pairs(),
                interrupted: (0..CPUS).flat_map(taken).collect(),
                waited: (0..CPUS).map(|cpu| (cpu, 0)).collect(),
                stolen: (0..CPUS).map(|cpu| (cpu, 0)).collect(),
                page_faults: vec![("major".into(), 0), ("minor".into(), 0)],
                ..Sample::default()
            },
            overview: Overview {
                incidents: (0..INCIDENTS).map(|index| Arc::new(report(index))).collect(),
                outliers: (0..OUTLIERS).map(|index| Arc::new(outlier(index))).collect(),
                opened: vec![(Signal::CgroupRunqueueWait.into(), INCIDENTS)],
                active: Vec::new(),
                traces: Vec::new(),
                usual: Vec::new(),
                commands: Vec::new(),
                no_room: 0,
            },
            seconds: 0,
        }
    }

    /// The frame of the next second.
    pub fn frame(&mut self) -> Frame {
        self.seconds += 1;
        let (dice, sample) = (&mut self.dice, &mut self.sample);
        sample.at_ns = (1_000 + self.seconds) * SECOND_NS;
        for one in &mut sample.series {
            one.recent_max_ns = 0;
            // Most are short, some long.
            for _ in 0..12 {
                let octave = 10 + dice.below(5) + dice.below(5) + dice.below(3);
                let (ns, count) = ((1 << octave) + dice.below(1 << octave), 1 + dice.below(200));
                one.totals.record(ns, count);
                one.recent_max_ns = one.recent_max_ns.max(ns);
            }
        }
        sample.counts.iter_mut().for_each(|one| one.total += dice.below(10_000));
        for one in &mut sample.interference {
            if dice.below(CHANGING) == 0 {
                one.charged.ns += 1_000 + dice.below(3_000_000);
                one.charged.count += 1 + dice.below(100);
            }
        }
        sample.interrupted.iter_mut().for_each(|(_, _, ns)| *ns += dice.below(20_000_000));
        let waited = sample.waited.iter_mut().chain(&mut sample.stolen);
        waited.for_each(|(_, ns)| *ns += dice.below(500_000_000));
        sample.page_faults.iter_mut().for_each(|(_, count)| *count += dice.below(100_000));
        let mut overview = self.overview.clone();
        let opened = overview.opened.iter_mut();
        opened.for_each(|(_, count)| *count += self.seconds);
        Frame {
            time: Frame::default().time + Duration::from_secs(1_000 + self.seconds),
            host: Arc::clone(&self.host),
            sample: Arc::new(sample.clone()),
            overview,
            trends: None,
        }
    }
}

impl Default for LargeHost {
    fn default() -> Self {
        Self::new()
    }
}

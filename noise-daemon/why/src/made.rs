//! Made findings, for tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use noise_analysis::{Culprit, Ending, Episode, Level, Remedy, Report, Rule, Time};
use noise_common::charge::Cause;
use noise_common::signals::Signal;
use noise_model::HeldUp;
use noise_model::pressure::{Pressure, ResourcePressure, Stalled};
use noise_model::setup::{CgroupSetup, Controller, Manager, Setup};
use noise_paths::account::{Interruption, Member};
use noise_paths::delayed_ack::DelayedNs;
use noise_paths::document::{Segment, Traced};
use noise_paths::made;
use noise_trace::delays::document::Spread;
use noise_verdict::Accounts;

use super::around::{Around, Kept, Usual};
use super::culprits::Blamed;
use super::findings::{Ender, Findings, Victim, Whose};
use super::locks::Locks;
use super::peers::{Peer, PeerLink, Peers, Role};
use super::pushed::Pushed;
use super::unwoken::Unwoken;
use super::writeback::Writeback;

pub const MS: u64 = 1_000_000;

pub fn spread(count: u64, sum_ms: u64, max_ms: u64) -> Spread {
    Spread { count, sum_ns: sum_ms * MS, max_ns: max_ms * MS }
}

pub fn member(tid: i32, totals: &[(&'static str, u64)], waits: Spread) -> Member {
    Member {
        tid,
        pid: 70,
        comm: "nginx".to_owned(),
        totals_ns: totals.iter().map(|(state, ms)| (*state, ms * MS)).collect(),
        waits,
        uninterruptible: Spread::default(),
    }
}

pub fn blamed(
    state: &'static str,
    tid: i32,
    comm: &str,
    cgroup: &str,
    cause: &'static str,
    ms: u64,
) -> Blamed {
    let cgroup = Some(cgroup.to_owned()).filter(|name| !name.is_empty());
    let path = cgroup.as_ref().map(|name| Path::new("/system.slice").join(name));
    let comm = comm.to_owned();
    let (program, pid) = (comm.clone(), Some(tid).filter(|tid| *tid > 0));
    let ns = ms * MS;
    Blamed { state, tid, pid, comm, program, cgroup, cause, ns, by_counters: false, path }
}

pub fn report() -> Arc<Report> {
    let level = Level { p50_ns: None, p99_ns: None, mean_ns: Some(2e4), rate: 210.0, lost: 0.004 };
    let time = Time { seconds: 3.0, share: 0.9 };
    let main = Episode {
        signal: Signal::CgroupRunqueueWait.into(),
        subject: "nginx.service".into(),
        start: "2026-11-21T09:41:02.5Z".parse().unwrap(),
        end: "2026-11-21T09:41:15Z".parse().unwrap(),
        seconds: 12.5,
        ending: Some(Ending::Over),
        rule: Rule::Mean,
        before: level,
        after: level,
        lost_seconds: 11.2,
        culprits: vec![Culprit {
            culprit: "backup.service".into(),
            cause: Cause::Foreign,
            time,
            beyond: time,
        }],
        others: Time::default(),
        untracked: Time::default(),
        remedies: vec![Remedy::CpuWeight],
    };
    Arc::new(Report::new(3, true, main, Vec::new()))
}

pub fn path(from_ns: u64) -> Traced {
    let segment = |state, tid, from_ms: u64, to_ms: u64| Segment {
        cpu: Some(0),
        ..made::segment((tid, "nginx"), state, (from_ns + from_ms * MS, from_ns + to_ms * MS))
    };
    let path = vec![segment("running", 72, 0, 10), segment("waiting_cpu", 71, 10, 30)];
    Traced {
        pid: 70,
        totals_ns: [("running", 10 * MS), ("waiting_cpu", 20 * MS)].into(),
        ..made::traced("thread:71@1..2", (71, "nginx"), path)
    }
}

pub fn pressure() -> Pressure {
    let stalled = |avg10_percent, ms| Stalled { avg10_percent, stalled_ms: Some(ms) };
    let cpu = ResourcePressure { some: stalled(45.1, 812.0), full: Some(stalled(0.0, 0.0)) };
    Pressure {
        span_ns: Some(2_000 * MS),
        cpu: Some(cpu),
        unavailable: vec!["its CPU quota is not known: it has no cpu controller".to_owned()],
        ..Pressure::default()
    }
}

/// Two services of systemd beside each other.
pub fn setup() -> Setup {
    let service = |name: &str| CgroupSetup {
        manager: Manager::System(name.to_owned()),
        cpu: Controller::On { folder: format!("/sys/fs/cgroup/system.slice/{name}"), version: 2 },
        weight: Some(100),
        ..CgroupSetup::named(name)
    };
    let (victim, culprit) = (service("nginx.service"), service("backup.service"));
    Setup {
        siblings: Some((victim.clone(), culprit.clone())),
        victim: Some(victim),
        culprit: Some(culprit),
        online: (0..4).collect(),
        ..Setup::default()
    }
}

/// A service that waited for CPUs most of the time.
pub fn found() -> Findings {
    let from_ns = 1_763_718_062_000_000_000;
    let threads = vec![
        member(
            71,
            &[("running", 700), ("waiting_cpu", 812), ("disk", 88), ("asleep", 400)],
            spread(212, 812, 24),
        ),
        member(72, &[("running", 300), ("timer", 1700)], Spread::default()),
    ];
    let mut totals_ns: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (state, ns) in threads.iter().flat_map(|one| &one.totals_ns) {
        *totals_ns.entry(state).or_default() += ns;
    }
    Findings {
        target: Victim {
            kind: "service",
            name: "nginx.service".to_owned(),
            pid: None,
            cgroup: Some("/system.slice/nginx.service".to_owned()),
        },
        source: "flight_recorder",
        clock_offset_ns: 1,
        from_ns,
        to_ns: from_ns + 2_000 * MS,
        span_ns: 2_000 * MS,
        asked_ns: 2_000 * MS,
        discarded: 0,
        notes: Vec::new(),
        totals_ns,
        waits: spread(212, 812, 24),
        uninterruptible: spread(9, 88, 12),
        interrupted: vec![
            Interruption {
                cause: "softirq",
                source: "net_rx".to_owned(),
                taken: spread(800, 21, 1),
            },
            Interruption { cause: "nmi", source: String::new(), taken: spread(2, 1, 1) },
        ],
        culprits: vec![
            blamed("waiting_cpu", 4242, "gzip", "backup.service", "foreign", 700),
            blamed("waiting_cpu", 4243, "gzip", "backup.service", "foreign", 90),
            blamed("waiting_cpu", 72, "nginx", "nginx.service", "self", 12),
            blamed("waiting_cpu", 40, "kworker/0:1", "/", "kthread", 6),
            blamed("waiting_cpu", 0, "swapper/0", "", "idle", 3),
            blamed("waiting_cpu", -1, "", "", "untracked", 1),
        ],
        threads,
        around: Around {
            trends: vec![HeldUp {
                subject: "/system.slice/web.service".into(),
                seconds: 840.0,
                held_up_seconds_per_second: vec![0.0, 0.0, 0.3, 0.6],
            }],
            usual: vec![
                Usual {
                    signal: "cgroup_runqueue_wait",
                    from: "baseline",
                    mean_ns: Some(20_000.0),
                    p99_ns: Some(131_072),
                    rate: Some(210.0),
                    lost: Some(0.0042),
                    adopted_for_ns: None,
                },
                Usual {
                    signal: "interruption",
                    from: "baseline",
                    mean_ns: Some(1e6),
                    p99_ns: None,
                    rate: Some(2.0),
                    lost: Some(0.002),
                    adopted_for_ns: None,
                },
            ],
            labels: ["nginx.service".to_owned()].into(),
            incidents: vec![report()],
            suffers: vec![3],
            kept: vec![Kept { incident: 3, sentence: "its kernel events are kept".to_owned() }],
            ..Around::default()
        },
        pressure: Some(pressure()),
        remedies: Vec::new(),
        executions: vec![path(from_ns + 100 * MS)],
        against: None,
        left_out: 0,
        delimiters: Vec::new(),
        is_asked: false,
        accounts_ns: Accounts::default(),
        verdict: None,
        processes: Vec::new(),
        enders: Vec::new(),
        held_back: BTreeMap::new(),
        until_kernel: BTreeMap::new(),
        writeback: Writeback::default(),
        main_writer: None,
        unwoken_in_kernel: BTreeMap::new(),
        kernel_locks: Locks::default(),
        also_uninterruptible: Vec::new(),
        delayed: DelayedNs::default(),
        held: BTreeMap::new(),
        locks: Locks::default(),
        peers: Peers::default(),
        has_ended: false,
        unanswered: BTreeMap::new(),
        silent: Vec::new(),
        pushed: Pushed::default(),
        open: BTreeMap::new(),
        unwoken: Unwoken::default(),
        occupants: Vec::new(),
        idle: Vec::new(),
    }
}

/// A thread of a cgroup that ended sleeps; of none: one of the victim's.
pub fn ender(tid: i32, comm: &str, cgroup: &str, is_packet: bool, ms: u64) -> Ender {
    Ender {
        tid,
        pid: tid,
        comm: comm.to_owned(),
        cgroup: Some(cgroup.to_owned()).filter(|name| !name.is_empty()),
        whose: if cgroup.is_empty() { Whose::Own } else { Whose::Other },
        is_packet,
        ns: ms * MS,
    }
}

/// Nothing held it up but what it slept for: for so long until its own threads, others and packets.
pub fn asleep(task_ms: u64, network_ms: u64) -> Findings {
    let mut found = found();
    found.totals_ns =
        [("running", 100 * MS), ("task", task_ms * MS), ("network", network_ms * MS)].into();
    (found.waits, found.uninterruptible) = (Spread::default(), Spread::default());
    (found.culprits, found.interrupted, found.executions) = Default::default();
    found.around = Around::default();
    found
}

pub fn peer(role: impl Into<Option<Role>>, link: PeerLink) -> Peer {
    Peer { role: role.into(), link }
}

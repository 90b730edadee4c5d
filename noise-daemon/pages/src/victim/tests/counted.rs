//! Pages whose figures are the daemon's counters.

use noise_analysis::StopCharges;
use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::memory::{LimitHits, LimitKind};
use noise_model::pressure::Pressure;
use noise_trace::delays::document::Spread;
use noise_verdict::Account;
use noise_verdict::CulpritKind;
use noise_verdict::Evidence::{Counters, Part};
use noise_why::counted::Counted;
use noise_why::findings::Findings;
use noise_why::made::{MS, ender, found, peer, setup};
use noise_why::memory::of_victim;
use noise_why::peers::{PeerLink, Peers, Role};

use super::{screen, text, usual};

fn charged(resource: Resource, cause: Cause, culprit: &str, ms: u64) -> StopCharges {
    StopCharges { resource, cause, culprit: culprit.into(), ns: ms * MS }
}

/// The recorder holds so much of 2 s, in which others had the CPUs, and a service that it asked was slow.
fn counted(held_ms: u64) -> Findings {
    let mut found = found();
    found.from_ns = found.to_ns - held_ms * MS;
    found.span_ns = held_ms * MS;
    if held_ms == 0 {
        (found.culprits, found.interrupted, found.executions) = Default::default();
        (found.waits, found.uninterruptible) = (Spread::default(), Spread::default());
        found.totals_ns.clear();
    }
    found.enders = vec![ender(9, "db", "db.service", false, held_ms / 2)];
    let asked = peer(Role::Asks, PeerLink::Tcp(5432));
    found.peers = Peers { processes: [(9, asked)].into(), hosts: None };
    found.totals_ns.insert("task", held_ms / 2 * MS);
    found.around.counted = Some(Counted {
        span_ns: 2_010 * MS,
        charges: vec![
            charged(Resource::Cpu, Cause::Foreign, "backup.service", 1_600),
            charged(Resource::Running, Cause::Softirq, "net_rx", 90),
        ],
        delays: Vec::new(),
    });
    found.judge("service nginx.service", &setup());
    found
}

#[test]
fn where_few_events_are_held_figures_are_the_counters() {
    let part = counted(310);
    insta::assert_snapshot!(screen(&part));
    let findings = &part.verdict.as_ref().unwrap().findings;
    let evidence: Vec<_> = findings.iter().map(|one| (one.resource, one.evidence)).collect();
    let expected =
        [(Account::Cpu, Counters), (Account::Tier, Part), (Account::Interrupt, Counters)];
    assert_eq!(evidence, [&expected[..], &[(Account::Timer, Part)]].concat());
    // Counters do not say whether it waits for what the other one does.
    assert!(part.verdict.as_ref().unwrap().ready().is_none());
    assert_eq!(part.accounts_ns.total_ns(), 2 * 2_010 * MS);
    let all = text(&part, "service nginx.service");
    assert!(all.contains("Of the last 310 ms, which the flight recorder holds:"), "{all}");

    let none = counted(0);
    insta::assert_snapshot!(screen(&none));
    let all = text(&none, "service nginx.service");
    for figure in ["Of the last", "where the time went", "against its usual"] {
        assert!(!all.contains(figure), "{figure}: {all}");
    }
}

/// One that reads pages of a file, of which no events are held: what its threads slept until a disk was done, until each
/// other, and until the kernel let them go on.
fn reader(limits: Option<Vec<LimitHits>>) -> Findings {
    let mut found = counted(0);
    found.around.usual = Vec::new();
    found.around.counted = Some(Counted {
        span_ns: 2_010 * MS,
        charges: vec![
            charged(Resource::Uninterruptible, Cause::Softirq, "block", 922),
            charged(Resource::Uninterruptible, Cause::Own, "nginx.service", 200),
            charged(Resource::Uninterruptible, Cause::Hardirq, "local_timer", 100),
            charged(Resource::BlockDevice, Cause::Own, "nginx.service", 896),
            charged(Resource::BlockDevice, Cause::Foreign, "backup.service", 26),
        ],
        delays: Vec::new(),
    });
    found.pressure = Some(Pressure { span_ns: Some(2_500 * MS), limits, ..Pressure::default() });
    found.judge("service nginx.service", &setup());
    found
}

#[test]
fn a_limit_of_memory_is_named_where_figures_are_the_counters() {
    let hit = LimitHits {
        of: "nginx.service".to_owned(),
        is_own: true,
        kind: LimitKind::Old,
        bytes: 8 << 20,
        hits: 7_600,
        refaulted: Some(7_100),
        swapped_in: Some(0),
        gone: Some(7_600),
    };
    let limited = reader(Some(vec![hit.clone()]));
    let verdict = limited.verdict.as_ref().unwrap();
    let expected =
        "service nginx.service waited 1.22 s for memory, because of its own memory limit of 8 MiB";
    assert_eq!(verdict.sentence, expected);
    let first = &verdict.findings[0];
    assert_eq!((first.resource, first.culprit.kind), (Account::Memory, CulpritKind::Limit));
    assert_eq!((first.evidence, first.ns / MS), (Counters, 1_222));
    assert_eq!(limited.accounts_ns.total_ns(), 2 * 2_010 * MS);
    // Of a cgroup below it that was read in its place.
    let below =
        Pressure { limits: Some(vec![LimitHits { is_own: false, ..hit }]), ..Pressure::default() };
    assert!(of_victim(below.clone(), "nginx.service").limits.unwrap()[0].is_own);
    assert!(!of_victim(below, "web.service").limits.unwrap()[0].is_own);
    // Without it, a disk that is busy with what it asked for.
    let sentence = reader(Some(Vec::new())).verdict.unwrap().sentence;
    let expected = "waited 922 ms for disks, 896 ms of it for its own requests";
    assert!(sentence.contains(expected), "{sentence}");
    assert!(sentence.contains("slept 300 ms uninterruptibly"), "{sentence}");
}

#[test]
fn fewer_and_longer_delays_are_not_as_usual_by_counters_either() {
    let disk = Signal::UninterruptibleWait;
    let verdict = |delays| {
        let mut found = counted(0);
        // It writes to a disk, request after request, and waits for 0.8 of the time.
        found.around.usual = vec![
            usual("uninterruptible_wait", Some(2.0), 0.8),
            usual("cgroup_runqueue_wait", Some(0.02), 0.05),
        ];
        let counted = found.around.counted.as_mut().unwrap();
        counted.charges = vec![
            charged(Resource::Cpu, Cause::Foreign, "fio.service", 500),
            charged(Resource::Uninterruptible, Cause::Softirq, "block", 1_900),
            charged(Resource::BlockQueue, Cause::Foreign, "fio.service", 4_000),
        ];
        counted.delays = delays;
        found.judge("redis", &setup());
        found.verdict.unwrap()
    };
    let first = |delays| verdict(delays).findings[0].resource;
    assert_eq!(first(vec![(disk.into(), 900)]), Account::Cpu, "as many as always");
    assert_eq!(first(vec![(disk.into(), 40)]), Account::Disk);
    let sentence = verdict(vec![(disk.into(), 40)]).sentence;
    assert!(sentence.starts_with("redis waited 1.90 s for disks, all of it for fio"), "{sentence}");
    // An older daemon does not say how many.
    assert_eq!(first(Vec::new()), Account::Cpu);
}

#[test]
fn of_a_process_nothing_is_counted() {
    let mut found = counted(310);
    found.target.pid = Some(70);
    found.judge("process nginx 70", &setup());
    assert!(found.counted().is_none());
    let text = screen(&found).replace('\n', " ");
    assert!(text.contains("all that follows is of that part alone"), "{text}");
    assert!(text.contains(" its cgroup: held up over 14 min"), "{text}");
    // Some milliseconds are no reason for a command.
    assert!(!text.contains("To try first"), "{text}");
    assert!(!text.contains("1.60 s"), "{text}");
}

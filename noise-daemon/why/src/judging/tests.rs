use noise_model::pressure::Quota;
use noise_trace::delays::document::Spread;
use noise_verdict::Kind;

use super::*;
use crate::around::Usual;
use crate::made::{MS, blamed, found, setup};
use crate::peers::{Peer, PeerLink};

/// A service that waited 212 times for a CPU, 812 ms in all, where so long a wait and so many a second are usual.
fn waited(mean_ms: f64, rate: f64) -> Findings {
    let mut found = found();
    // It lost nothing else.
    found.interrupted.clear();
    found.totals_ns.remove("disk");
    found.uninterruptible = Spread::default();
    found.around.usual = vec![Usual {
        signal: "cgroup_runqueue_wait",
        from: "baseline",
        mean_ns: Some(mean_ms * 1e6),
        p99_ns: None,
        rate: Some(rate),
        lost: Some(mean_ms / 1e3 * rate),
        adopted_for_ns: None,
    }];
    found
}

fn judged(mut found: Findings) -> noise_verdict::Verdict {
    found.judge("nginx.service", &setup());
    found.verdict.unwrap()
}

#[test]
fn more_waits_of_the_usual_length_are_as_usual_where_they_are_its_own_doing() {
    let mut own = waited(3.8, 10.0);
    own.culprits.retain(|one| one.cause == Cause::Own.name());
    own.culprits[0].ns = 812 * MS;
    let verdict = judged(own);
    assert_eq!((verdict.kind, verdict.ready()), (Kind::AsUsual, None));
    let said = ", as long as usual each, and more often";
    assert!(verdict.sentence.contains(said), "{}", verdict.sentence);
    // Of others, more waits are more that is lost.
    let verdict = judged(waited(3.8, 10.0));
    assert_eq!(verdict.kind, Kind::HeldUp, "{}", verdict.sentence);
    let begin = "nginx.service waited 812 ms for a CPU, 790 ms of it for gzip of backup.service, mostly thread 4242";
    let verdict = judged(waited(3.8, 106.0));
    assert!(verdict.sentence.starts_with(&format!("{begin}, as usual")), "{}", verdict.sentence);
    // Longer ones are not, even where there are fewer, so that in all it is as much as usual.
    let verdict = judged(waited(0.5, 800.0));
    assert_eq!(verdict.kind, Kind::HeldUp);
    assert!(verdict.ready().is_some(), "{verdict:?}");
}

#[test]
fn one_process_of_a_service_waits_as_usual_as_the_service_does() {
    let of_process = |mean_ms| {
        let mut found = waited(mean_ms, 106.0);
        (found.target.pid, found.target.kind) = (Some(71), "process");
        judged(found)
    };
    assert_eq!((of_process(3.8).kind, of_process(3.8).ready()), (Kind::AsUsual, None));
    assert_eq!(of_process(0.5).kind, Kind::HeldUp);
}

#[test]
fn what_there_was_since_the_start_is_not_what_is_usual() {
    let usual_of = |from, rate: Option<f64>, pid| {
        let mut found = found();
        found.target.pid = pid;
        found.around.usual = vec![Usual {
            signal: "uninterruptible_wait",
            from,
            mean_ns: Some(1e6),
            p99_ns: None,
            rate,
            lost: rate.map(|rate| rate / 1e3),
            adopted_for_ns: None,
        }];
        let (usual_ns, _) = found.usual(found.span_ns, |_| Some(500));
        [Account::Disk, Account::Memory].map(|account| usual_ns.get(&account).copied())
    };
    // The disturbance may be most of what there was since the daemon's start.
    assert_eq!(usual_of("since_start", None, None), [None, None]);
    // Memory that is short makes more sleeps, each as long as any.
    assert_eq!(usual_of("baseline", Some(10.0), Some(71)), [Some(500 * MS), None]);
    // 10 of 1 ms a second, in two seconds.
    assert_eq!(usual_of("baseline", Some(10.0), None), [Some(500 * MS), Some(20 * MS)]);
}

#[test]
fn what_interrupts_usually_take_is_known_of_a_cgroup_and_of_none_of_its_processes() {
    let taken = |pid: Option<u32>| {
        let mut found = found();
        (found.target.pid, found.interrupted[0].taken.sum_ns) = (pid, 100 * MS);
        found.judge("nginx", &setup());
        let findings = found.verdict.unwrap().findings;
        let one = findings.into_iter().find(|one| one.resource == Account::Interrupt).unwrap();
        (one.usual_ns, one.unusual)
    };
    // 2 ms a second, in two seconds.
    assert_eq!(taken(None), (Some(4 * MS), Some(true)));
    assert_eq!(taken(Some(71)), (None, None));
}

#[test]
fn what_runs_beside_a_process_in_its_own_cgroup_is_named_by_process() {
    let mut found = waited(0.5, 106.0);
    (found.target.pid, found.target.kind) = (Some(71), "process");
    for one in found.culprits.iter_mut().filter(|one| one.comm == "gzip") {
        (one.cgroup, one.pid, one.program) =
            (Some("nginx.service".to_owned()), Some(4242), "gzip".to_owned());
    }
    let (siblings, culprit) = (None, setup().victim);
    found.judge("nginx", &Setup { siblings, culprit, is_around: true, ..setup() });
    let verdict = found.verdict.unwrap();
    let first = &verdict.findings[0];
    assert_eq!((first.culprit.kind, &*first.culprit.name), (CulpritKind::Process, "gzip 4242"));
    assert_eq!(first.next.as_deref(), Some("see what gzip 4242 does: noised why 4242"));
    assert_eq!(verdict.ready(), None);
}

#[test]
fn who_is_asked_without_waiting_gets_no_command() {
    assert!(judged(waited(0.5, 106.0)).ready().is_some());
    let mut found = waited(0.5, 106.0);
    for one in found.culprits.iter_mut().filter(|one| one.comm == "gzip") {
        one.pid = Some(4242);
    }
    let peer = Peer { role: Some(Role::Asks), link: PeerLink::Unix("/run/log".to_owned()) };
    found.peers.processes.insert(4242, peer);
    assert_eq!(judged(found).ready(), None);
}

#[test]
fn older_kernels_do_not_say_which_waits_were_for_the_quota() {
    let mut found = waited(0.5, 106.0);
    found.around.is_quota_untold = true;
    let quota = Quota { quota_us: Some(50_000), period_us: 100_000 };
    let throttled = Throttled {
        of: "nginx.service".to_owned(),
        above: 0,
        is_unclear: false,
        quota,
        periods: Some(20),
        throttled_periods: Some(18),
        throttled_ms: Some(700.0),
    };
    let pressure = found.pressure.get_or_insert_default();
    (pressure.span_ns, pressure.quota) = (Some(2_000 * MS), Some(throttled));
    let verdict = judged(found);
    assert_eq!(verdict.findings[0].resource, Account::Quota, "{}", verdict.sentence);
    let commands =
        verdict.findings.iter().flat_map(|one| one.ready()).flat_map(|one| &one.commands);
    assert!(commands.into_iter().all(|one| !one.contains("backup")), "{verdict:?}");
    assert!(!verdict.sentence.contains("backup.service"), "{}", verdict.sentence);
}

#[test]
fn what_lasts_is_said_with_since_when() {
    let with = |adopted_for_ns, disturbed_for_ns: Option<u64>, mean_ms| {
        let mut found = waited(mean_ms, 106.0);
        found.around.usual[0].adopted_for_ns = adopted_for_ns;
        let waits = Watched::from(Signal::CgroupRunqueueWait);
        found.around.disturbed = disturbed_for_ns.map(|ns| (waits, ns)).into_iter().collect();
        judged(found).sentence
    };
    let hour_ns = 3_600_000 * MS;
    let is_in = |sentence: String, words: &str| assert!(sentence.contains(words), "{sentence}");
    is_in(with(Some(7 * hour_ns), None, 3.8), "thread 4242, as it has been for 7 h");
    is_in(with(None, Some(hour_ns / 4), 0.5), "thread 4242; it has been so for 15 min");
    assert!(!with(None, Some(hour_ns / 10), 0.5).contains("has been so"));
}

#[test]
fn the_cpus_are_crowded_by_who_had_more_of_them_than_the_victim_while_none_was_idle() {
    let ran = |tid, cgroup: &str, cause: Cause, ms: u64| {
        blamed("running", tid, "burn", cgroup, cause.name(), ms)
    };
    let crowding = |idle: f64, own_ms: u64, hog_ms: u64| {
        let mut found = found();
        found.idle = vec![(0, idle), (1, 0.0)];
        found.occupants = vec![
            ran(1, "hog.service", Cause::Foreign, hog_ms / 2),
            ran(2, "hog.service", Cause::Foreign, hog_ms / 2),
            ran(71, "nginx.service", Cause::Own, own_ms),
            ran(9, "/", Cause::Kthread, 4_000 - (idle * 2_000.0) as u64 - own_ms - hog_ms),
        ];
        found.crowding(2)
    };
    // Of two CPUs for two seconds.
    assert_eq!(crowding(0.1, 1_000, 2_400), Some(("hog.service".to_owned(), 0.6)));
    assert_eq!(crowding(0.3, 1_000, 2_400), None, "there was room");
    assert_eq!(crowding(0.1, 1_900, 1_800), None, "the victim had more");
    assert_eq!(crowding(0.1, 100, 900), None, "it had little");
    let mut lost = found();
    lost.idle = vec![(0, 0.0), (1, 0.0)];
    lost.occupants = vec![ran(1, "hog.service", Cause::Foreign, 2_400)];
    assert_eq!(lost.crowding(2), None, "of a part it is not known who had it");
}

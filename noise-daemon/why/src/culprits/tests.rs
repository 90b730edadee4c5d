//! Storms of processes that begin and end.

use std::collections::BTreeSet;
use std::path::Path;

use noise_common::store::EventKind;
use noise_common::store::event::Body;
use noise_common::store::reading::PartStretch as Copied;
use noise_model::setup::Setup;
use noise_trace::capture::{Capture, Dump};
use noise_trace::event::{Comm, Dumped};
use noise_trace::select::{Cgroup, Select};
use noise_verdict::Account;

use crate::beside::Known;
use crate::findings::{Findings, find_out};
use crate::stretch::EventStretch;
use crate::target::Target;

const BEGIN_NS: u64 = 1_000_000;
/// How long each process of a storm runs, and the one that creates it.
const CHILD_NS: u64 = 15_000;
const MAKER_NS: u64 = 5_000;
const SHOP: u32 = 10;
const MAKER: u32 = 20;
const FIRST: u32 = 1_000;
/// `TASK_DEAD`.
const DEAD: u32 = 0x80;

fn thread(tid: u32, comm: &str) -> Dumped {
    let tid = tid.cast_signed();
    Dumped { tid, pid: tid, ppid: 1, comm: Comm::new(comm.as_bytes()) }
}

/// The shop waits while so many processes begin and end in another cgroup, so often.
fn storm(of: &str, rounds: u32, each: u32) -> EventStretch {
    storm_of(of, rounds, each, |child| child)
}

/// The same; `pid` says what process each is of.
fn storm_of(of: &str, rounds: u32, each: u32, pid: impl Fn(u32) -> u32) -> EventStretch {
    let dump = Dump {
        threads: vec![thread(SHOP, "shop"), thread(MAKER, "forks")],
        cgroups: [(b"/shop".to_vec(), vec![10]), (of.as_bytes().to_vec(), vec![20])].into(),
        ..Dump::default()
    };
    let mut now_ns = BEGIN_NS + 1;
    let mut bodies = vec![Body::switch((0, 120), 0, false, (SHOP, 120), now_ns)];
    let mut children = FIRST..;
    for _ in 0..rounds {
        bodies.push(Body::switch((SHOP, 120), 0, true, (MAKER, 120), now_ns));
        for child in children.by_ref().take(each as usize) {
            bodies.push(Body::process(EventKind::Fork, [MAKER, child, pid(child)], now_ns));
            bodies.push(Body::task(EventKind::WakeupNew, child, 120, 0, 0, now_ns));
            now_ns += MAKER_NS;
            bodies.push(Body::switch((MAKER, 120), 0, true, (child, 120), now_ns));
            now_ns += CHILD_NS;
            bodies.push(Body::process(EventKind::Exit, [child, child, 0], now_ns));
            bodies.push(Body::switch((child, 120), DEAD, false, (MAKER, 120), now_ns));
        }
        bodies.push(Body::switch((MAKER, 120), 0, true, (SHOP, 120), now_ns));
        now_ns += 1_000_000;
    }
    let events: Vec<_> = (0..).zip(&bodies).map(|(number, body)| body.stored(number)).collect();
    let mut capture = Capture::new([0; 16], 1, 1 << 18, BEGIN_NS, &dump);
    let (capacity, next) = (events.len() as u64, events.len() as u64);
    capture.add(0, 0, Copied { wanted: 0, first: 0, events: &events, capacity, next });
    capture.finish(now_ns, &mut noise_record::DumpedHost::default());
    EventStretch::new(vec![capture.packets(0)], 0, (BEGIN_NS, now_ns))
}

/// The page of the shop, made when all processes of the storm are gone.
fn page(stretch: &EventStretch, of: &str) -> Findings {
    let target = Target {
        kind: "service",
        name: "shop".to_owned(),
        pid: None,
        cgroup: Some("/shop".to_owned()),
        select: Select { cgroup: Some(Cgroup::parse("/shop")), ..Select::default() },
        labels: ["/shop".to_owned()].into(),
    };
    let cgroup = |tid: i32| match tid {
        10 => Some(b"/shop".as_slice()),
        20 => Some(of.as_bytes()),
        _ => None,
    };
    let known = Known {
        kernel: &BTreeSet::new(),
        runs: &|_| false,
        cgroup: &cgroup,
        label: &|path: &Path| path.display().to_string(),
    };
    let mut found = find_out(stretch, &target, &[], &known).unwrap();
    found.judge("shop", &Setup::default());
    found
}

#[test]
fn processes_that_ended_are_of_the_cgroup_that_they_were_created_in() {
    let stretch = storm("/storm", 10, 300);
    let found = page(&stretch, "/storm");
    let waited_ns = 3_000 * (CHILD_NS + MAKER_NS);
    assert_eq!(found.accounts_ns.ns(Account::Cpu), waited_ns);
    let had: Vec<_> = found
        .culprits
        .iter()
        .map(|one| (one.tid, one.comm.as_str(), one.cgroup.as_deref(), one.ns))
        .collect();
    let (children_ns, maker_ns) = (3_000 * CHILD_NS, 3_000 * MAKER_NS);
    let storm = Some("/storm");
    assert_eq!(had, [(-1, "forks", storm, children_ns), (20, "forks", storm, maker_ns)]);
    let verdict = found.verdict.unwrap();
    assert_eq!(verdict.findings[0].culprit.name, "/storm");
    assert_eq!(verdict.findings[0].ns, waited_ns);
    assert!(
        verdict
            .sentence
            .ends_with("for a CPU, all of it for forks of /storm; what is usual is not known"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn a_storm_in_no_cgroup_is_named_by_its_program() {
    let found = page(&storm("/", 10, 300), "/");
    let verdict = found.verdict.unwrap();
    let first = &verdict.findings[0];
    assert_eq!(first.culprit.name, "processes called forks");
    assert_eq!((first.ns, first.culprit.pid, first.culprit.tid), (3_000 * CHILD_NS, None, None));
    assert!(verdict.ready().is_none());
}

#[test]
fn threads_that_ended_are_of_their_process_as_long_as_that_lives() {
    let found = page(&storm_of("/", 10, 300, |_| MAKER), "/");
    let had: Vec<_> = found.culprits.iter().map(|one| (one.tid, one.pid, one.ns)).collect();
    let (children_ns, maker_ns) = (3_000 * CHILD_NS, 3_000 * MAKER_NS);
    assert_eq!(had, [(-1, Some(20), children_ns), (20, Some(20), maker_ns)]);
    let verdict = found.verdict.unwrap();
    let first = &verdict.findings[0];
    assert_eq!(first.culprit.name, "forks 20");
    assert_eq!((first.ns, first.culprit.pid), (children_ns + maker_ns, Some(20)));
}

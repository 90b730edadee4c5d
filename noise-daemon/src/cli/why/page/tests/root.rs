//! What is in no cgroup, as it is named.

use noise_model::setup::Setup;
use noise_verdict::CulpritKind;

use super::super::super::findings::Blamed;
use super::{MS, blamed, found};

#[test]
fn what_had_a_cpu_in_no_cgroup_is_named_by_process() {
    let mut found = found();
    let thread = |tid, comm, ms| {
        let one = blamed("waiting_cpu", tid, comm, "", "foreign", ms);
        Blamed { cgroup: Some("/".to_owned()), path: Some("/".into()), ..one }
    };
    let of_make = |one: Blamed| Blamed { pid: Some(40), program: "make".to_owned(), ..one };
    found.culprits = vec![
        of_make(thread(41, "worker", 300)),
        of_make(thread(42, "helper", 200)),
        thread(50, "sh", 400),
    ];
    found.judge("service nginx.service", &Setup::default());
    let verdict = found.verdict.as_ref().unwrap();
    let named: Vec<_> = verdict
        .findings
        .iter()
        .map(|one| (&*one.culprit.name, one.culprit.kind, one.culprit.pid, one.ns / MS))
        .collect();
    let process = CulpritKind::Process;
    assert_eq!(
        named[..2],
        [("make 40", process, Some(40), 500), ("sh 50", process, Some(50), 400)]
    );
    assert!(verdict.findings.iter().all(|one| one.ready().is_none()));
}

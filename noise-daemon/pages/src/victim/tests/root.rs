//! What is in no cgroup, as it is named.

use noise_model::setup::Setup;
use noise_verdict::CulpritKind;

use noise_why::culprits::Blamed;
use noise_why::made::{MS, blamed, found};
use noise_why::processes::Process;

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
        of_make(thread(42, "helper", 150)),
        thread(50, "sh", 350),
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
        [("make 40", process, Some(40), 450), ("sh 50", process, Some(50), 350)]
    );
    assert!(verdict.findings.iter().all(|one| one.ready().is_none()));
}

#[test]
fn the_root_cgroup_is_shown_by_process() {
    let mut root = found();
    let process = |name: &str, pid, waited: u64| Process {
        name: name.to_owned(),
        pid,
        threads: 3,
        running_ns: 20 * MS,
        waiting_cpu_ns: waited * MS,
        uninterruptible_ns: 5 * MS,
    };
    root.processes = vec![process("make 40", Some(40), 300), process("kernel threads", None, 20)];
    root.judge("cgroup /", &Setup::default());
    let text = super::screen(&root);
    let row = |begin: &str| {
        let row = text.lines().find(|line| line.trim_start().starts_with(begin));
        row.unwrap_or_else(|| panic!("{begin}: {text}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("make 40")[2..], ["20.0", "ms", "300", "ms", "5.00", "ms"]);
    assert_eq!(row("kernel threads (3)")[3..], ["20.0", "ms", "20.0", "ms", "5.00", "ms"]);
    assert!(text.lines().count() <= 24, "{text}");
    root.processes.clear();
    assert!(!super::screen(&root).contains("by process"));
}

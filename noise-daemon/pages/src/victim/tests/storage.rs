//! Victims that wait for memory, for a journal, and for writeback.

use noise_common::charge::Cause;
use noise_model::memory::{LimitHits, LimitKind};
use noise_model::pressure::{Pressure, ResourcePressure, Stalled};
use noise_model::setup::{CgroupSetup, Controller, Manager, Setup};
use noise_verdict::{Account, Culprit, CulpritKind, Evidence, Kind, Verdict};

use noise_why::around::Usual;
use noise_why::culprits::Blamed;
use noise_why::findings::{Ender, Findings, Whose};
use noise_why::locks::Locks;
use noise_why::made::{MS, asleep, blamed, ender, setup, spread};
use noise_why::writers::MainWriter;

fn hit(hits: u64) -> LimitHits {
    LimitHits {
        of: "shop.service".to_owned(),
        is_own: true,
        kind: LimitKind::Max,
        bytes: 64 << 20,
        hits,
        refaulted: Some(900),
        swapped_in: Some(0),
        gone: Some(1_000),
    }
}

/// Of two seconds: stalls for I/O and memory, ms, and limits that were hit.
fn stalled(io_ms: f64, memory_ms: f64, limits: Option<Vec<LimitHits>>) -> Pressure {
    let of = |ms| {
        let some = Stalled { avg10_percent: 1.0, stalled_ms: Some(ms) };
        Some(ResourcePressure { some, full: None })
    };
    let span_ns = Some(2_000 * MS);
    Pressure { span_ns, io: of(io_ms), memory: of(memory_ms), limits, ..Pressure::default() }
}

/// One that waits for a disk, where another cgroup is ahead of it.
fn on_disk(pressure: Pressure) -> Findings {
    let mut found = asleep(0, 0);
    found.totals_ns.insert("disk", 1_200 * MS);
    found.uninterruptible = spread(40, 1_200, 60);
    found.culprits = vec![blamed("disk", 4242, "gzip", "backup.service", "foreign", 1_100)];
    found.pressure = Some(pressure);
    found
}

/// A victim with that limit, beside another service.
fn limited() -> Setup {
    let service = CgroupSetup {
        manager: Manager::System("shop.service".to_owned()),
        memory: Controller::On { folder: "/sys/fs/cgroup/shop.service".to_owned(), version: 2 },
        memory_max: Some(Some(64 << 20)),
        ..CgroupSetup::named("shop.service")
    };
    Setup { memory: Some((LimitKind::Max, service.clone())), victim: Some(service), ..setup() }
}

fn judged(mut found: Findings) -> Verdict {
    let total: u64 = found.totals_ns.values().sum();
    found.judge("shop", &limited());
    assert_eq!(found.accounts_ns.total_ns(), total);
    found.verdict.unwrap()
}

#[test]
fn a_limit_that_is_hit_is_what_disks_are_waited_for() {
    let verdict = judged(on_disk(stalled(1_300.0, 1_250.0, Some(vec![hit(400)]))));
    let expected = "shop waited 1.20 s for memory, because of its own memory limit of 64 MiB";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    let [first] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!((first.resource, first.culprit.kind), (Account::Memory, CulpritKind::Limit));
    assert_eq!(first.culprit.name, "its own memory limit of 64 MiB");
    let ready = verdict.ready().unwrap();
    assert_eq!(ready.commands, ["systemctl set-property shop.service MemoryMax=134217728"]);
    let undo = "systemctl set-property shop.service MemoryMax=67108864";
    let only = "only while memory.current is below 64 MiB";
    assert_eq!(ready.undo, [format!("{undo} # {only}")]);
}

#[test]
fn without_psi_the_limit_is_known_by_what_came_back() {
    let of = |limits| {
        let pressure = Pressure { limits, span_ns: Some(2_000 * MS), ..Pressure::default() };
        judged(on_disk(pressure)).findings[0].resource
    };
    assert_eq!(of(Some(vec![hit(400)])), Account::Memory);
    assert_eq!(of(Some(vec![LimitHits { refaulted: Some(3), ..hit(400) }])), Account::Disk);
    assert_eq!(of(Some(Vec::new())), Account::Disk);
    assert_eq!(of(None), Account::Disk);
}

#[test]
fn a_disk_that_is_waited_for_at_a_limit_that_takes_nothing_needed_is_a_disk() {
    let verdict = judged(on_disk(stalled(1_300.0, 20.0, Some(vec![hit(400)]))));
    let expected = "shop waited 1.20 s for disks, 1.10 s of it for gzip 4242 of backup.service; what is usual is not known";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn a_host_that_is_short_of_memory_is_no_limit() {
    let verdict = judged(on_disk(stalled(1_300.0, 1_250.0, Some(Vec::new()))));
    let expected = "shop waited 1.20 s for memory, and no limit of its memory is the reason";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    assert_eq!((verdict.ready(), verdict.remedies().len()), (None, 0));
    assert!(verdict.next.unwrap().starts_with("see what uses the memory of this host"));
    let unknown = judged(on_disk(stalled(1_300.0, 1_250.0, None)));
    assert!(unknown.sentence.ends_with("whether a limit of it was hit is not known"));
    assert_eq!(unknown.ready(), None);
}

#[test]
fn what_is_usual_of_disks_is_so_of_memory() {
    let mut found = on_disk(stalled(1_300.0, 1_250.0, Some(vec![hit(400)])));
    found.around.usual = vec![Usual {
        signal: "uninterruptible_wait",
        from: "baseline",
        mean_ns: None,
        p99_ns: None,
        rate: Some(1.0),
        lost: Some(0.55),
        adopted_for_ns: None,
    }];
    let verdict = judged(found);
    assert_eq!((verdict.kind, verdict.ready()), (Kind::AsUsual, None));
}

#[test]
fn who_waits_for_the_journal_waits_for_disks() {
    let mut found = asleep(0, 0);
    found.totals_ns.insert("task", 1_200 * MS);
    found.uninterruptible = spread(40, 1_200, 60);
    found.enders =
        vec![Ender { whose: Whose::Kernel, ..ender(90, "jbd2/vda1-8", "/", false, 1_200) }];
    let alone = verdict_of(found, Vec::new());
    let expected = "shop waited 1.20 s for disks, all of it for the journal (jbd2/vda1-8); what is usual is not known";
    assert_eq!((alone.kind, &*alone.sentence), (Kind::HeldUp, expected));
    let [first] = alone.findings.as_slice() else { panic!("{alone:?}") };
    assert_eq!((first.culprit.kind, first.culprit.tid), (CulpritKind::Thread, Some(90)));
    assert_eq!(alone.ready(), None, "no thread of the kernel is slowed down");
    // Who was ahead of the journal is who was in the way.
    let mut found = asleep(0, 0);
    found.totals_ns.insert("task", 1_200 * MS);
    found.enders =
        vec![Ender { whose: Whose::Kernel, ..ender(90, "jbd2/vda1-8", "/", false, 1_200) }];
    let ahead = vec![blamed("disk", 4242, "gzip", "backup.service", "foreign", 1_000)];
    let behind = verdict_of(found, ahead);
    let expected = "shop waited 1.20 s for disks, 1.00 s of it for gzip 4242 of backup.service; what is usual is not known";
    assert_eq!(behind.sentence, expected);
    let names: Vec<_> =
        behind.findings.iter().map(|one| (&*one.culprit.name, one.ns / MS)).collect();
    assert_eq!(names, [("backup.service", 1_000), ("jbd2/vda1-8", 200)]);
}

fn verdict_of(mut found: Findings, culprits: Vec<Blamed>) -> Verdict {
    found.culprits = culprits;
    judged(found)
}

#[test]
fn what_the_kernel_holds_back_does_not_sleep_on_timers_of_its_own() {
    let held = |pressure: Option<Pressure>| {
        let mut found = asleep(0, 0);
        found.totals_ns.insert("timer", 1_500 * MS);
        found.uninterruptible = spread(30, 1_500, 60);
        found.held_back = [(71, 1_500 * MS)].into();
        found.pressure = pressure;
        judged(found)
    };
    let writeback = held(Some(stalled(1_450.0, 0.0, Some(Vec::new()))));
    let expected = "shop waited 1.50 s for disks, all of it for writeback (it is not known whose); what is usual is not known";
    assert_eq!((writeback.kind, &*writeback.sentence), (Kind::HeldUp, expected));
    let [first] = writeback.findings.as_slice() else { panic!("{writeback:?}") };
    assert_eq!((first.culprit.kind, &*first.culprit.name), (CulpritKind::None, "writeback"));
    assert_eq!(writeback.ready(), None);
    let limit = LimitHits { kind: LimitKind::High, ..hit(90) };
    let above = held(Some(stalled(0.0, 1_450.0, Some(vec![limit]))));
    let expected = "shop waited 1.50 s for memory, because of its own memory limit of 64 MiB";
    assert_eq!(above.sentence, expected);
    // A driver that sleeps stalls for neither.
    for unknown in [held(Some(stalled(10.0, 0.0, Some(Vec::new())))), held(None)] {
        assert_eq!(unknown.kind, Kind::Unknown);
        assert_eq!(unknown.sentence, "shop slept 1.50 s uninterruptibly");
    }
}

#[test]
fn who_is_seen_in_writeback_waits_for_disks() {
    let held = |ever: (i32, i32)| {
        let mut found = asleep(0, 0);
        found.totals_ns.insert("timer", 1_500 * MS);
        found.uninterruptible = spread(30, 1_500, 60);
        found.held_back = [(71, 1_400 * MS), (72, 100 * MS)].into();
        found.writeback.ever = [ever].into();
        judged(found)
    };
    // Other threads of the process that the kernel held back were not looked at in time.
    let all = held((71, 70));
    let expected = "shop waited 1.50 s for disks, all of it for writeback (it is not known whose); what is usual is not known";
    assert_eq!((all.kind, &*all.sentence), (Kind::HeldUp, expected));
    assert_eq!((all.findings[0].evidence, all.ready()), (Evidence::Part, None));
    // A thread of another process says nothing of them.
    assert_eq!(held((93, 90)).sentence, "shop slept 1.50 s uninterruptibly");
}

#[test]
fn who_waits_for_a_lock_of_the_kernel_waits_for_what_its_holder_waits_for() {
    let locked = |state: &'static str, ever: &[(i32, i32)], at_file_locks: &[(i32, i32)]| {
        let mut found = asleep(900, 0);
        found.totals_ns.insert("timer", 600 * MS);
        found.uninterruptible = spread(30, 1_500, 60);
        found.enders = vec![ender(71, "shop", "", false, 900)];
        found.held_back = [(71, 600 * MS)].into();
        found.kernel_locks =
            Locks { ns: 900 * MS, by: [((71, state), 900 * MS)].into(), ..Locks::default() };
        found.writeback.ever = ever.iter().copied().collect();
        found.writeback.at_file_locks = at_file_locks.iter().copied().collect();
        judged(found)
    };
    let expected = "shop waited 1.50 s for disks, all of it for writeback (it is not known whose); what is usual is not known";
    assert_eq!(locked("timer", &[(71, 70)], &[]).sentence, expected);
    // What the kernel holds a writer back for while another one waits for the same file is writeback as well.
    assert_eq!(locked("timer", &[], &[(72, 70)]).sentence, expected);
    assert_eq!(locked("timer", &[], &[]).sentence, "shop slept 1.50 s uninterruptibly");
    let running = locked("running", &[], &[]);
    let expected = "shop: its threads waited 900 ms for each other; held by thread 71 (nginx), which ran meanwhile; whether that \
                    is usual is not known. It also slept 600 ms uninterruptibly";
    assert_eq!(running.sentence, expected);
}

#[test]
fn a_sleep_that_nothing_has_ended_is_writeback_where_it_is_seen_there_or_behind_it() {
    let open = |seen: &[i32], at_file_locks: &[(i32, i32)]| {
        let mut found = asleep(0, 0);
        found.totals_ns.insert("unknown", 1_800 * MS);
        found.uninterruptible = spread(2, 1_800, 1_000);
        found.unwoken_in_kernel = [(72, 1_000 * MS), (73, 800 * MS)].into();
        found.writeback.ever = seen.iter().map(|tid| (*tid, 70)).collect();
        found.writeback.seen = seen.iter().copied().collect();
        found.writeback.at_file_locks = at_file_locks.iter().copied().collect();
        judged(found).sentence
    };
    let all = "shop waited 1.80 s for disks, all of it for writeback (it is not known whose); what is usual is not known";
    assert_eq!(open(&[72, 73], &[]), all);
    assert_eq!(open(&[72], &[(73, 70)]), all);
    // The lock of another process may be held for anything.
    let part = "shop waited 1.00 s for disks, all of it for writeback (it is not known whose); what is usual is not known. \
                It also slept 800 ms uninterruptibly";
    assert_eq!(open(&[72], &[(73, 90)]), part);
    assert_eq!(open(&[], &[(73, 70)]), "shop slept 1.80 s uninterruptibly");
}

#[test]
fn who_is_seen_to_wait_for_a_page_that_the_kernel_writes_waits_for_disks() {
    let until_kernel = |seen: &[i32]| {
        let mut found = asleep(0, 0);
        found.totals_ns.insert("task", 1_200 * MS);
        found.uninterruptible = spread(40, 1_200, 60);
        let worker = ender(90, "kworker/u4:1", "/", false, 1_200);
        found.enders = vec![Ender { whose: Whose::Kernel, ..worker }];
        found.until_kernel = [(71, 1_200 * MS)].into();
        found.writeback.seen = seen.iter().copied().collect();
        judged(found)
    };
    let expected = "shop waited 1.20 s for disks, all of it for writeback (it is not known whose); what is usual is not known";
    assert_eq!(until_kernel(&[71]).sentence, expected);
    let mut behind = asleep(0, 0);
    behind.totals_ns.insert("task", 1_200 * MS);
    let worker = ender(90, "kworker/u4:1", "/", false, 1_200);
    behind.enders = vec![Ender { whose: Whose::Kernel, ..worker }];
    (behind.until_kernel, behind.writeback.seen) = ([(71, 1_200 * MS)].into(), [71].into());
    let who = "writeback behind dd 7 of backup.service, which wrote 80.0 % of all that was written";
    behind.main_writer = Some(MainWriter {
        culprit: Culprit {
            kind: CulpritKind::Cgroup,
            name: "backup.service".to_owned(),
            cgroup: Some("backup.service".to_owned()),
            pid: Some(7),
            tid: Some(7),
            cause: Cause::Foreign,
        },
        words: who.to_owned(),
    });
    let behind = judged(behind);
    assert_eq!(
        behind.sentence,
        format!("shop waited 1.20 s for disks, all of it for {who}; what is usual is not known")
    );
    // That it waits for these writes is likely, and not seen: there is no command.
    assert_eq!((behind.findings[0].evidence, behind.ready()), (Evidence::Part, None));
    assert_eq!(
        behind.next.as_deref(),
        Some("see what backup.service does: noised why backup.service")
    );
    let unknown = until_kernel(&[]);
    assert_eq!(
        (unknown.kind, &*unknown.sentence),
        (Kind::Unknown, "shop slept 1.20 s uninterruptibly")
    );
}

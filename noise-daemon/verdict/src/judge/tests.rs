//! Cases and their verdicts.

mod crowding;
mod properties;
mod standstill;

use noise_model::setup::{CgroupSetup, Controller, Manager, Setup, TaskSetup};

use super::*;
use crate::advice::{Target, target};
use crate::case::{Standstill, Unclear};
use crate::finding::{Culprit, CulpritKind, Evidence};

const MS: u64 = 1_000_000;

fn service(name: &str) -> CgroupSetup {
    CgroupSetup {
        manager: Manager::System(name.to_owned()),
        cpu: Controller::On { folder: format!("/sys/fs/cgroup/system.slice/{name}"), version: 2 },
        weight: Some(100),
        ..CgroupSetup::named(name)
    }
}

/// Two services beside each other, with a quota at the victim.
fn setup() -> Setup {
    let (victim, culprit) = (service("web.service"), service("backup.service"));
    Setup {
        siblings: Some((victim.clone(), culprit.clone())),
        victim: Some(victim),
        culprit: Some(culprit),
        online: (0..4).collect(),
        ..Setup::default()
    }
}

fn loss(resource: Account, name: &str, cause: Cause, ms: u64) -> CulpritLoss {
    let is_cgroup = cause == Cause::Foreign;
    CulpritLoss {
        resource,
        culprit: Culprit {
            kind: if is_cgroup { CulpritKind::Cgroup } else { CulpritKind::None },
            name: name.to_owned(),
            cgroup: is_cgroup.then(|| name.to_owned()),
            pid: None,
            tid: None,
            cause,
        },
        ns: ms * MS,
        who: is_cgroup.then(|| (format!("gzip of {name}"), ms * MS)),
        at: None,
        evidence: Evidence::Whole,
        works_with_victim: false,
        is_set_up: name == "backup.service",
        crowding: None,
        reply: Reply::Comes,
    }
}

fn case<'a>(setup: &'a Setup, accounts: &[(Account, u64)], losses: Vec<CulpritLoss>) -> Case<'a> {
    let mut all = Accounts::default();
    accounts.iter().for_each(|(account, ms)| all.add(*account, ms * MS));
    Case {
        victim: "web.service",
        span_ns: 2_000 * MS,
        work_ns: all.active_ns(),
        seen_ns: None,
        accounts: all,
        uninterruptible_ns: 0,
        locked_in_kernel_ns: 0,
        losses,
        unclear: Vec::new(),
        busiest: None,
        standstill: Standstill::default(),
        usual_ns: BTreeMap::new(),
        usual_notes: BTreeMap::new(),
        setup,
    }
}

fn hogged(setup: &Setup) -> Case<'_> {
    let losses = vec![
        loss(Account::Cpu, "backup.service", Cause::Foreign, 700),
        loss(Account::Cpu, "web.service", Cause::Own, 100),
    ];
    case(setup, &[(Account::Running, 700), (Account::Cpu, 800), (Account::Timer, 500)], losses)
}

const COMMAND: &str = "systemctl set-property backup.service CPUWeight=20";

#[test]
fn a_remedy_belongs_to_what_held_it_up_and_can_be_taken_back() {
    let setup = setup();
    let verdict = judge(&hogged(&setup));
    assert_eq!(verdict.kind, Kind::HeldUp);
    let expected = "web.service waited 800 ms for a CPU, 700 ms of it for gzip of backup.service; what is usual is not known";
    assert_eq!(verdict.sentence, expected);
    let ready = verdict.ready().unwrap();
    assert_eq!(ready.commands, [COMMAND]);
    assert_eq!(ready.undo, ["systemctl set-property backup.service CPUWeight=100"]);
    assert!((verdict.known_share - 1.0).abs() < 1e-9);
    assert!((verdict.findings[0].share - 700.0 / 1500.0).abs() < 1e-9);
    let document = serde_json::to_value(&verdict).unwrap();
    assert_eq!(document["kind"], "held_up");
    let first = &document["findings"][0];
    assert_eq!(first["remedy"]["command"][0], COMMAND);
    assert_eq!(first["culprit"]["kind"], "cgroup");
    assert!(first["usual_ns"].is_null() && first["unusual"].is_null(), "{first}");
}

#[test]
fn nothing_is_to_be_done_to_the_root_cgroup() {
    let setup = setup();
    let held_up_by = |name| {
        let losses = vec![loss(Account::Cpu, name, Cause::Foreign, 700)];
        let verdict = judge(&case(&setup, &[(Account::Cpu, 700)], losses));
        let remedies = verdict.remedies().into_iter().map(|one| target(one.remedy));
        remedies.filter(|target| *target == Target::Culprit).count()
    };
    assert_eq!(held_up_by("/"), 0);
    // It may be held up by others all the same.
    let mut root = self::setup();
    root.victim = Some(CgroupSetup::named("/"));
    let losses = vec![loss(Account::Disk, "backup.service", Cause::Foreign, 700)];
    let verdict = judge(&case(&root, &[(Account::Disk, 700)], losses));
    assert!(verdict.remedies().iter().any(|one| target(one.remedy) == Target::Culprit));
    assert!(held_up_by("other.service") > 0);
}

#[test]
fn what_is_as_usual_gets_no_command_for_what_grew_beside_it() {
    let setup = setup();
    let mut both = hogged(&setup);
    both.losses = vec![
        loss(Account::Quota, "its own CPU quota", Cause::Throttle, 300),
        loss(Account::Cpu, "backup.service", Cause::Foreign, 100),
    ];
    both.accounts = Accounts::default();
    for (account, ms) in [(Account::Running, 600), (Account::Quota, 300), (Account::Cpu, 100)] {
        both.accounts.add(account, ms * MS);
    }
    both.work_ns = both.accounts.active_ns();
    both.usual_ns = [(Account::Cpu, 100 * MS)].into();
    let verdict = judge(&both);
    let unusual: Vec<_> = verdict.findings.iter().map(|one| (one.resource, one.unusual)).collect();
    assert_eq!(unusual, [(Account::Quota, Some(true)), (Account::Cpu, Some(false))]);
    assert!(verdict.findings[1].ready().is_none());
}

#[test]
fn many_that_have_a_part_each_hold_it_up_together() {
    let setup = setup();
    let names: Vec<String> = (0..12).map(|number| format!("worker{number}.service")).collect();
    let mut losses: Vec<CulpritLoss> =
        names.iter().map(|name| loss(Account::Cpu, name, Cause::Foreign, 100)).collect();
    losses.push(loss(Account::Tier, "db.service", Cause::Foreign, 600));
    let accounts = [(Account::Running, 300), (Account::Cpu, 1_200), (Account::Tier, 600)];
    let mut crowd = case(&setup, &accounts, losses);
    crowd.usual_ns = [(Account::Cpu, 20 * MS)].into();
    let verdict = judge(&crowd);
    assert_eq!((verdict.kind, verdict.findings[0].resource), (Kind::HeldUp, Account::Cpu));
    assert!(verdict.ready().is_none());
}

#[test]
fn what_took_longest_is_first_where_others_are_unusual_by_little() {
    let setup = setup();
    let mut thrashing = case(
        &setup,
        &[(Account::Running, 1_500), (Account::Cpu, 340), (Account::Memory, 860)],
        vec![
            loss(Account::Cpu, "web.service", Cause::Own, 250),
            loss(Account::Cpu, "other.service", Cause::Foreign, 90),
            loss(Account::Memory, "its own memory limit of 8 MiB", Cause::Own, 860),
        ],
    );
    // 140 ms more than usual is 5.2 % of its work, of which no one had 5 %; it never waited for memory before.
    thrashing.usual_ns = [(Account::Cpu, 200 * MS)].into();
    let verdict = judge(&thrashing);
    assert_eq!((verdict.kind, verdict.findings[0].resource), (Kind::HeldUp, Account::Memory));
}

#[test]
fn what_took_longest_and_was_not_lost_before_is_first() {
    let setup = setup();
    let of = |memory_ms: u64| {
        let mut thrashing = case(
            &setup,
            &[(Account::Running, 1_500), (Account::Cpu, 340), (Account::Memory, memory_ms)],
            vec![
                loss(Account::Cpu, "web.service", Cause::Own, 288),
                loss(Account::Cpu, "other.service", Cause::Foreign, 52),
                loss(Account::Memory, "its own memory limit of 8 MiB", Cause::Own, memory_ms),
            ],
        );
        // Its own threads are in each other's way by 10 % of its work, and there is no baseline of disks.
        thrashing.usual_ns = [(Account::Cpu, 40 * MS)].into();
        judge(&thrashing)
    };
    let verdict = of(858);
    assert_eq!((verdict.kind, verdict.findings[0].resource), (Kind::HeldUp, Account::Memory));
    assert!(verdict.sentence.starts_with("web.service waited 858 ms for memory"));
    assert_eq!(of(200).findings[0].resource, Account::Cpu);
}

#[test]
fn where_no_usual_is_known_losses_go_by_their_time() {
    let setup = setup();
    let losses = vec![
        loss(Account::Cpu, "backup.service", Cause::Foreign, 900),
        loss(Account::Disk, "log.service", Cause::Foreign, 10),
        loss(Account::Disk, "not known", Cause::Untracked, 940),
    ];
    let accounts = [(Account::Running, 1_000), (Account::Cpu, 900), (Account::Disk, 950)];
    let verdict = judge(&case(&setup, &accounts, losses));
    let order: Vec<u64> = verdict.findings.iter().map(|one| one.ns / MS).collect();
    assert_eq!(order, [940, 900], "{verdict:?}");
}

#[test]
fn counters_of_no_threads_do_not_say_that_nothing_held_it_up() {
    let setup = setup();
    let mut counted = case(&setup, &[], Vec::new());
    counted.seen_ns = Some(0);
    let verdict = judge(&counted);
    assert_eq!(verdict.kind, Kind::Unknown);
    assert!(verdict.known_share.abs() < 1e-9);
    counted.seen_ns = None;
    counted.uninterruptible_ns = 400 * MS;
    let verdict = judge(&counted);
    assert_eq!(verdict.kind, Kind::Unknown);
    assert_eq!(verdict.sentence, "web.service slept 400 ms uninterruptibly");
}

#[test]
fn one_that_sleeps_itself_says_so() {
    let setup = setup();
    let said = |timer_ms| {
        let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, 90)];
        let accounts = [(Account::Running, 900), (Account::Cpu, 90), (Account::Timer, timer_ms)];
        judge(&case(&setup, &accounts, losses)).sentence
    };
    let waited = "web.service waited 90.0 ms for a CPU, all of it for gzip of backup.service; what is usual is not known";
    assert_eq!(said(80), waited);
    assert_eq!(said(1_500), format!("{waited}. It also slept 1.50 s on timers of its own"));
}

#[test]
fn what_interrupts_is_named() {
    let setup = setup();
    let lost = |cause, name: &str| {
        let losses = vec![
            loss(Account::Interrupt, name, cause, 300),
            loss(Account::Interrupt, "local_timer", Cause::Hardirq, 40),
        ];
        judge(&case(&setup, &[(Account::Running, 900), (Account::Interrupt, 340)], losses)).sentence
    };
    let begin = "web.service lost 340 ms to interrupts, 300 ms of it to ";
    let end = "; what is usual is not known";
    assert_eq!(lost(Cause::Softirq, "net_rx"), format!("{begin}softirq net_rx{end}"));
    assert_eq!(lost(Cause::Hardirq, "eth0-rx"), format!("{begin}eth0-rx{end}"));
    assert_eq!(lost(Cause::Nmi, "nmi"), format!("{begin}NMIs{end}"));
}

#[test]
fn usual_disks_and_hypervisors_are_as_usual() {
    let setup = setup();
    let judged = |resource, usual_as, usual_ms: u64| {
        let losses = vec![loss(resource, "backup.service", Cause::Foreign, 600)];
        let mut case = case(&setup, &[(Account::Running, 900), (resource, 600)], losses);
        case.usual_ns = [(usual_as, usual_ms * MS)].into();
        (judge(&case).kind, judge(&case).findings[0].unusual)
    };
    for (resource, usual_as) in
        [(Account::Disk, Account::Disk), (Account::Hypervisor, Account::Interrupt)]
    {
        assert_eq!(judged(resource, usual_as, 550), (Kind::AsUsual, Some(false)), "{resource:?}");
        assert_eq!(judged(resource, usual_as, 50), (Kind::HeldUp, Some(true)), "{resource:?}");
    }
}

#[test]
fn what_is_usual_gets_no_command() {
    let setup = setup();
    let usual = |ms: u64| {
        let mut case = hogged(&setup);
        case.usual_ns = [(Account::Cpu, ms * MS)].into();
        judge(&case)
    };
    let verdict = usual(750);
    assert_eq!((verdict.kind, verdict.ready()), (Kind::AsUsual, None));
    assert!(verdict.sentence.ends_with(", as usual"), "{}", verdict.sentence);
    // The remedy is there, without its command.
    assert!(verdict.remedies().iter().any(|one| one.remedy == Remedy::CpuWeight));
    let verdict = usual(80);
    assert_eq!(verdict.kind, Kind::HeldUp);
    assert_eq!(verdict.ready().unwrap().commands, [COMMAND]);
}

#[test]
fn a_small_loss_gets_no_command_where_the_usual_is_not_known() {
    let setup = setup();
    let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, 30)];
    let verdict = judge(&case(&setup, &[(Account::Running, 1_900), (Account::Cpu, 30)], losses));
    assert_eq!((verdict.kind, verdict.ready()), (Kind::HeldUp, None));
}

fn unclear(until: &str, ms: u64, next: Option<&str>) -> Unclear {
    Unclear { until: until.to_owned(), ns: ms * MS, next: next.map(str::to_owned) }
}

#[test]
fn an_answer_about_sleeps_blames_no_cpu_hog() {
    let setup = setup();
    let accounts = [(Account::Running, 200), (Account::Cpu, 9), (Account::Unknown, 1_700)];
    let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, 9)];
    let mut sleeper = case(&setup, &accounts, losses);
    sleeper.unclear = vec![unclear("until packets arrived", 1_700, None)];
    let verdict = judge(&sleeper);
    assert_eq!((verdict.kind, verdict.ready()), (Kind::Unknown, None));
    let expected = "web.service: no CPU, quota, interrupt or disk held it up. Its threads slept 1.70 s until packets \
                    arrived; whether there was work for them is not known";
    assert_eq!(verdict.sentence, expected);
    // What is to be looked at belongs to the longest.
    sleeper.unclear.push(unclear("until db woke them", 1_600, Some("look")));
    assert_eq!(judge(&sleeper).next, None);
    sleeper.unclear[1].ns *= 2;
    assert_eq!(judge(&sleeper).next.as_deref(), Some("look"));
    // Only asleep: nothing is to be explained.
    let verdict = judge(&case(&setup, &[(Account::Idle, 2_000)], Vec::new()));
    assert_eq!(
        (verdict.kind, &*verdict.sentence),
        (Kind::Nothing, "web.service: nothing held it up")
    );
}

#[test]
fn what_it_waits_for_stands_before_small_waits_for_a_cpu() {
    let setup = setup();
    let mut tier = loss(Account::Tier, "db.service", Cause::Foreign, 1_500);
    tier.works_with_victim = true;
    let cpu = loss(Account::Cpu, "backup.service", Cause::Foreign, 40);
    let accounts = [(Account::Running, 200), (Account::Cpu, 40), (Account::Tier, 1_500)];
    let verdict = judge(&case(&setup, &accounts, vec![cpu.clone(), tier]));
    let expected = "web.service waited 1.50 s for gzip of db.service to answer; whether that is usual is not known. It also \
                    waited 40.0 ms for a CPU, all of it for gzip of backup.service";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
    assert_eq!(verdict.ready(), None, "40 ms of what it had to do are no reason");
    assert_eq!(verdict.next.as_deref(), Some("ask db.service: noised why db.service"));
    // A lock is a sentence of its own.
    let locked_at = |lock_ms, at: Option<&str>| {
        let accounts = [(Account::Running, 200), (Account::Cpu, 40), (Account::Lock, lock_ms)];
        let mut lock = loss(Account::Lock, "", Cause::Own, lock_ms);
        lock.who = Some(("by thread 7 (a), which ran meanwhile".to_owned(), lock_ms * MS));
        lock.at = at.map(str::to_owned);
        judge(&case(&setup, &accounts, vec![cpu.clone(), lock])).sentence
    };
    let locked = |lock_ms| locked_at(lock_ms, None);
    let first = locked(3_000);
    let expected = "web.service: its threads waited 3.00 s for each other; held by thread 7 (a), which ran meanwhile; \
                    whether that is usual is not known. It also waited 40.0 ms for a CPU";
    assert!(first.starts_with(expected), "{first}");
    let later = locked(30);
    assert!(later.starts_with("web.service waited 40.0 ms for a CPU"), "{later}");
    let expected = ". Its threads also waited 30.0 ms for each other; held by thread 7 (a), which ran meanwhile";
    assert!(later.ends_with(expected), "{later}");
    let named = locked_at(3_000, Some("at the futex table_lock"));
    let expected = "web.service: its threads waited 3.00 s for each other at the futex table_lock; held by thread 7 (a), which";
    assert!(named.starts_with(expected), "{named}");
}

/// A service that waits for another one, beside waits for a CPU, of which so much is usual.
fn working_with_another(cpu_ms: u64, usual_ms: u64) -> Verdict {
    let setup = setup();
    let mut tier = loss(Account::Tier, "stock.service", Cause::Foreign, 1_450);
    tier.works_with_victim = true;
    let cpu = loss(Account::Cpu, "backup.service", Cause::Foreign, cpu_ms);
    let accounts = [(Account::Running, 300), (Account::Cpu, cpu_ms), (Account::Tier, 1_450)];
    let mut case = case(&setup, &accounts, vec![cpu, tier]);
    case.usual_ns = [(Account::Cpu, usual_ms * MS)].into();
    judge(&case)
}

#[test]
fn what_its_time_always_goes_to_is_no_alarm() {
    // As usual, and a little more than that beside a wait that may be as usual: no reason for a command.
    for (cpu_ms, usual_ms) in [(60, 55), (60, 20)] {
        let verdict = working_with_another(cpu_ms, usual_ms);
        assert_eq!((verdict.kind, verdict.ready()), (Kind::Unknown, None), "{cpu_ms} {usual_ms}");
        assert_eq!(verdict.findings[0].resource, Account::Tier);
        let begin = "web.service waited 1.45 s for gzip of stock.service to answer; whether that is usual is not known. ";
        assert!(verdict.sentence.starts_with(begin), "{}", verdict.sentence);
        assert!(!verdict.sentence.contains("as usual"), "{}", verdict.sentence);
        assert_eq!(verdict.next.as_deref(), Some("ask stock.service: noised why stock.service"));
    }
}

#[test]
fn what_is_unusual_comes_before_what_may_be_usual_however_long_that_is() {
    let verdict = working_with_another(400, 20);
    assert_eq!((verdict.kind, verdict.findings[0].resource), (Kind::HeldUp, Account::Cpu));
    assert_eq!(verdict.ready().unwrap().commands, [COMMAND]);
    let expected = "web.service waited 400 ms for a CPU, all of it for gzip of backup.service; it also waited 1.45 s for \
                    gzip of stock.service to answer";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn waits_behind_many_for_little_each_are_judged_as_a_whole() {
    let setup = setup();
    let judged = |usual_ms: Option<u64>| {
        // No one culprit had 1 % of the time; its own timers are the one finding.
        let mut losses: Vec<CulpritLoss> =
            (0..4).map(|_| loss(Account::Cpu, "/a", Cause::Foreign, 15)).collect();
        losses.push(loss(Account::Timer, "its own timers", Cause::Untracked, 1_800));
        let accounts = [(Account::Running, 100), (Account::Cpu, 60), (Account::Timer, 1_800)];
        let mut case = case(&setup, &accounts, losses);
        case.usual_ns = usual_ms.map(|ms| (Account::Cpu, ms * MS)).into_iter().collect();
        judge(&case)
    };
    let begin = "web.service waited 60.0 ms for a CPU; what is usual is not known. It also slept 1.80 s on timers of its own";
    let verdict = judged(None);
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, begin));
    let verdict = judged(Some(55));
    let expected =
        "web.service waited 60.0 ms for a CPU, as usual. It also slept 1.80 s on timers of its own";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::AsUsual, expected));
}

#[test]
fn the_sentence_names_the_holder_of_the_first_finding() {
    let setup = setup();
    let held_by = |tid: i32, ms: u64| {
        let mut lock = loss(Account::Lock, &format!("thread {tid} (a)"), Cause::Own, ms);
        lock.culprit.tid = Some(tid);
        lock.who = Some((format!("by thread {tid} (a)"), ms * MS));
        lock
    };
    for losses in [[held_by(7, 900), held_by(8, 1_100)], [held_by(8, 1_100), held_by(7, 900)]] {
        let verdict = judge(&case(&setup, &[(Account::Lock, 2_000)], losses.to_vec()));
        assert_eq!(verdict.findings[0].culprit.tid, Some(8));
        assert!(verdict.sentence.contains("held by thread 8 (a)"), "{}", verdict.sentence);
    }
}

#[test]
fn counters_name_who_had_the_cpu_and_bring_no_command() {
    let setup = setup();
    let counted = |mut loss: CulpritLoss| {
        (loss.evidence, loss.is_set_up) = (Evidence::Counters, true);
        loss
    };
    let losses = vec![
        counted(loss(Account::Cpu, "backup.service", Cause::Foreign, 700)),
        counted(loss(Account::Quota, "its own CPU quota", Cause::Throttle, 300)),
    ];
    let accounts = [(Account::Cpu, 700), (Account::Quota, 300), (Account::Unknown, 5_000)];
    let mut case = case(&setup, &accounts, losses);
    (case.work_ns, case.seen_ns) = (case.span_ns, Some(0));
    let verdict = judge(&case);
    let expected = "web.service waited 700 ms for a CPU, all of it for gzip of backup.service; what is usual is not known. It also was stopped for \
                    300 ms by its own CPU quota";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    let [cpu, quota] = verdict.findings.as_slice() else { panic!("{:?}", verdict.findings) };
    assert_eq!((cpu.ready(), (cpu.share * 100.0).round()), (None, 35.0));
    assert_eq!(
        cpu.next.as_deref(),
        Some("see what backup.service does: noised why backup.service")
    );
    assert_eq!(quota.resource, Account::Quota);
    // What it slept for is known of a part alone, and said so.
    let mut tier = loss(Account::Tier, "stock.service", Cause::Foreign, 200);
    tier.evidence = Evidence::Part;
    case.losses.push(tier);
    case.accounts.take(Account::Unknown, Account::Tier, 200 * MS);
    case.seen_ns = Some(310 * MS);
    let sentence = judge(&case).sentence;
    assert!(sentence.contains("waited 200 ms of the last 310 ms for gzip of stock"), "{sentence}");
}

#[test]
fn who_queues_behind_itself_beside_a_hog_is_held_up_by_the_hog() {
    let setup = setup();
    let beside = |hog_ms: u64| {
        let mut own = loss(Account::Cpu, "web.service", Cause::Own, 600);
        own.who = Some(("its own thread web 7".to_owned(), 600 * MS));
        let hog = loss(Account::Cpu, "backup.service", Cause::Foreign, hog_ms);
        let accounts = [(Account::Running, 300), (Account::Cpu, 600 + hog_ms)];
        judge(&case(&setup, &accounts, vec![own, hog]))
    };
    let verdict = beside(400);
    let expected = "web.service waited 1.00 s for a CPU, 400 ms of it for gzip of backup.service and 600 ms for its own threads; what is usual is not known";
    assert_eq!(verdict.sentence, expected);
    assert_eq!(verdict.findings[0].culprit.name, "backup.service");
    assert_eq!(verdict.ready().unwrap().commands, [COMMAND]);
    // A bystander is not, and neither is who works with it.
    let verdict = beside(150);
    assert_eq!(verdict.findings[0].culprit.cause, Cause::Own);
    let expected = "web.service waited 750 ms for a CPU, 600 ms of it for its own thread web 7; what is usual is not known";
    assert_eq!(verdict.sentence, expected);
    // Of its own threads, one is named: its time is not counted twice.
    let mut own = loss(Account::Cpu, "web.service", Cause::Own, 600);
    own.who = Some(("its own thread web 7".to_owned(), 500 * MS));
    let accounts = [(Account::Running, 300), (Account::Cpu, 600)];
    let verdict = judge(&case(&setup, &accounts, vec![own]));
    let expected = "web.service waited 600 ms for a CPU, 500 ms of it for its own thread web 7; what is usual is not known";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn who_had_a_good_part_is_named_before_what_is_not_known() {
    let setup = setup();
    let beside = |hog_ms: u64| {
        let mut unknown = loss(Account::Cpu, "not known", Cause::Untracked, 600);
        unknown.who = None;
        let hog = loss(Account::Cpu, "backup.service", Cause::Foreign, hog_ms);
        let accounts = [(Account::Running, 300), (Account::Cpu, 600 + hog_ms)];
        judge(&case(&setup, &accounts, vec![unknown, hog]))
    };
    let names = |verdict: Verdict| {
        verdict.findings.into_iter().map(|one| one.culprit.name).collect::<Vec<_>>()
    };
    let expected = "web.service waited 1.00 s for a CPU, 400 ms of it for gzip of backup.service; what is usual is not known";
    assert_eq!(beside(400).sentence, expected);
    assert_eq!(names(beside(400)), ["backup.service", "not known"]);
    assert_eq!(names(beside(150)), ["not known", "backup.service"]);
}

#[test]
fn what_its_own_threads_took_is_no_reason_to_touch_who_works_with_it() {
    let mut setup = setup();
    let main = TaskSetup {
        pid: 42,
        process: 42,
        nice: 0,
        policy: 0,
        priority: 0,
        cpus: (0..4).collect(),
        is_alike: true,
        is_alone: true,
        is_kernel: false,
    };
    for one in [&mut setup.victim, &mut setup.culprit] {
        one.as_mut().unwrap().main = Some(main.clone());
    }
    let losses = vec![
        loss(Account::Cpu, "web.service", Cause::Own, 500),
        CulpritLoss {
            works_with_victim: true,
            ..loss(Account::Cpu, "backup.service", Cause::Foreign, 300)
        },
    ];
    let verdict = judge(&case(&setup, &[(Account::Running, 700), (Account::Cpu, 800)], losses));
    assert_eq!(verdict.kind, Kind::HeldUp);
    assert_eq!(verdict.findings[0].culprit.cause, Cause::Own);
    let commands: Vec<_> =
        verdict.remedies().iter().flat_map(|one| &one.commands).cloned().collect();
    assert_eq!(commands, Vec::<String>::new());
}

#[test]
fn who_works_with_the_victim_is_not_slowed_down() {
    let setup = setup();
    let mut case = hogged(&setup);
    case.losses[0].works_with_victim = true;
    let verdict = judge(&case);
    assert_eq!(verdict.ready(), None);
    let next = verdict.findings[0].next.as_ref().unwrap();
    assert!(next.contains("to slow it down helps neither (noised why backup.service)"), "{next}");
}

#[test]
fn one_of_many_that_take_a_little_each_is_a_bystander() {
    let setup = setup();
    let ready = |ms, of_all_ms| {
        let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, ms)];
        let accounts = [(Account::Running, 500), (Account::Cpu, of_all_ms)];
        judge(&case(&setup, &accounts, losses)).ready().is_some()
    };
    assert!(ready(100, 400));
    assert!(!ready(99, 400));
}

#[test]
fn what_is_known_of_one_culprit_says_nothing_of_another() {
    let setup = setup();
    let mut case = hogged(&setup);
    case.losses[0] = loss(Account::Cpu, "other.service", Cause::Foreign, 700);
    let verdict = judge(&case);
    assert_eq!(verdict.ready(), None, "the settings are those of backup.service");
}

#[test]
fn a_name_that_others_chose_is_one_word_of_the_command() {
    let setup = setup();
    let mut case = hogged(&setup);
    case.losses[0] = loss(Account::Cpu, "a;reboot", Cause::Foreign, 700);
    let next = judge(&case).next.unwrap();
    assert!(next.ends_with("noised why 'a;reboot'"), "{next}");
}

//! Verdicts on victims whose threads nothing has woken yet.

use noise_common::charge::Cause;

use super::{MS, case, loss, setup};
use crate::account::Account;
use crate::case::{Case, Reply, Standstill};
use crate::judge;
use crate::judge::USES_MEMORY;
use crate::kind::Kind;

fn at(places: &[(&str, usize)]) -> Vec<(String, usize)> {
    places.iter().map(|(place, threads)| ((*place).to_owned(), *threads)).collect()
}

fn said(case: &Case<'_>) -> (Kind, String) {
    let verdict = judge(case);
    (verdict.kind, verdict.sentence)
}

#[test]
fn one_that_is_stopped_or_frozen_is_not_idle() {
    let setup = setup();
    let halted = |stopped, frozen| {
        let mut case = case(&setup, &[(Account::Unknown, 4_000)], Vec::new());
        let next = Some("kill -CONT 71".to_owned());
        case.standstill = Standstill { threads: 2, stopped, frozen, next, ..Standstill::default() };
        judge(&case)
    };
    for (stopped, frozen, kind, expected) in [
        (2, 0, Kind::HeldUp, "web.service is stopped (SIGSTOP or a debugger)"),
        (0, 2, Kind::HeldUp, "web.service is frozen (docker pause or cgroup.freeze)"),
        (1, 0, Kind::Unknown, "web.service has 1 of its 2 threads stopped (SIGSTOP or a debugger)"),
    ] {
        let verdict = halted(stopped, frozen);
        assert_eq!((verdict.kind, &*verdict.sentence), (kind, expected));
        assert_eq!(verdict.next.as_deref(), Some("kill -CONT 71"));
    }
}

#[test]
fn what_is_stopped_gets_no_command_against_others() {
    let setup = setup();
    let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, 400)];
    let accounts = [(Account::Running, 100), (Account::Cpu, 400), (Account::Unknown, 1_500)];
    let mut hogged = case(&setup, &accounts, losses);
    assert!(judge(&hogged).ready().is_some());
    hogged.standstill = Standstill { threads: 3, stopped: 3, ..Standstill::default() };
    let verdict = judge(&hogged);
    let expected = "web.service is stopped (SIGSTOP or a debugger); it also waited 400 ms for a CPU, all of it for gzip of \
                    backup.service";
    assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
    assert_eq!((verdict.ready(), verdict.next.clone()), (None, None));
}

#[test]
fn a_server_without_work_reads_as_idle() {
    let setup = setup();
    let mut idle = case(&setup, &[(Account::Idle, 8_000)], Vec::new());
    let asleep_at = Some(at(&[("do_epoll_wait", 3), ("hrtimer_nanosleep", 1)]));
    idle.standstill = Standstill { threads: 4, asleep_at, ..Standstill::default() };
    let expected = "web.service: nothing held it up: its 4 threads slept all the time, in do_epoll_wait (3), \
                    hrtimer_nanosleep (1)";
    assert_eq!(said(&idle), (Kind::Nothing, expected.to_owned()));
    assert_eq!(judge(&idle).next, None);
    // Only one thread, and its place is known to root alone.
    idle.standstill.threads = 1;
    idle.standstill.asleep_at = Some(Vec::new());
    let expected = "web.service: nothing held it up: it slept all the time";
    assert_eq!(said(&idle), (Kind::Nothing, expected.to_owned()));
}

#[test]
fn sleeps_that_may_be_waits_are_not_called_nothing() {
    let setup = setup();
    let mut hung = case(&setup, &[(Account::Idle, 2_000), (Account::Unknown, 10_000)], Vec::new());
    let places = [("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)];
    hung.standstill =
        Standstill { threads: 6, asleep_at: Some(at(&places)), ..Standstill::default() };
    let expected = "web.service: nothing held it up that events show: its 6 threads slept all the time, in a (2), b (1), \
                    c (1), d (1), and elsewhere";
    assert_eq!(said(&hung), (Kind::Unknown, expected.to_owned()));
    assert!((judge(&hung).known_share - 2.0 / 12.0).abs() < 1e-9);
}

#[test]
fn an_uninterruptible_sleep_without_an_end_says_where_it_is() {
    let setup = setup();
    let mut dead = case(&setup, &[(Account::Idle, 2_000), (Account::Unknown, 4_000)], Vec::new());
    dead.uninterruptible_ns = 4_000 * MS;
    dead.standstill = Standstill {
        threads: 3,
        uninterruptible_at: at(&[("rpc_wait_bit_killable", 2)]),
        next: Some("cat /proc/71/stack".to_owned()),
        ..Standstill::default()
    };
    let expected = "web.service slept 4.00 s uninterruptibly, in rpc_wait_bit_killable (2)";
    assert_eq!(said(&dead), (Kind::Unknown, expected.to_owned()));
    assert_eq!(judge(&dead).next.as_deref(), Some("cat /proc/71/stack"));
}

#[test]
fn a_lock_that_is_not_let_go_is_no_usual_one() {
    let setup = setup();
    let mut lock = loss(Account::Lock, "a lock", Cause::Own, 6_000);
    lock.who = Some(("all the time, by whom is not known".to_owned(), 6_000 * MS));
    lock.reply = Reply::Never;
    let hung = case(&setup, &[(Account::Lock, 6_000)], vec![lock]);
    let expected = "web.service: its threads waited 6.00 s for each other; held all the time, by whom is not known";
    assert_eq!(said(&hung), (Kind::HeldUp, expected.to_owned()));
}

#[test]
fn what_is_slept_for_a_server_of_files_is_not_lost_to_the_disk() {
    let setup = setup();
    let disk = loss(Account::Disk, "backup.service", Cause::Foreign, 25);
    let accounts = [(Account::Running, 50), (Account::Disk, 25), (Account::Unknown, 1_875)];
    let mut case = case(&setup, &accounts, vec![disk]);
    case.uninterruptible_ns = 1_900 * MS;
    case.usual_ns = [(Account::Disk, 20 * MS)].into();
    let verdict = judge(&case);
    assert_eq!(verdict.kind, Kind::AsUsual, "{}", verdict.sentence);
    assert_eq!(verdict.ready(), None);
    assert!(verdict.sentence.contains("slept 1.88 s uninterruptibly"), "{}", verdict.sentence);
}

#[test]
fn what_has_no_remedy_says_where_to_look() {
    let setup = setup();
    let next = |resource, name, cause| {
        let losses = vec![loss(resource, name, cause, 300)];
        judge(&case(&setup, &[(Account::Running, 900), (resource, 300)], losses)).next.unwrap()
    };
    assert_eq!(next(Account::Cpu, "kswapd0 71", Cause::Kthread), USES_MEMORY);
    let irq = next(Account::Interrupt, "net_rx", Cause::Softirq);
    assert!(irq.ends_with("noised top --screen irq"), "{irq}");
    let host = next(Account::Hypervisor, "the hypervisor", Cause::Steal);
    assert!(host.starts_with("ask who runs the host"), "{host}");
}

#[test]
fn a_thread_that_runs_all_the_time_is_at_the_limit_of_one_cpu() {
    let setup = setup();
    let said = |ran_ms: u64| {
        let mut case = case(&setup, &[(Account::Running, ran_ms)], Vec::new());
        case.busiest = Some(("redis-server 812".to_owned(), ran_ms * MS));
        judge(&case).sentence
    };
    let limit = "web.service: nothing held it up. Its thread redis-server 812 ran for 1.95 s of 2.00 s: it can do no more on one CPU";
    assert_eq!(said(1_950), limit);
    assert!(!said(1_850).contains("redis-server"));
}

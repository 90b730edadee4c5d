//! Pages of made findings.

use std::collections::BTreeMap;

use noise_analysis::Remedy;
use noise_model::pressure::{Quota, Throttled};
use noise_model::setup::Setup;
use noise_paths::account::Member;
use noise_paths::held::Held;
use noise_verdict::Account;
use noise_why::around::{Around, Stops, Usual};
use noise_why::findings::{Ender, Whose};
use noise_why::locks::Locks;
use noise_why::made::{MS, blamed, ender, found, member, peer, report, setup, spread};
use noise_why::peers::{PeerLink, Peers, Role};

use super::*;

mod root;

mod counted;
mod lost;
mod slept;
mod storage;

fn text(found: &Findings, title: &str) -> String {
    page(found, title, &TimeZone::UTC, 80, Extent::All).text(false)
}

/// Of a signal that comes 100 times a second, and loses so much of one.
fn usual(signal: &'static str, mean_ms: Option<f64>, lost: f64) -> Usual {
    let mean_ns = mean_ms.map(|mean_ms| mean_ms * 1e6);
    let (rate, lost) = (Some(100.0), Some(lost));
    Usual { signal, from: "baseline", mean_ns, p99_ns: None, rate, lost, adopted_for_ns: None }
}

fn screen(found: &Findings) -> String {
    page(found, "service nginx.service", &TimeZone::UTC, 80, Extent::Screen).text(false)
}

#[test]
fn the_first_page_is_one_screen_as_agreed() {
    let mut found = found();
    found.judge("service nginx.service", &setup());
    insta::assert_snapshot!(screen(&found));
    // Whatever there is to say, the verdict and its commands stay.
    for number in 0..40 {
        found.notes.push(format!("something to know, number {number}, in a line of its own"));
        found.discarded += 1;
        let text = screen(&found);
        assert!(text.lines().count() <= 24, "{text}");
        for part in ["waited 812 ms for a CPU", "CPUWeight=20", "CPUWeight=100", "--all shows"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let long = text.lines().find(|line| line.chars().count() > 80 && !line.contains("# "));
        assert_eq!(long, None);
    }
}

#[test]
fn a_page_begins_with_how_much_is_known_where_that_is_little() {
    let mut found = found();
    found.asked_ns = 10_000 * MS;
    found.judge("nginx", &setup());
    let begin = "The flight recorder holds 2.00 s of the last 10.0 s (20.0 %): all that follows is of that part alone (";
    for text in [screen(&found), text(&found, "nginx")] {
        assert!(text.replace('\n', " ").starts_with(begin), "{text}");
    }
    let findings = &found.verdict.as_ref().unwrap().findings;
    assert!(findings.iter().all(|one| one.evidence == noise_verdict::Evidence::Part));
    found.asked_ns = found.span_ns;
    assert!(screen(&found).starts_with("nginx waited"), "{}", screen(&found));
}

#[test]
fn a_victim_is_shown_as_agreed() {
    let mut found = found();
    found.judge("service nginx.service", &setup());
    let text = text(&found, "service nginx.service");
    // Paths are as wide as the terminal.
    let (text, paths) = text.split_once("critical path of the longest").unwrap();
    insta::assert_snapshot!(text);
    assert!(paths.contains("after 0.100000 s: nginx 71 took 30.000 ms"), "{paths}");
}

#[test]
fn a_victim_that_nothing_holds_up_is_shown_as_agreed() {
    let mut calm = found();
    calm.threads = vec![member(72, &[("running", 300), ("timer", 1700)], Spread::default())];
    calm.totals_ns = calm.threads[0].totals_ns.clone();
    (calm.waits, calm.uninterruptible) = (Spread::default(), Spread::default());
    (calm.culprits, calm.interrupted, calm.executions) = Default::default();
    calm.target.pid = Some(70);
    calm.around = Around::default();
    calm.pressure = None;
    calm.around.stopped = Some(Stops {
        span_ns: 2_100 * MS,
        quota_ns: Some(3 * MS),
        host_reclaim_ns: Some(5 * MS),
        ..Stops::default()
    });
    calm.notes = vec!["the flight recorder holds the last 1.300 s".to_owned()];
    calm.discarded = 7;
    calm.judge("process nginx 70", &Setup::default());
    insta::assert_snapshot!(text(&calm, "process nginx 70"));
    // One that is open is part of the answer, where it suffers from it and not only has a part in it.
    calm.around.incidents = vec![report()];
    assert!(text(&calm, "nginx").starts_with("process nginx 70: nothing held it up; it slept"));
    calm.around.suffers = vec![3];
    let answer = text(&calm, "nginx").replace('\n', " ");
    assert!(answer.starts_with("process nginx 70: nothing held it up; it slept"), "{answer}");
    assert!(answer.contains(" Incident 3 is open since "), "{answer}");
    assert!(answer.contains(&report().sentence(&TimeZone::UTC)), "{answer}");
}

#[test]
fn a_quota_that_stops_it_comes_first() {
    let mut throttled = found();
    throttled.around.stopped =
        Some(Stops { span_ns: 3_000 * MS, quota_ns: Some(900 * MS), ..Stops::default() });
    throttled.judge("service nginx.service", &Setup::default());
    let text = text(&throttled, "service nginx.service");
    let first = text.replace('\n', " ");
    let answer = "nginx.service was stopped for 600 ms by a CPU quota (it is not known whose); it also waited 212 ms for a CPU, ";
    assert!(first.contains(answer), "{first}");
    assert!(first.contains("A CPU quota caused 600 ms of these waits"), "{first}");
    assert!(!first.contains("790 ms of it"), "{first}");
    assert_eq!(throttled.remedies.first().unwrap().advice.remedy, Remedy::RaiseQuota);

    // Events say it of each wait: those who had the CPUs otherwise are named.
    let mut by_events = found();
    by_events.culprits = vec![
        blamed("waiting_cpu", -1, "", "", "throttle", 700),
        blamed("waiting_cpu", 4242, "gzip", "backup.service", "foreign", 112),
    ];
    by_events.around.stopped =
        Some(Stops { span_ns: 3_000 * MS, quota_ns: Some(900 * MS), ..Stops::default() });
    by_events.pressure.as_mut().unwrap().quota = Some(Throttled {
        of: "web.slice".to_owned(),
        above: 1,
        is_unclear: false,
        quota: Quota { quota_us: Some(50_000), period_us: 100_000 },
        periods: Some(20),
        throttled_periods: Some(12),
        throttled_ms: Some(700.0),
    });
    by_events.judge("service nginx.service", &Setup::default());
    let text = self::text(&by_events, "service nginx.service");
    let first = text.replace('\n', " ");
    let answer = "nginx.service was stopped for 700 ms by the CPU quota of web.slice, its parent; it also waited 112 ms for a CPU, all of it";
    assert!(first.contains(answer), "{first}");
    assert!(first.contains("no one: a CPU quota"), "{first}");
    assert!(!first.contains("by the daemon's count"), "{first}");
    assert_eq!(by_events.remedies.first().unwrap().advice.remedy, Remedy::RaiseQuota);
}

#[test]
fn what_a_cgroup_was_stopped_for_is_not_said_of_one_of_its_processes() {
    let stopped = Stops {
        span_ns: 2_000 * MS,
        quota_ns: Some(900 * MS),
        hypervisor_ns: 300 * MS,
        ..Stops::default()
    };
    let judged = |pid| {
        let mut found = found();
        (found.target.pid, found.around.stopped) = (pid, Some(stopped));
        found.judge("nginx", &setup());
        found
    };
    let process = judged(Some(70));
    let ns = |found: &Findings, account| found.accounts_ns.ns(account) / MS;
    assert_eq!((ns(&process, Account::Quota), ns(&process, Account::Hypervisor)), (0, 0));
    let sentence = &process.verdict.as_ref().unwrap().sentence;
    assert!(!sentence.contains("quota") && sentence.contains("gzip"), "{sentence}");
    // No event says what the hypervisor takes.
    let service = judged(None);
    assert_eq!((ns(&service, Account::Quota), ns(&service, Account::Hypervisor)), (812, 300));
    let all_ns: u64 = service.totals_ns.values().sum();
    assert_eq!(service.accounts_ns.total_ns(), all_ns);
    let sentence = &service.verdict.as_ref().unwrap().sentence;
    assert!(sentence.contains("lost 300 ms to the hypervisor"), "{sentence}");
}

#[test]
fn fewer_and_longer_waits_are_not_as_usual() {
    let unusual = |usual_mean_ms: f64| {
        let mut found = found();
        found.target.pid = None;
        found.totals_ns.insert("disk", 800 * MS);
        found.uninterruptible = spread(40, 800, 30);
        found.culprits.push(blamed("disk", 77, "fio", "backup.service", "foreign", 800));
        // It always waits for disks for 0.4 of the time.
        found.around.usual = vec![
            usual("cgroup_runqueue_wait", Some(1_000.0), 1.0),
            usual("uninterruptible_wait", Some(usual_mean_ms), 0.4),
        ];
        found.judge("redis", &setup());
        let findings = found.verdict.unwrap().findings;
        findings.iter().find(|one| one.resource == Account::Disk).unwrap().unusual
    };
    assert_eq!(unusual(20.0), Some(false));
    assert_eq!(unusual(4.0), Some(true));
}

#[test]
fn what_the_time_was_spent_on_sums_to_all_of_it() {
    let mut found = found();
    found.enders = vec![
        ender(9, "db", "db.service", false, 300),
        ender(72, "nginx", "", false, 700),
        ender(10, "curl", "client.service", true, 150),
        ender(11, "odd", "odd.service", true, 40),
    ];
    found.held = [(72, Held { ns: 700 * MS, walked_ns: 700 * MS, by: BTreeMap::new() })].into();
    found.locks =
        Locks { ns: 600 * MS, by: [((71, "timer"), 600 * MS)].into(), ..Locks::default() };
    let roles =
        [(9, peer(Role::Asks, PeerLink::Tcp(5432))), (10, peer(Role::Serves, PeerLink::Tcp(80)))];
    found.peers = Peers { processes: roles.into(), hosts: None };
    found.totals_ns.insert("task", 1_000 * MS);
    found.totals_ns.insert("network", 300 * MS);
    found.judge("nginx", &setup());
    let all_ns: u64 = found.totals_ns.values().sum();
    assert_eq!(found.accounts_ns.total_ns(), all_ns);
    let ns = |account| found.accounts_ns.ns(account) / MS;
    assert_eq!((ns(Account::Tier), ns(Account::Lock)), (300, 600));
    // Who asks leaves it idle; of the rest it is not known.
    assert_eq!((ns(Account::Idle), ns(Account::Network)), (400 + 150, 0));
    assert_eq!(ns(Account::Unknown), 100 + 40 + 110);
    assert_eq!((ns(Account::Running), ns(Account::Interrupt)), (978, 22));
    let sentence = &found.verdict.as_ref().unwrap().sentence;
    assert!(!sentence.contains("whether there was work"), "CPUs took longer: {sentence}");
}

fn verdict(mut found: Findings) -> noise_verdict::Verdict {
    found.judge("shop", &setup());
    found.verdict.unwrap()
}

#[test]
fn the_client_of_a_victim_gets_no_command() {
    let mut found = found();
    found.totals_ns.insert("task", 400 * MS);
    found.enders = vec![Ender {
        tid: 4242,
        pid: 4242,
        comm: "gzip".to_owned(),
        cgroup: Some("backup.service".to_owned()),
        whose: Whose::Other,
        is_packet: false,
        ns: 380 * MS,
    }];
    found.judge("nginx", &setup());
    let text = text(&found, "nginx").replace('\n', " ");
    assert!(!text.contains("To try first") && !text.contains("set-property"), "{text}");
    assert!(
        text.contains("Next: backup.service and the victim wait for each other's work"),
        "{text}"
    );
}

#[test]
fn the_cgroup_that_had_the_cpus_longest_is_looked_at() {
    let mut found = found();
    assert_eq!(found.foreign().map(|one| one.tid), Some(4242));
    // Two threads of one have more than one of the other; the root has no settings.
    found.culprits = vec![
        blamed("waiting_cpu", 1, "rustc", "/", "foreign", 900),
        blamed("waiting_cpu", 2, "tar", "/a", "foreign", 300),
        blamed("waiting_cpu", 3, "gzip", "backup.service", "foreign", 200),
        blamed("waiting_cpu", 4, "gzip", "backup.service", "foreign", 190),
        blamed("disk", 2, "tar", "/a", "foreign", 9_000),
    ];
    assert_eq!(found.foreign().map(|one| one.tid), Some(3));
    found.culprits[0].ns *= 10;
    assert_eq!(found.foreign().map(|one| one.tid), None, "a small part");
}

#[test]
fn names_do_not_steer_the_terminal() {
    let mut hostile = found();
    hostile.culprits[0].comm = "\u{1b}[2J".to_owned();
    hostile.threads[0].comm = "a\n#9".to_owned();
    hostile.interrupted[0].source = "\u{9b}31m".to_owned();
    let text = text(&hostile, "service x");
    let text = text.split("critical path").next().unwrap();
    assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "{text}");
    assert!(!text.contains("\n#9"), "{text}");
}

#[test]
fn what_has_no_threads_is_said() {
    let mut none = found();
    none.threads = Vec::new();
    let text = text(&none, "cgroup /x");
    let expected = "cgroup /x has no threads, and what ran there in the 2.00 s until";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.replace('\n', " ").contains("and has ended is not known. "), "{text}");
}

#[test]
fn what_has_ended_is_said_to_have() {
    let mut ended = found();
    let sentence = "It ended before the page was made: where its threads slept, and whom it asked, is not known.";
    let said = |found: &Findings| text(found, "process web 7").replace('\n', " ");
    assert!(!said(&ended).contains(sentence));
    ended.has_ended = true;
    assert!(said(&ended).contains(sentence), "{}", said(&ended));
}

#[test]
fn the_document_has_its_names() {
    let value = serde_json::to_value(found()).unwrap();
    for name in [
        "target",
        "source",
        "clock_offset_ns",
        "from_ns",
        "to_ns",
        "span_ns",
        "discarded",
        "notes",
        "totals_ns",
        "accounts_ns",
        "verdict",
        "waits",
        "uninterruptible",
        "interrupted",
        "culprits",
        "threads",
        "usual",
        "stopped",
        "ledger",
        "incidents",
        "kept",
        "remedies",
        "executions",
    ] {
        assert!(value.get(name).is_some(), "{name} is missing");
    }
    assert_eq!(value["incidents"][0]["id"], 3);
    assert_eq!(value["interrupted"][0]["sum_ns"], 21 * MS);
    assert!(value["ledger"].is_null() && value.get("is_asked").is_none());
}

#[test]
fn threads_of_one_process_do_not_hide_another_process() {
    let mut found = found();
    found.threads = vec![member(71, &[("running", 1)], Spread::default()); 100];
    found.threads.push(Member { pid: 90, ..member(91, &[("running", 1)], Spread::default()) });
    found.threads.push(Member { pid: 0, ..member(92, &[("running", 1)], Spread::default()) });
    assert_eq!(found.processes(), [70, 90].into());
}

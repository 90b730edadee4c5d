//! Pages whose figures are the daemon's counters.

use noise_analysis::Charged;
use noise_common::charge::{Cause, Resource};
use noise_trace::delays::document::Spread;
use noise_verdict::Account;
use noise_verdict::Evidence::{Counters, Part};

use super::super::super::counted::Counted;
use super::super::super::findings::Findings;
use super::super::super::peers::{Link, Peers, Role};
use super::{MS, ender, found, peer, screen, setup, text};

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
    let asked = peer(Role::Asks, Link::Tcp(5432));
    found.peers = Peers { processes: [(9, asked)].into(), hosts: None };
    found.totals_ns.insert("task", held_ms / 2 * MS);
    let charged = |resource, cause, culprit: &str, ms: u64| Charged {
        resource,
        cause,
        culprit: culprit.into(),
        ns: ms * MS,
    };
    found.around.counted = Some(Counted {
        span_ns: 2_010 * MS,
        charges: vec![
            charged(Resource::Cpu, Cause::Foreign, "backup.service", 1_600),
            charged(Resource::Running, Cause::Softirq, "net_rx", 90),
        ],
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

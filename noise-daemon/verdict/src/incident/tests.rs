//! Incidents and their verdicts.

use noise_model::memory::{LimitHits, LimitKind};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;

const MS: u64 = 1_000_000;

fn charged(name: &str, cause: Cause, ms: u64, part: f64) -> ChargedCulprit<'_> {
    ChargedCulprit { name, cause, ns: ms * MS, beyond_ns: ms * MS, part, threads: Vec::new() }
}

fn with_command(remedy: Remedy) -> Advice {
    Advice { commands: vec![format!("do {remedy:?}")], ..Advice::plain(remedy) }
}

/// All that is ever advised, each with a command.
fn everything() -> Vec<Advice> {
    Remedy::ALL.iter().map(|remedy| with_command(*remedy)).collect()
}

fn disturbed<'a>(
    signal: Option<Signal>,
    victim: &'a str,
    charged: Vec<ChargedCulprit<'a>>,
    advice: &'a [Advice],
) -> Disturbed<'a> {
    Disturbed {
        victim,
        threads: Vec::new(),
        signal,
        is_over: false,
        rose: Some("0.17 ms -> 19.5 ms (116x)".to_owned()),
        when: "since 00:03:00 UTC".to_owned(),
        since_ns: 1,
        span_ns: 10_000 * MS,
        lost_ns: 1_000 * MS,
        usual_ns: 100 * MS,
        charged,
        known_share: 1.0,
        stalled: None,
        short: None,
        quota: None,
        advice,
        advised: Advised { culprit: Some("backup.service"), interrupt: Some("eth0") },
    }
}

fn judged(one: &Disturbed<'_>) -> Verdict {
    judge_incident(one, &[], &[])
}

const CPU: Option<Signal> = Some(Signal::CgroupRunqueueWait);

#[test]
fn who_has_little_while_most_is_not_known_is_not_named() {
    // How much of the excess web.service and many others had, and of how much of all delay a culprit is known.
    let led_by = |part: f64, others: usize, known_share| {
        let mut all = vec![charged("web.service", Cause::Foreign, 70, part)];
        all.extend((0..others).map(|_| charged("other.service", Cause::Foreign, 60, 0.06)));
        let one = Disturbed { known_share, ..disturbed(CPU, "shop.service", all, &[]) };
        judged(&one).findings[0].culprit.name.clone()
    };
    assert_eq!(led_by(0.07, 0, 0.2), "not known");
    assert_eq!(led_by(0.07, 12, 0.95), "web.service", "it is the first of many");
    assert_eq!(led_by(0.12, 0, 0.2), "web.service");
    // What is usually not known says nothing of the excess, and what usually is does not either.
    assert_eq!(led_by(0.07, 12, 0.2), "web.service");
    assert_eq!(led_by(0.07, 0, 0.95), "not known");
}

#[test]
fn a_sentence_says_who_lacks_what_since_when_and_by_whom() {
    let waits = "shop.service waits for a CPU: 0.17 ms -> 19.5 ms (116x) since 00:03:00 UTC, ";
    for (cause, name, by) in [
        (Cause::Throttle, "throttle", "stopped by its own CPU quota (90.0 %)"),
        (Cause::Foreign, "backup.service", "held up by backup.service (90.0 %)"),
        (Cause::Own, "shop.service", "behind its own threads (90.0 %)"),
        (Cause::Kthread, "kworker/0:1", "held up by kernel thread kworker/0:1 (90.0 %)"),
        (Cause::Hardirq, "eth0", "interrupted by eth0 (90.0 %)"),
        (Cause::Steal, "steal", "stopped by the hypervisor (90.0 %)"),
        (Cause::Untracked, "", "by whom is not known"),
    ] {
        let one = disturbed(CPU, "shop.service", vec![charged(name, cause, 900, 0.9)], &[]);
        assert_eq!(judged(&one).sentence, format!("{waits}{by}"));
    }
    let mut one = disturbed(CPU, "shop.service", Vec::new(), &[]);
    (one.is_over, one.when, one.rose) = (true, "during 20.5 s".to_owned(), None);
    let others = ["a", "b", "c", "d"].map(|name| disturbed(CPU, name, Vec::new(), &[]));
    let verdict = judge_incident(&one, &[], &others);
    assert_eq!(
        verdict.sentence,
        "shop.service waited for a CPU during 20.5 s, by whom is not known; also disturbed: a, b and 2 more"
    );
    assert_eq!(verdict.findings[0].culprit.kind, CulpritKind::None);
}

#[test]
fn a_victim_whose_culprit_is_another_one_has_that_said() {
    let disk = Some(Signal::BlockDeviceWait);
    let by = |name, part| charged(name, Cause::Foreign, 900, part);
    let own = charged("vda write", Cause::Own, 900, 0.9);
    let one = disturbed(disk, "vda write", vec![by("writer.service", 0.9)], &[]);
    let others = [
        disturbed(
            CPU,
            "shop.service",
            vec![by("hog.service", 0.6), by("writer.service", 0.4)],
            &[],
        ),
        disturbed(CPU, "web.service", vec![by("writer.service", 0.9)], &[]),
        disturbed(CPU, "vda write", vec![own], &[]),
        disturbed(CPU, "db.service", vec![by("hog.service", 0.4)], &[]),
        disturbed(Some(Signal::UninterruptibleWait), "app", vec![by("waker.service", 0.9)], &[]),
    ];
    let verdict = judge_incident(&one, &[], &others);
    let also = "; also disturbed: shop.service (above all by hog.service), web.service and 3 more";
    assert!(verdict.sentence.ends_with(also), "{}", verdict.sentence);
    let found = verdict.findings.iter();
    let found: Vec<_> = found
        .map(|one| (one.resource, &*one.culprit.name, one.victim.as_deref(), one.ready().is_some()))
        .collect();
    let expected = [
        (Account::Disk, "writer.service", None, false),
        (Account::Cpu, "hog.service", Some("shop.service"), false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_sleep_in_the_kernel_that_own_threads_end_is_said_so() {
    let sleep = Some(Signal::UninterruptibleWait);
    let by = |name| {
        let charges = vec![charged(name, Cause::Own, 900, 0.9)];
        judged(&disturbed(sleep, "shop.service", charges, &[])).sentence
    };
    let own = by("shop.service");
    assert!(own.ends_with(", until its own threads woke it (90.0 %)"), "{own}");
}

#[test]
fn what_stands_for_several_is_said_in_words_and_carries_no_command() {
    let advice = everything();
    for name in ["/", "~gone", "~other", "~unknown"] {
        for (victim, culprit) in [("shop.service", name), (name, "backup.service")] {
            let charges = vec![charged(culprit, Cause::Foreign, 900, 0.9)];
            let mut one = disturbed(CPU, victim, charges, &advice);
            one.advised = Advised { culprit: Some(culprit), interrupt: None };
            let verdict = judge_incident(&one, &[], &[disturbed(CPU, name, Vec::new(), &[])]);
            let (sentence, first) = (&verdict.sentence, &verdict.findings[0]);
            assert!(!sentence.contains('~') && !sentence.contains(" / "), "{sentence}");
            assert!(
                !sentence.ends_with('/') && !first.culprit.name.contains(['~', '/']),
                "{sentence}"
            );
            assert!(culprit != name || first.ready().is_none(), "{first:?}");
            let slows = |one: &Advice| target(one.remedy) == Target::Culprit;
            assert!(culprit != ROOT || !first.remedies.iter().any(slows), "{first:?}");
            assert_eq!(
                verdict.next,
                (culprit != name && first.ready().is_none()).then(|| {
                    "see what backup.service does: noised why backup.service".to_owned()
                })
            );
        }
    }
    let thread = charged("~gone", Cause::Kthread, 900, 0.9);
    let one = disturbed(CPU, "shop.service", vec![thread], &[]);
    assert!(judged(&one).sentence.ends_with("held up by kernel threads that have ended (90.0 %)"));
}

#[test]
fn what_counters_say_of_a_moment_is_a_finding_without_a_judgement() {
    let one = |resource, name, cause, ms| (resource, charged(name, cause, ms, 1.0));
    let found = held_up(
        [
            one(Resource::BlockQueue, "backup.service", Cause::Foreign, 20),
            one(Resource::Cpu, "throttle", Cause::Throttle, 500),
            one(Resource::Cpu, "~other", Cause::Foreign, 300),
        ],
        1_000 * MS,
    );
    let shown: Vec<_> =
        found.iter().map(|one| (one.resource, &*one.culprit.name, one.share)).collect();
    assert_eq!(
        shown,
        [
            (Account::Quota, "its own CPU quota", 0.5),
            (Account::Cpu, "many small others together", 0.3),
            (Account::Disk, "backup.service", 0.02),
        ]
    );
    assert!(found.iter().all(|one| one.unusual.is_none() && one.remedies.is_empty()));
    assert_eq!(found[0].evidence, Evidence::Counters);
}

#[test]
fn the_root_cgroup_is_named_by_its_threads() {
    let thread = |name, tid: u32| Thread { name, tid, pid: Some(tid).filter(|tid| *tid > 0) };
    let mut culprit = charged("/", Cause::Foreign, 900, 0.9);
    let by = |culprit: &ChargedCulprit<'_>| {
        let one = disturbed(CPU, "shop.service", vec![culprit.clone()], &[]);
        judged(&one).findings[0].culprit.clone()
    };
    assert_eq!((by(&culprit).kind, by(&culprit).pid), (CulpritKind::Cgroup, None));
    culprit.threads = vec![thread("gzip", 777)];
    let named = by(&culprit);
    assert_eq!((named.kind, &*named.name), (CulpritKind::Process, "gzip 777 of the root cgroup"));
    assert_eq!((named.pid, named.tid, named.cgroup.as_deref()), (Some(777), Some(777), Some("/")));
    culprit.threads.push(thread("make", 9));
    assert_eq!(by(&culprit).name, "gzip 777 and others of the root cgroup");
    // Of another cgroup, the threads are an example.
    culprit.name = "backup.service";
    assert_eq!((by(&culprit).kind, &*by(&culprit).name), (CulpritKind::Cgroup, "backup.service"));
    assert_eq!(by(&culprit).tid, Some(777));
    let mut one = disturbed(CPU, "/", vec![culprit], &[]);
    one.threads = vec![thread("kernel threads", 0)];
    let sentence = judged(&one).sentence;
    let begin = "processes of the root cgroup, above all kernel threads, wait for a CPU: ";
    assert!(
        sentence.starts_with(begin) && sentence.ends_with(", above all gzip 777"),
        "{sentence}"
    );
}

#[test]
fn no_sentence_has_the_name_of_a_metric() {
    for signal in noise_common::signals::SIGNALS.iter().map(|info| info.signal) {
        let kind = signal.info().kind;
        if !matches!(kind, noise_common::signals::ExportKind::Histogram(_)) {
            continue;
        }
        let mut one = disturbed(Some(signal), "vda write", Vec::new(), &[]);
        for is_over in [false, true] {
            one.is_over = is_over;
            let sentence = judged(&one).sentence;
            assert!(!sentence.contains('_'), "{sentence}");
        }
    }
}

#[test]
fn sleeps_are_for_what_ends_them_or_for_what_the_cgroup_stalls_for() {
    let sleep = Some(Signal::UninterruptibleWait);
    let of = |cause, name: &'static str, stalled| {
        let mut one = disturbed(sleep, "db.service", vec![charged(name, cause, 900, 0.9)], &[]);
        one.stalled = stalled;
        let verdict = judged(&one);
        (verdict.findings[0].resource, verdict.sentence)
    };
    let (resource, sentence) = of(Cause::Softirq, "block", None);
    assert_eq!(resource, Account::Disk);
    assert!(sentence.starts_with("db.service waits for disks: "), "{sentence}");
    assert!(sentence.ends_with(", until requests of a disk were done (90.0 %)"), "{sentence}");
    assert_eq!(of(Cause::Softirq, "timer", None).0, Account::Unknown);
    // The kernel says that it was for I/O, whatever ended it.
    let (resource, sentence) = of(Cause::Iowait, "iowait", None);
    assert_eq!(resource, Account::Disk);
    assert!(sentence.starts_with("db.service waits for I/O: "), "{sentence}");
    assert!(sentence.ends_with(", until I/O was done (90.0 %)"), "{sentence}");
    let (resource, sentence) = of(Cause::Kthread, "jbd2/vda1-8", None);
    assert_eq!(resource, Account::Unknown);
    assert!(sentence.starts_with("db.service sleeps uninterruptibly: "), "{sentence}");
    assert_eq!(of(Cause::Kthread, "jbd2/vda1-8", Some(Account::Disk)).0, Account::Disk);
    // Memory that is short is read again from a disk.
    assert_eq!(of(Cause::Softirq, "block", Some(Account::Memory)).0, Account::Memory);
}

#[test]
fn who_wrote_the_pages_that_are_written_first_is_named() {
    let sleep = Some(Signal::UninterruptibleWait);
    let of = |parts: &[(&'static str, Cause, f64)], advice: &[Advice]| {
        let parts = parts
            .iter()
            .map(|(name, cause, part)| charged(name, *cause, (part * 1_000.0) as u64, *part));
        let mut one = disturbed(sleep, "shop.service", parts.collect(), advice);
        one.advised.culprit = Some("writer.service");
        judged(&one)
    };
    let parts = [
        ("writer.service", Cause::Writeback, 0.6),
        ("shop.service", Cause::Writeback, 0.2),
        ("shop.service", Cause::Own, 0.2),
    ];
    let verdict = of(&parts, &[]);
    assert!(verdict.sentence.starts_with("shop.service waits for I/O: "), "{}", verdict.sentence);
    let by = ", behind what writer.service wrote (60.0 %)";
    assert!(verdict.sentence.ends_with(by), "{}", verdict.sentence);
    let [first, own, lock] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!((first.resource, first.culprit.kind), (Account::Disk, CulpritKind::Cgroup));
    assert_eq!(first.culprit.cgroup.as_deref(), Some("writer.service"));
    let next = "see what writer.service does: noised why writer.service";
    assert_eq!(first.next.as_deref(), Some(next));
    assert_eq!((own.resource, lock.resource), (Account::Disk, Account::Unknown));
    assert_eq!(own.next, None);
    // Slowing the writer down is not known to help: the kernel writes for it.
    let against = |one: &&Advice| target(one.remedy) == Target::Culprit;
    assert_eq!(of(&parts, &everything()).findings[0].remedies.iter().find(against), None);
    let verdict = of(&[("shop.service", Cause::Writeback, 0.9)], &[]);
    let by = ", behind what it wrote itself (90.0 %)";
    assert!(verdict.sentence.ends_with(by), "{}", verdict.sentence);
    // A culprit that is gone is not named.
    let verdict = of(&[("~gone", Cause::Writeback, 0.9)], &[]);
    assert_eq!(verdict.findings[0].culprit.kind, CulpritKind::None);
    assert_eq!((verdict.findings[0].resource, verdict.next), (Account::Disk, None));
}

#[test]
fn who_is_waited_for_is_not_slowed_down() {
    let advice = everything();
    let waker = vec![charged("sshfs.service", Cause::Foreign, 900, 0.9)];
    for stalled in [None, Some(Account::Disk), Some(Account::Memory)] {
        let signal = Some(Signal::UninterruptibleWait);
        let mut one = disturbed(signal, "web.service", waker.clone(), &advice);
        (one.stalled, one.advised.culprit) = (stalled, Some("sshfs.service"));
        let verdict = judged(&one);
        let against = |one: &&Advice| target(one.remedy) == Target::Culprit;
        let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
        assert_eq!(finding.remedies.iter().find(against), None, "{stalled:?}");
        // Raising a memory limit slows down no other cgroup.
        let is_memory = stalled == Some(Account::Memory);
        assert!(is_memory || finding.next.is_some(), "{finding:?}");
    }
}

#[test]
fn a_limit_of_memory_is_to_blame_and_no_disk() {
    let advice = everything();
    let sleep = Some(Signal::UninterruptibleWait);
    let culprits = vec![charged("block", Cause::Softirq, 900, 0.9)];
    let mut one = disturbed(sleep, "shop.service", culprits, &advice);
    one.stalled = Some(Account::Memory);
    let limit = LimitHits {
        of: "shop.service".to_owned(),
        is_own: true,
        kind: LimitKind::Max,
        bytes: 64 << 20,
        hits: 9,
        refaulted: None,
        swapped_in: None,
        gone: None,
    };
    one.short = Some(Shortage::Limit(limit));
    let verdict = judged(&one);
    assert_eq!(
        verdict.sentence,
        "shop.service waits for memory: 0.17 ms -> 19.5 ms (116x) since 00:03:00 UTC, because of its own memory \
         limit of 64 MiB"
    );
    let [finding] = verdict.findings.as_slice() else { panic!("{verdict:?}") };
    assert_eq!((finding.resource, finding.culprit.kind), (Account::Memory, CulpritKind::Limit));
    assert_eq!(finding.remedies, [with_command(Remedy::MemoryLimits)]);
    // Where the host is short of memory, no limit is raised.
    one.short = Some(Shortage::NoLimit);
    let verdict = judged(&one);
    assert!(verdict.sentence.ends_with(", and no limit of its memory is the reason"));
    assert_eq!((verdict.findings[0].remedies.len(), verdict.ready()), (0, None));
    assert!(verdict.next.unwrap().contains("memory of this host"));
}

#[test]
fn a_remedy_belongs_to_its_finding() {
    let advice = everything();
    let first = |signal, cause, name: &'static str| {
        let one = disturbed(signal, "shop.service", vec![charged(name, cause, 900, 0.9)], &advice);
        let findings = judged(&one).findings;
        let ready = |advice: &&Advice| !advice.commands.is_empty();
        let command = findings[0].remedies.iter().find(ready).map(|advice| advice.remedy);
        (command, findings[0].next.clone())
    };
    assert_eq!(first(CPU, Cause::Foreign, "backup.service").0, Some(Remedy::CpuAffinity));
    assert_eq!(first(CPU, Cause::Throttle, "throttle").0, Some(Remedy::RaiseQuota));
    // Whose settings were not read gets no command, but a word on where to look.
    let (command, next) = first(CPU, Cause::Foreign, "innocent.service");
    assert_ne!(command, Some(Remedy::CpuWeight));
    assert_ne!(command, Some(Remedy::CpuAffinity));
    assert!(next.is_none() || next.as_deref().is_some_and(|next| next.contains("innocent")));
    // A disk has no use for a CPU.
    let sleep = Some(Signal::UninterruptibleWait);
    assert_eq!(first(sleep, Cause::Kthread, "jbd2/vda1-8").0, None);
}

#[test]
fn a_remedy_can_change_what_its_culprit_does() {
    let advice = everything();
    let remedies = |signal, cause, name: &'static str| {
        let one = disturbed(signal, "shop.service", vec![charged(name, cause, 900, 0.9)], &advice);
        let findings = judged(&one).findings;
        findings[0].remedies.iter().map(|one| one.remedy).collect::<Vec<_>>()
    };
    let boot = Remedy::IsolatedCpus;
    assert_eq!(remedies(CPU, Cause::Kthread, "kworker/0:1"), [Remedy::WorkqueueCpus, boot]);
    assert_eq!(remedies(CPU, Cause::Kthread, "khugepaged"), [Remedy::HugePages, boot]);
    assert_eq!(remedies(CPU, Cause::Kthread, "kswapd0"), []);
    let of_device = [Remedy::IrqAffinity, Remedy::InterruptCoalescing, boot];
    assert_eq!(remedies(None, Cause::Hardirq, "eth0"), of_device);
    assert_eq!(remedies(None, Cause::Hardirq, "local_timer"), []);
    assert_eq!(remedies(CPU, Cause::Own, "shop.service"), [Remedy::FewerThreads]);
    // The policy that was read is that of the advised culprit.
    let takes_policy =
        |name| remedies(CPU, Cause::Foreign, name).contains(&Remedy::SchedulingPolicy);
    assert!(takes_policy("backup.service") && !takes_policy("innocent.service"));
}

#[test]
fn what_needs_another_boot_is_never_the_first_thing_to_do() {
    let advice = [Advice::plain(Remedy::IsolatedCpus), Advice::plain(Remedy::CpuWeight)];
    let remedies = |advice| {
        let charged = vec![charged("backup.service", Cause::Foreign, 900, 0.9)];
        let verdict = judged(&disturbed(CPU, "shop.service", charged, advice));
        verdict.findings[0].remedies.iter().map(|one| one.remedy).collect::<Vec<_>>()
    };
    assert_eq!(remedies(&advice), [Remedy::CpuWeight, Remedy::IsolatedCpus]);
    assert_eq!(remedies(&advice[..1]), []);
}

#[test]
fn who_is_as_usual_gets_no_remedy() {
    let advice = everything();
    let mut usual = charged("backup.service", Cause::Foreign, 900, 0.9);
    usual.beyond_ns = 0;
    let other = charged("other.service", Cause::Foreign, 90, 0.1);
    let verdict = judged(&disturbed(CPU, "shop.service", vec![other, usual], &advice));
    let of = |name: &str| verdict.findings.iter().find(|one| one.culprit.name == name).unwrap();
    assert_eq!(
        (of("other.service").unusual, of("backup.service").unusual),
        (Some(true), Some(false))
    );
    assert!(of("backup.service").remedies.is_empty());
}

fn any_charged() -> impl Strategy<Value = Vec<(usize, usize, u64, bool)>> {
    proptest::collection::vec((0..6_usize, 0..10_usize, 0..1_000_u64, any::<bool>()), 0..8)
}

proptest! {
    #[test]
    fn no_command_is_against_what_all_depend_on_or_another(
        signal in 0..noise_common::signals::SIGNALS.len(),
        parts in any_charged(),
        advised in 0..6_usize,
        victim in 0..6_usize,
    ) {
        let names = ["/", "~other", "~gone", "shop.service", "backup.service", "block"];
        let advice = everything();
        let charges = parts.iter().map(|(name, cause, ms, is_beyond)| {
            let cause = noise_common::charge::CHARGE_CAUSES[*cause];
            let beyond_ns = if *is_beyond { ms * MS } else { 0 };
            ChargedCulprit { beyond_ns, ..charged(names[*name], cause, *ms, 0.5) }
        });
        let signal = noise_common::signals::SIGNALS[signal].signal;
        let mut one = disturbed(Some(signal), names[victim], charges.collect(), &advice);
        one.advised.culprit = Some(names[advised]);
        let verdict = judged(&one);
        prop_assert!(!verdict.findings.is_empty() && verdict.findings.len() <= MOST);
        for finding in &verdict.findings {
            for ready in finding.remedies.iter().filter(|own| !own.commands.is_empty()) {
                prop_assert!(gives(ready.remedy).contains(&finding.resource)
                    || inherent(Some(signal)).contains(&ready.remedy));
                if target(ready.remedy) == Target::Culprit {
                    let name = finding.culprit.name.as_str();
                    prop_assert_eq!(Some(name), one.advised.culprit);
                    prop_assert!(is_one(name) && name != names[victim]);
                }
                prop_assert!(finding.unusual == Some(true));
            }
        }
    }
}

#[test]
fn a_quota_of_a_cgroup_around_it_is_not_its_own() {
    let one = Disturbed {
        quota: Some("the CPU quota of web.slice, its parent".to_owned()),
        ..disturbed(CPU, "shop.service", vec![charged("throttle", Cause::Throttle, 900, 0.9)], &[])
    };
    let verdict = judged(&one);
    let expected = ", stopped by the CPU quota of web.slice, its parent (90.0 %)";
    assert!(verdict.sentence.ends_with(expected), "{}", verdict.sentence);
    assert_eq!(verdict.findings[0].culprit.name, "the CPU quota of web.slice, its parent");
}

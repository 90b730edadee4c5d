//! Tests of culprits that follow each other: each has an incident of its own, and who comes back does
//! not.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_model::Step;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::planted::{PlantedHost, WARM, around, board, clock, closed, live};
use super::{Board, Episode, GroupChange, Overview, Report, Settings};

const SLOW_NS: u64 = 8_000_000;
const USUAL_NS: u64 = 50_000;
/// Subjects of stories by chance.
const NAMES: [&str; 3] = ["/x", "/y", "/z"];
/// After all, until nothing is open any more.
const REST: u64 = 60;

/// Who makes a cgroup wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlannedCulprits {
    /// None: it waits as usual.
    None,
    One(&'static str),
    Both(&'static str, &'static str),
    /// Eight, none of which did a quarter.
    Many,
}

/// The waits of a cgroup in one window.
fn wait(host: &mut PlantedHost, number: u64, victim: &str, by: PlannedCulprits) {
    let mean_ns = around(if by == PlannedCulprits::None { USUAL_NS } else { SLOW_NS }, number);
    let culprits: Vec<String> = match by {
        PlannedCulprits::None => vec!["/".to_owned()],
        PlannedCulprits::One(one) => vec![one.to_owned()],
        PlannedCulprits::Both(one, other) => vec![one.to_owned(), other.to_owned()],
        PlannedCulprits::Many => (0..8).map(|index| format!("/many-{index}")).collect(),
    };
    host.delay(Signal::CgroupRunqueueWait, &[victim], &[mean_ns; 10]);
    for culprit in &culprits {
        let ns = 10 * mean_ns / culprits.len() as u64;
        host.charge(Resource::Cpu, ["", victim], culprit, Cause::Foreign, ns);
    }
}

/// What a cgroup goes through once the host is warm: for how many windows, by whom.
type Phases = [(u64, PlannedCulprits)];

fn at(phases: &Phases, number: u64) -> PlannedCulprits {
    let mut end = WARM;
    if number < WARM {
        return PlannedCulprits::None;
    }
    let current = phases.iter().find(|(length, _)| {
        end += length;
        number < end
    });
    current.map_or(PlannedCulprits::None, |(_, by)| *by)
}

fn length(stories: &[(&str, &Phases)]) -> u64 {
    let of = |(_, phases): &(&str, &Phases)| phases.iter().map(|(length, _)| length).sum::<u64>();
    stories.iter().map(of).max().unwrap_or_default()
}

/// What comes of cgroups with such stories, with what there was to see after each window.
fn play(stories: &[(&str, &Phases)], mut see: impl FnMut(u64, &Overview)) -> Vec<GroupChange> {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let mut events = Vec::new();
    for number in 0..WARM + length(stories) + REST {
        for (victim, phases) in stories {
            wait(&mut host, number, victim, at(phases, number));
        }
        let sample = host.sample();
        events.extend(board.analyse(&sample, &Step::default(), clock(&sample)));
        see(number, &board.overview(clock(&sample)));
    }
    events
}

fn opened(events: &[GroupChange]) -> usize {
    events.iter().filter(|event| matches!(event, GroupChange::Opened(_))).count()
}

fn first(episode: &Episode) -> &str {
    episode.culprits.first().map_or("", |culprit| &*culprit.culprit)
}

/// By subject, who did most, in the order of the incidents' numbers.
fn blamed(events: &[GroupChange]) -> Vec<Vec<(String, String)>> {
    let mut reports = closed(events);
    reports.sort_by_key(|report| report.id);
    let of = |report: &&Report| -> Vec<(String, String)> {
        let both = |one: &Episode| (one.subject.to_string(), first(one).to_owned());
        report.episodes().map(both).collect()
    };
    reports.iter().map(of).collect()
}

fn pairs(blamed: &[&[(&str, &str)]]) -> Vec<Vec<(String, String)>> {
    let own = |(subject, culprit): &(&str, &str)| ((*subject).to_owned(), (*culprit).to_owned());
    blamed.iter().map(|report| report.iter().map(own).collect()).collect()
}

#[test]
fn two_successive_culprits_are_two_incidents_however_long_the_victim_recovers() {
    for calm in [0, 4, 9, 12, 25, 60] {
        let story = [
            (40, PlannedCulprits::One("/hog")),
            (calm, PlannedCulprits::None),
            (40, PlannedCulprits::One("/other")),
        ];
        let events = play(&[("/a", &story)], |_, _| {});
        let expected = pairs(&[&[("/a", "/hog")], &[("/a", "/other")]]);
        assert_eq!(blamed(&events), expected, "{calm}: {events:#?}");
        assert_eq!(opened(&events), 2, "{calm}");
        let reports = closed(&events);
        let windows = |report: &Report| {
            let at = |time: jiff::Timestamp| time.as_millisecond() / 500 - WARM as i64;
            (at(report.main.start), at(report.main.end))
        };
        let second = (40 + calm) as i64;
        // Calm that is too short to end an incident may be counted among its windows.
        let (start, end) = windows(reports[0]);
        assert!(start == 0 && (40..=40 + calm.min(5) as i64).contains(&end), "{calm}: {end}");
        assert_eq!(windows(reports[1]), (second, second + 40), "{calm}");
    }
}

#[test]
fn two_successive_culprits_are_two_incidents_while_that_of_a_third_subject_is_open() {
    for calm in [0, 4, 12, 25, 60] {
        // What the third is disturbed by makes its incident, in turn, one of the first culprit, one
        // that goes on without it, and one of another.
        for third in [
            vec![(200, PlannedCulprits::Both("/hog", "/flood"))],
            vec![
                (60, PlannedCulprits::Both("/hog", "/flood")),
                (140, PlannedCulprits::One("/flood")),
            ],
            vec![(200, PlannedCulprits::One("/flood"))],
        ] {
            let story = [
                (30, PlannedCulprits::One("/hog")),
                (calm, PlannedCulprits::None),
                (30, PlannedCulprits::One("/other")),
            ];
            let mut seen = BTreeSet::new();
            let events = play(&[("/third", &third), ("/victim", &story)], |number, overview| {
                let active: Vec<_> = overview.active.iter().map(|(_, who)| &**who).collect();
                if number == WARM + 20 || number == WARM + 50 + calm {
                    assert_eq!(active, ["/third", "/victim"], "{calm} {number}");
                }
                if calm > 20 && number == WARM + 45 {
                    assert_eq!(active, ["/third"], "{calm} {number}");
                }
                seen.extend(active.into_iter().map(str::to_owned));
            });
            let blamed = blamed(&events);
            let has = |of: &str, by: &str| {
                blamed.iter().position(|report| report.contains(&(of.to_owned(), by.to_owned())))
            };
            let [one, other] = ["/hog", "/other"].map(|by| has("/victim", by));
            assert!(one.is_some() && other.is_some() && one != other, "{calm}: {blamed:?}");
            let by_other = &blamed[other.unwrap()];
            assert_eq!(*by_other, pairs(&[&[("/victim", "/other")]])[0], "{calm}: {blamed:?}");
        }
    }
}

#[test]
fn who_comes_back_while_a_third_is_disturbed_is_reported_once() {
    let third = [(150, PlannedCulprits::One("/hog"))];
    let story = [
        (30, PlannedCulprits::One("/hog")),
        (40, PlannedCulprits::None),
        (20, PlannedCulprits::One("/hog")),
    ];
    let mut numbers = BTreeSet::new();
    let events = play(&[("/third", &third), ("/victim", &story)], |_, overview| {
        numbers.extend(overview.incidents.iter().map(|report| report.id));
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    assert_eq!((opened(&events), numbers.len()), (1, 1));
    let victim = report.episodes().find(|one| &*one.subject == "/victim").unwrap();
    assert_eq!(report.also.len(), 1, "{report:#?}");
    assert!((victim.seconds - 25.0).abs() < 0.6, "{victim:#?}");
    assert!((victim.end.duration_since(victim.start).as_secs_f64() - 45.0).abs() < 0.6);
    // Of fifty windows of ten waits of 8 ms, all but what is usual.
    assert!((victim.lost_seconds - 50.0 * 0.0795).abs() < 0.05, "{victim:#?}");
    assert!((victim.culprits[0].time.seconds - 50.0 * 0.08).abs() < 0.05, "{victim:#?}");
    assert!((victim.culprits[0].time.share - 1.0).abs() < 1e-9, "{victim:#?}");
    assert!((victim.after.rate - 20.0).abs() < 0.1, "{victim:#?}");
    assert!((victim.after.lost - 0.16).abs() < 0.001, "{victim:#?}");
}

#[test]
fn what_opened_an_incident_and_comes_back_does_not_join_itself() {
    let story = [
        (30, PlannedCulprits::One("/hog")),
        (30, PlannedCulprits::None),
        (30, PlannedCulprits::One("/hog")),
    ];
    let events = play(&[("/a", &story)], |_, overview| {
        let active = overview.active.len();
        let open = overview.incidents.iter().filter(|report| report.open).count();
        assert_eq!(active, open);
    });
    assert_eq!(blamed(&events), pairs(&[&[("/a", "/hog")]]));
    let report = closed(&events)[0];
    assert!((report.main.seconds - 30.0).abs() < 0.6, "{report:#?}");
    assert!((report.lasted() - 45.0).abs() < 0.6, "{report:#?}");
}

#[test]
fn who_is_not_clear_at_first_stays_or_leaves_once_it_is() {
    let third = [(200, PlannedCulprits::One("/hog"))];
    for (by, expected) in [
        ("/hog", pairs(&[&[("/third", "/hog"), ("/victim", "/hog")]])),
        ("/other", pairs(&[&[("/third", "/hog"), ("/victim", "/hog")], &[("/victim", "/other")]])),
    ] {
        let story = [
            (30, PlannedCulprits::One("/hog")),
            (20, PlannedCulprits::None),
            (8, PlannedCulprits::Many),
            (40, PlannedCulprits::One(by)),
        ];
        let mut numbers = Vec::new();
        let events = play(&[("/third", &third), ("/victim", &story)], |_, overview| {
            let now: Vec<_> = overview.incidents.iter().map(|report| report.id).collect();
            if numbers.last() != Some(&now) {
                numbers.push(now);
            }
        });
        assert_eq!(blamed(&events), expected, "{events:#?}");
        assert_eq!(opened(&events), expected.len());
        // A number that was reported is reported until the end.
        let counts: Vec<_> = numbers.iter().map(Vec::len).collect();
        assert!(counts.is_sorted(), "{numbers:?}");
    }
}

#[test]
fn who_did_little_before_and_all_of_it_now_has_an_incident_of_his_own() {
    let (mut board, mut host) = (board(), PlantedHost::default());
    let events = live(&mut board, &mut host, 0..WARM + 200, |host, number| {
        let (slow, parts) = match number.saturating_sub(WARM) {
            // Too much to say that he had nothing to do with it, too little to blame him.
            1..40 => (true, [8, 2]),
            60..90 => (true, [0, 10]),
            _ => (false, [5, 5]),
        };
        let mean_ns = around(if slow { SLOW_NS } else { USUAL_NS }, number);
        host.delay(Signal::CgroupRunqueueWait, &["/a"], &[mean_ns; 10]);
        for (culprit, part) in ["/hog", "/other"].into_iter().zip(parts) {
            host.charge(Resource::Cpu, ["", "/a"], culprit, Cause::Foreign, part * mean_ns);
        }
    });
    let expected = pairs(&[&[("/a", "/hog")], &[("/a", "/other")]]);
    assert_eq!(blamed(&events), expected, "{events:#?}");
}

#[test]
fn culprits_in_turn_go_back_to_their_own_incidents() {
    let turn = [(20, PlannedCulprits::One("/hog")), (20, PlannedCulprits::One("/other"))];
    let story: Vec<_> = turn.iter().cycle().take(12).copied().collect();
    let events = play(&[("/a", &story)], |_, _| {});
    assert_eq!(blamed(&events), pairs(&[&[("/a", "/hog")], &[("/a", "/other")]]), "{events:#?}");
    assert_eq!(opened(&events), 2);
    for report in closed(&events) {
        assert!((report.main.seconds - 60.0).abs() < 2.0, "{report:#?}");
    }
}

#[test]
fn culprits_that_come_and_go_together_are_one_incident() {
    let parts: Vec<(u64, PlannedCulprits)> = (0..20)
        .map(|index| {
            (
                3 + index % 5,
                [PlannedCulprits::One("/a"), PlannedCulprits::One("/b")][index as usize % 2],
            )
        })
        .collect();
    let events = play(&[("/v", &parts)], |_, _| {});
    assert_eq!((opened(&events), closed(&events).len()), (1, 1), "{events:#?}");
}

#[test]
fn what_two_culprits_disturb_does_not_make_one_of_their_incidents() {
    let stories: [(&str, &Phases); 3] = [
        ("/by-hog", &[(60, PlannedCulprits::One("/hog"))]),
        ("/by-flood", &[(5, PlannedCulprits::None), (55, PlannedCulprits::One("/flood"))]),
        ("/by-both", &[(15, PlannedCulprits::None), (45, PlannedCulprits::Both("/hog", "/flood"))]),
    ];
    let events = play(&stories, |_, _| {});
    let blamed = blamed(&events);
    assert_eq!((blamed.len(), opened(&events)), (2, 2), "{blamed:?}");
    assert_eq!((&*blamed[0][0].1, &*blamed[1][0].1), ("/hog", "/flood"));
}

#[test]
fn two_successive_floods_of_a_disk_are_two_incidents() {
    for calm in [0, 20, 60] {
        let by = |number: u64| match number {
            WARM.. if number < WARM + 40 => Some("/grep"),
            _ if (WARM + 40 + calm..WARM + 80 + calm).contains(&number) => Some("/find"),
            _ => None,
        };
        let (mut board, mut host) = (board(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..WARM + 240, |host, number| {
            let slow = if by(number).is_some() { 40 } else { 1 };
            for operation in ["read", "write"] {
                let mean_ns = slow * around(200_000, number);
                host.delay(Signal::BlockQueueWait, &["vda", operation], &[mean_ns; 10]);
                host.delay(Signal::BlockDeviceWait, &["vda", operation], &[2 * mean_ns; 10]);
                let culprit = by(number).unwrap_or("/db");
                for (resource, ns) in [(Resource::BlockQueue, 10), (Resource::BlockDevice, 20)] {
                    // Who floods a disk waits for himself most.
                    host.charge(resource, ["vda", culprit], culprit, Cause::Own, ns * mean_ns);
                }
            }
        });
        let blamed = blamed(&events);
        assert_eq!(blamed.len(), 2, "{calm}: {blamed:?}");
        for (report, culprit) in blamed.iter().zip(["/grep", "/find"]) {
            assert_eq!(report.len(), 4, "{calm}: {blamed:?}");
            assert!(report.iter().all(|(_, first)| first == culprit), "{calm}: {blamed:?}");
        }
    }
}

#[test]
fn interrupts_of_the_root_cgroup_do_not_take_in_what_befalls_a_service() {
    for (others, name) in [("/", Cause::Foreign), ("net_rx", Cause::Softirq)] {
        let (mut board, mut host) = (board(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..WARM + 180, |host, number| {
            let storm = if (WARM..WARM + 100).contains(&number) { 60 } else { 1 };
            let ns = around(2_000_000, number) * storm;
            host.take(0, "/", "eth0-rx", Cause::Hardirq, ns / 2);
            host.take(0, "/", "net_rx", Cause::Softirq, ns / 2);
            let disturbed = (WARM + 20..WARM + 60).contains(&number);
            let mean_ns = around(if disturbed { SLOW_NS } else { USUAL_NS }, number);
            let at = ["", "/web"];
            host.delay(Signal::CgroupRunqueueWait, &["/web"], &[mean_ns; 10]);
            host.charge(Resource::Cpu, at, "/hog", Cause::Foreign, 7 * mean_ns);
            host.charge(Resource::Cpu, at, others, name, 3 * mean_ns);
        });
        let blamed = blamed(&events);
        let expected = pairs(&[&[("/", "eth0-rx")], &[("/web", "/hog")]]);
        assert_eq!(blamed, expected, "{others}: {events:#?}");
    }
}

#[test]
fn an_interrupt_is_kept_apart_from_others_of_its_kind() {
    let settings = Settings {
        watch: vec![Signal::CgroupRunqueueWait.into(), Signal::Hardirq.into()],
        ..Settings::default()
    };
    for (culprit, expected) in [("eth0-rx", 2), ("virtio1", 1), ("irq 36", 1)] {
        let (mut board, mut host) = (Board::new(settings.clone()).unwrap(), PlantedHost::default());
        let events = live(&mut board, &mut host, 0..WARM + 100, |host, number| {
            let disturbed = (WARM..WARM + 40).contains(&number);
            let mean_ns = around(if disturbed { SLOW_NS } else { USUAL_NS }, number);
            host.delay(Signal::Hardirq, &["36", "virtio1"], &[mean_ns; 10]);
            host.wait("/a", culprit, Cause::Hardirq, mean_ns);
        });
        assert_eq!(blamed(&events).len(), expected, "{culprit}: {events:#?}");
    }
}

#[test]
fn many_subjects_all_have_their_series() {
    let names: Vec<String> = (0..50).map(|index| format!("/{index:02}")).collect();
    // As long as the others, and so long that they are over and forgotten by then.
    for first in [40, 100] {
        let (mut board, mut host) = (board(), PlantedHost::default());
        let (mut most, mut untold) = (0, Vec::new());
        for number in 0..WARM + first + 60 {
            for name in &names {
                let length = if *name == names[0] { first } else { 40 };
                wait(
                    &mut host,
                    number,
                    name,
                    at(&[(length, PlannedCulprits::One("/hog"))], number),
                );
            }
            let sample = host.sample();
            let events = board.analyse(&sample, &Step::default(), clock(&sample));
            most = most.max(board.overview(clock(&sample)).active.len());
            untold.extend(closed(&events).iter().map(|one| (one.also.len(), one.untold)));
        }
        assert_eq!((most, untold), (names.len(), vec![(32, 17)]));
        assert_eq!(board.overview(clock(&host.sample())).active, []);
    }
}

fn stories() -> impl Strategy<Value = Vec<Vec<(u64, PlannedCulprits)>>> {
    let by = prop_oneof![
        3 => Just(PlannedCulprits::None),
        1 => Just(PlannedCulprits::One("/hog")),
        1 => Just(PlannedCulprits::One("/other")),
        1 => Just(PlannedCulprits::One("/flood")),
        1 => Just(PlannedCulprits::Both("/hog", "/other")),
        1 => Just(PlannedCulprits::Many),
    ];
    let phase = (1u64..50, by);
    proptest::collection::vec(proptest::collection::vec(phase, 1..8), 1..4)
}

proptest! {
    #![proptest_config(Config { cases: 32, ..Config::default() })]

    #[test]
    fn what_is_reported_holds_together(stories in stories()) {
        let stories: Vec<(&str, &Phases)> =
            NAMES.into_iter().zip(stories.iter().map(Vec::as_slice)).collect();
        let mut opened_before = 0;
        let mut failed = None;
        let events = play(&stories, |number, overview| {
            if let Err(why) = holds_together(overview) {
                failed.get_or_insert(format!("{number}: {why}"));
            }
            let opened: u64 = overview.opened.iter().map(|(_, count)| count).sum();
            if opened < opened_before {
                failed.get_or_insert(format!("{number}: {opened} incidents after {opened_before}"));
            }
            opened_before = opened;
        });
        prop_assert_eq!(failed, None);
        let merged = events.iter().filter(|event| matches!(event, GroupChange::Merged { .. })).count();
        let reports = closed(&events);
        prop_assert_eq!(opened(&events), merged + reports.len());
        prop_assert_eq!(opened_before as usize, opened(&events));
        let numbers: BTreeSet<_> = reports.iter().map(|report| report.id).collect();
        prop_assert_eq!(numbers.len(), reports.len());
    }

    #[test]
    fn whoever_disturbs_for_long_enough_is_named_first(
        stories in proptest::collection::vec(clear_stories(), 1..4),
    ) {
        let stories: Vec<(&str, &Phases)> =
            NAMES.into_iter().zip(stories.iter().map(Vec::as_slice)).collect();
        let events = play(&stories, |_, _| {});
        let reports = closed(&events);
        for (victim, phases) in &stories {
            let mut begin = WARM;
            for (length, by) in *phases {
                let middle = (begin + length / 2) as i64;
                begin += length;
                let PlannedCulprits::One(culprit) = by else { continue };
                let named = reports.iter().flat_map(|report| report.episodes()).any(|one| {
                    let at = |time: jiff::Timestamp| time.as_millisecond() / 500;
                    let is_then = (at(one.start)..at(one.end)).contains(&middle);
                    &*one.subject == *victim && first(one) == *culprit && is_then
                });
                prop_assert!(named, "{} by {} at {}: {:#?}", victim, culprit, middle, reports);
            }
        }
    }
}

/// Culprits one at a time, for long enough, with calm of any length between them.
fn clear_stories() -> impl Strategy<Value = Vec<(u64, PlannedCulprits)>> {
    let culprit = prop_oneof![Just("/hog"), Just("/other"), Just("/flood")];
    let turn = (0u64..50, 20u64..60, culprit);
    proptest::collection::vec(turn, 1..5).prop_map(|turns| {
        let phases = turns.into_iter().flat_map(|(calm, length, culprit)| {
            [(calm, PlannedCulprits::None), (length, PlannedCulprits::One(culprit))]
        });
        phases.collect()
    })
}

fn holds_together(overview: &Overview) -> Result<(), String> {
    let mut open = BTreeMap::new();
    for report in &overview.incidents {
        let mut keys = BTreeSet::new();
        for episode in report.episodes() {
            let key = (episode.signal, episode.subject.clone());
            if !keys.insert(key.clone()) {
                return Err(format!("#{} lists {key:?} twice", report.id));
            }
            if episode.is_active() && open.insert(key, report.id).is_some() {
                return Err(format!("{:?} of {} is open twice", episode.signal, episode.subject));
            }
            let lasted = episode.end.duration_since(episode.start).as_secs_f64();
            if !(0.0..=lasted + 1e-3).contains(&episode.seconds) {
                return Err(format!("{} s of {lasted} s: {episode:#?}", episode.seconds));
            }
            let named: f64 = episode.culprits.iter().map(|one| one.time.share).sum();
            let all = named + episode.others.share + episode.untracked.share;
            if (all - 1.0).abs() > 1e-6 {
                return Err(format!("shares add up to {all}: {episode:#?}"));
            }
            let delays = episode.after.lost * episode.seconds;
            let charged = episode.culprits.iter().map(|one| one.time.seconds).sum::<f64>()
                + episode.others.seconds
                + episode.untracked.seconds;
            if episode.ending.is_some() && (delays - charged).abs() > 0.01 * charged {
                return Err(format!("{delays} s of delays, {charged} s charged: {episode:#?}"));
            }
        }
        let is_open = report.episodes().any(Episode::is_active);
        if report.open != is_open {
            return Err(format!("#{} is open: {}, parts: {is_open}", report.id, report.open));
        }
    }
    let active: BTreeSet<_> = overview.active.iter().cloned().collect();
    match open.into_keys().collect::<BTreeSet<_>>() == active {
        true => Ok(()),
        false => Err(format!("active: {active:?}")),
    }
}

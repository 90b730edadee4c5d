//! Tests that each planter of disturbances is reported as one incident, whatever shows them.

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::test_runner::Config;

use super::planted::{PlantedHost, WARM, around, closed, is_planted, planted};
use super::{GroupChange, Report};

/// What one planter does.
#[derive(Clone, Debug)]
struct Plot {
    /// Of each victim's waits for a CPU, the part that is for its own tasks.
    own: Vec<f64>,
    /// Windows by which each victim is disturbed later than the first.
    late: Vec<u64>,
    /// Of the waits at a disk of its own, the part that is its own; none = it uses no disk.
    disk: Option<f64>,
}

fn plots() -> impl Strategy<Value = Plot> {
    (proptest::collection::vec((0.0..0.95f64, 0u64..8), 1..5), proptest::option::of(0.0..1.0f64))
        .prop_map(|(victims, disk)| {
            let (own, late) = victims.into_iter().unzip();
            Plot { own, late, disk }
        })
}

impl Plot {
    fn act(&self, host: &mut PlantedHost, number: u64, planter: &str) {
        let quiet_ns = around(50_000, number);
        for (victim, (own, late)) in self.own.iter().zip(&self.late).enumerate() {
            let victim = format!("{planter}-victim-{victim}");
            if is_planted(number) && is_planted(number - late) {
                let mean_ns = around(8_000_000, number);
                let own_ns = (own * mean_ns as f64) as u64;
                let delays = [mean_ns; 10];
                host.delay(Signal::CgroupRunqueueWait, &[&victim], &delays);
                let at = ["", &*victim];
                host.charge(Resource::Cpu, at, &victim, Cause::Own, 10 * own_ns);
                host.charge(Resource::Cpu, at, planter, Cause::Foreign, 10 * (mean_ns - own_ns));
            } else {
                host.wait(&victim, "/", Cause::Foreign, quiet_ns);
            }
        }
        let Some(own) = self.disk else { return };
        let disk = format!("disk-of-{planter}");
        for operation in ["read", "write"] {
            let mean_ns = if is_planted(number) { around(9_000_000, number) } else { quiet_ns };
            host.delay(Signal::BlockDeviceWait, &[&disk, operation], &[mean_ns; 10]);
            if is_planted(number) {
                let own_ns = (own * mean_ns as f64) as u64;
                for (cause, ns) in [(Cause::Own, own_ns), (Cause::Foreign, mean_ns - own_ns)] {
                    host.charge(Resource::BlockDevice, [&disk, "/db"], planter, cause, 10 * ns);
                }
            } else {
                host.charge(Resource::BlockDevice, [&disk, "/db"], "/db", Cause::Own, quiet_ns);
            }
        }
    }
}

/// How many incidents were reported in the end, and how many are over.
fn counted(events: &[GroupChange]) -> (usize, usize) {
    let count = |is: fn(&GroupChange) -> bool| events.iter().filter(|event| is(event)).count();
    let opened = count(|event| matches!(event, GroupChange::Opened(_)));
    let merged = count(|event| matches!(event, GroupChange::Merged { .. }));
    (opened - merged, closed(events).len())
}

#[test]
fn whom_a_hog_and_a_slow_disk_delay_has_two_incidents() {
    let (_, events) = planted(|host, number| {
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.wait("/db", "/hog", Cause::Foreign, mean_ns);
        host.delay(Signal::BlockDeviceWait, &["vda", "read"], &[mean_ns; 10]);
        host.charge(Resource::BlockDevice, ["vda", "/db"], "/db", Cause::Own, 10 * mean_ns);
    });
    assert_eq!(counted(&events), (2, 2), "{events:#?}");
}

#[test]
fn who_is_overloaded_by_himself_does_not_take_in_what_befalls_his_neighbour() {
    let (_, events) = planted(|host, number| {
        // From before the hog comes to long after it has left.
        let is_overloaded = number >= WARM - 20;
        let mean_ns = around(if is_overloaded { 8_000_000 } else { 50_000 }, number);
        host.wait("/", "/a", Cause::Foreign, mean_ns / 5);
        host.delay(Signal::CgroupRunqueueWait, &["/"], &[mean_ns; 8]);
        host.charge(Resource::Cpu, ["", "/"], "/", Cause::Own, 8 * mean_ns);
        let mean_ns = around(if is_planted(number) { 8_000_000 } else { 50_000 }, number);
        host.wait("/a", "/hog", Cause::Foreign, mean_ns);
    });
    assert_eq!(counted(&events), (2, 1), "{events:#?}");
    assert_eq!(&*closed(&events)[0].main.culprits[0].culprit, "/hog");
}

/// The root cgroup opens the incident, long before, together with, or after the one that a hog keeps waiting.
#[test]
fn an_incident_is_about_a_cgroup_rather_than_about_the_root_cgroup() {
    for (late, late_root) in [(6, 0), (0, 0), (0, 6)] {
        let (_, events) = planted(|host, number| {
            for (victim, late, part) in [("/", late_root, 3), ("/web", late, 10)] {
                let is_disturbed = is_planted(number) && is_planted(number - late);
                let mean_ns = around(if is_disturbed { 8_000_000 } else { 50_000 }, number);
                host.delay(Signal::CgroupRunqueueWait, &[victim], &[mean_ns; 10]);
                let at = ["", victim];
                host.charge(Resource::Cpu, at, "/hog", Cause::Foreign, part * mean_ns);
                host.charge(Resource::Cpu, at, victim, Cause::Own, (10 - part) * mean_ns);
            }
        });
        assert_eq!(counted(&events), (1, 1), "{events:#?}");
        assert_eq!(&*closed(&events)[0].main.subject, "/web");
        let abouts = events.iter().filter_map(|event| match event {
            GroupChange::Opened(report) | GroupChange::Joined { into: report, .. } => {
                Some(&*report.main.subject)
            }
            _ => None,
        });
        let opener = if late > late_root { "/" } else { "/web" };
        assert_eq!(abouts.collect::<Vec<_>>(), [opener, "/web"]);
    }
}

#[test]
fn an_incident_begins_when_its_excess_began() {
    // Long before the hog there was one long wait by another, or there were ever longer ones, too short for an incident.
    let blip = |number: u64| if number == WARM - 24 { 400_000_000 } else { 50_000 };
    let rise = |number: u64| 50_000 + number.saturating_sub(WARM - 24) * 16_000;
    let before: [(&dyn Fn(u64) -> u64, u64); 2] = [(&blip, 8_000_000), (&rise, 1_000_000)];
    for (usual, slow_ns) in before {
        let (_, events) = planted(|host, number| {
            let (culprit, mean_ns) = match number {
                ..WARM => ("/", usual(number)),
                _ if is_planted(number) => ("/hog", slow_ns),
                _ => ("/", 50_000),
            };
            host.wait("/a", culprit, Cause::Foreign, around(mean_ns, number));
        });
        let [report] = closed(&events)[..] else { panic!("{events:#?}") };
        assert_eq!(report.main.start.as_millisecond(), WARM as i64 * 500);
        assert_eq!(&*report.main.culprits[0].culprit, "/hog");
        let part = report.main.culprits[0].time.share;
        assert!(part > 0.99, "{part}");
    }
}

/// Ten services queue behind their own threads because of a storm of short processes, of which little is charged to it: the
/// kernel seldom knows which of them had the CPU.
#[test]
fn a_storm_of_short_processes_is_one_incident_with_all_its_victims() {
    let (_, events) = planted(|host, number| {
        for victim in 0..10 {
            let name = format!("/service-{victim}");
            let is_disturbed = is_planted(number) && is_planted(number - victim % 4);
            let mean_ns = around(if is_disturbed { 8_000_000 } else { 50_000 }, number);
            host.delay(Signal::CgroupRunqueueWait, &[&name], &[mean_ns; 10]);
            // From 4 to 40 % by the storm; of a tenth it is not known.
            let [own, storm] =
                if is_disturbed { [86 - 4 * victim, 4 + 4 * victim] } else { [90, 0] };
            for (culprit, cause, part) in
                [(&*name, Cause::Own, own), ("/storm", Cause::Foreign, storm)]
            {
                host.charge(Resource::Cpu, ["", &name], culprit, cause, part * mean_ns / 10);
            }
        }
        let mean_ns = around(if is_planted(number) { 20_000_000 } else { 50_000 }, number);
        host.wait("/storm", "/storm", Cause::Own, mean_ns);
        // Each sleeps until a child of it was run, and some services until a thread of theirs was.
        for sleeper in ["/storm", "/service-8"] {
            host.delay(Signal::UninterruptibleWait, &[sleeper], &[mean_ns; 10]);
            let at = ["", sleeper];
            host.charge(Resource::Uninterruptible, at, sleeper, Cause::Own, 10 * mean_ns);
        }
    });
    assert_eq!(counted(&events), (1, 1), "{events:#?}");
    let opened = events.iter().filter(|event| matches!(event, GroupChange::Opened(_))).count();
    assert_eq!(opened, 1, "none has a number for some seconds alone");
    let report = closed(&events)[0];
    assert_eq!(report.episodes().count(), 13);
    // Who has a good part by the storm is held up by it, from the begin on.
    let opened = events.iter().find_map(|event| match event {
        GroupChange::Joined { signal, subject, into }
            if &**subject == "/service-8" && *signal == Signal::CgroupRunqueueWait =>
        {
            Some(into)
        }
        _ => None,
    });
    let first = |report: &Report| {
        let mut waits = report.episodes().filter(|one| one.signal == Signal::CgroupRunqueueWait);
        let of = waits.find(|one| &*one.subject == "/service-8").unwrap();
        of.culprits[0].culprit.to_string()
    };
    assert_eq!((first(opened.unwrap()), first(report)), ("/storm".into(), "/storm".into()));
}

proptest! {
    #![proptest_config(Config { cases: 64, ..Config::default() })]

    #[test]
    fn one_planter_is_one_incident_that_names_it(plot in plots()) {
        let (_, events) = planted(|host, number| plot.act(host, number, "/hog"));
        prop_assert_eq!(counted(&events), (1, 1), "{:#?}", events);
        let report = closed(&events)[0];
        prop_assert_eq!(
            report.also.len() + 1,
            plot.own.len() + if plot.disk.is_some() { 2 } else { 0 }
        );
        for episode in report.also.iter().chain([&report.main]) {
            let named = episode.culprits.iter().find(|one| one.cause != Cause::Own);
            let first = named.or(episode.culprits.first());
            prop_assert_eq!(first.map(|one| &*one.culprit), Some("/hog"));
        }
    }

    #[test]
    fn two_planters_are_two_incidents(one in plots(), other in plots(), swap in any::<bool>()) {
        let (_, events) = planted(|host, number| {
            let mut both = [(&one, "/hog"), (&other, "/flood")];
            if swap {
                both.reverse();
            }
            both.into_iter().for_each(|(plot, planter)| plot.act(host, number, planter));
        });
        prop_assert_eq!(counted(&events), (2, 2), "{:#?}", events);
    }
}

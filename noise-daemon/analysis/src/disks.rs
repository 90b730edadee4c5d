//! Tests of what befalls a block device: its operations and stages, and who sleeps for it.

use noise_common::charge::{Cause, Resource};
use noise_common::signals::Signal;
use noise_verdict::Account;

use super::planted::{WARM, around, closed, is_planted, planted};
use super::{GroupChange, Watched};

#[test]
fn a_busy_disk_is_one_incident_across_operations_and_stages() {
    let (_, events) = planted(|host, number| {
        let slow = if is_planted(number) { 40 } else { 1 };
        for operation in ["read", "write"] {
            let mean_ns = slow * around(200_000, number);
            host.delay(Signal::BlockQueueWait, &["vda", operation], &[mean_ns; 10]);
            host.delay(Signal::BlockDeviceWait, &["vda", operation], &[2 * mean_ns; 10]);
            let culprit = if is_planted(number) { "/grep" } else { "/" };
            for (resource, ns) in [(Resource::BlockQueue, 10), (Resource::BlockDevice, 20)] {
                host.charge(resource, ["vda", "/db"], culprit, Cause::Foreign, ns * mean_ns);
            }
        }
        host.delay(Signal::BlockQueueWait, &["vdb", "read"], &[around(200_000, number); 10]);
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    assert_eq!(report.also.len(), 3);
    for episode in report.also.iter().chain([&report.main]) {
        assert!(episode.subject.starts_with("vda "), "{}", episode.subject);
        assert_eq!(&*episode.culprits[0].culprit, "/grep");
        // Each operation has its half of the device's charges.
        let seconds = episode.end.duration_since(episode.start).as_secs_f64();
        let delays = episode.after.lost * seconds;
        assert!((episode.culprits[0].time.seconds / delays - 1.0).abs() < 0.01);
    }
}

#[test]
fn what_others_do_at_another_stage_of_a_disk_is_an_incident_of_its_own() {
    for (at_device, expected) in [("/grep", 1), ("/find", 2)] {
        let (_, events) = planted(|host, number| {
            let slow = if is_planted(number) { 40 } else { 1 };
            let mean_ns = slow * around(200_000, number);
            for (signal, resource, culprit) in [
                (Signal::BlockQueueWait, Resource::BlockQueue, "/grep"),
                (Signal::BlockDeviceWait, Resource::BlockDevice, at_device),
            ] {
                let culprit = if is_planted(number) { culprit } else { "/" };
                host.delay(signal, &["vda", "read"], &[mean_ns; 10]);
                host.charge(resource, ["vda", "/db"], culprit, Cause::Foreign, 10 * mean_ns);
            }
        });
        assert_eq!(closed(&events).len(), expected, "{at_device}: {events:#?}");
    }
}

#[test]
fn who_comes_back_to_a_disk_as_another_has_an_incident_of_his_own_whatever_else_is_open() {
    let (_, events) = planted(|host, number| {
        // At the device two are at work all the time, in the queue first the one, then the other.
        let slow = |is_disturbed: bool| around(200_000, number) * if is_disturbed { 40 } else { 1 };
        let begun = number.saturating_sub(WARM);
        let is_disturbed = number >= WARM && begun < 75;
        let mean_ns = slow(is_disturbed);
        host.delay(Signal::BlockDeviceWait, &["vda", "read"], &[mean_ns; 10]);
        for culprit in if is_disturbed { ["/grep", "/find"] } else { ["/", "/db"] } {
            let at = ["vda", "/db"];
            host.charge(Resource::BlockDevice, at, culprit, Cause::Foreign, 5 * mean_ns);
        }
        let culprit = match begun {
            5..30 => "/grep",
            50..75 => "/find",
            _ => "/",
        };
        let mean_ns = slow(culprit != "/");
        host.delay(Signal::BlockQueueWait, &["vda", "read"], &[mean_ns; 10]);
        host.charge(Resource::BlockQueue, ["vda", "/db"], culprit, Cause::Foreign, 10 * mean_ns);
    });
    let count = |is: fn(&GroupChange) -> bool| events.iter().filter(|event| is(event)).count();
    let opened = count(|event| matches!(event, GroupChange::Opened(_)));
    let joined = count(|event| matches!(event, GroupChange::Joined { .. }));
    assert_eq!((opened, joined), (2, 1), "{events:#?}");
}

/// A flooded disk, and the sleeps of a cgroup whose requests wait there, which some windows before
/// become long as well; who ends those is given.
fn flooded_disk_and_sleeps(culprit: &str, cause: Cause, earlier: u64) -> Vec<GroupChange> {
    let (_, events) = planted(|host, number| {
        let slow = if is_planted(number) { 40 } else { 1 };
        let by = if is_planted(number) { "/grep" } else { "/" };
        let mean_ns = slow * around(200_000, number);
        host.delay(Signal::BlockQueueWait, &["vda", "read"], &[mean_ns; 10]);
        host.charge(Resource::BlockQueue, ["vda", "/db"], by, Cause::Foreign, 10 * mean_ns);
        let slow = if is_planted(number) || is_planted(number + earlier) { 40 } else { 1 };
        let mean_ns = slow * around(200_000, number);
        host.delay(Signal::UninterruptibleWait, &["/db"], &[mean_ns; 10]);
        host.charge(Resource::Uninterruptible, ["", "/db"], culprit, cause, 10 * mean_ns);
    });
    events
}

#[test]
fn who_sleeps_for_requests_of_a_flooded_disk_belongs_to_that() {
    let culprits =
        [("block", Cause::Softirq), ("nvme0q3", Cause::Hardirq), ("/grep", Cause::Writeback)];
    for ((culprit, cause), earlier) in culprits.into_iter().zip([0, 6, 0]) {
        let events = flooded_disk_and_sleeps(culprit, cause, earlier);
        let [report] = closed(&events)[..] else { panic!("{events:#?}") };
        assert_eq!(&*report.main.culprits[0].culprit, "/grep");
        let [sleeps] = &report.also[..] else { panic!("{report:#?}") };
        assert_eq!(sleeps.signal, Watched::Signal(Signal::UninterruptibleWait));
    }
}

#[test]
fn who_sleeps_for_a_timer_or_a_lock_is_no_part_of_what_befalls_a_disk() {
    let others =
        [("timer", Cause::Softirq), ("local_timer", Cause::Hardirq), ("/lock", Cause::Foreign)];
    for (culprit, cause) in others {
        let events = flooded_disk_and_sleeps(culprit, cause, 0);
        assert_eq!(closed(&events).len(), 2, "{culprit}: {events:#?}");
    }
}

#[test]
fn a_writer_behind_whom_a_service_waits_for_its_own_lock_is_the_culprit() {
    let (_, events) = planted(|host, number| {
        let slow = if is_planted(number) { 40 } else { 1 };
        let mean_ns = slow * around(200_000, number);
        host.delay(Signal::UninterruptibleWait, &["/shop"], &[mean_ns; 10]);
        let mut by = |culprit: &str, cause, parts: u64| {
            host.charge(Resource::Uninterruptible, ["", "/shop"], culprit, cause, parts * mean_ns);
        };
        if is_planted(number) {
            by("/writer", Cause::Writeback, 6);
            by("/shop", Cause::Writeback, 2);
            by("/shop", Cause::Own, 2);
        } else {
            by("/shop", Cause::Own, 10);
        }
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    let first = report.leading().unwrap();
    assert_eq!((&*first.culprit, first.cause), ("/writer", Cause::Writeback));
    assert_eq!(report.resource(), Account::Disk);
    assert_eq!(report.main.parties().culprit.as_deref(), Some("/writer"));
    // Who waits for what it wrote itself has no other one to blame.
    let mut alone = report.main.clone();
    alone.culprits.retain(|one| *one.culprit == *"/shop");
    assert_eq!(alone.parties().culprit, None);
}

#[test]
fn sleeps_of_kernel_threads_are_no_incident() {
    for (cgroup, expected) in [("/", 0), ("/db", 1)] {
        let (_, events) = planted(|host, number| {
            let slow = if is_planted(number) { 40 } else { 1 };
            let mean_ns = slow * around(200_000, number);
            host.delay(Signal::UninterruptibleWait, &[cgroup], &[mean_ns; 10]);
            let by = ("virtio0-reporting_vq", Cause::Hardirq);
            host.charge(Resource::Uninterruptible, ["", cgroup], by.0, by.1, 10 * mean_ns);
        });
        assert_eq!(closed(&events).len(), expected, "{cgroup}: {events:#?}");
    }
}

#[test]
fn who_floods_a_disk_is_one_incident_with_all_that_it_delays() {
    let (_, events) = planted(|host, number| {
        let slow = if is_planted(number) { 40 } else { 1 };
        let mean_ns = slow * around(200_000, number);
        host.delay(Signal::BlockDeviceWait, &["vda", "read"], &[mean_ns; 10]);
        let (culprit, cause) =
            if is_planted(number) { ("/grep", Cause::Own) } else { ("/db", Cause::Own) };
        host.charge(Resource::BlockDevice, ["vda", culprit], culprit, cause, 10 * mean_ns);
        let mean_ns = if is_planted(number) { 8_000_000 } else { around(50_000, number) };
        let culprit = if is_planted(number) { "/grep" } else { "/" };
        host.wait("/web", culprit, Cause::Foreign, mean_ns);
    });
    let [report] = closed(&events)[..] else { panic!("{events:#?}") };
    assert_eq!(report.also.len(), 1);
    for episode in report.also.iter().chain([&report.main]) {
        assert_eq!(&*episode.culprits[0].culprit, "/grep");
    }
}

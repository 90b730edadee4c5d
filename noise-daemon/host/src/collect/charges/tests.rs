//! Charges as programs would make them, under the names of folders.

use super::*;
use crate::resolve::cgroup::Hierarchies;
use noise_common::charge::{CHARGE_WAYS, charge_slot};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

struct Bench {
    root: tempfile::TempDir,
    names: SubjectNames,
    states: CpuStates,
    charges: Charges,
    at: Instant,
    at_ns: u64,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let hierarchies =
            Hierarchies { tasks: Some(root.path().to_owned()), ..Hierarchies::default() };
        let names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        Self {
            root,
            names,
            states: CpuStates::unused(2),
            charges: Charges::new(None),
            at: Instant::now(),
            at_ns: 1,
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn cgroup(&self, name: &str) -> u64 {
        std::fs::create_dir_all(self.folder(name)).unwrap();
        self.folder(name).metadata().unwrap().ino()
    }

    /// What a program on a CPU has charged so far.
    fn charge(&self, cpu: usize, (victim, culprit): (u64, u64), ns: u64, count: u64) {
        let kind = ChargeKey::kind(0, Cause::Foreign, Resource::Cpu);
        let key = ChargeKey {
            victim,
            culprit,
            place: 0,
            cause: Cause::Foreign as u8,
            resource: Resource::Cpu as u8,
            used: 1,
        };
        // As the programs do it: numbers of folders are anything, and two keys may meet.
        let home = charge_slot(victim, culprit, kind);
        let mut entries = (0..CHARGE_WAYS).map(|way| home ^ way);
        let is_its =
            |index: &usize| self.states.charge_key(cpu, *index).is_none_or(|taken| taken == key);
        let index = entries.find(is_its).unwrap();
        self.states.charge(cpu, index, key, Charged { ns, count });
    }

    fn read(&mut self) -> Vec<(String, u64, u64)> {
        let mut asked = Asked { names: &mut self.names, at: self.at, at_ns: self.at_ns };
        self.charges.read(&self.states, &mut asked);
        let totals = self.charges.totals().into_iter();
        totals
            .map(|row| {
                let name = format!("{}<{}", row.victim, row.culprit);
                (name, row.charged.ns, row.charged.count)
            })
            .collect()
    }

    fn sweep(&mut self) {
        let mut asked = Asked { names: &mut self.names, at: self.at, at_ns: self.at_ns };
        self.charges.sweep(&self.states, &mut asked);
    }

    fn wait(&mut self, seconds: u64) {
        self.at += Duration::from_secs(seconds);
        self.at_ns += seconds * 1_000_000_000;
    }
}

#[test]
fn charges_of_all_cpus_add_up() {
    let mut bench = Bench::new();
    let (a, b) = (bench.cgroup("a"), bench.cgroup("b"));
    bench.charge(0, (a, b), 100, 1);
    bench.charge(1, (a, b), 30, 2);
    bench.charge(1, (b, a), 5, 1);
    assert_eq!(bench.read(), [("/a</b".into(), 130, 3), ("/b</a".into(), 5, 1)]);
    bench.charge(1, (a, b), 40, 3);
    assert_eq!(bench.read()[0], ("/a</b".into(), 140, 4));
    assert_eq!(bench.read()[0], ("/a</b".into(), 140, 4));
}

#[test]
fn what_comes_before_the_name_is_kept_for_it() {
    let mut bench = Bench::new();
    let a = bench.cgroup("a");
    bench.charge(0, (a, a), 1, 1);
    bench.read();
    let b = bench.cgroup("b");
    bench.charge(0, (a, b), 10, 1);
    bench.charge(0, (a, 999_999), 7, 1);
    assert_eq!(bench.read(), [("/a</a".into(), 1, 1)]);
    bench.wait(3);
    bench.charge(0, (a, b), 30, 2);
    let named = [("/a</a", 1, 1), ("/a</b", 30, 2), ("/a<~gone", 7, 1)]
        .map(|(name, ns, count)| (name.to_owned(), ns, count));
    assert_eq!(bench.read(), named);
}

#[test]
fn a_label_that_outlives_its_cgroup_goes_on() {
    let mut bench = Bench::new();
    let (a, b) = (bench.cgroup("a"), bench.cgroup("b"));
    bench.charge(0, (a, b), 100, 1);
    bench.read();
    // Numbers of folders that are deleted are used again here, unlike those of cgroups.
    let away = tempfile::tempdir().unwrap();
    std::fs::rename(bench.folder("a"), away.path().join("a")).unwrap();
    let again = bench.cgroup("a");
    assert_ne!(again, a);
    bench.wait(3);
    bench.charge(1, (again, b), 20, 1);
    assert_eq!(bench.read(), [("/a</b".into(), 120, 2)]);
    bench.wait(10);
    bench.charge(1, (again, b), 21, 2);
    assert_eq!(bench.read(), [("/a</b".into(), 121, 3)]);
    bench.sweep();
    assert_eq!(bench.read(), [("/a</b".into(), 121, 3)]);
    let kind = ChargeKey::kind(0, Cause::Foreign, Resource::Cpu);
    assert_eq!(bench.states.charged(0, charge_slot(a, b, kind)), None);
    assert!(bench.states.charged(1, charge_slot(again, b, kind)).is_some());
    std::fs::rename(bench.folder("b"), away.path().join("b")).unwrap();
    bench.wait(10);
    bench.sweep();
    assert!(bench.read().is_empty());
    assert!(bench.charges.rows.order.iter().next().is_none());
}

#[test]
fn a_label_that_is_never_missing_from_a_sample_goes_on() {
    let mut bench = Bench::new();
    let (a, b) = (bench.cgroup("a"), bench.cgroup("b"));
    bench.charge(0, (a, b), 100, 1);
    bench.read();
    let away = tempfile::tempdir().unwrap();
    std::fs::rename(bench.folder("b"), away.path().join("b")).unwrap();
    let again = bench.cgroup("b");
    bench.charge(1, (a, a), 1, 1);
    bench.wait(10);
    bench.read();
    bench.sweep();
    // Nothing is about it until one does the same that is called the same: before the next sample.
    bench.wait(3);
    bench.charge(1, (a, again), 500, 1);
    assert_eq!(bench.read()[1], ("/a</b".into(), 600, 2));
}

#[test]
fn a_name_that_was_not_found_is_asked_for_again() {
    let mut bench = Bench::new();
    let a = bench.cgroup("a");
    let hidden = bench.cgroup("b");
    let away = tempfile::tempdir().unwrap();
    std::fs::rename(bench.folder("b"), away.path().join("b")).unwrap();
    bench.charge(0, (a, hidden), 10, 1);
    bench.read();
    bench.wait(3);
    assert_eq!(bench.read(), [("/a<~gone".into(), 10, 1)]);
    std::fs::rename(away.path().join("b"), bench.folder("b")).unwrap();
    bench.wait(100);
    bench.charge(0, (a, hidden), 11, 2);
    bench.read();
    bench.sweep();
    bench.wait(1);
    bench.charge(0, (a, hidden), 15, 3);
    assert_eq!(bench.read(), [("/a</b".into(), 4, 1)]);
}

#[test]
fn what_has_no_room_counts_by_cause() {
    let mut bench = Bench::new();
    let of = |ns| Charged { ns, count: 1 };
    bench.states.charge_unplaced(1, Resource::Cpu, Cause::Idle, of(9));
    assert_eq!(bench.read(), [("~other<~other".into(), 9, 1)]);
    assert_eq!(bench.charges.folded(), 1);
    bench.states.charge_unplaced(0, Resource::Cpu, Cause::Idle, of(2));
    bench.states.charge_unplaced(1, Resource::NetTx, Cause::Own, of(3));
    let rest = [("~other<~other".into(), 11, 2), ("~other<~other".into(), 3, 1)];
    assert_eq!(bench.read(), rest);
    assert_eq!(bench.charges.folded(), 3);
}

#[test]
fn labels_are_bounded() {
    let mut bench = Bench::new();
    let a = bench.cgroup("a");
    let mut asked = Asked { names: &mut bench.names, at: bench.at, at_ns: bench.at_ns };
    let mut folded = 0;
    let mut binder =
        Binder { rows: &mut bench.charges.rows, asked: &mut asked, folded: &mut folded };
    for irq in 0..PAIRS as u64 + 50 {
        let key = ChargeKey {
            victim: a,
            culprit: irq,
            place: 0,
            cause: Cause::Hardirq as u8,
            resource: Resource::Running as u8,
            used: 1,
        };
        binder.update(&mut NEW.clone(), Charged { ns: 1, count: 1 }, || Some(key));
    }
    assert_eq!(folded, 50);
    let totals = bench.charges.totals();
    assert_eq!(totals.len(), PAIRS + 1);
    assert_eq!(totals.iter().map(|row| row.charged.ns).sum::<u64>(), PAIRS as u64 + 50);
}

#[test]
fn what_this_process_charges_goes_to_the_same_label() {
    let mut bench = Bench::new();
    let (victim, culprit) = (bench.cgroup("a"), bench.cgroup("b"));
    let (cause, resource) = (Cause::Foreign as u8, Resource::Cpu as u8);
    let key = ChargeKey { victim, culprit, place: 0, cause, resource, used: 1 };
    bench.charge(0, (victim, culprit), 30, 1);
    bench.charges.charge(key, 12);
    bench.charges.charge(key, 8);
    bench.read();
    bench.charges.charge(key, 5);
    bench.charge(0, (victim, culprit), 40, 2);
    let totals = bench.read();
    let [(_, ns, count)] = totals.as_slice() else { panic!("{totals:?}") };
    assert_eq!((*ns, *count), (65, 5));
    // One that is gone leaves nothing behind.
    std::fs::remove_dir(bench.folder("b")).unwrap();
    bench.wait(60);
    bench.sweep();
    assert!(bench.charges.added.is_empty());
}

#[test]
fn victims_of_this_process_are_bounded() {
    let mut bench = Bench::new();
    for victim in 2..MOST_ADDED as u64 + 12 {
        let (cause, resource) = (Cause::Untracked as u8, Resource::Cpu as u8);
        bench
            .charges
            .charge(ChargeKey { victim, culprit: 0, place: 0, cause, resource, used: 1 }, 3);
    }
    assert_eq!(bench.charges.added.len(), MOST_ADDED + 1);
    let all: u64 = bench.charges.added.values().map(|(charged, _)| charged.ns).sum();
    assert_eq!(all, 3 * (MOST_ADDED as u64 + 10));
}

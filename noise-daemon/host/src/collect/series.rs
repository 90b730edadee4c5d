//! Histograms by label: the totals of all subjects that bear the same one.
//!
//! When a subject is forgotten while others bear its label (a service that was started again), or gets
//! another name, what it had stays with the label. Labels that no subject bears any more disappear
//! from the sample.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use noise_common::charge::UNKNOWN;
use noise_common::event::{Cell, CellKey};
use noise_common::signals::{SIGNALS, Signal, Storage};
use noise_model::{Histogram, Label, Sample, Series};

use super::bearers::Bearers;
use super::totals::WindowTotals;
use crate::resolve::SubjectNames;

/// Windows without a value after which a subject may be forgotten, if it is gone.
const IDLE_WINDOWS: u64 = 120;
/// The same while subjects run short; the ones that still exist may then be forgotten as well.
const IDLE_WINDOWS_CROWDED: u64 = 10;
/// Subjects of rotating signals from which on they run short.
const CROWDED: usize = super::totals::SUBJECTS * 3 / 4;

#[derive(Debug, Default)]
pub struct Histograms {
    windows: WindowTotals,
    bearers: Bearers<Histogram>,
}

impl Histograms {
    /// Takes a reading of a window that is open.
    pub fn read_open(&mut self, cell: &Cell) {
        self.windows.read_open(cell);
    }

    /// Takes a window that was closed.
    pub fn close(&mut self, cell: &Cell) {
        self.windows.close(cell);
    }

    /// Adds the histograms to a sample. A subject whose name will be known later has to wait.
    pub fn add_to(&mut self, sample: &mut Sample, names: &mut SubjectNames, now: Instant) {
        let mut interrupted: BTreeMap<(u32, &'static str), u64> = BTreeMap::new();
        let mut waited: BTreeMap<u32, u64> = BTreeMap::new();
        // Boxed, because moving them within the map costs more.
        let mut series: BTreeMap<Label, Box<(Histogram, u64)>> = BTreeMap::new();
        let folded: Vec<u64> =
            SIGNALS.iter().map(|info| self.windows.folded(info.signal)).collect();
        self.windows.visit(|counted| {
            let Some(signal) = Signal::from_number(counted.key.signal) else { return };
            if signal.info().is_wait_for_cpu() {
                for (cpu, ns) in &counted.by_cpu {
                    *waited.entry(*cpu).or_default() += ns;
                }
            }
            if let Some(source) = signal.info().interrupts {
                for (cpu, ns) in &counted.by_cpu {
                    *interrupted.entry((*cpu, source)).or_default() += ns;
                }
            }
            if signal.info().is_folded() && counted.key.subject == UNKNOWN {
                // How many had no cell of their own is not known; at least one.
                let folded = folded.get(signal as usize).copied().unwrap_or_default();
                sample.folded.push((signal.info().metric.into(), folded.max(1)));
            }
            let named = names.labels(signal, counted.key.subject, now);
            let named = named.map(|labels| (signal, labels));
            // A subject whose name is looked up again keeps its name meanwhile.
            let known = || self.bearers.label(counted.key).cloned();
            let Some(label) = named.or_else(known) else { return };
            let is_named = || names.is_named(signal, counted.key.subject);
            let (label, part) = self.bearers.bear(counted.key, label, counted.totals, is_named);
            match series.entry(label) {
                Entry::Vacant(entry) => {
                    entry.insert(Box::new((part, counted.recent_max_ns)));
                }
                Entry::Occupied(mut entry) => {
                    let (totals, max_ns) = &mut **entry.get_mut();
                    totals.add(&part);
                    *max_ns = (*max_ns).max(counted.recent_max_ns);
                }
            }
        });
        self.bearers.add_left(|label, left| match series.get_mut(label) {
            Some(one) => {
                one.0.add(left);
                true
            }
            None => false,
        });
        sample.interrupted =
            interrupted.into_iter().map(|((cpu, source), ns)| (cpu, source.into(), ns)).collect();
        sample.waited = waited.into_iter().collect();
        sample.series = series
            .into_iter()
            .map(|((signal, labels), one)| {
                let (totals, recent_max_ns) = *one;
                Series { signal, labels, totals, recent_max_ns }
            })
            .collect();
    }

    /// Whether subjects run short, and a sweep should come early.
    pub fn is_crowded(&self) -> bool {
        self.windows.rotating() >= CROWDED
    }

    /// Forgets subjects that are gone. `free` frees the kernel's cells of one whose cells do not
    /// go to others by themselves.
    pub fn sweep(&mut self, names: &mut SubjectNames, mut free: impl FnMut(Signal, CellKey)) {
        let crowded = self.is_crowded();
        for (key, idle) in self.windows.idle() {
            let Some(signal) = Signal::from_number(key.signal) else { continue };
            let rotating = match signal.info().storage {
                Storage::Keyed => false,
                Storage::Rotating if key.subject != UNKNOWN => true,
                _ => continue,
            };
            let over = if rotating && crowded {
                idle >= IDLE_WINDOWS_CROWDED
            } else {
                // Some that are used cannot be found, as the paths of a multipath NVMe disk on Linux 5.10.
                idle >= IDLE_WINDOWS && !names.exists(signal, key.subject)
            };
            // One that still waits for its name has not been counted anywhere.
            if !over || self.bearers.label(key).is_none() {
                continue;
            }
            let totals = if rotating {
                self.windows.forget(key)
            } else {
                free(signal, key);
                self.windows.forget_freed(key)
            };
            self.bearers.forget(key, totals);
            names.forget(signal, key.subject);
        }
        self.windows.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::cgroup::Hierarchies;
    use noise_common::header::Header;
    use noise_common::hist::bucket_of;
    use noise_common::record::RecordKind;
    use noise_common::signals::block_subject;
    use noise_model::Builder;
    use std::os::unix::fs::MetadataExt as _;

    fn header(signal: Signal) -> Header {
        Header::new(RecordKind::Window, signal as u32, 0)
    }

    fn cell(subject: u64, window: u64, value: u64) -> Cell {
        let header = header(Signal::CgroupRunqueueWait);
        let mut cell =
            Cell { header, head: window, tail: window, subject, sum_ns: value, ..Cell::EMPTY };
        cell.buckets[bucket_of(value)] = 1;
        cell
    }

    #[test]
    fn a_label_keeps_what_its_subjects_had() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        // Numbers of folders that are deleted are used again here, unlike those of cgroups.
        let away = tempfile::tempdir().unwrap();
        let remove = |to: &str| std::fs::rename(&path, away.path().join(to)).unwrap();
        let make = || {
            std::fs::create_dir(&path).unwrap();
            path.metadata().unwrap().ino()
        };
        let hierarchies =
            Hierarchies { tasks: Some(root.path().to_owned()), ..Hierarchies::default() };
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let mut histograms = Histograms::default();
        let mut now = Instant::now();
        let first = make();
        let seen = |histograms: &mut Histograms, names: &mut SubjectNames, now| {
            let mut sample = Sample::default();
            histograms.add_to(&mut sample, names, now);
            let series = sample.series.into_iter();
            series.map(|one| (one.labels.join(","), one.totals.sum_ns)).collect::<Vec<_>>()
        };
        histograms.close(&cell(first, 5, 100));
        assert_eq!(seen(&mut histograms, &mut names, now), [("/a".to_owned(), 100)]);
        remove("first");
        let second = make();
        now += std::time::Duration::from_secs(5);
        histograms.close(&cell(second, 200, 7));
        assert_eq!(seen(&mut histograms, &mut names, now), [("/a".to_owned(), 107)]);
        histograms.sweep(&mut names, |_, _| panic!("rotating cells are not freed"));
        assert_eq!(histograms.windows.rotating(), 1);
        assert_eq!(seen(&mut histograms, &mut names, now), [("/a".to_owned(), 107)]);
        remove("second");
        histograms.close(&cell(UNKNOWN, 400, 1));
        seen(&mut histograms, &mut names, now);
        histograms.sweep(&mut names, |_, _| {});
        assert_eq!(seen(&mut histograms, &mut names, now), [("~other".to_owned(), 1)]);
        histograms.bearers.add_left(|label, _| panic!("{label:?} is remembered"));
    }

    #[test]
    fn an_interface_goes_on_while_its_name_is_there() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("class/net");
        let make = |name: &str, index: u64| {
            std::fs::create_dir_all(net.join(name)).unwrap();
            std::fs::write(net.join(name).join("ifindex"), format!("{index}\n")).unwrap();
        };
        let remove = |name: &str| std::fs::remove_dir_all(net.join(name)).unwrap();
        let mut names =
            SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &Hierarchies::default());
        let (signal, now) = (Signal::NetTxWait, Instant::now());
        let sent = |subject, window, value| Cell {
            header: header(signal),
            ..cell(subject, window, value)
        };
        let (mut histograms, mut builder) = (Histograms::default(), Builder::default());
        let mut at_ns = 0;
        // What is sampled, and what is exported.
        let mut seen = |histograms: &mut Histograms, names: &mut SubjectNames| {
            at_ns += 1_000_000_000;
            let mut sample = Sample { at_ns, ..Sample::default() };
            histograms.add_to(&mut sample, names, now);
            let model = builder.model_after(sample);
            let sums = |series: &[Series]| -> Vec<(String, u64)> {
                series.iter().map(|one| (one.labels.join(","), one.totals.sum_ns)).collect()
            };
            let exported = model.series().into_iter().map(|one| one.series.into_owned());
            let exported: Vec<Series> = exported.collect();
            (sums(&model.sample.series), sums(&exported))
        };
        let pairs = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
            pairs.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
        };
        make("veth", 7);
        histograms.close(&sent(7, 5, 100));
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("veth", 100)]));
        // What is gone keeps its name, though it is not found under it any more.
        remove("veth");
        names.forget(signal, 7);
        names.sweep();
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("veth", 100)]));
        make("veth", 8);
        names.sweep();
        histograms.close(&sent(8, 200, 5));
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("veth", 105)]));
        histograms.sweep(&mut names, |_, key| assert_eq!(key.subject, 7));
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("veth", 105)]));
        // Renamed: what it has sent stays where it is.
        std::fs::rename(net.join("veth"), net.join("wan")).unwrap();
        assert_eq!(names.renamed().len(), 1);
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("wan", 0)]));
        histograms.close(&sent(8, 201, 3));
        assert_eq!(seen(&mut histograms, &mut names).1, pairs(&[("wan", 3)]));
        make("veth", 9);
        names.sweep();
        histograms.close(&sent(9, 202, 1));
        let (sampled, exported) = seen(&mut histograms, &mut names);
        assert_eq!(sampled, pairs(&[("veth", 1), ("wan", 3)]));
        // It counts from then on.
        assert_eq!(exported, sampled);
    }

    #[test]
    fn a_device_that_is_used_keeps_its_cells_though_sysfs_does_not_show_it() {
        let root = tempfile::tempdir().unwrap();
        let hierarchies = Hierarchies::default();
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let (signal, now) = (Signal::BlockDeviceWait, Instant::now());
        let subject = block_subject(259, 1, 0);
        let of = |window, value| Cell { header: header(signal), ..cell(subject, window, value) };
        let mut histograms = Histograms::default();
        let mut freed = Vec::new();
        for window in 1..=IDLE_WINDOWS + 1 {
            histograms.close(&of(window, 5));
            histograms.add_to(&mut Sample::default(), &mut names, now);
            histograms.sweep(&mut names, |_, key| freed.push(key.subject));
            assert!(freed.is_empty());
        }
        // Another device goes on.
        let newer = Cell { subject: 1, ..of(2 * IDLE_WINDOWS + 1, 5) };
        histograms.close(&newer);
        histograms.add_to(&mut Sample::default(), &mut names, now);
        histograms.sweep(&mut names, |_, key| freed.push(key.subject));
        assert_eq!(freed, [subject]);
    }
}

//! Histograms by label: the totals of all subjects that bear the same one.
//!
//! When a subject is forgotten while others bear its label (a service that was started again), what
//! it had stays with the label. Labels that no subject bears any more disappear from the sample.

use std::collections::BTreeMap;
use std::time::Instant;

use noise_common::charge::UNKNOWN;
use noise_common::event::{Cell, CellKey};
use noise_common::signals::{Signal, Storage};

use super::counters::Label;
use super::former::Former;
use super::totals::WindowTotals;
use crate::model::{Sample, Series, Totals};
use crate::resolve::{Names, Renamed};

/// Windows without a value after which a subject may be forgotten, if it is gone.
const IDLE_WINDOWS: u64 = 120;
/// The same while subjects run short; the ones that still exist may then be forgotten as well.
const IDLE_WINDOWS_CROWDED: u64 = 10;
/// Subjects of rotating signals from which on they run short.
const CROWDED: usize = super::totals::SUBJECTS * 3 / 4;

/// All histograms.
#[derive(Debug, Default)]
pub struct Histograms {
    windows: WindowTotals,
    /// What forgotten subjects left to labels that others bear.
    left: BTreeMap<Label, Totals>,
    former: Former<Totals>,
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
    pub fn add_to(&mut self, sample: &mut Sample, names: &mut Names, now: Instant) {
        let mut interrupted: BTreeMap<(u32, &'static str), u64> = BTreeMap::new();
        let mut waited: BTreeMap<u32, u64> = BTreeMap::new();
        // Boxed, because moving them within the map costs more.
        let mut series: BTreeMap<Label, Box<(Totals, u64)>> = BTreeMap::new();
        let folded = self.windows.folded();
        let former = &mut self.former;
        self.windows.visit(|counted| {
            let Some(signal) = Signal::from_number(counted.key.signal) else { return };
            if signal == Signal::RunqueueWait {
                for (cpu, ns) in &counted.by_cpu {
                    *waited.entry(*cpu).or_default() += ns;
                }
            }
            if let Some(source) = signal.info().interrupts {
                for (cpu, ns) in &counted.by_cpu {
                    *interrupted.entry((*cpu, source)).or_default() += ns;
                }
            }
            if signal.info().storage == Storage::Rotating && counted.key.subject == UNKNOWN {
                // How many had no cell of their own is not known; at least one.
                sample.folded.push((signal.info().metric.into(), folded.max(1)));
            }
            let Some(labels) = names.labels(signal, counted.key.subject, now) else { return };
            let (totals, max_ns) = &mut **series.entry((signal, labels)).or_default();
            totals.add(&former.own((signal, counted.key.subject), &counted.totals));
            *max_ns = (*max_ns).max(counted.recent_max_ns);
        });
        for (label, totals) in self.former.kept() {
            series.entry(label.clone()).or_default().0.add(totals);
        }
        self.left.retain(|label, left| match series.get_mut(label) {
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

    /// A subject has another name than it had until now.
    pub fn rename(&mut self, Renamed { signal, subject, labels }: Renamed) {
        self.former.rename((signal, subject), labels);
    }

    /// Whether subjects run short, and a sweep should come early.
    pub fn is_crowded(&self) -> bool {
        self.windows.rotating() >= CROWDED
    }

    /// Forgets subjects that are gone. `free` frees the kernel's cells of one whose cells do not
    /// go to others by themselves.
    pub fn sweep(
        &mut self,
        names: &mut Names,
        now: Instant,
        mut free: impl FnMut(Signal, CellKey),
    ) {
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
                // Some that are used have no entry in sysfs, as the paths of a multipath NVMe disk.
                idle >= IDLE_WINDOWS && !names.exists(signal, key.subject)
            };
            let label = if over { names.labels(signal, key.subject, now) } else { None };
            let Some(label) = label else { continue };
            let totals = if rotating {
                self.windows.forget(key)
            } else {
                free(signal, key);
                self.windows.forget_freed(key)
            };
            let totals = self.former.own((signal, key.subject), &totals).into_owned();
            self.former.forget((signal, key.subject));
            self.left.entry((signal, label)).or_default().add(&totals);
            names.forget(signal, key.subject);
        }
        self.windows.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::cgroup::Hierarchies;
    use noise_common::hist::bucket_of;
    use noise_common::signals::block_subject;
    use std::os::unix::fs::MetadataExt as _;

    fn cell(subject: u64, window: u64, value: u64) -> Cell {
        let signal = Signal::CgroupRunqueueWait as u32;
        let mut cell =
            Cell { head: window, tail: window, signal, subject, sum_ns: value, ..Cell::EMPTY };
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
        let mut names = Names::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let mut histograms = Histograms::default();
        let mut now = Instant::now();
        let first = make();
        let told = |histograms: &mut Histograms, names: &mut Names, now| {
            let mut sample = Sample::default();
            histograms.add_to(&mut sample, names, now);
            let series = sample.series.into_iter();
            series.map(|one| (one.labels.join(","), one.totals.sum_ns)).collect::<Vec<_>>()
        };
        histograms.close(&cell(first, 5, 100));
        assert_eq!(told(&mut histograms, &mut names, now), [("/a".to_owned(), 100)]);
        remove("first");
        let second = make();
        now += std::time::Duration::from_secs(5);
        histograms.close(&cell(second, 200, 7));
        assert_eq!(told(&mut histograms, &mut names, now), [("/a".to_owned(), 107)]);
        histograms.sweep(&mut names, now, |_, _| panic!("rotating cells are not freed"));
        assert_eq!(histograms.windows.rotating(), 1);
        assert_eq!(told(&mut histograms, &mut names, now), [("/a".to_owned(), 107)]);
        remove("second");
        histograms.close(&cell(UNKNOWN, 400, 1));
        told(&mut histograms, &mut names, now);
        histograms.sweep(&mut names, now, |_, _| {});
        assert_eq!(told(&mut histograms, &mut names, now), [("~other".to_owned(), 1)]);
        assert!(histograms.left.is_empty());
    }

    #[test]
    fn what_an_interface_counts_after_it_is_renamed_counts_for_its_new_name() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("class/net");
        std::fs::create_dir_all(net.join("a")).unwrap();
        std::fs::write(net.join("a/ifindex"), "7\n").unwrap();
        let hierarchies = Hierarchies::default();
        let mut names = Names::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let mut histograms = Histograms::default();
        let now = Instant::now();
        let mut told = |histograms: &mut Histograms| {
            names.renamed().into_iter().for_each(|renamed| histograms.rename(renamed));
            let mut sample = Sample::default();
            histograms.add_to(&mut sample, &mut names, now);
            let series = sample.series.into_iter();
            series.map(|one| (one.labels.concat(), one.totals.sum_ns)).collect::<Vec<_>>()
        };
        let of =
            |window, value| Cell { signal: Signal::NetTxWait as u32, ..cell(7, window, value) };
        let expected = |sums: &[(&str, u64)]| -> Vec<(String, u64)> {
            sums.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect()
        };
        histograms.close(&of(1, 100));
        histograms.read_open(&of(2, 5));
        assert_eq!(told(&mut histograms), expected(&[("a", 105)]));
        std::fs::rename(net.join("a"), net.join("b")).unwrap();
        assert_eq!(told(&mut histograms), expected(&[("a", 105), ("b", 0)]));
        // The window that was open goes on.
        histograms.close(&of(2, 9));
        histograms.close(&of(3, 10));
        assert_eq!(told(&mut histograms), expected(&[("a", 105), ("b", 14)]));
        std::fs::rename(net.join("b"), net.join("a")).unwrap();
        told(&mut histograms);
        histograms.close(&of(4, 1));
        assert_eq!(told(&mut histograms), expected(&[("a", 106), ("b", 14)]));
    }

    #[test]
    fn a_device_that_is_used_keeps_its_cells_though_sysfs_does_not_show_it() {
        let root = tempfile::tempdir().unwrap();
        let hierarchies = Hierarchies::default();
        let mut names = Names::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let (signal, now) = (Signal::BlockDeviceWait, Instant::now());
        let subject = block_subject(259, 1, 0);
        let of = |window, value| Cell { signal: signal as u32, ..cell(subject, window, value) };
        let mut histograms = Histograms::default();
        let mut freed = Vec::new();
        for window in 1..=IDLE_WINDOWS + 1 {
            histograms.close(&of(window, 5));
            histograms.add_to(&mut Sample::default(), &mut names, now);
            histograms.sweep(&mut names, now, |_, key| freed.push(key.subject));
            assert!(freed.is_empty());
        }
        // Another device goes on.
        let newer = Cell { subject: 1, ..of(2 * IDLE_WINDOWS + 1, 5) };
        histograms.close(&newer);
        histograms.add_to(&mut Sample::default(), &mut names, now);
        histograms.sweep(&mut names, now, |_, key| freed.push(key.subject));
        assert_eq!(freed, [subject]);
    }
}

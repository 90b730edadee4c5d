//! Records of long waits: from the ring, with numbers, to names.

use std::sync::Arc;
use std::time::Instant;

use noise_common::charge::{Cause, ChargeKey, Resource};
use noise_common::event::{Outlier, OutlierPart};
use noise_common::record::RingRecord;
use noise_common::signals::CAUSES;
use noise_model::{OutlierPart as NamedPart, OutlierRecord};
use noise_text::clean::as_text;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;

use crate::resolve::SubjectNames;

/// Records that may wait for their names, a power of two. The programs send a few per window, so these
/// are those of many windows.
pub const MOST_WAITING: usize = 1024;

/// Records on their way into a sample.
#[derive(Debug)]
pub struct Outliers {
    records: broadcast::Receiver<Arc<RingRecord>>,
    /// The oldest, whose names were not known yet.
    oldest: Option<Outlier>,
    lost: u64,
}

impl Outliers {
    /// Those among the records that are received, of which [`MOST_WAITING`] may wait.
    pub fn new(records: broadcast::Receiver<Arc<RingRecord>>) -> Self {
        Self { records, oldest: None, lost: 0 }
    }

    /// Records that had to give way to newer ones.
    pub fn lost(&self) -> u64 {
        self.lost + self.records.len().saturating_sub(MOST_WAITING) as u64
    }

    fn next(&mut self) -> Option<Outlier> {
        loop {
            match self.records.try_recv().as_deref() {
                Ok(RingRecord::Outlier(outlier)) => return Some(*outlier),
                Ok(RingRecord::Window(_) | RingRecord::OldPart(_)) => {}
                Err(TryRecvError::Lagged(lost)) => self.lost += lost,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    /// The records whose names are known by now.
    pub fn named(&mut self, names: &mut SubjectNames, now: Instant) -> Vec<OutlierRecord> {
        let mut known = Vec::new();
        while let Some(outlier) = self.oldest.take().or_else(|| self.next()) {
            let Some(record) = name(&outlier, names, now) else {
                self.oldest = Some(outlier);
                break;
            };
            known.push(record);
        }
        known
    }
}

fn name(outlier: &Outlier, names: &mut SubjectNames, now: Instant) -> Option<OutlierRecord> {
    let key = |culprit: u64, cause: Cause| ChargeKey {
        victim: outlier.victim,
        culprit,
        place: 0,
        cause: cause as u8,
        resource: Resource::Cpu as u8,
        used: 1,
    };
    let untracked = key(0, Cause::Untracked);
    let victim = names.parties(&untracked, Resource::Cpu, Cause::Untracked, now)?.victim;
    let given = outlier.parts.get(..outlier.parts_used as usize).unwrap_or_default();
    let mut parts: Vec<NamedPart> = Vec::with_capacity(given.len());
    let mut unknown_ns = 0;
    // The programs send the latest first.
    for part in given.iter().rev() {
        let OutlierPart { culprit, ns, cause, pid, comm } = *part;
        let Some(cause) = u8::try_from(cause).ok().and_then(Cause::from_number) else {
            unknown_ns += ns;
            continue;
        };
        let party = names.parties(&key(culprit, cause), Resource::Cpu, cause, now)?;
        let comm = names.label(&comm_text(&comm));
        match parts.last_mut() {
            Some(last) if last.pid == pid && last.cause == cause && pid != 0 => last.ns += ns,
            _ => parts.push(NamedPart { culprit: party.culprit, cause, pid, comm, ns }),
        }
    }
    let made_runnable = CAUSES.get(outlier.made_runnable as usize).copied().unwrap_or("unknown");
    let made_runnable: Arc<str> = names.label(made_runnable);
    Some(OutlierRecord {
        at_ns: outlier.at_ns,
        wait_ns: outlier.wait_ns,
        victim,
        pid: outlier.pid,
        comm: names.label(&comm_text(&outlier.comm)),
        cpu: outlier.header.cpu.into(),
        made_runnable,
        parts,
        rest_ns: outlier.rest_ns + unknown_ns,
    })
}

/// A task's name up to its first zero byte.
fn comm_text(comm: &[u64]) -> String {
    let comm: &[u8] = bytemuck::cast_slice(comm);
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    as_text(comm.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use noise_common::event::Cell;

    use super::*;
    use crate::resolve::cgroup::Hierarchies;

    fn outliers() -> (broadcast::Sender<Arc<RingRecord>>, Outliers) {
        let (records, receiver) = broadcast::channel(MOST_WAITING);
        (records, Outliers::new(receiver))
    }

    fn send(records: &broadcast::Sender<Arc<RingRecord>>, record: RingRecord) {
        assert!(records.send(Arc::new(record)).is_ok());
    }

    fn comm(text: &str) -> [u64; 2] {
        let mut bytes = [0u8; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytemuck::cast(bytes)
    }

    #[test]
    fn parts_are_reported_in_the_order_of_time_and_add_up() {
        let root = tempfile::tempdir().unwrap();
        let hierarchies = Hierarchies::default();
        let mut names = SubjectNames::new(root.path(), root.path(), BTreeMap::new(), &hierarchies);
        let mut outlier = Outlier {
            wait_ns: 2_000,
            pid: 5,
            comm: comm("victim"),
            parts_used: 3,
            ..Outlier::default()
        };
        let part = |ns, cause: Cause, pid, name| OutlierPart {
            culprit: 0,
            ns,
            cause: cause as u32,
            pid,
            comm: comm(name),
        };
        outlier.parts[0] = part(900, Cause::Idle, 0, "");
        outlier.parts[1] = part(600, Cause::Kthread, 7, "kworker/0:1");
        outlier.parts[2] = part(500, Cause::Kthread, 7, "kworker/0:1");
        let (records, mut outliers) = outliers();
        send(&records, RingRecord::Outlier(outlier));
        send(&records, RingRecord::Window(Cell::EMPTY));
        let named = outliers.named(&mut names, Instant::now());
        let [record] = named.as_slice() else { panic!("{named:?}") };
        assert_eq!((&*record.comm, &*record.made_runnable), ("victim", "wakeup"));
        let found: Vec<_> =
            record.parts.iter().map(|part| (part.cause, &*part.comm, part.ns)).collect();
        assert_eq!(found, [(Cause::Kthread, "kworker/0:1", 1_100), (Cause::Idle, "", 900)]);
        assert!(outliers.named(&mut names, Instant::now()).is_empty());
    }

    #[test]
    fn a_name_that_is_no_text_is_reported_in_escapes() {
        let bytes = *b"a\xffb\0\xff\0\0\0";
        assert_eq!(comm_text(&[u64::from_ne_bytes(bytes), 0]), r"a\xffb");
    }

    #[test]
    fn records_that_give_way_are_counted() {
        let (records, mut outliers) = outliers();
        for sent in 1..=MOST_WAITING as u64 + 3 {
            send(&records, RingRecord::Outlier(Outlier::default()));
            assert_eq!(outliers.lost(), sent.saturating_sub(MOST_WAITING as u64));
        }
        let taken = std::iter::from_fn(|| outliers.next()).count();
        assert_eq!((taken, outliers.lost()), (MOST_WAITING, 3));
    }
}

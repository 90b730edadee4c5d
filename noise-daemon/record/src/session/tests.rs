use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use noise_common::store::StoredEvent;
use noise_common::store::reading::PartStretch;
use noise_trace::ctf::{CtfReader, StreamFile, TraceLayout};
use noise_trace::record::Source as _;

use super::*;
use crate::folder::ensure_new;

/// Has an event of CPU 0 each time, and then fails.
struct Failing(Rc<RefCell<Vec<u64>>>);

impl Supply for Failing {
    fn cpus(&self) -> u32 {
        2
    }

    fn begin_ns(&self) -> u64 {
        1
    }

    fn drain(&mut self, now_ns: u64, capture: &mut Capture) -> anyhow::Result<f64> {
        let mut drained = self.0.borrow_mut();
        let first = drained.len() as u64;
        drained.push(now_ns);
        let (number, time_ns) = (first as u32, now_ns - 1);
        let events = [StoredEvent { number, time_ns, kind: 10, ..StoredEvent::default() }];
        let stretch =
            PartStretch { wanted: first, first, events: &events, capacity: 8, next: first + 1 };
        capture.add(0, 0, stretch);
        anyhow::ensure!(first == 0, "gone");
        Ok(0.0)
    }

    fn marks(&self) -> Option<PathBuf> {
        Some(PathBuf::new())
    }
}

#[test]
fn what_did_not_come_is_lost_on_all_cpus() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("new");
    let (limits, drained) = (Limits::default(), Rc::new(RefCell::new(Vec::new())));
    let supply = || Ok(Box::new(Failing(Rc::clone(&drained))) as Box<dyn Supply>);
    let mut session =
        Session::start(ensure_new(&path).unwrap(), limits, None, supply).ok().unwrap();
    let error = session.record(limits, &mut RecordingLine::new(limits), || false).unwrap_err();
    assert_eq!((error.to_string().as_str(), session.summary().lost), ("gone", 2));
    let figures = session.summary().figures();
    assert!(figures.contains(" s, at least 2 lost, "), "{figures}");
    session.finish(false).unwrap();
    let layout = TraceLayout::parse(&fs::read_to_string(path.join("kernel/metadata")).unwrap());
    let layout = layout.unwrap();
    let files = [0, 1].map(|cpu| fs::read(path.join(format!("kernel/channel0_{cpu}"))).unwrap());
    let files = files.each_ref().map(|bytes| StreamFile::held("x", bytes));
    let (mut reader, mut losses) = (CtfReader::new(&layout, &files), Vec::new());
    while let Some(record) = reader.read() {
        losses.extend(record.loss().map(|loss| (record.cpu, loss.from_ns, loss.to_ns)));
    }
    losses.sort_unstable();
    let [from_ns, to_ns] = [0, 1].map(|at| drained.borrow()[at] + layout.clocks[0].offset_ns());
    assert_eq!(losses, [(0, from_ns, to_ns), (1, from_ns, to_ns)]);
}

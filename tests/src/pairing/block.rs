//! `block_queue_wait{device,operation}` and `block_device_wait{device,operation}`.
//!
//! Queue: from the insertion into the I/O scheduler to the issue to the driver. Device: from the
//! issue to the completion of the last part. A requeue voids the device's attempt and starts the
//! queue's wait again (a following insertion does not). A request merged into another is gone. A
//! request that is issued without insertion has no queue wait.
//!
//! ftrace does not print the request's address, so requests are distinguished by device, sector and
//! operation. A completed part moves the request's sector on; a bio merged in front moves it back.
//! Among requests that look alike (two reads of one sector under way) the newest is taken: their
//! count and sum do not depend on the choice, and one whose end BPF was not offered, and which is
//! therefore not among these events, is left behind. A pure flush is issued with no sectors, one at a
//! time per queue; it has sector 0 then, and none (all ones) when it completes. Completions of
//! nothing that was issued belong to the flush machinery, which ends the caller's request a second
//! time.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Paired, Sample};
use crate::ftrace::event::{Block, BlockStep, Event, Kind};

/// Block waits, and how often the steps that are hard to get right occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockWaits {
    /// Insertion to issue.
    pub queue: Paired,
    /// Issue to last completion.
    pub device: Paired,
    /// Inserted requests that were merged into another.
    pub merged: usize,
    /// Issued requests that were taken back.
    pub requeued: usize,
    /// Completions of less than the whole rest of a request.
    pub partial: usize,
    /// Requests that came to their end, in order of that.
    pub lives: Vec<Life>,
}

/// A request from beginning to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// `major << 20 | minor`.
    pub device: u32,
    /// The thread that inserted it, or issued it if none did.
    pub pid: i32,
    /// Its size at the end, 512 bytes each.
    pub sectors: u64,
    /// When its last wait in the queue began, if it was in the queue.
    pub inserted_ns: Option<u64>,
    /// When it was issued last.
    pub issued_ns: u64,
    /// When its last part was done.
    pub completed_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Inserted(u64),
    Requeued(u64),
    Issued(u64),
}

#[derive(Clone, Debug)]
struct Request {
    sector: u64,
    sectors: u64,
    operation: &'static str,
    state: State,
    pid: i32,
    queued_ns: Option<u64>,
}

/// The operation that the kernel's letters stand for.
///
/// A leading `F` is a flush before the operation if another operation follows, else the flush
/// itself, which the kernel prints as `FF`.
pub fn operation(letters: &str) -> &'static str {
    let mut operations = letters.chars();
    let mut first = operations.next();
    if first == Some('F')
        && let Some(second @ ('R' | 'W' | 'D' | 'N' | 'Z')) = operations.next()
    {
        first = Some(second);
    }
    match first {
        Some('R') => "read",
        Some('W') => "write",
        Some('F') => "flush",
        Some('D') => "discard",
        _ => "other",
    }
}

#[derive(Default)]
struct Device {
    live: Vec<Request>,
}

impl Device {
    /// The newest request that fits, preferably of exactly this length.
    fn find(&self, step: &Block, fits: impl Fn(&Request) -> bool) -> Option<usize> {
        let operation = operation(&step.letters);
        let alike = |request: &Request| {
            (request.sector == step.sector || (step.sectors == 0 && request.sectors == 0))
                && request.operation == operation
                && fits(request)
        };
        self.live
            .iter()
            .rposition(|request| alike(request) && request.sectors == step.sectors)
            .or_else(|| self.live.iter().rposition(alike))
    }
}

impl BlockWaits {
    fn step(&mut self, device: &mut Device, event: &Event, step: &Block, name: &Arc<str>) {
        let operation = operation(&step.letters);
        let now = event.time_ns;
        let sample = |start_ns: u64| Sample {
            labels: (Arc::clone(name), operation.into()),
            pid: event.pid,
            cpu: event.cpu,
            end_ns: now,
            value_ns: now.saturating_sub(start_ns),
            nested_ns: 0,
        };
        let request = |state| Request {
            sector: step.sector,
            sectors: step.sectors,
            operation,
            state,
            pid: event.pid,
            queued_ns: None,
        };
        match step.step {
            BlockStep::Insert => {
                let requeued = |request: &Request| matches!(request.state, State::Requeued(_));
                if device.find(step, requeued).is_none() {
                    device.live.push(request(State::Inserted(now)));
                }
            }
            BlockStep::Issue => {
                let queued = |request: &Request| !matches!(request.state, State::Issued(_));
                let mut issued = request(State::Issued(now));
                if let Some(at) = device.find(step, queued) {
                    let found = device.live.remove(at);
                    if let State::Inserted(since) | State::Requeued(since) = found.state {
                        self.queue.samples.push(sample(since));
                        (issued.pid, issued.queued_ns) = (found.pid, Some(since));
                    }
                }
                device.live.push(issued);
            }
            BlockStep::Complete => {
                let issued = |request: &Request| {
                    matches!(request.state, State::Issued(_))
                        && (step.sectors <= request.sectors || request.sectors == 0)
                        && (step.sectors > 0 || request.sectors == 0)
                };
                let Some(at) = device.find(step, issued) else {
                    if step.sectors > 0 {
                        self.device.orphans.push(sample(now));
                    }
                    return;
                };
                let Some(found) = device.live.get_mut(at) else { return };
                if step.sectors < found.sectors {
                    found.sector += step.sectors;
                    found.sectors -= step.sectors;
                    self.partial += 1;
                } else if let State::Issued(since) = found.state {
                    self.device.samples.push(sample(since));
                    let found = device.live.remove(at);
                    self.lives.push(Life {
                        device: step.device,
                        pid: found.pid,
                        sectors: found.sectors,
                        inserted_ns: found.queued_ns,
                        issued_ns: since,
                        completed_ns: now,
                    });
                }
            }
            BlockStep::Requeue => {
                let at = device
                    .find(step, |request| matches!(request.state, State::Issued(_)))
                    .or_else(|| device.find(step, |_| true));
                if let Some(found) = at.and_then(|at| device.live.get_mut(at)) {
                    self.requeued += usize::from(matches!(found.state, State::Issued(_)));
                    found.state = State::Requeued(now);
                }
            }
            BlockStep::Merge => {
                let queued = |request: &Request| !matches!(request.state, State::Issued(_));
                if let Some(at) = device.find(step, queued) {
                    device.live.remove(at);
                    self.merged += 1;
                }
            }
            BlockStep::FrontMerge => {
                let end = step.sector + step.sectors;
                let behind = device.live.iter_mut().find(|request| {
                    request.sector == end
                        && request.operation == operation
                        && !matches!(request.state, State::Issued(_))
                });
                if let Some(found) = behind {
                    found.sector = step.sector;
                    found.sectors += step.sectors;
                }
            }
        }
    }
}

/// Block waits; `name` gives the kernel's name of a device number.
pub fn block_waits(events: &[Event], name: impl Fn(u32) -> Arc<str>) -> BlockWaits {
    let mut devices: HashMap<u32, (Device, Arc<str>)> = HashMap::new();
    let mut waits = BlockWaits::default();
    for event in events {
        let Kind::Block(step) = &event.kind else { continue };
        let (device, name) =
            devices.entry(step.device).or_insert_with(|| (Device::default(), name(step.device)));
        waits.step(device, event, step, name);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::{BlockWaits, block_waits, operation};
    use crate::ftrace::event::{Block, BlockStep, Event, Kind};
    use crate::pairing::testing::{at, brief};

    fn step(time: u64, step: BlockStep, sector: u64, sectors: u64, letters: &str) -> Event {
        at(
            time,
            0,
            Kind::Block(Block { step, device: 1, sector, sectors, letters: letters.into() }),
        )
    }

    fn waits(events: &[Event]) -> BlockWaits {
        block_waits(events, |_| "vda".into())
    }

    #[test]
    fn letters_of_the_kernel() {
        let table = [
            ("R", "read"),
            ("RA", "read"),
            ("RFS", "read"),
            ("WS", "write"),
            ("WFSM", "write"),
            ("FWFS", "write"),
            ("FWS", "write"),
            ("FF", "flush"),
            ("F", "flush"),
            ("FFS", "flush"),
            ("DS", "discard"),
            ("N", "other"),
            ("", "other"),
        ];
        for (letters, wanted) in table {
            assert_eq!(operation(letters), wanted, "{letters}");
        }
    }

    #[test]
    fn insert_issue_complete_with_a_back_merge() {
        let found = waits(&[
            step(10, BlockStep::Insert, 8, 8, "R"),
            step(15, BlockStep::Issue, 8, 16, "R"),
            step(40, BlockStep::Complete, 8, 16, "R"),
        ]);
        assert_eq!(brief(&found.queue.samples), [("vda", "read", 5, 0)]);
        assert_eq!(brief(&found.device.samples), [("vda", "read", 25, 0)]);
    }

    #[test]
    fn a_direct_issue_has_no_queue_wait() {
        let found = waits(&[
            step(15, BlockStep::Issue, 8, 8, "W"),
            step(40, BlockStep::Complete, 8, 8, "W"),
        ]);
        assert!(found.queue.samples.is_empty());
        assert_eq!(brief(&found.device.samples), [("vda", "write", 25, 0)]);
    }

    #[test]
    fn a_merged_request_is_gone() {
        let found = waits(&[
            step(10, BlockStep::Insert, 8, 8, "R"),
            step(11, BlockStep::Insert, 16, 8, "R"),
            step(12, BlockStep::Merge, 16, 8, "R"),
            step(15, BlockStep::Issue, 8, 16, "R"),
            step(40, BlockStep::Complete, 8, 16, "R"),
        ]);
        assert_eq!(found.merged, 1);
        assert_eq!((found.queue.samples.len(), found.device.samples.len()), (1, 1));
    }

    #[test]
    fn a_bio_merged_in_front_moves_the_request() {
        let found = waits(&[
            step(10, BlockStep::Insert, 16, 8, "R"),
            step(11, BlockStep::FrontMerge, 8, 8, "R"),
            step(15, BlockStep::Issue, 8, 16, "R"),
        ]);
        assert_eq!(brief(&found.queue.samples), [("vda", "read", 5, 0)]);
    }

    #[test]
    fn a_short_completion_and_its_requeue() {
        let found = waits(&[
            step(10, BlockStep::Issue, 8, 16, "R"),
            step(20, BlockStep::Complete, 8, 8, "R"),
            step(21, BlockStep::Requeue, 16, 8, "R"),
            step(23, BlockStep::Insert, 16, 8, "R"),
            step(30, BlockStep::Issue, 16, 8, "R"),
            step(37, BlockStep::Complete, 16, 8, "R"),
        ]);
        assert_eq!(brief(&found.queue.samples), [("vda", "read", 9, 0)]);
        assert_eq!(brief(&found.device.samples), [("vda", "read", 7, 0)]);
        assert_eq!((found.partial, found.requeued), (1, 1));
    }

    #[test]
    fn the_last_part_ends_a_request() {
        let found = waits(&[
            step(10, BlockStep::Issue, 8, 16, "W"),
            step(20, BlockStep::Complete, 8, 8, "W"),
            step(25, BlockStep::Complete, 16, 8, "W"),
        ]);
        assert_eq!(brief(&found.device.samples), [("vda", "write", 15, 0)]);
    }

    #[test]
    fn a_flush_between_writes_and_the_end_of_its_caller() {
        let found = waits(&[
            step(10, BlockStep::Issue, 0, 0, "FF"),
            step(11, BlockStep::Issue, 0, 8, "W"),
            step(20, BlockStep::Complete, u64::MAX, 0, "FF"),
            step(21, BlockStep::Complete, 0, 0, "FWS"),
            step(25, BlockStep::Complete, 0, 8, "W"),
        ]);
        assert_eq!(
            brief(&found.device.samples),
            [("vda", "flush", 10, 0), ("vda", "write", 14, 0)]
        );
        assert!(found.device.orphans.is_empty());
    }

    #[test]
    fn a_completion_from_before_the_trace_is_an_orphan() {
        let found = waits(&[step(20, BlockStep::Complete, 8, 8, "R")]);
        assert!(found.device.samples.is_empty());
        assert_eq!(found.device.orphans.len(), 1);
    }
}

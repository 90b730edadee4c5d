//! IO: watches system calls for requests, and hands on what is found out about them.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

use noise_command::CommandError;
use noise_common::store::kind::CLASSES;
use noise_host::resolve::cgroup::NodeNames;
use noise_record::{DumpedHost, Supply, own};
use noise_trace::capture::Dump;

use super::beside::Known;
use super::request::{Looked, RequestFindings, Whose};
use super::stretch::{self, EventStretch};
use super::who::{Cgroups, kernel_threads, runs};

/// Watches system calls with programs of our own: no daemon keeps them. Dropping it detaches them.
pub struct Watching {
    supply: Box<dyn Supply>,
    host: DumpedHost,
    /// Up to then all was handed on.
    at_ns: u64,
}

impl Watching {
    /// Attaches the programs. What will be missing is complained of.
    /// Nothing is left attached.
    pub fn start(complain: &mut dyn FnMut(&str)) -> Result<Self, CommandError> {
        let supply = own(&CLASSES, None, complain)?;
        let at_ns = supply.begin_ns();
        Ok(Self { supply, host: DumpedHost::default(), at_ns })
    }

    /// The events of that length of time, or until `is_over`, with the threads and files at its begin.
    /// Errors: where events cannot be had any more.
    pub fn next(
        &mut self,
        length: Duration,
        is_over: impl FnMut(Duration) -> bool,
    ) -> anyhow::Result<(EventStretch, Dump)> {
        let mut dump = self.host.dump();
        let cut = self.host.add_files(&mut dump);
        let about = (&dump, &mut self.host);
        let mut stretch = stretch::next(&mut *self.supply, about, self.at_ns, length, is_over)?;
        stretch.source = "programs";
        stretch.notes.extend(cut);
        self.at_ns = stretch.to_ns.saturating_sub(stretch.offset_ns);
        Ok((stretch, dump))
    }
}

/// Calls `tell` with the findings of each of these ports that had requests.
pub fn on_ports(
    looked: &Looked<'_>,
    (stretch, dump): (&EventStretch, &Dump),
    ports: &[u16],
    whose: Whose<'_>,
    mut tell: impl FnMut(&RequestFindings<'_>),
) {
    let cgroups = Cgroups::of(dump);
    let cgroup = |tid| cgroups.get(tid);
    let kernel = kernel_threads(dump);
    let nodes = RefCell::new(NodeNames::of_host());
    let label = |path: &Path| nodes.borrow_mut().identity(path, Instant::now()).label;
    let known = Known { kernel: &kernel, runs: &runs, cgroup: &cgroup, label: &label };
    for port in ports {
        if let Some(found) = looked.find_out((*port, whose), stretch, &known) {
            tell(&found);
        }
    }
}

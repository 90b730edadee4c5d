//! `noised why --request PORT`: the last requests that arrived on a port, tier by tier: whose time it is, what that was
//! spent on, and for whom a tier waited for a CPU.

mod found;
pub mod look;
mod page;
pub mod port;

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use noise_common::store::kind::CLASSES;
use noise_host::resolve::cgroup::NodeNames;
use noise_trace::capture::Dump;

use self::found::{Findings, Heard, Looked, Whose};
use super::findings::Known;
use super::stretch::{self, Stretch};
use super::{Cgroups, ensure_threads, kernel_threads, runs, sight, warn_of_sight};
use crate::cli::progress::Progress;
use crate::cli::record::{Host, Supply, own};
use crate::cli::trace::critical_path::columns;
use crate::cli::{CommandError, interrupt, output};

/// What is watched where nothing is said.
const USUAL_NEXT: Duration = Duration::from_secs(3);

/// Watches system calls with programs of our own: no daemon keeps them. Dropping it detaches them.
pub struct Watching {
    supply: Box<dyn Supply>,
    host: Host,
    /// Up to then all was handed on.
    at_ns: u64,
}

impl Watching {
    /// Attaches the programs. What will be missing is complained of.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing is left attached.
    pub fn start(complain: &mut dyn FnMut(&str)) -> Result<Self, CommandError> {
        let supply = own(&CLASSES, complain)?;
        let at_ns = supply.begin_ns();
        Ok(Self { supply, host: Host::new(), at_ns })
    }

    /// What comes in so long, or until `is_over`, with who and what was there at its begin.
    ///
    /// # Errors
    /// Where events cannot be had any more.
    pub fn next(
        &mut self,
        length: Duration,
        is_over: impl FnMut(Duration) -> bool,
    ) -> anyhow::Result<(Stretch, Dump)> {
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

/// Runs the command.
///
/// # Errors
/// See [`CommandError`]; nothing is left attached.
pub fn run(port: u16, next: Option<Duration>, json: bool) -> Result<(), CommandError> {
    let sight = sight();
    ensure_threads(sight)?;
    if !Host::new().listens(port) {
        return Err(CommandError::misused(format!(
            "nothing listens on port {port} of this host: name the port of a server (`ss -ltnu` lists them)"
        )));
    }
    warn_of_sight(sight);
    let stop = interrupt::flag()?;
    let length = next.unwrap_or(USUAL_NEXT);
    let mut watching = Watching::start(&mut output::complain)?;
    let mut progress = Progress::new("watching", length);
    let over = |passed| {
        progress.at(passed);
        stop.load(Ordering::Relaxed)
    };
    let (stretch, dump) = watching.next(length, over)?;
    // Detaches: what is found out slows nothing down.
    drop((watching, progress));
    let heard = Heard::of(&stretch);
    let looked = Looked::at(&heard);
    let mut shown = None;
    on_ports(&looked, (&stretch, &dump), &[port], None, |found| {
        shown = Some(match json {
            true => output::stream_json(found),
            false => output::print_painted(&page::page(found, columns())),
        });
    });
    match shown {
        Some(shown) => Ok(shown?),
        None => {
            let seconds = stretch.to_ns.saturating_sub(stretch.from_ns) as f64 / 1e9;
            Err(anyhow!(found::nothing(&[port], &heard, seconds)).into())
        }
    }
}

/// Hands on what is found out about the requests on each of these ports, where there were any.
fn on_ports(
    looked: &Looked<'_>,
    (stretch, dump): (&Stretch, &Dump),
    ports: &[u16],
    whose: Whose<'_>,
    mut tell: impl FnMut(&Findings<'_>),
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

//! `noised why --request PORT`: the last requests that arrived on a port, tier by tier: whose time it is, what that was
//! spent on, and for whom a tier waited for a CPU.

pub mod look;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::anyhow;
use noise_command::progress::Progress;
use noise_command::{CommandError, interrupt, output};
use noise_pages::requests::page;
use noise_pages::width::columns;
use noise_record::DumpedHost;
use noise_why::request::{Heard, Looked, nothing};
use noise_why::{Watching, ensure_threads, on_ports, sight, warn_of_sight};

/// What is watched where nothing is said.
const USUAL_NEXT: Duration = Duration::from_secs(3);

/// Nothing is left attached.
pub fn run(port: u16, next: Option<Duration>, json: bool) -> Result<(), CommandError> {
    let sight = sight();
    ensure_threads(sight)?;
    if !DumpedHost::default().listens(port) {
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
    let heard = Heard::of(&stretch, &[port]);
    let looked = Looked::at(&heard);
    let mut shown = None;
    on_ports(&looked, (&stretch, &dump), &[port], None, |found| {
        shown = Some(match json {
            true => output::stream_json(found),
            false => output::print_painted(&page(found, columns())),
        });
    });
    match shown {
        Some(shown) => Ok(shown?),
        None => {
            let seconds = stretch.to_ns.saturating_sub(stretch.from_ns) as f64 / 1e9;
            Err(anyhow!(nothing(&[port], &heard, seconds)).into())
        }
    }
}

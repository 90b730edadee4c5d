//! What the screen of services shows: which service waits for which, by the system calls of some seconds, again and again.
//! Programs of this process are attached for it, and only as long as someone looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noise_sketches::feed::Feed;
use noise_sketches::marker::Marker;
use noise_sketches::requests::{Entrance, RequestLink, Requests};
use noise_sketches::slices::SliceId;
use noise_top::services::{ServiceLink, Watched};
use noise_trace::event::TraceKind;
use noise_trace::record::Source as _;

use noise_command::CommandError;
use noise_why::Watching;
use noise_why::stretch::EventStretch;

/// What is watched at once: a request that lasts longer is not seen.
const ROUND: Duration = Duration::from_secs(2);
/// Rows that are shown: those with most true latency.
const MOST_ROWS: usize = 500;

/// Watches until the flag is set.
/// Errors: why that cannot be, in a sentence.
pub fn watch(is_over: &AtomicBool, tell: &mut dyn FnMut(Watched)) -> Result<(), String> {
    let over = || is_over.load(Ordering::Relaxed);
    let mut watched = || -> Result<(), CommandError> {
        // Nothing may be written beside the screen.
        let mut watching = Watching::start(&mut |_| {})?;
        while !over() {
            let (stretch, _) = watching.next(ROUND, |_| over())?;
            if !over() {
                tell(seen(&stretch));
            }
        }
        Ok(())
    };
    watched().map_err(|error| error.to_string())
}

/// Whether it is between two services: threads of one process ask each other by futexes and the like, too, and who released a
/// lock need not be known.
fn is_between(RequestLink { caller, service, .. }: &RequestLink) -> bool {
    match (service.entrance, caller) {
        (Entrance::Marker(_), Some(caller)) => caller.process != service.process,
        (Entrance::Marker(Marker::Futex), None) => false,
        _ => true,
    }
}

fn seen(stretch: &EventStretch) -> Watched {
    let (mut feed, mut lost) = (Feed::default(), 0_u64);
    let mut reader = stretch.reader();
    while let Some(record) = reader.read() {
        let event = record.event();
        if let TraceKind::Lost(loss) = &event.kind {
            lost = lost.saturating_add(loss.events.max(loss.packets));
        }
        feed.follow(0, &record, &event);
    }
    let system = feed.finish();
    let seconds = stretch.to_ns.saturating_sub(stretch.from_ns).max(1) as f64 / 1e9;
    let links = Requests::new(&system).links(0..system.slices.len() as SliceId, true);
    let row = |RequestLink { caller, service, reach_p50_ns, reach_p99_ns, tier }: &RequestLink| {
        ServiceLink {
            caller: caller.map_or_else(String::new, |caller| caller.to_string()),
            service: service.to_string(),
            rate: tier.count as f64 / seconds,
            true_p50_ns: tier.true_latency_p50_ns,
            true_p99_ns: tier.true_latency_p99_ns,
            latency_p50_ns: tier.latency_p50_ns,
            latency_p99_ns: tier.latency_p99_ns,
            reach_p50_ns: *reach_p50_ns,
            reach_p99_ns: *reach_p99_ns,
            idle_mean_ns: tier.idle_mean_ns as u64,
            busy: tier.true_latency_sum_ns as f64 / 1e9 / seconds,
        }
    };
    let links = links.iter().filter(|link| is_between(link)).take(MOST_ROWS).map(row).collect();
    Watched { seconds, lost, links }
}

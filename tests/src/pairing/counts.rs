//! Counted events: context switches, TCP retransmissions, dropped packets.

use std::sync::Arc;

use super::{Paired, Sample, label};
use crate::ftrace::event::{Event, Kind, Left};

fn counted(events: &[Event], pick: impl Fn(&Kind) -> Option<Arc<str>>) -> Paired {
    let samples = events
        .iter()
        .filter_map(|event| {
            pick(&event.kind).map(|value| Sample {
                labels: (value, "".into()),
                pid: event.pid,
                cpu: event.cpu,
                end_ns: event.time_ns,
                value_ns: 0,
                nested_ns: 0,
            })
        })
        .collect();
    Paired { samples, orphans: Vec::new() }
}

/// `context_switch{kind}`: switches away from a task. Involuntary: it could have run on.
pub fn context_switches(events: &[Event]) -> Paired {
    let (voluntary, _) = label("voluntary");
    let (involuntary, _) = label("involuntary");
    let mut paired = counted(events, |kind| match kind {
        Kind::Switch { prev, left, .. } if *prev != 0 => {
            Some(Arc::clone(if *left == Left::Runnable { &involuntary } else { &voluntary }))
        }
        _ => None,
    });
    // Of a lost switch it is not known which kind it was.
    paired.orphans = counted(events, |kind| match kind {
        Kind::LostSwitch { prev, .. } if *prev != 0 => Some("".into()),
        _ => None,
    })
    .samples;
    paired
}

/// `tcp_retransmit`, without labels: ftrace does not name the interface.
pub fn tcp_retransmits(events: &[Event]) -> Paired {
    let (none, _) = label("");
    counted(events, |kind| matches!(kind, Kind::Retransmit).then(|| Arc::clone(&none)))
}

/// `packet_drop{reason}`.
pub fn packet_drops(events: &[Event]) -> Paired {
    counted(events, |kind| match kind {
        Kind::PacketDrop { reason } => Some(Arc::clone(reason)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{context_switches, packet_drops, tcp_retransmits};
    use crate::ftrace::event::Kind;
    use crate::pairing::testing::{at, switch_at};

    #[test]
    fn switches_are_counted_by_kind_and_never_for_the_idle_task() {
        let switch = |prev, runnable| switch_at(1, 0, prev, runnable, 9);
        let events = [switch(0, true), switch(1, true), switch(2, false), switch(3, false)];
        let kinds: Vec<String> = context_switches(&events)
            .samples
            .iter()
            .map(|sample| sample.labels.0.to_string())
            .collect();
        assert_eq!(kinds, ["involuntary", "voluntary", "voluntary"]);
    }

    #[test]
    fn drops_and_retransmissions() {
        let events =
            [at(1, 0, Kind::PacketDrop { reason: "no_socket".into() }), at(2, 0, Kind::Retransmit)];
        assert_eq!(&*packet_drops(&events).samples[0].labels.0, "no_socket");
        assert_eq!(tcp_retransmits(&events).samples.len(), 1);
    }
}

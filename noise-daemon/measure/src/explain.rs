//! Which kernel events filled which gap. Pure.
//!
//! The thread that measures ran at both ends of a gap, so what interrupted it began and ended inside:
//! an event belongs to the gap in which it ended. Times are net; their sum never exceeds the gap.
//! What is left over are the ways into the kernel and out of it, where there was an event; a gap
//! without any is the hardware's or the hypervisor's.

use noise_common::watch::{NoiseEvent, NoiseKind};

use super::gaps::LongGap;

/// A gap, and what it was filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub gap: LongGap,
    /// Its events in the order in which they ended; no [`NoiseKind::EndlessThread`] is left among them.
    pub parts: Vec<NoiseEvent>,
    /// Events that it had besides, but of which nothing is known.
    pub unseen: u64,
}

impl Explained {
    /// What no event says, ns.
    pub fn rest_ns(&self) -> u64 {
        let parts: u64 = self.parts.iter().map(|part| part.net_ns).sum();
        self.gap.duration_ns.saturating_sub(parts)
    }

    /// Whether nothing explains it.
    pub fn is_hardware(&self) -> bool {
        self.parts.is_empty() && self.unseen == 0
    }
}

/// Where an event lies on the time axis.
pub(super) fn place_ns(event: &NoiseEvent) -> u64 {
    if event.kind == NoiseKind::EndlessThread as u32 { event.start_ns } else { event.end_ns }
}

/// Explains gaps, which are in order of time, by the events of their CPU, which are put in order.
pub fn explain(gaps: &[LongGap], events: &mut [NoiseEvent]) -> Vec<Explained> {
    events.sort_by_key(place_ns);
    let mut events = &*events;
    let mut all = Vec::with_capacity(gaps.len());
    for gap in gaps {
        let before = events.partition_point(|event| place_ns(event) < gap.start_ns);
        events = &events[before..];
        let inside = events.partition_point(|event| place_ns(event) <= gap.end_ns());
        let mut explained = Explained { gap: *gap, parts: events[..inside].to_vec(), unseen: 0 };
        events = &events[inside..];
        settle(&mut explained);
        all.push(explained);
    }
    all
}

/// Sees to it that the parts fit into their gap, and gives those without an end what is left.
fn settle(explained: &mut Explained) {
    let gap = explained.gap;
    let mut left_ns = gap.duration_ns;
    for part in &mut explained.parts {
        if part.kind == NoiseKind::EndlessThread as u32 || part.kind == NoiseKind::PageFault as u32
        {
            part.net_ns = 0;
            continue;
        }
        // NMIs report their length by a clock of their own.
        let inside_ns = part.end_ns.saturating_sub(part.start_ns.max(gap.start_ns));
        part.net_ns = part.net_ns.min(inside_ns).min(left_ns);
        left_ns -= part.net_ns;
    }
    let endless = NoiseKind::EndlessThread as u32;
    if let Some(thread) = explained.parts.iter_mut().find(|part| part.kind == endless) {
        thread.kind = NoiseKind::Thread as u32;
        thread.end_ns = gap.end_ns();
        thread.net_ns = left_ns.min(gap.end_ns().saturating_sub(thread.start_ns));
        left_ns -= thread.net_ns;
    }
    explained.parts.retain(|part| part.kind != endless);
    let fault = NoiseKind::PageFault as u32;
    let faults = explained.parts.iter().filter(|part| part.kind == fault).count() as u64;
    for part in explained.parts.iter_mut().filter(|part| part.kind == fault) {
        // Its end is not reported: behind it there may be less than its share.
        part.start_ns = part.end_ns;
        part.net_ns = (left_ns / faults).min(gap.end_ns().saturating_sub(part.start_ns));
        part.end_ns += part.net_ns;
    }
    explained.parts.sort_by_key(|part| part.end_ns);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn event(kind: NoiseKind, start_ns: u64, end_ns: u64, net_ns: u64) -> NoiseEvent {
        NoiseEvent { start_ns, end_ns, net_ns, kind: kind as u32, ..NoiseEvent::default() }
    }

    const GAP: LongGap = LongGap { start_ns: 1_000, duration_ns: 500 };

    #[test]
    fn an_event_belongs_to_the_gap_in_which_it_ended() {
        let second = LongGap { start_ns: 2_000, duration_ns: 100 };
        let mut events = [
            event(NoiseKind::Softirq, 2_010, 2_090, 70),
            event(NoiseKind::Vector, 900, 990, 90),
            event(NoiseKind::Hardirq, 1_100, 1_400, 300),
            event(NoiseKind::Vector, 1_600, 1_700, 100),
            event(NoiseKind::Vector, 2_500, 2_510, 10),
        ];
        let explained = explain(&[GAP, second], &mut events);
        let lengths: Vec<Vec<u64>> = explained
            .iter()
            .map(|gap| gap.parts.iter().map(|part| part.net_ns).collect())
            .collect();
        assert_eq!(lengths, [[300], [70]]);
        assert_eq!((explained[0].rest_ns(), explained[1].rest_ns()), (200, 30));
    }

    #[test]
    fn a_gap_without_events_is_the_hardwares() {
        let explained = explain(&[GAP], &mut [event(NoiseKind::Vector, 10, 20, 10)]);
        assert!(explained[0].is_hardware());
        assert_eq!(explained[0].rest_ns(), 500);
    }

    #[test]
    fn a_thread_without_end_gets_what_is_left() {
        let mut events = [
            event(NoiseKind::EndlessThread, 1_100, 9_999, 8_899),
            event(NoiseKind::Vector, 1_200, 1_250, 50),
        ];
        let explained = explain(&[GAP], &mut events);
        // It ended last.
        assert_eq!(explained[0].parts[1].kind, NoiseKind::Thread as u32);
        assert_eq!(explained[0].parts[1].net_ns, 400);
        assert_eq!(explained[0].rest_ns(), 50);
    }

    #[test]
    fn page_faults_share_what_is_left() {
        let mut events = [
            event(NoiseKind::PageFault, 1_010, 1_010, 0),
            event(NoiseKind::PageFault, 1_200, 1_200, 0),
            event(NoiseKind::Vector, 1_200, 1_300, 100),
        ];
        let explained = explain(&[GAP], &mut events);
        let lengths: Vec<u64> = explained[0].parts.iter().map(|part| part.net_ns).collect();
        assert_eq!(lengths, [200, 100, 200]);
    }

    #[test]
    fn a_page_fault_ends_with_its_gap_at_the_latest() {
        let mut events = [
            event(NoiseKind::PageFault, 1_010, 1_010, 0),
            event(NoiseKind::PageFault, 1_450, 1_450, 0),
        ];
        let explained = explain(&[GAP], &mut events);
        let parts = explained[0].parts.iter();
        let parts: Vec<_> = parts.map(|part| (part.net_ns, part.end_ns)).collect();
        assert_eq!(parts, [(250, 1_260), (50, 1_500)]);
    }

    fn an_event() -> impl Strategy<Value = NoiseEvent> {
        (0u32..7, 0u64..3_000, 0u64..800, 0u64..1_000).prop_map(|(kind, start, gross, net)| {
            let kind = noise_common::watch::KINDS[kind as usize];
            // A page fault is reported as a moment.
            let gross = if kind == NoiseKind::PageFault { 0 } else { gross };
            event(kind, start, start + gross, net)
        })
    }

    proptest! {
        /// Whatever comes, parts fit into their gap, and every event is in one gap at most.
        #[test]
        fn parts_never_exceed_their_gap(
            mut events in proptest::collection::vec(an_event(), 0..40),
            steps in proptest::collection::vec((0u64..300, 1u64..400), 0..10),
        ) {
            let mut at_ns = 0;
            let mut gaps = Vec::new();
            for (pause_ns, duration_ns) in steps {
                at_ns += pause_ns;
                gaps.push(LongGap { start_ns: at_ns, duration_ns });
                at_ns += duration_ns;
            }
            let explained = explain(&gaps, &mut events);
            prop_assert_eq!(explained.len(), gaps.len());
            for one in &explained {
                let sum: u64 = one.parts.iter().map(|part| part.net_ns).sum();
                prop_assert!(sum <= one.gap.duration_ns);
                prop_assert_eq!(sum + one.rest_ns(), one.gap.duration_ns);
                for part in &one.parts {
                    prop_assert!(part.end_ns <= one.gap.end_ns());
                    prop_assert!(part.end_ns - part.net_ns >= one.gap.start_ns);
                }
                prop_assert!(one.parts.is_sorted_by_key(|part| part.end_ns));
            }
            let parts: usize = explained.iter().map(|one| one.parts.len()).sum();
            prop_assert!(parts <= events.len());
        }
    }
}

//! A stretch of events in memory: what the flight recorder of a daemon holds of the last seconds, or what comes
//! from now on. The events are held packed, without metadata, and read by the table of events: see
//! [`HeldReader`].

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use noise_client::{Fault, Link as _, SocketLink};
use noise_host::kernel::monotonic_ns;
use noise_trace::capture::{Capture, Dump, HeldReader};
use noise_trace::ctf::write::{Packets, Uuid};
use noise_wire::events::{AnswerItem, EventsReader};

use noise_command::{CommandError, Exit};
use noise_record::marks::marked;
use noise_record::{AnswerBounds, DumpedHost, EventAdder, Supply, offset_ns, pause};

/// Longer than an answer takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Longer than an answer takes that is as long as one may be.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// So much before the time that is asked for is read as well: who does what at its begin is known from that, ns.
const BEFORE_NS: u64 = 1_000_000_000;
/// What is shorter than that says little of a service, ns.
const LEAST_SPAN_NS: u64 = 500_000_000;
/// Bytes of events that are kept in memory.
const MOST_EVENT_BYTES: u64 = 1 << 30;
const PACKET_BYTES: usize = 256 << 10;
/// Events are put into the order of time once they are that old, ns.
const SETTLED_NS: u64 = 1_000_000;
/// The number that a recording has, for one that nothing else sees.
const UUID: Uuid = [0x6e; 16];

/// Events in memory, with the two times that they are asked for.
pub struct EventStretch {
    streams: Vec<Packets>,
    /// Where they come from: `flight_recorder` or `programs`.
    pub source: &'static str,
    /// By how much real time is ahead of the programs' clock, ns.
    pub offset_ns: u64,
    /// What is asked for, ns since 1970, as far as there are events of it.
    pub from_ns: u64,
    pub to_ns: u64,
    /// How long it would be if there were events of all that is asked for, ns.
    pub asked_ns: u64,
    /// What to know of it.
    pub notes: Vec<String>,
}

impl EventStretch {
    /// Whether there are events of so little of what is asked for that this is the first thing to say.
    pub const fn is_short(&self) -> bool {
        is_short(self.to_ns.saturating_sub(self.from_ns), self.asked_ns)
    }

    /// Whether there is nothing of what is asked for.
    pub const fn is_empty(&self) -> bool {
        self.to_ns <= self.from_ns
    }

    /// From when on the daemon's counters are asked for, ns since 1970: of all that is asked for where there are few events.
    pub const fn counted_from_ns(&self) -> u64 {
        match self.is_short() {
            true => self.to_ns.saturating_sub(self.asked_ns),
            false => self.from_ns,
        }
    }

    /// All events in the order of time.
    pub fn reader(&self) -> HeldReader<'_> {
        HeldReader::new(&self.streams, self.offset_ns)
    }

    pub(crate) const fn new(streams: Vec<Packets>, offset_ns: u64, span_ns: (u64, u64)) -> Self {
        Self {
            streams,
            source: "flight_recorder",
            offset_ns,
            from_ns: span_ns.0.saturating_add(offset_ns),
            to_ns: span_ns.1.saturating_add(offset_ns),
            asked_ns: span_ns.1.saturating_sub(span_ns.0),
            notes: Vec::new(),
        }
    }
}

/// Whether a span is much shorter than the one that is asked for, ns.
pub const fn is_short(span_ns: u64, asked_ns: u64) -> bool {
    asked_ns.saturating_sub(span_ns) > asked_ns / 2 || is_little(span_ns, asked_ns)
}

/// Whether a span says little of a service, and more was asked for, ns.
pub const fn is_little(span_ns: u64, asked_ns: u64) -> bool {
    asked_ns.saturating_sub(span_ns) > asked_ns / 100 && span_ns < LEAST_SPAN_NS
}

fn failed(fault: Fault) -> CommandError {
    let exit = match fault {
        Fault::Denied { .. } => Exit::Unsupported,
        _ => Exit::Failed,
    };
    CommandError { exit, source: fault.into() }
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// What the flight recorder at a socket holds from a time on, ns of the programs' clock, and whether the user asked
/// for that time: then it is said where the recorder does not reach so far. Where it holds nothing of it, the stretch is
/// empty. `dump` says who is who.
/// Errors: where it may not be asked, or has no recorder.
pub fn past(
    socket: &Path,
    (since_ns, is_asked): (u64, bool),
    dump: &Dump,
    host: &mut DumpedHost,
) -> Result<EventStretch, CommandError> {
    let begin_ns = since_ns.saturating_sub(BEFORE_NS);
    let link = SocketLink::with_timeout(socket.to_owned(), TIMEOUT);
    let mut link = link.for_at_most(LONGEST_ANSWER);
    let place = link.place();
    let (status, body) = link.read(&format!("/api/v1/events?since={begin_ns}")).map_err(failed)?;
    match status {
        200 => {}
        404 => {
            return Err(CommandError::misused(format!(
                "the daemon at {} has no flight recorder: turn it on with [recorder] enabled there, or watch \
                 from now on with --next",
                socket.display()
            )));
        }
        status => return Err(failed(Fault::Status { place, status })),
    }
    let mut reader = EventsReader::new(body).map_err(anyhow::Error::from)?;
    let head = reader.head();
    // Up to when it answered: what it held when it was asked may be overwritten by then.
    let to_ns = head.monotonic_ns;
    let mut capture = Capture::new(UUID, head.cpus, PACKET_BYTES, begin_ns, dump);
    let (mut adder, mut bounds) = (EventAdder::default(), AnswerBounds::default());
    // From when on the events of all CPUs are there; where nothing was overwritten yet, from the first one on.
    let (mut whole_ns, mut first_ns) = (0, u64::MAX);
    while let Some(item) = reader.next_item().context("the daemon's answer")? {
        bounds.take(&item, to_ns.max(monotonic_ns()))?;
        match item {
            AnswerItem::Part { place, complete_from_ns, .. } => {
                if place.part == 0 {
                    whole_ns = whole_ns.max(complete_from_ns);
                }
                capture.reaches_back_to(place.cpu, complete_from_ns, to_ns);
            }
            AnswerItem::Missing { place, first, count } => {
                adder.missing(&mut capture, place, first, count);
            }
            AnswerItem::Events { place, first, events } => {
                if let Some(event) = events.first() {
                    first_ns = first_ns.min(event.time_ns);
                }
                adder.add(&mut capture, place, first, &events);
            }
            AnswerItem::Mark(mark) if mark.time_ns >= begin_ns => capture.mark(marked(&mark)),
            AnswerItem::Mark(_) | AnswerItem::End { .. } => {}
        }
    }
    let reach_ns = whole_ns.max(first_ns).min(to_ns);
    capture.finish(to_ns, host);
    let offset_ns = head.realtime_ns.saturating_sub(head.monotonic_ns);
    let streams = (0..head.cpus).map(|cpu| capture.packets(cpu)).collect();
    let mut stretch = EventStretch::new(streams, offset_ns, (since_ns.max(reach_ns), to_ns));
    stretch.asked_ns = to_ns.saturating_sub(since_ns);
    // The first event may come a moment after the begin of a recorder that is younger, or of a quiet host.
    let is_late = reach_ns > since_ns.saturating_add(BEFORE_NS / 100);
    if is_asked && is_late && !stretch.is_short() {
        stretch.notes.push(format!(
            "the flight recorder holds the last {}: the {} that were asked for begin before that; \
             a larger [recorder] seconds reaches further back",
            seconds(to_ns.saturating_sub(reach_ns)),
            seconds(to_ns.saturating_sub(since_ns))
        ));
    }
    Ok(stretch)
}

/// What comes from a time on, for so long or until `is_over`, which is asked again and again with the time that has passed.
/// Errors: where events cannot be had any more.
pub fn next(
    supply: &mut dyn Supply,
    known: (&Dump, &mut DumpedHost),
    begin_ns: u64,
    length: Duration,
    is_over: impl FnMut(Duration) -> bool,
) -> anyhow::Result<EventStretch> {
    next_at_most(MOST_EVENT_BYTES, supply, known, begin_ns, length, is_over)
}

fn next_at_most(
    most_bytes: u64,
    supply: &mut dyn Supply,
    (dump, host): (&Dump, &mut DumpedHost),
    begin_ns: u64,
    length: Duration,
    mut is_over: impl FnMut(Duration) -> bool,
) -> anyhow::Result<EventStretch> {
    let cpus = supply.cpus();
    supply.ends_at(monotonic_ns().saturating_add(length.as_nanos() as u64));
    let offset_ns = offset_ns();
    let mut capture = Capture::new(UUID, cpus, PACKET_BYTES, begin_ns, dump);
    let mut streams: Vec<Packets> = Vec::new();
    streams.resize_with(cpus as usize, Packets::default);
    let (began, mut whole_bytes, mut bytes) = (Instant::now(), 0_u64, 0_u64);
    let mut notes = Vec::new();
    let end_ns = loop {
        let turn = Instant::now();
        let over = is_over(began.elapsed()) || began.elapsed() >= length || bytes >= most_bytes;
        let now_ns = monotonic_ns();
        let fullness = supply.drain(now_ns, &mut capture)?;
        match over {
            true => capture.finish(now_ns, host),
            false => capture.advance(now_ns.saturating_sub(SETTLED_NS), host),
        }
        for (cpu, stream) in (0..).zip(&mut streams) {
            let packets = capture.packets(cpu);
            whole_bytes = whole_bytes.saturating_add(packets.len() as u64);
            stream.append(packets);
        }
        bytes = whole_bytes.saturating_add(capture.open_bytes());
        if over {
            if bytes >= most_bytes && began.elapsed() < length {
                let mib = most_bytes >> 20;
                notes
                    .push(format!("it ended early: {mib} MiB of events are the most that is kept"));
            }
            break now_ns;
        }
        let left = length.saturating_sub(began.elapsed());
        thread::sleep(pause(fullness, turn.elapsed(), Some(left)));
    };
    let foreign = supply.foreign_calls();
    if foreign > 0 {
        notes.push(format!("{foreign} system calls of 32-bit programs were left out"));
    }
    let mut stretch = EventStretch::new(streams, offset_ns, (begin_ns, end_ns));
    stretch.notes = notes;
    Ok(stretch)
}

#[cfg(test)]
mod tests {
    use noise_client::fake::{Fake, Reply};
    use noise_common::store::StoredEvent;
    use noise_common::store::event::Body;
    use noise_common::store::reading::PartStretch;
    use noise_wire::events::{ItemPlace, StretchHead};
    use noise_wire::marks::Mark;

    use super::*;

    #[test]
    fn a_stretch_ends_with_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        // The answer comes three seconds late, and all that the recorder holds is one second old by then.
        let now_ns = monotonic_ns();
        let at = |seconds: u64| now_ns + seconds * 1_000_000_000;
        let (monotonic_ns, realtime_ns) = (at(3), at(3));
        let head = StretchHead { cpus: 1, monotonic_ns, realtime_ns, ..StretchHead::default() };
        let mut body = Vec::new();
        head.write(&mut body);
        let place = ItemPlace::default();
        AnswerItem::Part { place, complete_from_ns: at(2), classes: 0, store: 0 }.write(&mut body);
        let events = vec![Body::switch((7, 120), 0, true, (8, 120), at(2)).stored(0)];
        AnswerItem::Events { place, first: 0, events }.write(&mut body);
        AnswerItem::End { events: 1, missing: 0 }.write(&mut body);
        let _daemon = Fake::local(&socket, Reply::of(200, "application/octet-stream", &body));
        let (dump, mut host) = (Dump::default(), DumpedHost::default());
        let stretch = past(&socket, (now_ns, false), &dump, &mut host).unwrap();
        assert_eq!((stretch.from_ns, stretch.to_ns), (at(2), at(3)));
        assert_eq!((stretch.asked_ns, stretch.is_short()), (3_000_000_000, true));
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let now_ns = monotonic_ns();
        let (monotonic_ns, realtime_ns) = (now_ns, now_ns);
        let head = StretchHead { cpus: 1, monotonic_ns, realtime_ns, ..StretchHead::default() };
        let asked = |item: &AnswerItem, times: usize| {
            let mut body = Vec::new();
            head.write(&mut body);
            let begin = body.len();
            item.write(&mut body);
            let one = body.split_off(begin);
            body.extend(one.repeat(times));
            AnswerItem::End { events: 0, missing: 0 }.write(&mut body);
            let _daemon = Fake::local(&socket, Reply::of(200, "application/octet-stream", &body));
            let (dump, mut host) = (Dump::default(), DumpedHost::default());
            let found = past(&socket, (now_ns, false), &dump, &mut host);
            found.map(|stretch| stretch.to_ns).map_err(|error| error.to_string())
        };
        let mark = Mark { time_ns: now_ns, name: "request".into(), ..Mark::default() };
        assert_eq!(asked(&AnswerItem::Mark(mark.clone()), 1_000), Ok(now_ns));
        let missing = AnswerItem::Missing { place: ItemPlace::default(), first: 0, count: 1 };
        for (item, times) in [(AnswerItem::Mark(mark.clone()), 200_000), (missing, 4_000_000)] {
            let error = asked(&item, times).unwrap_err();
            assert_eq!(error, "the daemon's answer has more than a daemon keeps");
        }
        let time_ns = now_ns + 3_600_000_000_000;
        let error = asked(&AnswerItem::Mark(Mark { time_ns, ..mark }), 1).unwrap_err();
        assert!(error.contains("marks of the future"), "{error}");
    }

    /// Has 4,096 events of CPU 0 each time, and loses one throughout.
    struct Losing {
        next: u64,
        before_ns: u64,
    }

    impl Supply for Losing {
        fn cpus(&self) -> u32 {
            1
        }

        fn begin_ns(&self) -> u64 {
            self.before_ns
        }

        fn drain(&mut self, now_ns: u64, capture: &mut Capture) -> anyhow::Result<f64> {
            let before_ns = std::mem::replace(&mut self.before_ns, now_ns);
            let (first, next) = (self.next, self.next + 4_096);
            let event = |number| StoredEvent {
                number: number as u32,
                time_ns: now_ns - 1,
                kind: 10,
                ..StoredEvent::default()
            };
            let events: Vec<_> = (first..next).map(event).collect();
            let stretch =
                PartStretch { wanted: first, first, events: &events, capacity: 1 << 20, next };
            self.next = capture.add(0, 0, stretch);
            capture.lost(0, 1, before_ns, now_ns);
            Ok(1.0)
        }
    }

    #[test]
    fn losses_that_follow_on_each_other_are_kept_within_the_bound() {
        let begin_ns = monotonic_ns();
        let mut supply = Losing { next: 0, before_ns: begin_ns };
        let (dump, mut host, mut turns) = (Dump::default(), DumpedHost::default(), 0);
        let length = Duration::from_secs(60);
        let is_over = |_| {
            turns += 1;
            turns > 200
        };
        let known = (&dump, &mut host);
        let stretch = next_at_most(1 << 20, &mut supply, known, begin_ns, length, is_over).unwrap();
        assert_eq!(stretch.notes, ["it ended early: 1 MiB of events are the most that is kept"]);
        assert!(turns < 200, "{turns}");
    }

    #[test]
    fn half_of_what_is_asked_for_is_not_short() {
        const MS: u64 = 1_000_000;
        for (span_ms, asked_ms, expected) in [
            (2_000, 2_000, false),
            (1_100, 2_000, false),
            (900, 2_000, true),
            (450, 800, true),
            // All that is asked for is there.
            (300, 300, false),
            (0, 0, false),
        ] {
            assert_eq!(is_short(span_ms * MS, asked_ms * MS), expected, "{span_ms} of {asked_ms}");
        }
    }
}

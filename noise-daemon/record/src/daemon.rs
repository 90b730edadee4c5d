//! Where events come from: the flight recorder of a daemon, over its local socket.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use noise_client::{AnswerReader, Fault, IsWanted, Link as _, SocketLink};
use noise_command::{CommandError, Exit};
use noise_common::hooks::{HOOKS, Hook};
use noise_common::store::event::USUAL_CLASSES;
use noise_common::store::reading::PartStretch;
use noise_common::store::{Class, PARTS};
use noise_host::kernel::{DISORDER, monotonic_ns};
use noise_trace::capture::Capture;
use noise_wire::events::{AnswerItem, EventsReader, ItemPlace};

use crate::bounds::AnswerBounds;
use crate::marks::{beside, marked};
use crate::supply::Supply;

/// Longer than an answer takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Each request goes back so far behind the one before, ns: so late may a program write an event.
const BACK_NS: u64 = 5_000_000;
/// How much longer than the recording an answer may take, ns.
const LATE_NS: u64 = 2_000_000_000;

/// Until when an answer is wanted: that of a daemon that lies may have no end.
#[derive(Debug)]
struct Patience {
    /// The user wants no more.
    stop: Arc<AtomicBool>,
    /// The answer at hand is wanted until then, ns.
    latest_ns: AtomicU64,
    /// The recording ends then, ns.
    end_ns: AtomicU64,
}

impl Patience {
    fn new(stop: Arc<AtomicBool>) -> Self {
        let [latest_ns, end_ns] = [u64::MAX; 2].map(AtomicU64::new);
        let patience = Self { stop, latest_ns, end_ns };
        patience.begin(monotonic_ns());
        patience
    }

    fn begin(&self, now_ns: u64) {
        let end_ns = self.end_ns.load(Ordering::Relaxed).max(now_ns).saturating_add(LATE_NS);
        let latest_ns = now_ns.saturating_add(TIMEOUT.as_nanos() as u64).min(end_ns);
        self.latest_ns.store(latest_ns, Ordering::Relaxed);
    }

    fn lasts(&self, now_ns: u64) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            self.latest_ns.fetch_min(now_ns.saturating_add(LATE_NS), Ordering::Relaxed);
        }
        now_ns < self.latest_ns.load(Ordering::Relaxed)
    }
}

/// A flight recorder that is read again and again.
struct Flight {
    link: SocketLink,
    patience: Arc<Patience>,
    cpus: u32,
    begin_ns: u64,
    asked_ns: u64,
    adder: EventAdder,
    /// Classes of the events that are wanted.
    classes: Vec<Class>,
    /// Where the daemon takes marks, and the number of the next one that is wanted.
    marks: PathBuf,
    next_mark: u64,
}

/// The flight recorder of a daemon; `None` where no daemon answers. An answer that goes on when the user wants to stop is
/// left.
/// Errors: where it may not be asked, or has none.
pub fn flight(
    socket: &Path,
    wanted: Option<&[Class]>,
    stop: &Arc<AtomicBool>,
) -> Result<Option<Box<dyn Supply>>, CommandError> {
    let begin_ns = monotonic_ns();
    let patience = Arc::new(Patience::new(Arc::clone(stop)));
    let lasting = Arc::clone(&patience);
    let is_wanted: IsWanted = Arc::new(move || lasting.lasts(monotonic_ns()));
    let mut flight = Flight {
        link: SocketLink::with_timeout(socket.to_owned(), TIMEOUT).while_wanted(is_wanted),
        patience,
        cpus: 0,
        begin_ns,
        asked_ns: begin_ns,
        adder: EventAdder::default(),
        classes: wanted.unwrap_or(&USUAL_CLASSES).to_vec(),
        marks: beside(socket),
        next_mark: 0,
    };
    match ask(&mut flight.link, begin_ns) {
        Ok(body) => {
            let mut reader = EventsReader::new(body).map_err(anyhow::Error::from)?;
            flight.cpus = reader.head().cpus;
            flight.adder.store = ensure_kept(&mut reader, wanted.unwrap_or_default(), socket)?;
            flight.adder.next = begins(reader)?;
            Ok(Some(Box::new(flight)))
        }
        Err(Trouble::Fault(Fault::Absent { .. })) => Ok(None),
        Err(Trouble::Off) => Ok(None),
        Err(Trouble::Fault(fault @ Fault::Denied { .. })) => {
            Err(CommandError { exit: Exit::Unsupported, source: fault.into() })
        }
        Err(Trouble::Fault(fault)) => {
            Err(CommandError { exit: Exit::Failed, source: fault.into() })
        }
    }
}

/// Refuses classes of events that a daemon does not keep; the number of its store.
fn ensure_kept(
    reader: &mut EventsReader<impl Read>,
    wanted: &[Class],
    socket: &Path,
) -> Result<u32, CommandError> {
    let mut next = || reader.next_item().context("the daemon's answer");
    let mut first = next()?;
    // Marks come before the first part.
    while let Some(AnswerItem::Mark(_)) = first {
        first = next()?;
    }
    let Some(AnswerItem::Part { classes: kept, store, .. }) = first else { return Ok(0) };
    // 0 is what a daemon says that does not know of it.
    match wanted.iter().find(|class| kept != 0 && class.bit() & kept == 0) {
        None => Ok(store),
        Some(class) if !USUAL_CLASSES.contains(class) => Err(CommandError::misused(format!(
            "the daemon at {} keeps no {} events, as no daemon does: record as root with --own",
            socket.display(),
            class.name()
        ))),
        Some(class) => Err(CommandError::misused(format!(
            "the daemon at {} keeps no {} events: add the class to [recorder] classes there, or record as root \
             with --own",
            socket.display(),
            class.name()
        ))),
    }
}

/// Numbers of the first events of an answer: what is overwritten before the next one comes is missing.
fn begins(mut reader: EventsReader<impl Read>) -> anyhow::Result<BTreeMap<ItemPlace, u64>> {
    let (mut first_of, mut bounds) = (BTreeMap::new(), AnswerBounds::default());
    while let Some(item) = reader.next_item().context("the daemon's answer")? {
        bounds.take(&item, monotonic_ns())?;
        if let AnswerItem::Events { place, first, .. } = item {
            first_of.entry(place).or_insert(first);
        }
    }
    Ok(first_of)
}

/// Why there is no answer.
enum Trouble {
    /// The daemon has no flight recorder.
    Off,
    Fault(Fault),
}

fn ask(link: &mut SocketLink, since_ns: u64) -> Result<AnswerReader<'_>, Trouble> {
    let place = link.place();
    match link.read(&format!("/api/v1/events?since={since_ns}")).map_err(Trouble::Fault)? {
        (200, body) => Ok(body),
        (404, _) => Err(Trouble::Off),
        (status, _) => Err(Trouble::Fault(Fault::Status { place, status })),
    }
}

impl Supply for Flight {
    fn cpus(&self) -> u32 {
        self.cpus
    }

    fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    fn ends_at(&mut self, end_ns: u64) {
        self.patience.end_ns.store(end_ns, Ordering::Relaxed);
    }

    fn drain(&mut self, now_ns: u64, capture: &mut Capture) -> anyhow::Result<f64> {
        let since_ns = self.asked_ns.saturating_sub(BACK_NS).max(self.begin_ns);
        self.asked_ns = now_ns;
        self.patience.begin(monotonic_ns());
        let body = match ask(&mut self.link, since_ns) {
            Ok(body) => body,
            Err(Trouble::Off) => bail!("the daemon has no flight recorder any more"),
            Err(Trouble::Fault(fault)) => return Err(fault.into()),
        };
        let mut reader = EventsReader::new(body)?;
        // Memory is taken for each.
        ensure!(reader.head().cpus == self.cpus, "the daemon's answer has other CPUs than before");
        let mut fullness: f64 = 0.0;
        let mut bounds = AnswerBounds::default();
        while let Some(item) = reader.next_item().context("the daemon's answer")? {
            bounds.take(&item, monotonic_ns())?;
            match item {
                AnswerItem::Part { place, complete_from_ns, store, .. } => {
                    self.adder.answers_from(store);
                    if place.part == 0 && complete_from_ns > 0 {
                        // The part of what is held that is younger than what was asked for.
                        let held_ns = now_ns.saturating_sub(complete_from_ns).max(1);
                        fullness =
                            fullness.max(now_ns.saturating_sub(since_ns) as f64 / held_ns as f64);
                    }
                }
                AnswerItem::Events { place, first, events } => {
                    self.adder.add(capture, place, first, &events);
                }
                AnswerItem::Mark(mark) => {
                    // Of those before the begin, too, the later ones are of its time.
                    if mark.number >= self.next_mark && mark.time_ns >= self.begin_ns {
                        capture.mark(marked(&mark));
                    }
                    self.next_mark = self.next_mark.max(mark.number.saturating_add(1));
                }
                AnswerItem::Missing { place, first, count } => {
                    self.adder.missing(capture, place, first, count);
                }
                AnswerItem::End { .. } => {}
            }
        }
        self.adder.end_answer()?;
        Ok(fullness)
    }

    fn marks(&self) -> Option<PathBuf> {
        self.marks.exists().then(|| self.marks.clone())
    }

    fn lacks(&self) -> Vec<Hook> {
        let is_wanted = |hook: &Hook| hook.class().is_some_and(|of| self.classes.contains(&of));
        HOOKS.into_iter().filter(|hook| hook.is_on_demand() && is_wanted(hook)).collect()
    }
}

/// Hands events of a flight recorder on, each once, whatever answers overlap.
#[derive(Default)]
pub struct EventAdder {
    /// The number of the store that answers come from; 0 where a daemon does not say it.
    store: u32,
    /// Number of the next event that is wanted of each part, from the first answer with one on.
    next: BTreeMap<ItemPlace, u64>,
    /// Number and time (ns) of the last event that was added of each part.
    last: BTreeMap<ItemPlace, (u64, u64)>,
    /// Number behind the last event of each part in the answer at hand, whether it was new or not.
    ends: BTreeMap<ItemPlace, u64>,
    /// Whether the answer at hand has another event of such a number, or is of another store.
    has_others: bool,
}

impl EventAdder {
    /// What follows is of that store.
    fn answers_from(&mut self, store: u32) {
        // Where it has wrapped since, its numbers alone look as if events had been overwritten.
        self.has_others |= self.store != store && self.store != 0 && store != 0;
    }

    /// All of an answer was added.
    /// Errors: where its numbers are lower than those of answers before, or are those of other events: it is of another
    /// store.
    pub fn end_answer(&mut self) -> anyhow::Result<()> {
        let ends = std::mem::take(&mut self.ends);
        let has_others = std::mem::take(&mut self.has_others);
        let is_lower = |(place, end): (&ItemPlace, &u64)| {
            self.next.get(place).is_some_and(|next| end.saturating_add(DISORDER) < *next)
        };
        ensure!(
            !has_others && !ends.iter().any(is_lower),
            "the daemon was restarted, and its events begin anew"
        );
        Ok(())
    }

    /// So many events from that number on are missing, unless a later answer has them.
    pub fn missing(&mut self, capture: &mut Capture, place: ItemPlace, first: u64, count: u64) {
        if self.has_others {
            return;
        }
        let wanted = *self.next.entry(place).or_insert(first);
        let missing = first.saturating_add(count).saturating_sub(wanted);
        capture.missing(place.cpu, place.part.into(), missing);
    }

    /// Adds those that are new.
    pub fn add(
        &mut self,
        capture: &mut Capture,
        place: ItemPlace,
        first: u64,
        events: &[noise_common::store::StoredEvent],
    ) {
        let part = usize::from(place.part);
        if part >= PARTS || self.has_others {
            return;
        }
        self.ends.insert(place, first.saturating_add(events.len() as u64));
        let at = |number: u64| events.get(usize::try_from(number.checked_sub(first)?).ok()?);
        // Answers overlap, but for a pause in which the events were overwritten.
        let last = self.last.get(&place).copied();
        let is_other = |(number, time_ns)| at(number).is_some_and(|event| event.time_ns != time_ns);
        if last.is_some_and(is_other) {
            self.has_others = true;
            return;
        }
        let wanted = self.next.entry(place).or_insert(first);
        let known = usize::try_from(wanted.saturating_sub(first)).unwrap_or(usize::MAX);
        let Some(events) = events.get(known..).filter(|events| !events.is_empty()) else { return };
        let first = first.max(*wanted);
        let end = first.saturating_add(events.len() as u64);
        if let Some(event) = events.last() {
            self.last.insert(place, (end.saturating_sub(1), event.time_ns));
        }
        // All of them were whole when they were sent.
        let stretch = PartStretch { wanted: *wanted, first, events, capacity: u64::MAX, next: end };
        *wanted = capture.add(place.cpu, part, stretch);
    }
}

#[cfg(test)]
mod tests {
    use noise_client::fake::{Fake, Reply};
    use noise_common::store::StoredEvent;
    use noise_wire::events::StretchHead;
    use noise_wire::marks::Mark;

    use super::*;
    use crate::dump::DumpedHost;

    fn events(numbers: std::ops::Range<u64>) -> Vec<StoredEvent> {
        events_after(0, numbers)
    }

    /// Events whose times are so much more than their numbers, ns.
    fn events_after(ns: u64, numbers: std::ops::Range<u64>) -> Vec<StoredEvent> {
        let event = |number| StoredEvent {
            number: number as u32,
            time_ns: ns + number,
            kind: 10,
            ..StoredEvent::default()
        };
        numbers.map(event).collect()
    }

    fn answer(first: u64, events: Vec<StoredEvent>) -> Vec<u8> {
        answer_of(7, first, events)
    }

    fn answer_of(store: u32, first: u64, events: Vec<StoredEvent>) -> Vec<u8> {
        let place = ItemPlace { cpu: 0, part: 0 };
        let mut answer = Vec::new();
        StretchHead { cpus: 1, ..StretchHead::default() }.write(&mut answer);
        AnswerItem::Part { place, complete_from_ns: 0, classes: 3, store }.write(&mut answer);
        let count = events.len() as u64;
        AnswerItem::Events { place, first, events }.write(&mut answer);
        AnswerItem::End { events: count, missing: 0 }.write(&mut answer);
        answer
    }

    fn capture() -> Capture {
        Capture::new([0; 16], 1, 4096, 100, &noise_trace::capture::Dump::default())
    }

    #[test]
    fn classes_that_a_daemon_does_not_keep_are_refused_beside_marks_too() {
        let place = ItemPlace { cpu: 0, part: 0 };
        for marks in 0..3 {
            let mut answer = Vec::new();
            StretchHead { cpus: 1, ..StretchHead::default() }.write(&mut answer);
            (0..marks).for_each(|_| AnswerItem::Mark(Mark::default()).write(&mut answer));
            let classes = Class::Sched.bit();
            AnswerItem::Part { place, complete_from_ns: 0, classes, store: 0 }.write(&mut answer);
            AnswerItem::End { events: 0, missing: 0 }.write(&mut answer);
            let refused = |wanted: &[Class]| {
                let mut reader = EventsReader::new(answer.as_slice()).unwrap();
                ensure_kept(&mut reader, wanted, Path::new("x")).err()
            };
            assert!(refused(&[Class::Sched]).is_none());
            let error = refused(&[Class::Io]).unwrap();
            assert!(error.to_string().contains("keeps no io events"), "{error}");
        }
    }

    /// Reading who is there takes as long as a busy CPU needs to fill the flight recorder.
    #[test]
    fn what_is_overwritten_before_the_first_reading_is_lost() {
        let place = ItemPlace { cpu: 0, part: 0 };
        let answer = answer(100, events(100..103));
        let mut reader = EventsReader::new(answer.as_slice()).unwrap();
        ensure_kept(&mut reader, &[], Path::new("x")).ok().unwrap();
        let mut adder = EventAdder { next: begins(reader).unwrap(), ..EventAdder::default() };
        let mut capture = capture();
        adder.add(&mut capture, place, 150, &events(150..160));
        adder.end_answer().unwrap();
        // The newest are not always of the time that is asked for.
        adder.add(&mut capture, place, 150, &events(150..158));
        adder.end_answer().unwrap();
        // Another daemon counts from 0 on, and may have come to higher numbers.
        for others in [events(0..20), events_after(1, 0..2_000)] {
            adder.add(&mut capture, place, 0, &others);
            let error = adder.end_answer().unwrap_err();
            assert!(error.to_string().starts_with("the daemon was restarted"), "{error}");
            adder.end_answer().unwrap();
        }
        capture.finish(200, &mut DumpedHost::default());
        assert_eq!(capture.discarded(), 50);
    }

    #[test]
    fn a_recording_through_a_daemon_ends_when_that_is_restarted() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let reply = |ns: u64, numbers: std::ops::Range<u64>| {
            let body = answer(numbers.start, events_after(ns, numbers));
            Reply::of(200, "application/octet-stream", &body)
        };
        let daemon = Fake::local(&socket, reply(0, 100..103));
        let mut capture = capture();
        let mut flight = flight(&socket, None, &Arc::default()).ok().unwrap().unwrap();
        flight.drain(200, &mut capture).unwrap();
        daemon.answer(reply(0, 101..160));
        flight.drain(300, &mut capture).unwrap();
        // The last one has overwritten its first events.
        let other = answer_of(8, 1_000, events_after(1, 1_000..2_000));
        let other = Reply::of(200, "application/octet-stream", &other);
        for restarted in [reply(1, 0..20), reply(1, 0..2_000), other] {
            daemon.answer(restarted);
            let error = flight.drain(400, &mut capture).unwrap_err();
            assert!(error.to_string().starts_with("the daemon was restarted"), "{error}");
        }
        capture.finish(500, &mut DumpedHost::default());
        assert_eq!(capture.discarded(), 0);
    }

    /// A daemon that lies sends for ever.
    #[test]
    fn an_answer_without_end_ends_with_the_recording_or_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let reply = |body: &[u8]| Reply::of(200, "application/octet-stream", body);
        let daemon = Fake::local(&socket, reply(&answer(0, events(0..3))));
        let stop = Arc::new(AtomicBool::new(false));
        let mut flight = flight(&socket, None, &stop).ok().unwrap().unwrap();
        // The rest of it never comes.
        let Reply::Raw(mut cut) = reply(&answer(0, events(0..3))) else { unreachable!() };
        cut.truncate(cut.len() - 10);
        daemon.answer(Reply::Raw(cut));
        let begin = std::time::Instant::now();
        let now_ns = monotonic_ns();
        flight.ends_at(now_ns);
        assert!(flight.drain(now_ns, &mut capture()).is_err());
        stop.store(true, Ordering::Relaxed);
        flight.ends_at(u64::MAX);
        assert!(flight.drain(monotonic_ns(), &mut capture()).is_err());
        assert!(begin.elapsed() < TIMEOUT, "{:?}", begin.elapsed());
    }

    #[test]
    fn patience_ends_with_the_recording_the_user_and_the_time_of_an_answer() {
        let patience = Patience::new(Arc::default());
        let answer_ns = TIMEOUT.as_nanos() as u64;
        patience.begin(100);
        assert!(patience.lasts(99 + answer_ns) && !patience.lasts(100 + answer_ns));
        patience.end_ns.store(50, Ordering::Relaxed);
        patience.begin(100);
        assert!(patience.lasts(99 + LATE_NS) && !patience.lasts(100 + LATE_NS));
        patience.end_ns.store(u64::MAX, Ordering::Relaxed);
        patience.begin(100);
        patience.stop.store(true, Ordering::Relaxed);
        assert!(patience.lasts(200) && patience.lasts(300) && !patience.lasts(200 + LATE_NS));
    }

    #[test]
    fn what_is_missing_at_the_end_of_the_last_answer_is_lost() {
        let place = ItemPlace { cpu: 0, part: 0 };
        let lost = |answers: &[(u64, u64)]| {
            let mut adder = EventAdder::default();
            let mut capture = capture();
            for (end, missing) in answers {
                adder.add(&mut capture, place, 100, &events(100..*end));
                adder.missing(&mut capture, place, *end, *missing);
            }
            capture.finish(200, &mut DumpedHost::default());
            capture.discarded()
        };
        assert_eq!((lost(&[(110, 3)]), lost(&[(110, 3), (120, 0)])), (3, 0));
    }
}

//! Who had a CPU while a thread waited for it, and what took the CPU while a thread ran.
//!
//! Every CPU's time is cut into segments by what it was doing: a task, the idle task, or an interrupt
//! (the innermost, so that nested time belongs to one of them). A wait lies on the CPU that its thread
//! was queued on, from the wake-up or the preemption on, and moves with `sched_migrate_task`. What
//! is left open by the recording belongs to none of them: [`Holder::Unknown`].
//!
//! Written from the definition of interference alone, for chosen threads only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Sample;
use crate::ftrace::event::{Event, Kind, Left};

/// Who had a CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A thread, by its id.
    Task(i32),
    /// A thread in a turn that began before it entered its group.
    Newcomer(i32),
    /// No task: the CPU was idle.
    Idle,
    /// A device's interrupt, by the name of its handler.
    Hardirq(Arc<str>),
    /// An interrupt of the processor itself.
    Vector(Arc<str>),
    /// A softirq.
    Softirq(Arc<str>),
    /// A non-maskable interrupt.
    Nmi,
    /// Not in the recording.
    Unknown,
}

impl Holder {
    /// Whether it is a task, or the idle task.
    fn is_task(&self) -> bool {
        matches!(self, Self::Task(_) | Self::Newcomer(_) | Self::Idle)
    }
}

/// A time that was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The thread that waited, or that was interrupted.
    pub pid: i32,
    /// When the wait or the interruption was over.
    pub end_ns: u64,
    /// Whose doing it was.
    pub holder: Holder,
    /// How long.
    pub ns: u64,
}

/// When a thread entered its group, as one that starts does before it becomes its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// When: waits that ended by then are those of the group that it came from.
    pub at_ns: u64,
    /// When the turn in which it did was over: turns have the group that they began in.
    pub turn_end_ns: u64,
}

/// The entrances by thread, as far as they were recorded (`cgroup:cgroup_attach_task`).
pub fn entrances(events: &[Event]) -> BTreeMap<i32, Entrance> {
    let mut entering = BTreeMap::new();
    let mut entered = BTreeMap::new();
    for event in events {
        match event.kind {
            Kind::Attach { pid } => {
                entering.insert(pid, event.time_ns);
            }
            Kind::Switch { prev, .. } | Kind::LostSwitch { prev, .. } => {
                if let Some(at_ns) = entering.remove(&prev) {
                    entered.insert(prev, Entrance { at_ns, turn_end_ns: event.time_ns });
                }
            }
            _ => {}
        }
    }
    entered
}

/// Charges of the chosen threads, in order of their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// Parts of waits on a run queue; they sum to the waits.
    pub waiting: Vec<Charge>,
    /// Interruptions of running threads.
    pub running: Vec<Charge>,
    /// Times that they lost a CPU which they could have used on, to the holder; they take no time.
    pub preemptions: Vec<Charge>,
    /// How many waits those are the parts of.
    pub waits: usize,
    /// Nanoseconds of waits at whose end a switch is missing from the recording.
    pub doubtful_ns: u64,
    /// The part of them before the thread came to its last CPU: whoever charges at each move has charged it.
    pub moved_ns: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    from: u64,
    to: u64,
    holder: Holder,
    /// Who runs, or would but for the interrupt.
    task: i32,
}

/// One CPU's time, cut up.
#[derive(Default)]
struct Timeline {
    segments: Vec<Segment>,
    since: u64,
    task: Option<i32>,
    interrupts: Vec<Holder>,
    /// The first segment of the running task.
    first: usize,
    /// Until when threads are newcomers.
    entrances: Arc<BTreeMap<i32, Entrance>>,
}

impl Timeline {
    fn holder(&self, task: i32) -> Holder {
        let is_new = |entrance: &Entrance| self.since < entrance.turn_end_ns;
        let task = match task {
            0 => Holder::Idle,
            task if self.entrances.get(&task).is_some_and(is_new) => Holder::Newcomer(task),
            task => Holder::Task(task),
        };
        self.interrupts.last().cloned().unwrap_or(task)
    }

    /// Ends the open segment.
    fn cut(&mut self, now: u64) {
        if let Some(task) = self.task
            && now > self.since
        {
            let holder = self.holder(task);
            self.segments.push(Segment { from: self.since, to: now, holder, task });
        }
        self.since = self.since.max(now);
    }

    fn leave(&mut self, now: u64, context: &Holder) {
        // The exit of an irq does not name its handler.
        let same = |entered: &Holder| match (entered, context) {
            (Holder::Hardirq(_), Holder::Hardirq(_)) => true,
            (entered, left) => entered == left,
        };
        if self.interrupts.last().is_some_and(same) {
            self.cut(now);
            self.interrupts.pop();
        }
    }

    fn switch(&mut self, now: u64, next: i32) {
        self.cut(now);
        self.interrupts.clear();
        self.task = Some(next);
        self.first = self.segments.len();
    }

    fn step(&mut self, event: &Event) {
        let now = event.time_ns;
        if self.task.is_none() {
            self.task = Some(event.pid);
            self.since = now;
        }
        let entered = match &event.kind {
            Kind::IrqEntry { name, .. } => Holder::Hardirq(Arc::clone(name)),
            Kind::VectorEntry { vector } => Holder::Vector(Arc::clone(vector)),
            Kind::SoftirqEntry { vector } => Holder::Softirq(Arc::clone(vector)),
            Kind::IrqExit { .. } => return self.leave(now, &Holder::Hardirq("".into())),
            Kind::VectorExit { vector } => {
                return self.leave(now, &Holder::Vector(Arc::clone(vector)));
            }
            Kind::SoftirqExit { vector } => {
                return self.leave(now, &Holder::Softirq(Arc::clone(vector)));
            }
            Kind::Switch { next, .. } => return self.switch(now, *next),
            Kind::LostSwitch { next, .. } => {
                self.cut(now);
                for segment in self.segments.iter_mut().skip(self.first) {
                    if segment.holder.is_task() {
                        segment.holder = Holder::Unknown;
                    }
                }
                return self.switch(now, *next);
            }
            Kind::Nmi { duration_ns } => {
                self.cut(now.saturating_sub(*duration_ns));
                self.interrupts.push(Holder::Nmi);
                self.cut(now);
                self.interrupts.pop();
                return;
            }
            _ => return,
        };
        self.cut(now);
        self.interrupts.push(entered);
    }

    /// Adds up who had this CPU from `from` to `to`.
    fn lay(&self, from: u64, to: u64, charged: &mut BTreeMap<Holder, u64>) {
        let mut rest = to.saturating_sub(from);
        let first = self.segments.partition_point(|segment| segment.to <= from);
        for segment in self.segments.iter().skip(first).take_while(|segment| segment.from < to) {
            let overlap = segment.to.min(to).saturating_sub(segment.from.max(from));
            rest -= overlap;
            *charged.entry(segment.holder.clone()).or_default() += overlap;
        }
        if rest > 0 {
            *charged.entry(Holder::Unknown).or_default() += rest;
        }
    }
}

/// A wait under way.
struct Waiting {
    since: u64,
    /// Unknown for a thread that has neither run nor moved yet: where it will run.
    cpu: Option<u32>,
    past: Vec<(Option<u32>, u64, u64)>,
}

/// A wait that is over: where it lay, and when.
struct Wait {
    pid: i32,
    pieces: Vec<(u32, u64, u64)>,
}

/// The waits of the chosen threads.
#[derive(Default)]
struct Queue {
    waiting: HashMap<i32, Waiting>,
    /// Where each was seen last.
    places: HashMap<i32, u32>,
    done: Vec<Wait>,
    preemptions: Vec<Charge>,
    doubtful_ns: u64,
    moved_ns: u64,
}

impl Queue {
    fn begin(&mut self, pid: i32, now: u64) {
        let cpu = self.places.get(&pid).copied();
        self.waiting.entry(pid).or_insert(Waiting { since: now, cpu, past: Vec::new() });
    }

    fn moved(&mut self, pid: i32, now: u64, to: u32) {
        self.places.insert(pid, to);
        if let Some(waiting) = self.waiting.get_mut(&pid) {
            waiting.past.push((waiting.cpu, waiting.since, now));
            waiting.since = now;
            waiting.cpu = Some(to);
        }
    }

    fn end(&mut self, pid: i32, now: u64, cpu: u32) {
        self.places.insert(pid, cpu);
        let Some(waiting) = self.waiting.remove(&pid) else { return };
        let mut pieces = waiting.past;
        pieces.push((waiting.cpu, waiting.since, now));
        let pieces = pieces.into_iter().map(|(at, from, to)| (at.unwrap_or(cpu), from, to));
        self.done.push(Wait { pid, pieces: pieces.collect() });
    }

    fn step(&mut self, event: &Event, chosen: &BTreeSet<i32>) {
        let now = event.time_ns;
        match event.kind {
            Kind::Wakeup { pid } if chosen.contains(&pid) => self.begin(pid, now),
            Kind::Migrate { pid, to } if chosen.contains(&pid) => self.moved(pid, now, to),
            Kind::Switch { prev, left, next } => {
                let runnable = left == Left::Runnable;
                if chosen.contains(&prev) {
                    self.places.insert(prev, event.cpu);
                    // A wake-up that found it running, and starts nothing.
                    self.waiting.remove(&prev);
                    if runnable {
                        self.begin(prev, now);
                    }
                    if runnable && next != 0 {
                        let (pid, holder) = (prev, Holder::Task(next));
                        self.preemptions.push(Charge { pid, end_ns: now, holder, ns: 0 });
                    }
                }
                if chosen.contains(&next) {
                    self.end(next, now, event.cpu);
                }
            }
            Kind::LostSwitch { prev, next } => {
                for pid in [prev, next] {
                    if let Some(waiting) = self.waiting.remove(&pid) {
                        let since = waiting.past.first().map_or(waiting.since, |past| past.1);
                        self.doubtful_ns += now.saturating_sub(since);
                        self.moved_ns += waiting.since - since;
                    }
                    self.places.insert(pid, event.cpu);
                }
            }
            _ => {}
        }
    }
}

/// Lays delays that passed on one CPU over what it did meanwhile.
pub fn overlay(events: &[Event], delays: &[Sample], chosen: &BTreeSet<i32>) -> Vec<Charge> {
    let timelines = timelines(events);
    let mut found = Vec::new();
    for delay in delays.iter().filter(|delay| chosen.contains(&delay.pid)) {
        let mut charged = BTreeMap::new();
        if let Some(timeline) = timelines.get(&delay.cpu) {
            timeline.lay(delay.end_ns - delay.value_ns, delay.end_ns, &mut charged);
        }
        let (pid, end_ns) = (delay.pid, delay.end_ns);
        found.extend(charged.into_iter().map(|(holder, ns)| Charge { pid, end_ns, holder, ns }));
    }
    found
}

/// What each CPU did.
fn timelines(events: &[Event]) -> HashMap<u32, Timeline> {
    let entrances = Arc::new(entrances(events));
    let new = || Timeline { entrances: Arc::clone(&entrances), ..Timeline::default() };
    let mut timelines: HashMap<u32, Timeline> = HashMap::new();
    for event in events {
        timelines.entry(event.cpu).or_insert_with(new).step(event);
    }
    let end = events.last().map_or(0, |event| event.time_ns);
    timelines.values_mut().for_each(|timeline| timeline.cut(end));
    timelines
}

/// Lays the waits of the chosen threads over what the CPUs did meanwhile.
pub fn charges(events: &[Event], chosen: &BTreeSet<i32>) -> Charges {
    let timelines = timelines(events);
    let mut queue = Queue::default();
    events.iter().for_each(|event| queue.step(event, chosen));
    let mut found =
        Charges { waits: queue.done.len(), preemptions: queue.preemptions, ..Charges::default() };
    (found.doubtful_ns, found.moved_ns) = (queue.doubtful_ns, queue.moved_ns);
    for wait in &queue.done {
        let mut charged = BTreeMap::new();
        for &(cpu, from, to) in &wait.pieces {
            if let Some(timeline) = timelines.get(&cpu) {
                timeline.lay(from, to, &mut charged);
            }
        }
        let end_ns = wait.pieces.last().map_or(0, |piece| piece.2);
        let charge = |(holder, ns)| Charge { pid: wait.pid, end_ns, holder, ns };
        found.waiting.extend(charged.into_iter().map(charge));
    }
    let interrupted = timelines.into_values().flat_map(|timeline| timeline.segments);
    for segment in interrupted.filter(|segment| chosen.contains(&segment.task)) {
        if !segment.holder.is_task() && segment.holder != Holder::Unknown {
            let ns = segment.to - segment.from;
            let (pid, end_ns) = (segment.task, segment.to);
            found.running.push(Charge { pid, end_ns, holder: segment.holder, ns });
        }
    }
    found.running.sort_by_key(|charge| charge.end_ns);
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Charge, Entrance, Holder, charges, entrances};
    use crate::ftrace::event::{Event, Kind};
    use crate::pairing::testing::{at, switch_at};

    fn switch(time: u64, cpu: u32, prev: i32, runnable: bool, next: i32) -> Event {
        switch_at(time, cpu, prev, runnable, next)
    }

    fn brief(charges: &[Charge]) -> Vec<(i32, Holder, u64)> {
        charges.iter().map(|charge| (charge.pid, charge.holder.clone(), charge.ns)).collect()
    }

    fn victims(pids: &[i32]) -> BTreeSet<i32> {
        pids.iter().copied().collect()
    }

    #[test]
    fn a_wait_is_charged_to_all_who_ran_meanwhile() {
        let timer = || -> std::sync::Arc<str> { "local_timer".into() };
        let events = [
            switch(0, 0, 0, true, 5),
            switch(100, 0, 5, true, 6),
            at(110, 0, Kind::SoftirqEntry { vector: "net_rx".into() }),
            at(120, 0, Kind::VectorEntry { vector: timer() }),
            at(125, 0, Kind::VectorExit { vector: timer() }),
            at(130, 0, Kind::SoftirqExit { vector: "net_rx".into() }),
            at(140, 0, Kind::Nmi { duration_ns: 4 }),
            switch(150, 0, 6, false, 0),
            switch(160, 0, 0, true, 7),
            switch(200, 0, 7, true, 5),
            at(210, 0, Kind::VectorEntry { vector: timer() }),
            at(216, 0, Kind::VectorExit { vector: timer() }),
            switch(220, 0, 5, false, 7),
        ];
        let found = charges(&events, &victims(&[5]));
        assert_eq!(
            brief(&found.waiting),
            [
                (5, Holder::Task(6), 10 + 6 + 10),
                (5, Holder::Task(7), 40),
                (5, Holder::Idle, 10),
                (5, Holder::Vector(timer()), 5),
                (5, Holder::Softirq("net_rx".into()), 15),
                (5, Holder::Nmi, 4),
            ]
        );
        assert_eq!(brief(&found.running), [(5, Holder::Vector(timer()), 6)]);
        assert_eq!((found.waits, found.doubtful_ns), (1, 0));
        assert_eq!(brief(&found.preemptions), [(5, Holder::Task(6), 0)]);
    }

    #[test]
    fn a_wait_moves_with_its_thread() {
        let events = [
            switch(0, 0, 0, true, 5),
            switch(0, 1, 0, true, 8),
            switch(10, 0, 5, true, 6),
            at(30, 1, Kind::Migrate { pid: 5, to: 1 }),
            switch(40, 1, 8, true, 9),
            switch(70, 1, 9, true, 5),
        ];
        let found = charges(&events, &victims(&[5]));
        assert_eq!(
            brief(&found.waiting),
            [(5, Holder::Task(6), 20), (5, Holder::Task(8), 10), (5, Holder::Task(9), 30)]
        );
    }

    #[test]
    fn a_wakeup_waits_where_its_thread_was_last_or_was_moved_to() {
        let events = [
            switch(0, 0, 0, true, 5),
            switch(0, 1, 0, true, 8),
            switch(10, 0, 5, false, 6),
            at(20, 1, Kind::Wakeup { pid: 5 }),
            switch(25, 0, 6, true, 5),
            switch(30, 0, 5, false, 6),
            at(40, 0, Kind::Migrate { pid: 5, to: 1 }),
            at(41, 0, Kind::Wakeup { pid: 5 }),
            switch(50, 1, 8, true, 5),
        ];
        let found = charges(&events, &victims(&[5]));
        assert_eq!(brief(&found.waiting), [(5, Holder::Task(6), 5), (5, Holder::Task(8), 9)]);
    }

    #[test]
    fn a_thread_is_a_newcomer_to_the_end_of_the_turn_in_which_it_entered() {
        let events = [
            switch(0, 0, 0, true, 5),
            switch(10, 0, 5, true, 6),
            at(20, 0, Kind::Attach { pid: 6 }),
            switch(30, 0, 6, true, 0),
            switch(40, 0, 0, true, 6),
            switch(60, 0, 6, true, 5),
        ];
        let found = charges(&events, &victims(&[5]));
        let expected =
            [(5, Holder::Task(6), 20), (5, Holder::Newcomer(6), 20), (5, Holder::Idle, 10)];
        assert_eq!(brief(&found.waiting), expected);
        let entered = entrances(&events);
        assert_eq!(entered[&6], Entrance { at_ns: 20, turn_end_ns: 30 });
    }

    #[test]
    fn a_switch_that_is_missing_leaves_doubt() {
        let events = [
            switch(0, 0, 0, true, 5),
            switch(10, 0, 5, true, 1),
            at(60, 0, Kind::LostSwitch { prev: 1, next: 6 }),
            switch(60, 0, 6, true, 5),
            switch(70, 0, 5, true, 6),
            at(80, 0, Kind::Migrate { pid: 5, to: 1 }),
            at(90, 1, Kind::LostSwitch { prev: 1, next: 5 }),
        ];
        let found = charges(&events, &victims(&[5]));
        assert_eq!(brief(&found.waiting), [(5, Holder::Unknown, 50)]);
        assert_eq!((found.doubtful_ns, found.moved_ns), (20, 10));
    }
}

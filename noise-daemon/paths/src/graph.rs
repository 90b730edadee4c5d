//! The execution graph: each worker's points in time, the state between one and the next, and the links by
//! which one worker acts on another.
//!
//! A link is kept at the point that it leads to, which is all that a walk backward needs. Points that lie
//! before the time that is asked for can be forgotten while the graph grows; a link from such a point keeps
//! its time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use foldhash::HashMap;
use noise_trace::event::Comm;
use noise_trace::ipc::Connection;

use crate::build::known::{Known, Status};
use crate::state::{Action, State};
use crate::via::{Via, ViaId};

/// What has a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    Thread {
        /// The recording that it is in.
        machine: u16,
        tid: i32,
    },
    /// The idle task of a CPU: all have the id 0.
    Idle {
        /// The recording that it is in.
        machine: u16,
        cpu: u32,
    },
    /// The kernel itself, while it handles packets in a softirq.
    Kernel {
        /// The recording that it is in.
        machine: u16,
        cpu: u32,
    },
}

impl Who {
    /// The recording that it is in.
    pub const fn machine(self) -> u16 {
        let (Self::Thread { machine, .. }
        | Self::Idle { machine, .. }
        | Self::Kernel { machine, .. }) = self;
        machine
    }
}

/// The number of a worker in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub(crate) u32);

/// The place of a point in its graph. It stays the same while older points are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointPlace {
    pub worker: WorkerId,
    /// Its number among that worker's, from 0 on.
    pub number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOrigin {
    pub from: PointPlace,
    pub time_ns: u64,
    pub action: Action,
    /// What links the two: see [`Graph::via`].
    pub via: ViaId,
}

/// The CPU of a state that is on none.
pub const NO_CPU: u32 = u32::MAX;

/// A moment at which a worker's state changes, or at which it acts on another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub time_ns: u64,
    /// What the worker did since the point before; `None` where that is another life of it.
    pub state: Option<State>,
    /// The CPU of that: where it ran, or where it got the CPU that it waited for; else [`NO_CPU`].
    pub cpu: u32,
    /// Who acted on it.
    pub link: Option<LinkOrigin>,
    /// The worker whose handling of an interrupt ended that state, where one did.
    pub through: Option<WorkerId>,
}

#[derive(Clone, Debug)]
pub struct Worker {
    pub who: Who,
    pub comm: Comm,
    /// Whether the trace says of it before its first point that it was there, and that point is not the end of a run.
    pub was_there: bool,
    /// Its process; 0 where the trace does not say.
    pub pid: i32,
    /// When it was created, in nanoseconds, where the trace has that.
    pub created_ns: Option<u64>,
    /// When its process last began another program.
    pub exec_ns: Option<u64>,
    pub exit_ns: Option<u64>,
    /// Whether a switch away from it was missing once. Some kernels hide those of some threads: until the next switch, others may
    /// run where it did.
    pub(crate) leaves_unseen: bool,
    /// What it does at the moment.
    pub(crate) now: Known,
    points: VecDeque<Point>,
    /// The number of the first point that is still there.
    first: u32,
    /// When its life began, once points are forgotten.
    began_ns: Option<u64>,
    /// Whether it is on a path: it is not forgotten.
    is_kept: bool,
    /// Whether another thread has its id: it has ended, and that was not seen.
    is_replaced: bool,
    /// Whether all but who it is was forgotten.
    is_apart: bool,
}

impl Worker {
    /// The point of that number, where it is still there.
    pub fn point(&self, number: u32) -> Option<&Point> {
        self.points.get(number.checked_sub(self.first)? as usize)
    }

    /// Numbers of the points that are there.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.end()
    }

    /// Points that are there, the oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    /// The number that the next point gets.
    fn end(&self) -> u32 {
        self.first.saturating_add(u32::try_from(self.points.len()).unwrap_or(u32::MAX))
    }

    /// The number of the last point not after a time.
    pub fn last_until(&self, time_ns: u64) -> Option<u32> {
        let after = self.points.partition_point(|point| point.time_ns <= time_ns);
        let place = u32::try_from(after.checked_sub(1)?).ok()?;
        Some(self.first.saturating_add(place))
    }

    fn forget_before(&mut self, time_ns: u64) {
        let after = self.points.partition_point(|point| point.time_ns <= time_ns);
        let is_gone = self.is_gone() && after == self.points.len();
        let gone = if is_gone { after } else { after.saturating_sub(1) };
        if gone > 0 {
            self.began_ns = self.life().map(|(began_ns, _)| began_ns);
        }
        self.points.drain(..gone);
        self.first = self.first.saturating_add(u32::try_from(gone).unwrap_or(u32::MAX));
        if self.points.capacity() > 2 * self.points.len() + 8 || self.points.is_empty() {
            self.points.shrink_to_fit();
        }
    }

    /// From when until when a trace knows what it does, in nanoseconds: from its first run where it was created or
    /// known to be there before, else from its first point.
    pub fn life(&self) -> Option<(u64, u64)> {
        let (first_ns, last_ns) = self.span()?;
        if let Some(began_ns) = self.began_ns {
            return Some((began_ns, last_ns));
        }
        let second = self.points.get(1);
        let begin_ns = match second.and_then(|second| Some((second, second.state?))) {
            Some((second, State::Created)) => second.time_ns,
            Some((second, State::WaitingCpu)) if self.was_there => second.time_ns,
            _ => first_ns,
        };
        Some((begin_ns, last_ns))
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        self.now.status == Status::Gone || self.is_replaced
    }

    /// Its first and last time that are there, in nanoseconds.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.points.front()?.time_ns, self.points.back()?.time_ns))
    }
}

/// Workers that lie beside each other.
const BLOCK: usize = 16;

/// All workers, in blocks in the order in which they came: of those that end soon whole blocks are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    blocks: Vec<Option<Vec<Worker>>>,
    /// How many workers there were.
    count: u32,
    /// Blocks that are there.
    held: u32,
    /// Of those that are forgotten, workers that are on paths.
    on_paths: HashMap<WorkerId, Worker>,
    /// What links workers, each once, and its number.
    vias: Vec<Via>,
    numbers: HashMap<Via, ViaId>,
    /// Addresses of both ends of sockets, by their recordings and inodes.
    sockets: HashMap<(u16, u64), [SocketAddr; 2]>,
}

/// Things that link workers, and sockets; of those beyond it is not known which they are.
const MAX_VIAS: usize = 65_536;

impl Graph {
    pub fn add(&mut self, who: Who, comm: Comm) -> WorkerId {
        let id = WorkerId(self.count);
        self.count = self.count.saturating_add(1);
        if self
            .blocks
            .last()
            .is_none_or(|last| last.as_ref().is_none_or(|last| last.len() >= BLOCK))
        {
            self.blocks.push(Some(Vec::with_capacity(BLOCK)));
            self.held = self.held.saturating_add(1);
        }
        if let Some(Some(last)) = self.blocks.last_mut() {
            last.push(Worker {
                who,
                comm,
                was_there: false,
                pid: 0,
                created_ns: None,
                exec_ns: None,
                exit_ns: None,
                leaves_unseen: false,
                now: Known::default(),
                points: VecDeque::new(),
                first: 0,
                began_ns: None,
                is_kept: false,
                is_replaced: false,
                is_apart: false,
            });
        }
        id
    }

    /// A worker, unless it ended before what was forgotten.
    pub fn get(&self, id: WorkerId) -> Option<&Worker> {
        match self.blocks.get(id.0 as usize / BLOCK)? {
            Some(block) => block.get(id.0 as usize % BLOCK),
            None => self.on_paths.get(&id),
        }
    }

    /// A worker, to note what is known of it beside its points.
    pub fn get_mut(&mut self, id: WorkerId) -> Option<&mut Worker> {
        match self.blocks.get_mut(id.0 as usize / BLOCK)? {
            Some(block) => block.get_mut(id.0 as usize % BLOCK),
            None => self.on_paths.get_mut(&id),
        }
    }

    /// All workers of which something may be known beside who they are.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        let numbered = (0..).step_by(BLOCK).zip(&self.blocks);
        numbered.flat_map(|(first, block)| (first..).map(WorkerId).zip(block.iter().flatten()))
    }

    /// A point, where it is still there.
    pub fn point(&self, place: PointPlace) -> Option<&Point> {
        self.get(place.worker)?.point(place.number)
    }

    /// Adds a point behind a worker's last one, with the state since that. A time before it counts as its
    /// own; the first point has no state.
    pub fn append(
        &mut self,
        id: WorkerId,
        time_ns: u64,
        state: Option<State>,
        cpu: u32,
    ) -> PointPlace {
        // One that is on a path and else forgotten gets none any more.
        let worker = self.get_mut(id).filter(|worker| !worker.is_apart);
        let Some(worker) = worker else {
            return PointPlace { worker: id, number: u32::MAX };
        };
        let last = worker.points.back();
        let time_ns = last.map_or(time_ns, |last| time_ns.max(last.time_ns));
        let state = last.and(state);
        let number = worker.end();
        worker.points.push_back(Point { time_ns, state, cpu, link: None, through: None });
        PointPlace { worker: id, number }
    }

    /// The number of what links workers.
    pub fn number(&mut self, via: Via) -> ViaId {
        if let Some(number) = self.numbers.get(&via) {
            return *number;
        }
        if self.vias.len() >= MAX_VIAS && via != Via::of(via.kind) {
            return self.number(Via::of(via.kind));
        }
        let number = ViaId(u32::try_from(self.vias.len()).unwrap_or(u32::MAX));
        self.vias.push(via);
        self.numbers.insert(via, number);
        number
    }

    /// What links workers, by its number.
    pub fn via(&self, number: ViaId) -> Via {
        self.vias.get(number.0 as usize).copied().unwrap_or_default()
    }

    /// Notes the addresses of a socket.
    pub fn connected(&mut self, machine: u16, socket: &Connection) {
        let key = (machine, u64::from(socket.inode));
        let has_room = self.sockets.len() < MAX_VIAS || self.sockets.contains_key(&key);
        if socket.inode != 0 && has_room {
            self.sockets.insert(key, [socket.local, socket.remote]);
        }
    }

    /// The addresses of a socket of the internet, its own first. An inode may be given again: they are those that have its ports.
    pub fn ends(&self, machine: u16, via: Via) -> Option<[SocketAddr; 2]> {
        let ports = [via.peer >> 16, via.peer & 0xffff];
        let known = self.sockets.get(&(machine, via.id)).copied();
        known.filter(|ends| ends.map(|end| u32::from(end.port())) == ports)
    }

    /// Notes that one point acts on a later one. A link backward in time is none.
    pub fn link(&mut self, from: PointPlace, to: PointPlace, action: Action, via: Via) {
        let Some(time_ns) = self.point(from).map(|point| point.time_ns) else { return };
        let via = self.number(via);
        self.link_at(LinkOrigin { from, time_ns, action, via }, to);
    }

    /// The same, from a point that may be forgotten.
    pub fn link_at(&mut self, link: LinkOrigin, to: PointPlace) {
        if let Some(point) = self.point_mut(to)
            && link.time_ns <= point.time_ns
        {
            point.link = Some(link);
        }
    }

    /// Notes what a sleep before a point was.
    pub fn explain(&mut self, to: PointPlace, state: State) {
        if let Some(point) = self.point_mut(to)
            && matches!(point.state, Some(State::Blocked | State::Futex))
        {
            point.state = Some(state);
        }
    }

    /// Notes through whom the state before a point ended.
    pub fn through(&mut self, to: PointPlace, through: WorkerId) {
        if let Some(point) = self.point_mut(to) {
            point.through = Some(through);
        }
    }

    fn point_mut(&mut self, place: PointPlace) -> Option<&mut Point> {
        let worker = self.get_mut(place.worker)?;
        let inside = place.number.checked_sub(worker.first)?;
        worker.points.get_mut(inside as usize)
    }

    /// Another thread has that one's id from now on.
    pub fn replace(&mut self, before: Option<WorkerId>) {
        if let Some(worker) = before.and_then(|id| self.get_mut(id)) {
            worker.is_replaced = true;
        }
    }

    /// Does not forget who workers are.
    pub fn keep(&mut self, workers: impl Iterator<Item = WorkerId>) {
        for id in workers {
            if let Some(worker) = self.get_mut(id) {
                worker.is_kept = true;
            }
        }
    }

    /// Forgets what is not needed for a span that begins then: of each worker's older points the latest stays, and of
    /// those that ended before, nothing.
    pub fn forget_before(&mut self, time_ns: u64) {
        let blocks = self.blocks.len();
        for (number, place) in self.blocks.iter_mut().enumerate() {
            let Some(block) = place else { continue };
            let is_full = number + 1 < blocks;
            let mut is_over = is_full;
            for worker in block.iter_mut() {
                worker.forget_before(time_ns);
                is_over &= worker.is_gone() && worker.points.is_empty();
            }
            if is_over {
                let first = (number * BLOCK) as u32;
                let numbered = (first..).map(WorkerId).zip(place.take().into_iter().flatten());
                let kept = numbered.filter(|(_, worker)| worker.is_kept);
                self.on_paths.extend(kept.map(|(id, of)| (id, Worker { is_apart: true, ..of })));
                self.held = self.held.saturating_sub(1);
            }
        }
    }

    /// How many workers take memory, those on paths apart: that ended do, too, as long as they are needed, or lie beside one
    /// that is.
    pub const fn held(&self) -> u32 {
        self.held.saturating_mul(BLOCK as u32)
    }

    /// Points of all workers that are there.
    pub fn points(&self) -> usize {
        self.workers().map(|(_, worker)| worker.points.len()).sum()
    }
}

//! What links a part of a path to the thread that waits for it, as documents have it: see [`Via`].

use std::net::SocketAddr;

use noise_common::store::calls::ObjectKind;
use noise_text::clean::clean;
use serde::Serialize;

use crate::graph::{Graph, Who, WorkerId};
use crate::path::Awaited;
use crate::state::Action;
use crate::via::{Via, ViaKind};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PathThread {
    pub tid: i32,
    pub comm: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadLink {
    pub kind: ViaKind,
    /// The process in which a futex or a page is, or that waits for a file's lock; of a child, that one. `None` where that is not
    /// known, and of all else.
    pub process: Option<i32>,
    /// Which one: the address of a futex or a page, `pipe:[INODE]`, `socket:[INODE]`, the number of anything else.
    pub address: Option<String>,
    /// The variable that lies at the address, where the program's file says so.
    pub symbol: Option<String>,
    /// Both ends of a pipe or a socket, that of who waits first: the addresses of a socket of the internet, else the processes,
    /// each with its descriptor where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<[String; 2]>,
    pub waits: PathThread,
}

impl ThreadLink {
    /// Between a worker and who waits for it.
    pub fn of(graph: &Graph, worker: WorkerId, awaited: &Awaited) -> Self {
        let (tid, comm) = named(graph, awaited.by);
        let via = match awaited.action {
            Action::Times => Via::of(ViaKind::Timer),
            _ => graph.via(awaited.via),
        };
        let whose = match via.kind {
            ViaKind::Futex | ViaKind::Page | ViaKind::File => Some(awaited.by),
            ViaKind::Child => Some(worker),
            _ => None,
        };
        let pid = |id| graph.get(id).map(|worker| worker.pid).filter(|pid| *pid != 0);
        let has_ends = matches!(via.kind, ViaKind::Pipe | ViaKind::Socket | ViaKind::Eventfd);
        let ends = has_ends.then(|| {
            let inet = inet_ends(graph, awaited.by, via);
            inet.unwrap_or_else(|| {
                let end = |id, fd| {
                    let (tid, comm) = named(graph, id);
                    let own = format!("{comm} {}", pid(id).unwrap_or(tid));
                    if fd < 0 { own } else { format!("{own} fd {fd}") }
                };
                let [own_fd, other_fd] = via.fds;
                [end(awaited.by, own_fd), end(worker, other_fd)]
            })
        });
        Self {
            kind: via.kind,
            process: whose.and_then(pid),
            address: address(via),
            symbol: None,
            ends,
            waits: PathThread { tid, comm },
        }
    }

    /// For what who waits does so, for people; `None` where nothing more is known than who wakes it.
    pub fn words(&self) -> Option<String> {
        let which = self.address.as_deref();
        let ends = self.ends.as_ref().map(|[own, other]| (clean(own), clean(other)));
        let between = ends.map_or_else(String::new, |(own, other)| format!(" ({own} - {other})"));
        Some(match self.kind {
            ViaKind::Wakeup | ViaKind::Creation | ViaKind::Child | ViaKind::Timer => return None,
            ViaKind::Futex => match (&self.symbol, which) {
                (Some(symbol), _) => format!("at the futex {}", clean(symbol)),
                (None, Some(address)) => match self.process {
                    Some(pid) => format!("at the futex {address} of process {pid}"),
                    None => format!("at the futex {address}"),
                },
                (None, None) => "at a futex".to_owned(),
            },
            ViaKind::Pipe => format!("at a pipe{between}"),
            ViaKind::Socket => format!("at a socket{between}"),
            ViaKind::Eventfd => format!("at an eventfd{between}"),
            ViaKind::Queue => "at a message queue".to_owned(),
            ViaKind::Semaphore => "at a semaphore".to_owned(),
            ViaKind::File => "for the lock of a file".to_owned(),
            ViaKind::Page => "for a page of memory".to_owned(),
            ViaKind::Signal => "for a signal".to_owned(),
        })
    }
}

pub(crate) fn named(graph: &Graph, id: WorkerId) -> (i32, String) {
    let Some(worker) = graph.get(id) else { return (0, String::new()) };
    match worker.who {
        Who::Thread { tid, .. } => (tid, worker.comm.to_string()),
        Who::Idle { .. } | Who::Kernel { .. } => (0, worker.comm.to_string()),
    }
}

fn address(via: Via) -> Option<String> {
    let id = via.id;
    match (via.kind, via.fds) {
        (ViaKind::File, [fd, _]) if fd >= 0 => Some(format!("fd {fd}")),
        _ if id == 0 => None,
        (ViaKind::Futex | ViaKind::Page, _) => Some(format!("{id:#x}")),
        (ViaKind::Pipe, _) => Some(format!("pipe:[{id}]")),
        (ViaKind::Socket, _) => Some(format!("socket:[{id}]")),
        _ => Some(id.to_string()),
    }
}

/// The addresses of a socket of the internet; its ports where nothing else is known.
fn inet_ends(graph: &Graph, by: WorkerId, via: Via) -> Option<[String; 2]> {
    let is_inet = matches!(via.object, ObjectKind::Tcp | ObjectKind::Udp) && via.peer != 0;
    let machine = graph.get(by)?.who.machine();
    let known = graph.ends(machine, via).filter(|_| is_inet);
    let ports = [via.peer >> 16, via.peer & 0xffff];
    match known {
        Some(ends) => Some(ends.map(|end: SocketAddr| end.to_string())),
        None => is_inet.then(|| ports.map(|port| format!(":{port}"))),
    }
}

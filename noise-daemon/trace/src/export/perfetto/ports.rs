//! On which ports processes listen, as far as a recording says so: by the sockets and files of its state dump, and by sockets of
//! TCP that begin to listen.

use std::collections::HashMap;

use crate::event::{Event, TraceKind};
use crate::threads::Threads;

/// Sockets that are known.
const MAX_SOCKETS: usize = 65_536;
/// `IPPROTO_TCP`, and `TCP_LISTEN`.
const TCP: u32 = 6;
const LISTENS: u32 = 10;

#[derive(Debug, Default)]
pub struct Ports {
    /// Of sockets that listen, by their inodes.
    listening: HashMap<u64, u16>,
    /// Sockets of processes, in the order of their descriptors.
    sockets: HashMap<i32, Vec<u64>>,
    known: usize,
}

impl Ports {
    pub fn follow(&mut self, event: &Event<'_>, threads: &Threads) {
        match &event.kind {
            TraceKind::StatedumpSocket(socket)
                if socket.protocol == TCP && socket.remote.port() == 0 =>
            {
                self.listens(socket.inode.into(), socket.local.port());
            }
            TraceKind::InetSockSetState { connection, to: LISTENS, .. } => {
                self.listens(connection.inode.into(), connection.local.port());
                let current = threads.current(event.cpu).and_then(|tid| threads.get(tid));
                if let Some(thread) = current.filter(|thread| thread.pid > 0) {
                    self.has(thread.pid, connection.inode.into());
                }
            }
            TraceKind::StatedumpFile { pid, object, .. } => self.has(*pid, object.id),
            _ => {}
        }
    }

    fn listens(&mut self, inode: u64, port: u16) {
        if inode != 0 && self.listening.len() < MAX_SOCKETS {
            self.listening.insert(inode, port);
        }
    }

    fn has(&mut self, pid: i32, inode: u64) {
        if inode != 0 && self.known < MAX_SOCKETS {
            self.known += 1;
            self.sockets.entry(pid).or_default().push(inode);
        }
    }

    /// The port of a process, its first.
    pub fn of(&self, pid: i32) -> Option<u16> {
        let sockets = self.sockets.get(&pid)?;
        sockets.iter().find_map(|inode| self.listening.get(inode).copied())
    }
}

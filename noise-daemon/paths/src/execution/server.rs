//! What packets say of a server's requests and connections.

use noise_trace::contexts::{Contexts, CpuContext};
use noise_trace::event::{Event, TraceKind};
use noise_trace::follow::PerCpu;
use noise_trace::record::{Record, Stored};

use crate::packets::headers::{Ends, ends};

/// Flags of a segment.
const FIN: u16 = 1;
const SYN: u16 = 1 << 1;
const RST: u16 = 1 << 2;
const ACK: u16 = 1 << 4;

/// What a packet means for a server at some port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something begins on that connection, or goes on to arrive.
    Begins {
        flow: u64,
        /// Which connection between these ports begins with it; `None` in the midst of one.
        connection: Option<u32>,
    },
    /// What began there has no end: the client has ended the connection, or begun another one.
    GivenUp(u64),
    /// It ends there, by the thread that runs.
    Ends(u64),
    /// It ends there, and which thread ended it is not known.
    EndsUnseen(u64),
}

/// Follows the packets of a port.
#[derive(Clone, Debug, Default)]
pub struct Port {
    contexts: PerCpu<Contexts>,
    /// Whether an event had headers, and one was of this port.
    pub has_headers: bool,
    pub has_packets: bool,
}

impl Port {
    /// Takes the next event; `port` is the server's, and a whole connection is meant or a request in it.
    pub fn follow<'t>(
        &mut self,
        port: u16,
        is_whole: bool,
        record: &Record<impl Stored<'t>>,
        event: &Event<'t>,
    ) -> Option<Step> {
        let contexts = self.contexts.of(event.cpu)?;
        let in_task = contexts.running() == CpuContext::Task;
        contexts.follow(event);
        let is_sent = match event.kind {
            TraceKind::NetDevQueue(_) => true,
            TraceKind::NetifReceiveSkb(_) => false,
            _ => return None,
        };
        let Ends { from_port, to_port, flow, back, flags, sequence, bytes } = ends(record)?;
        self.has_headers = true;
        if (if is_sent { from_port } else { to_port }) != port {
            return None;
        }
        self.has_packets = true;
        let is_first = flags & (SYN | ACK) == SYN;
        let begins = if is_whole { is_first } else { bytes > 0 };
        let ends = if is_whole { flags & (FIN | RST) != 0 } else { bytes > 0 };
        match is_sent {
            // The first packet of a connection may bring a request (TCP Fast Open).
            false if begins => {
                Some(Step::Begins { flow, connection: is_first.then_some(sequence) })
            }
            false => (is_first || flags & RST != 0).then_some(Step::GivenUp(flow)),
            true if !ends => None,
            true if in_task => Some(Step::Ends(back)),
            true => Some(Step::EndsUnseen(back)),
        }
    }
}

//! What two machines sent each other by TCP, by the ends of the bytes of each call: what brings their clocks together. Bytes
//! are not received before the call that sends them begins.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use noise_trace::ipc::read::call_name;
use noise_trace::record::Source;

use super::SketchEventKind;
use super::calls::Does;
use super::fields::Fields;
use super::sockets::{Sockets, kind};
use crate::input::{ChannelObject, Endpoint};

/// Calls that are under way.
const MAX_CALLS: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSide {
    /// It is the sender's.
    pub is_sent: bool,
    /// The same on both sides.
    pub key: u64,
    /// When the call began that sends, and when that ended which receives, nanoseconds since the epoch.
    pub time_ns: u64,
}

/// Goes over the transfers in one of our recordings.
pub fn transfers(mut source: impl Source, mut see: impl FnMut(TransferSide)) {
    let mut sockets = Sockets::default();
    // By thread: since when it is in a call, and on which end.
    let mut calls: HashMap<i64, (u64, Endpoint)> = HashMap::new();
    while let Some(record) = source.read() {
        match SketchEventKind::named(record.name()) {
            SketchEventKind::Connection | SketchEventKind::SocketDump => {
                let fields = Fields::of(&record);
                sockets.known(0, fields.inode, fields.addresses(), fields.namespace);
            }
            SketchEventKind::Enters => {
                let fields = Fields::of(&record);
                calls.remove(&fields.tid);
                let object = sockets.object(0, &fields.noised, [None; 2]);
                if let (kind::TCP, Some(ChannelObject::End(end))) = (fields.noised.kind, object)
                    && calls.len() < MAX_CALLS
                {
                    calls.insert(fields.tid, (record.time_ns, end));
                }
            }
            SketchEventKind::Leaves => {
                let fields = Fields::of(&record);
                let Some((since_ns, end)) = calls.remove(&fields.tid) else { continue };
                let does =
                    call_name(record.name()).map_or(Does::Other, |(call, _)| Does::named(call));
                let is_sent = match does {
                    Does::Send | Does::Move => true,
                    Does::Receive => false,
                    _ => continue,
                };
                if fields.ret <= 0 || fields.peeks || fields.noised.position == 0 {
                    continue;
                }
                let (flow, time_ns) =
                    if is_sent { (end.out, since_ns) } else { (end.into, record.time_ns) };
                let hash = BuildHasherDefault::<DefaultHasher>::default();
                let key = hash.hash_one((flow, fields.noised.position));
                see(TransferSide { is_sent, key, time_ns });
            }
            _ => {}
        }
    }
}

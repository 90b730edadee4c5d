//! Packets.

use core::ffi::CStr;

use super::field::{Fields, Hex};
use super::row::events;
use crate::event::Packet;

events! {
    NetDevQueue = "net_dev_queue",
    NetDevStartXmit = "net_dev_start_xmit",
    NetifRx = "netif_rx" | "net_if_rx" => (packet: Packet<'_>) {
        ("skbaddr",      Hex,  packet.skb)
        ("len",          u32,  packet.len)
        ("name" | "dev", CStr, packet.name)
    }

    NetifReceiveSkb = "netif_receive_skb" | "net_if_receive_skb" perfetto 360 =>
    (packet: Packet<'_>) {
        ("skbaddr" = unsigned 3,  Hex,  packet.skb)
        ("len" = int 1,           u32,  packet.len)
        ("name" | "dev" = text 2, CStr, packet.name)
    }

    NapiGroReceive = "napi_gro_receive_entry" | "net_napi_gro_receive_entry" perfetto 365 =>
    (packet: Packet<'_>) {
        ("skbaddr" = unsigned 15,  Hex,  packet.skb)
        ("len" = int 7,            u32,  packet.len)
        ("name" | "dev" = text 10, CStr, packet.name)
    }

    NetDevXmit = "net_dev_xmit" perfetto 361 => { packet: Packet<'_>, rc: i32 } {
        ("skbaddr" = unsigned 4,  Hex,  packet.skb)
        ("len" = int 1,           u32,  packet.len)
        ("name" | "dev" = text 2, CStr, packet.name)
        ("rc" = int 3,            i32,  rc)
    }

    SkbKfree = "skb_kfree" | "kfree_skb" => { skb: u64, reason: u32 } {
        ("skbaddr", Hex, skb)
        ("reason",  u32, reason, by reason_or_none)
    }

    TcpRetransmitSkb = "tcp_retransmit_skb" => (packet: Packet<'_>) {
        ("skbaddr",      Hex,  packet.skb)
        ("name" | "dev", CStr, packet.name)
        (read "len",     u32,  packet.len)
    }
}

/// All ones where the kernel gives no reason.
#[inline(always)]
fn reason_or_none<'t>(fields: &impl Fields<'t>, field: usize) -> u32 {
    if fields.has(field) { fields.int(field) as u32 } else { u32::MAX }
}

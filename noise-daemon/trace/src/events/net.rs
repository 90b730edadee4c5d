//! Packets.

use core::ffi::CStr;

use super::field::{Fields, Hex};
use super::row::events;
use crate::event::Packet;

events! {
    NetDevQueue = "net_dev_queue",
    NetDevStartXmit = "net_dev_start_xmit",
    NetifReceiveSkb = "netif_receive_skb" | "net_if_receive_skb",
    NetifRx = "netif_rx" | "net_if_rx",
    NapiGroReceive = "napi_gro_receive_entry" | "net_napi_gro_receive_entry" => (packet: Packet<'_>) {
        ("skbaddr",      Hex,  packet.skb)
        ("len",          u32,  packet.len)
        ("name" | "dev", CStr, packet.name)
    }

    NetDevXmit = "net_dev_xmit" => { packet: Packet<'_>, rc: i32 } {
        ("skbaddr",      Hex,  packet.skb)
        ("len",          u32,  packet.len)
        ("name" | "dev", CStr, packet.name)
        ("rc",           i32,  rc)
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

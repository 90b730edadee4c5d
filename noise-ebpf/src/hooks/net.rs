//! Network hooks.

use noise_common::signals::Signal;

use crate::kernel::{ARG_DROP_REASON, Access, Device, Skb};
use crate::maps::{clock_ns, cpu_state, measures};
use crate::signals::{net_rx_wait, net_tx_wait, packet_drop, tcp_retransmit};

/// `net_dev_queue(skb)`.
#[inline(always)]
pub fn queue<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if measures(state, Signal::NetTxWait) {
        net_tx_wait::queue(state, Skb::argument(access), clock_ns());
    }
    Some(())
}

/// `net_dev_start_xmit(skb, device)`.
#[inline(always)]
pub fn start_xmit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !measures(state, Signal::NetTxWait) {
        return None;
    }
    let now_ns = clock_ns();
    let packet = net_tx_wait::take(state, Skb::argument(access), now_ns)?;
    net_tx_wait::start(state, &packet, Device::argument(access, 1), now_ns);
    Some(())
}

/// `netif_receive_skb(skb)`.
#[inline(always)]
pub fn receive<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if !measures(state, Signal::NetRxWait) || !net_rx_wait::listens(state) {
        return None;
    }
    net_rx_wait::receive(state, Skb::argument(access).device().subject(), clock_ns());
    Some(())
}

/// `tcp_retransmit_skb(socket, skb[, error])`.
#[inline(always)]
pub fn retransmit<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    if measures(state, Signal::TcpRetransmit) {
        tcp_retransmit::count(state, Device::of_socket(access, 0).subject());
    }
    Some(())
}

/// `kfree_skb(skb, location[, reason[, socket]])`: the kernel dropped it.
#[inline(always)]
pub fn free<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    let reason = if ARG_DROP_REASON.load() == 2 { access.argument(2) as u32 } else { u32::MAX };
    packet_drop::count(state, reason);
    if measures(state, Signal::NetTxWait) {
        net_tx_wait::forget(state, Skb::argument(access));
    }
    Some(())
}

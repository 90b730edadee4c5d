//! Network hooks.

use noise_common::signals::Signal;
use noise_common::store::{Class, EventKind};

use crate::kernel::packet::{Device, Skb};
use crate::kernel::{ARG_DROP_REASON, ARG_RETRANSMIT_ERROR, Access};
use crate::maps::{EventClock, clock_ns, cpu_state, measures};
use crate::signals::{net_rx_wait, net_tx_wait, packet_drop, tcp_retransmit};
use crate::store::{self, records};

/// `net_dev_queue(skb)`.
#[inline(always)]
pub fn queue<A: Access>(access: A) -> Option<()> {
    let (state, mut clock) = (cpu_state()?, EventClock::unread());
    let skb = Skb::argument(access);
    let interface = skb.device().interface();
    if records(state, Class::Io) {
        store::net(state, EventKind::NetQueue, skb, interface, clock.now_ns());
    }
    if measures(state, Signal::NetTxWait) {
        net_tx_wait::queue(state, skb, interface, clock.now_ns());
    }
    Some(())
}

/// `net_dev_start_xmit(skb, device)`.
#[inline(always)]
pub fn start_xmit<A: Access>(access: A) -> Option<()> {
    let (state, mut clock) = (cpu_state()?, EventClock::unread());
    let (skb, interface) = (Skb::argument(access), Device::argument(access, 1).interface());
    if records(state, Class::Io) {
        store::net(state, EventKind::NetXmit, skb, interface, clock.now_ns());
    }
    if !measures(state, Signal::NetTxWait) {
        return None;
    }
    let now_ns = clock.now_ns();
    let packet = net_tx_wait::take(state, skb, now_ns)?;
    net_tx_wait::start(state, &packet, interface, now_ns);
    Some(())
}

/// `netif_receive_skb(skb)`.
#[inline(always)]
pub fn receive<A: Access>(access: A) -> Option<()> {
    let (state, mut clock) = (cpu_state()?, EventClock::unread());
    let skb = Skb::argument(access);
    let interface = skb.device().interface();
    if records(state, Class::Io) {
        store::net(state, EventKind::NetReceive, skb, interface, clock.now_ns());
    }
    if !measures(state, Signal::NetRxWait) || !net_rx_wait::listens(state) {
        return None;
    }
    net_rx_wait::receive(state, interface.subject(), clock.now_ns());
    Some(())
}

/// `tcp_retransmit_skb(socket, skb[, error])`: where there is an error, nothing was sent.
#[inline(always)]
pub fn retransmit<A: Access>(access: A) -> Option<()> {
    if ARG_RETRANSMIT_ERROR.load() == 2 && access.argument(2) as i32 != 0 {
        return None;
    }
    let (state, interface) = (cpu_state()?, Device::of_socket(access, 0).interface());
    if records(state, Class::Io) {
        store::retransmit(state, access.argument(1), interface, clock_ns());
    }
    if measures(state, Signal::TcpRetransmit) {
        tcp_retransmit::count(state, interface.subject());
    }
    Some(())
}

/// `kfree_skb(skb, location[, reason[, socket]])`: the kernel dropped it.
#[inline(always)]
pub fn free<A: Access>(access: A) -> Option<()> {
    let state = cpu_state()?;
    let reason = if ARG_DROP_REASON.load() == 2 { access.argument(2) as u32 } else { u32::MAX };
    if records(state, Class::Io) {
        store::drop(state, Skb::argument(access), reason, clock_ns());
    }
    packet_drop::count(state, reason);
    if measures(state, Signal::NetTxWait) {
        net_tx_wait::forget(state, Skb::argument(access));
    }
    Some(())
}

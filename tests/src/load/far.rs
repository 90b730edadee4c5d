//! Another host: a TCP stack that is not this kernel's, behind a tunnel interface. What it sends arrives in packets, and no
//! thread of this host sleeps in a socket of the connection's other end.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration as StackDuration, Instant as StackInstant};
use smoltcp::wire::{HardwareAddress, IpCidr};

use super::service::MESSAGE;
use super::{Arguments, Session, report};
use crate::task::set_name;

/// Connections that it answers at a time.
const CONNECTIONS: usize = 16;
/// Bytes of each buffer of a connection.
const BUFFER: usize = 4096;
/// Longest sleep.
const LOOK_UP: StackDuration = StackDuration::from_millis(20);

/// A connection, and when the answer to its request is due.
struct Connection {
    socket: SocketHandle,
    due: Option<Instant>,
}

/// `far-host <interface> <address> <port> <file> <ms>`: makes the interface, and answers requests of [`super::service`] at
/// that address, so much later while there is that file.
pub(super) fn far_host(arguments: &mut Arguments) -> Result<()> {
    set_name("far-host")?;
    let name = arguments.text()?;
    let address: Ipv4Addr = arguments.number()?;
    let port: u16 = arguments.number()?;
    let slow = PathBuf::from(arguments.text()?);
    let late = Duration::from_millis(arguments.number()?);
    let mut device = TunTapInterface::new(&name, Medium::Ip).context("making the interface")?;
    let descriptor = device.as_raw_fd();
    let config = Config::new(HardwareAddress::Ip);
    let mut interface = Interface::new(config, &mut device, StackInstant::now());
    let mut is_set = false;
    interface.update_ip_addrs(|all| is_set = all.push(IpCidr::new(address.into(), 30)).is_ok());
    anyhow::ensure!(is_set, "the stack takes no address");
    let mut sockets = SocketSet::new(Vec::new());
    let mut connections: Vec<Connection> = (0..CONNECTIONS)
        .map(|_| {
            let buffer = || SocketBuffer::new(vec![0; BUFFER]);
            let mut socket = Socket::new(buffer(), buffer());
            socket.set_nagle_enabled(false);
            Connection { socket: sockets.add(socket), due: None }
        })
        .collect();
    let session = Session::begin()?;
    let mut answers = 0_u64;
    while session.going() {
        interface.poll(StackInstant::now(), &mut device, &mut sockets);
        for connection in &mut connections {
            let socket = sockets.get_mut::<Socket<'_>>(connection.socket);
            if !socket.is_open() {
                socket.listen(port).context("listening")?;
            } else if !socket.may_recv() && socket.may_send() {
                socket.close();
            }
            if connection.due.is_none() && socket.recv_queue() >= MESSAGE {
                let wait = if slow.exists() { late } else { Duration::ZERO };
                connection.due = Some(Instant::now() + wait);
            }
            if connection.due.is_some_and(|due| due <= Instant::now()) {
                let mut message = [0; MESSAGE];
                socket.recv_slice(&mut message).context("receiving")?;
                socket.send_slice(&message).context("sending")?;
                connection.due = None;
                answers += 1;
            }
        }
        interface.poll(StackInstant::now(), &mut device, &mut sockets);
        let stack = interface.poll_delay(StackInstant::now(), &sockets).unwrap_or(LOOK_UP);
        let due = connections.iter().filter_map(|connection| connection.due).min();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let due = due.map_or(LOOK_UP, |due| StackDuration::from_micros(due.as_micros() as u64));
        wait(descriptor, Some(stack.min(due).min(LOOK_UP))).context("waiting for packets")?;
    }
    report(&format!("answers {answers}"))
}

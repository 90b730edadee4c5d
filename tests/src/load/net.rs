//! Loads of the network, all on loopback.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Arguments, Session, command, report};
use crate::task::pin;

/// Rests after this many rounds, so that a recording stays of bounded size.
const BURST: u64 = 16;

/// `tcp <cpu> <peer's cpu> <bytes> <pause us>`: a message to and fro between two processes.
pub(super) fn tcp(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let peer_cpu = arguments.text()?;
    let size = arguments.text()?;
    let pause = Duration::from_micros(arguments.number()?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let mut peer = command("tcp-peer", &[&peer_cpu, &address, &size])?.spawn()?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut message = vec![7_u8; size.parse()?];
    let session = Session::begin()?;
    let mut rounds = 0_u64;
    while session.going_after(rounds) {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        rounds += 1;
        if rounds.is_multiple_of(BURST) {
            thread::sleep(pause);
        }
    }
    drop(stream);
    peer.wait()?;
    report(&format!("rounds {rounds}"))
}

/// `tcp-peer <cpu> <address> <bytes>`: returns every message.
pub(super) fn tcp_peer(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let mut stream = TcpStream::connect(arguments.text()?)?;
    stream.set_nodelay(true)?;
    let mut message = vec![0_u8; arguments.number()?];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}

/// `udp-flood <cpu> <bytes> <pause us>`: datagrams to a socket of its own, which is not read until
/// it is full.
pub(super) fn udp_flood(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let size: usize = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    let mut datagram = vec![3_u8; size];
    let session = Session::begin()?;
    let mut sent = 0_u64;
    while session.going_after(sent) {
        sender.send(&datagram)?;
        sent += 1;
        if sent.is_multiple_of(BURST) {
            while receiver.recv(&mut datagram).is_ok() {}
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
    }
    report(&format!("sent {sent}"))
}

/// `udp-drops <cpu> <pause us>`: datagrams to a port without a listener.
pub(super) fn udp_drops(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let pause = Duration::from_micros(arguments.number()?);
    let closed = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let session = Session::begin()?;
    let mut sent = 0_u64;
    while session.going_after(sent) {
        sender.send_to(b"no socket", closed)?;
        sent += 1;
        thread::sleep(pause);
    }
    report(&format!("sent {sent}"))
}

/// `namespace-drops <cpu> <pause us>`: the same on the loopback of a network namespace of its own.
pub(super) fn namespace_drops(arguments: &mut Arguments) -> Result<()> {
    // SAFETY: no memory argument.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    ensure!(result == 0, "unshare: {}", io::Error::last_os_error());
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    ensure!(up.success(), "ip ended with {up}");
    udp_drops(arguments)
}

/// `syn-retransmits <connections>`: connects to a listener that accepts no connection and whose queue is
/// full, so that every connection has to send its SYN again after a second.
pub(super) fn syn_retransmits(arguments: &mut Arguments) -> Result<()> {
    let connections: usize = arguments.number()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // SAFETY: no memory argument. Listening again changes the length of the queue: to one.
    ensure!(unsafe { libc::listen(listener.as_raw_fd(), 0) } == 0, "listen");
    let address = listener.local_addr()?;
    let _occupant = TcpStream::connect(address)?;
    report("ready")?;
    let pending: Vec<OwnedFd> =
        (0..connections).map(|_| begin_connect(address)).collect::<Result<_>>()?;
    // Long enough for the first retransmission of each, however busy the machine.
    let end = Instant::now() + Duration::from_millis(1800);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    report(&format!("connections {}", pending.len()))
}

fn begin_connect(address: SocketAddr) -> Result<OwnedFd> {
    let SocketAddr::V4(address) = address else { anyhow::bail!("not an IPv4 address") };
    // SAFETY: no memory argument.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0) };
    ensure!(socket >= 0, "socket: {}", io::Error::last_os_error());
    // SAFETY: a descriptor that was just opened and that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the address is read during the call only.
    let result = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const to).cast(),
            size_of_val(&to) as libc::socklen_t,
        )
    };
    let error = io::Error::last_os_error();
    ensure!(result == 0 || error.raw_os_error() == Some(libc::EINPROGRESS), "connect: {error}");
    Ok(socket)
}

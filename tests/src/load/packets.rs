//! Packets that the sender itself puts into an interface's queue: datagrams and raw frames.

use std::ffi::CString;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Arguments, Session, report};
use crate::task::pin;

/// How long a receiver waits before it looks whether it is still wanted.
const LOOK_UP: Duration = Duration::from_millis(50);

/// `sink <address>`: receives datagrams.
pub(super) fn sink(arguments: &mut Arguments) -> Result<()> {
    let socket = UdpSocket::bind(arguments.text()?)?;
    socket.set_read_timeout(Some(LOOK_UP))?;
    let mut datagram = [0_u8; 2048];
    let session = Session::begin()?;
    let (mut received, mut bytes) = (0_u64, 0);
    while session.going() {
        if let Ok(count) = socket.recv(&mut datagram) {
            received += 1;
            bytes += count as u64;
        }
    }
    report(&format!("received {received}"))?;
    report(&format!("bytes {bytes}"))
}

/// `datagrams <address> <bytes> <pause us>`: sends; without a pause, as fast as its socket lets it.
pub(super) fn datagrams(arguments: &mut Arguments) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(arguments.text()?)?;
    let datagram = vec![9_u8; arguments.number()?];
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let (mut sent, mut refused) = (0_u64, 0_u64);
    while session.going() {
        // A full queue, or a receiver that is not there yet.
        match socket.send(&datagram) {
            Ok(_) => sent += 1,
            Err(_) => refused += 1,
        }
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    report(&format!("sent {sent}"))?;
    report(&format!("refused {refused}"))
}

/// An Ethernet broadcast and the socket that sends it, past all protocols: the interface needs no
/// address.
struct Broadcast {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
    frame: Vec<u8>,
}

impl Broadcast {
    /// A frame of `bytes` in all.
    fn new(interface: String, bytes: usize) -> Result<Self> {
        let interface = CString::new(interface)?;
        // SAFETY: the name is NUL-terminated and read during the call only.
        let index = unsafe { libc::if_nametoindex(interface.as_ptr()) };
        ensure!(index > 0, "if_nametoindex: {}", io::Error::last_os_error());
        // SAFETY: no memory argument.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        ensure!(socket >= 0, "socket: {}", io::Error::last_os_error());
        // SAFETY: a descriptor that was just opened and that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let mut frame = vec![0_u8; bytes];
        // To all stations, from an address that none has, of an Ethertype set aside for experiments.
        let header = [[0xff_u8; 6], [2, 0, 0, 0, 0, 1]].concat();
        frame.splice(..14, header.into_iter().chain([0x88, 0xb5]));
        let to = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::sa_family_t,
            sll_protocol: 0x88b5_u16.to_be(),
            sll_ifindex: i32::try_from(index)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0xff; 8],
        };
        Ok(Self { socket, to, frame })
    }

    /// Has the socket receive such frames, where others send them.
    fn listen(&self) -> Result<()> {
        let wait = libc::timeval { tv_sec: 0, tv_usec: LOOK_UP.subsec_micros().into() };
        // SAFETY: the time is read during the call only.
        let is_set = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const wait).cast(),
                size_of_val(&wait) as libc::socklen_t,
            )
        };
        ensure!(is_set == 0, "SO_RCVTIMEO: {}", io::Error::last_os_error());
        let length = size_of_val(&self.to) as libc::socklen_t;
        // SAFETY: the address is read during the call only.
        let is_bound =
            unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const self.to).cast(), length) };
        ensure!(is_bound == 0, "bind: {}", io::Error::last_os_error());
        Ok(())
    }

    /// Waits for a frame; whether one came.
    fn receive(&mut self) -> bool {
        let (frame, length) = (self.frame.as_mut_ptr().cast(), self.frame.len());
        // SAFETY: the buffer has that length and outlives the call.
        let received = unsafe { libc::recv(self.socket.as_raw_fd(), frame, length, 0) };
        received >= 0
    }

    /// Lets the socket have more under way than a queue can hold.
    fn lift_limit(&self) -> Result<()> {
        let bytes: i32 = 256 << 20;
        // SAFETY: the number is read during the call only.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        };
        ensure!(result == 0, "SO_SNDBUFFORCE: {}", io::Error::last_os_error());
        Ok(())
    }

    fn send(&self) -> io::Result<()> {
        // SAFETY: frame and address are read during the call only.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                self.frame.as_ptr().cast(),
                self.frame.len(),
                0,
                (&raw const self.to).cast(),
                size_of_val(&self.to) as libc::socklen_t,
            )
        };
        if sent == self.frame.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// `frames-in <interface>`: receives what `frames` sends at the other end.
pub(super) fn frames_in(arguments: &mut Arguments) -> Result<()> {
    let mut broadcast = Broadcast::new(arguments.text()?, 2048)?;
    broadcast.listen()?;
    let session = Session::begin()?;
    let mut received = 0_u64;
    while session.going() {
        received += u64::from(broadcast.receive());
    }
    report(&format!("received {received}"))
}

/// Sends so many broadcasts of `bytes` through an interface's queue, as many at once as that holds.
pub(super) fn send_broadcasts(interface: &str, bytes: usize, count: u64) -> Result<()> {
    let broadcast = Broadcast::new(interface.to_owned(), bytes)?;
    broadcast.lift_limit()?;
    for _ in 0..count {
        broadcast.send()?;
    }
    Ok(())
}

/// `broadcasts <cpu> <interface> <bytes> <count>`: so many, through the interface's queue.
pub(super) fn broadcasts(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let broadcast = Broadcast::new(arguments.text()?, arguments.number()?)?;
    let count: u64 = arguments.number()?;
    report("ready")?;
    for _ in 0..count {
        broadcast.send()?;
    }
    report(&format!("sent {count}"))
}

/// `broadcast-each <bytes> <count> <interface>...`: so many through the queue of each.
pub(super) fn broadcast_each(arguments: &mut Arguments) -> Result<()> {
    let bytes = arguments.number()?;
    let count: u64 = arguments.number()?;
    report("ready")?;
    let mut sent = 0;
    while let Ok(interface) = arguments.text() {
        send_broadcasts(&interface, bytes, count)?;
        sent += count;
    }
    report(&format!("sent {sent}"))
}

/// `frames <cpu> <interface> <bytes> <burst> <pause us>`: so many at a time.
pub(super) fn frames(arguments: &mut Arguments) -> Result<()> {
    pin(0, arguments.number()?)?;
    let broadcast = Broadcast::new(arguments.text()?, arguments.number()?)?;
    let burst: u32 = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let mut sent = 0_u64;
    while session.going() {
        for _ in 0..burst {
            // A full queue makes no difference.
            sent += u64::from(broadcast.send().is_ok());
        }
        thread::sleep(pause);
    }
    report(&format!("sent {sent}"))
}

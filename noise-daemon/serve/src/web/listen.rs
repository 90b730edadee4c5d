//! The sockets that clients connect to over the network. tokio binds one, with buffers that the kernel lets grow.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use noise_system::tcp_owners::TcpOwners;

use super::address::ListenAddress;
use super::peer::Peer;

/// What the kernel may hold of answers that one client does not take. The kernel reserves twice as
/// much, for its own bookkeeping. Left alone it would grow this to megabytes for each connection; with
/// less, one segment on loopback (64 KiB) fills it, and each waits 40 ms until the last is confirmed.
const SEND_BUFFER_BYTES: u32 = 48 << 10;
/// What it may hold of one client's requests, likewise.
const RECEIVE_BUFFER_BYTES: u32 = 16 << 10;
/// Connections that may wait to be accepted.
const MOST_WAITING: u32 = 1024;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The name has no address.
    #[error("cannot listen on {0}: its name cannot be resolved ({1})")]
    Unresolved(String, io::Error),
    /// The system refuses an address.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
}

/// The sockets of one address, or of several where a name has several.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    turn: AtomicUsize,
    /// Says who is who on this host, where that may be asked.
    owners: Option<TcpOwners>,
}

impl From<Vec<TcpListener>> for Listeners {
    fn from(sockets: Vec<TcpListener>) -> Self {
        Self { sockets, turn: AtomicUsize::new(0), owners: TcpOwners::open().ok() }
    }
}

impl Listeners {
    /// Listens where the configuration says.
    /// Errors: another process has one of the addresses, or this host has none of them.
    pub fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        let unresolved = |error| ListenError::Unresolved(address.to_string(), error);
        let listeners = match address {
            ListenAddress::At(address) => {
                let listener = listen(*address, false);
                vec![listener.map_err(|error| ListenError::Bind(*address, error))?]
            }
            ListenAddress::All(port) => {
                let all = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
                each(all.map(|any: IpAddr| SocketAddr::new(any, *port)).into_iter())?
            }
            ListenAddress::Named(name, port) => {
                each((name.as_str(), *port).to_socket_addrs().map_err(unresolved)?)?
            }
        };
        if listeners.is_empty() {
            return Err(unresolved(io::Error::new(ErrorKind::NotFound, "it has no address")));
        }
        Ok(listeners.into())
    }

    /// Errors: those of the system.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(TcpListener::local_addr).collect()
    }

    /// Who a client at that address is. A client of version 4 is the same one on a socket of version 6.
    pub(super) fn peer(&self, stream: &TcpStream, address: SocketAddr) -> Peer {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let client = canonical(address);
        if !client.ip().is_loopback() {
            return Peer::at(client.ip());
        }
        let owner =
            |owners: &TcpOwners| owners.owner(client, stream.local_addr().map(canonical).ok()?);
        Peer::Host(self.owners.as_ref().and_then(owner), client.ip())
    }

    /// Waits for a connection at any of them.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| {
            // Another one comes first each time, so that none has to wait for ever.
            let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.sockets.len().max(1);
            let (later, sooner) = self.sockets.split_at(first);
            let mut sockets = sooner.iter().chain(later);
            let ready = sockets.find_map(|socket| match socket.poll_accept(context) {
                Poll::Ready(accepted) => Some(accepted),
                Poll::Pending => None,
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// A socket for each address that this host has. It may be without one of the two versions.
fn each(addresses: impl Iterator<Item = SocketAddr>) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut known = Vec::new();
    let mut missing = None;
    for mut address in addresses {
        if known.contains(&address) {
            continue;
        }
        known.push(address);
        // A port that the system chooses is the same for all.
        if let Some(first) = listeners.first().and_then(|first| first.local_addr().ok()) {
            address.set_port(first.port());
        }
        match listen(address, true) {
            Ok(listener) => listeners.push(listener),
            Err(error) => {
                let is_missing = error.kind() == ErrorKind::AddrNotAvailable
                    || error.raw_os_error() == Some(libc::EAFNOSUPPORT);
                let error = ListenError::Bind(address, error);
                if !is_missing {
                    return Err(error);
                }
                missing = Some(error);
            }
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// Listens at an address: on a socket of version 6 for that version alone, or for what the system is set to
/// (net.ipv6.bindv6only).
fn listen(address: SocketAddr, alone: bool) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if address.is_ipv6() && alone {
        take_version_6_alone(&socket)?;
    }
    // So that a restart need not wait until the last connections are forgotten.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit them, and with them that they stay as they are.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    // What fills the buffer may be less than a segment: it must not wait until the last is confirmed.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(MOST_WAITING)
}

fn take_version_6_alone(socket: &TcpSocket) -> io::Result<()> {
    let alone: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the pointer is that of a number of this length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_V6ONLY,
            (&raw const alone).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn the_kernel_takes_little_that_is_not_read() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host may be without one of the two.
            let Ok(listener) = listen(address.parse().unwrap(), false) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap());
            let (client, accepted) = tokio::join!(client, listener.accept());
            let (client, (accepted, _)) = (client.unwrap(), accepted.unwrap());
            let mut sent = 0;
            // The client's own buffer has some of it.
            while sent < 1 << 20
                && let Ok(Ok(())) =
                    tokio::time::timeout(Duration::from_millis(300), accepted.writable()).await
            {
                match accepted.try_write(&[0; 1 << 16]) {
                    Ok(bytes) => sent += bytes,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            assert!(sent > 0 && sent < 1 << 20, "{address}: {sent} bytes");
            drop(client);
        }
    }

    #[tokio::test]
    async fn an_address_is_given_once() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let again = listen(listener.local_addr().unwrap(), false);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    /// The client's address as it is seen when it is accepted.
    async fn reached(listeners: &Listeners, address: SocketAddr) -> IpAddr {
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listeners.accept());
        client.unwrap();
        accepted.unwrap().1.ip().to_canonical()
    }

    fn has_version_6() -> bool {
        std::net::TcpListener::bind("[::1]:0").is_ok()
    }

    #[tokio::test]
    async fn a_bare_port_listens_on_all_addresses_of_both_versions() {
        let listeners = Listeners::bind(&":0".parse().unwrap()).unwrap();
        let port = listeners.addresses().unwrap()[0].port();
        let version_4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(reached(&listeners, (version_4, port).into()).await, version_4);
        if has_version_6() {
            let version_6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
            assert_eq!(reached(&listeners, (version_6, port).into()).await, version_6);
        }
        let again = Listeners::bind(&format!(":{port}").parse().unwrap()).unwrap_err();
        assert!(
            matches!(again, ListenError::Bind(_, error) if error.kind() == ErrorKind::AddrInUse)
        );
    }

    #[tokio::test]
    async fn every_address_of_a_name_is_listened_on_where_the_host_has_it() {
        let any: Vec<SocketAddr> =
            ["127.0.0.1:0", "192.0.2.1:0", "[2001:db8::1]:0", "[::1]:0", "127.0.0.1:0"]
                .map(|address| address.parse().unwrap())
                .to_vec();
        let listeners = Listeners::from(each(any.into_iter()).unwrap());
        let addresses = listeners.addresses().unwrap();
        assert_eq!(addresses.len(), 1 + usize::from(has_version_6()), "{addresses:?}");
        for address in &addresses {
            assert_eq!(address.port(), addresses[0].port());
            assert_eq!(reached(&listeners, *address).await, address.ip());
        }
        let error = each([addresses[0]].into_iter()).unwrap_err();
        assert!(error.to_string().contains(&addresses[0].to_string()), "{error}");
        let nowhere = each(["192.0.2.1:0".parse().unwrap()].into_iter()).unwrap_err();
        assert!(matches!(nowhere, ListenError::Bind(..)), "{nowhere}");
    }

    #[tokio::test]
    async fn a_name_is_resolved_or_refused_with_a_sentence() {
        let listeners = Listeners::bind(&"localhost:0".parse().unwrap()).unwrap();
        for address in listeners.addresses().unwrap() {
            assert!(address.ip().is_loopback());
            reached(&listeners, address).await;
        }
        let error = Listeners::bind(&"name.invalid:1".parse().unwrap()).unwrap_err().to_string();
        let begin = "cannot listen on name.invalid:1: its name cannot be resolved (";
        assert!(error.starts_with(begin), "{error}");
    }

    #[tokio::test]
    async fn clients_over_loopback_are_users_of_this_host() {
        let mut listeners = Listeners::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listeners.addresses().unwrap()[0];
        let _client = std::net::TcpStream::connect(address).unwrap();
        let (stream, from) = listeners.accept().await.unwrap();
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(listeners.peer(&stream, from), Peer::Host(Some(own), from.ip()));
        let elsewhere = SocketAddr::from(([10, 0, 0, 1], 1));
        assert_eq!(listeners.peer(&stream, elsewhere), Peer::Address(elsewhere.ip()));
        // Where the kernel may not be asked.
        listeners.owners = None;
        assert_eq!(listeners.peer(&stream, from), Peer::Host(None, from.ip()));
    }
}

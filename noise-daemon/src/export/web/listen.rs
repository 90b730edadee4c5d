//! The socket that clients connect to over the network.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// What the kernel may hold of answers that one client does not take. The kernel reserves twice as
/// much, for its own bookkeeping. Left alone it would grow this to megabytes for each connection; with
/// less, one segment on loopback (64 KiB) fills it, and each waits 40 ms until the last is confirmed.
const SEND_BUFFER_BYTES: u32 = 48 << 10;
/// What it may hold of one client's requests, likewise.
const RECEIVE_BUFFER_BYTES: u32 = 16 << 10;
/// Connections that may wait to be accepted.
const MOST_WAITING: u32 = 1024;

/// Listens at an address.
///
/// # Errors
/// Those of the system: somebody else has the address, or it is none of this host.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // So that a restart need not wait until the last connections are forgotten.
    socket.set_reuseaddr(true)?;
    // Whoever is accepted inherits them, and with them that they stay as they are.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    // What fills the buffer may be less than a segment: it must not wait until the last is confirmed.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(MOST_WAITING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::time::Duration;

    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_kernel_takes_little_that_nobody_reads() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host may be without one of the two.
            let Ok(listener) = listen(address.parse().unwrap()) else { continue };
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
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let again = listen(listener.local_addr().unwrap());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
    }
}

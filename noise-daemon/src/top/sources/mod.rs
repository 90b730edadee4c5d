//! Where frames come from: a daemon, or a recording. What this process measures itself is below the
//! command line, which alone may load programs.

#[cfg(test)]
pub(crate) mod fake;
mod http;
mod mailbox;
mod remote;
mod replay;
mod socket;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::http::start as over_http;
pub use self::mailbox::Mailbox;
pub use self::remote::{Fault, Remote};
pub use self::replay::ReplaySource;
pub use self::socket::start as over_socket;

/// Asks a local socket once.
///
/// # Errors
/// Why there is no frame.
pub fn probe(socket: &Path) -> Result<(), Fault> {
    remote::ask(&mut socket::SocketLink::new(socket.to_owned()), 0).map(|_| ())
}

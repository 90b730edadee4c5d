//! Where frames come from: a daemon, or a recording. What this process measures itself is below the
//! command line, which alone may load programs.

#[cfg(any(test, feature = "fixtures"))]
pub mod fake;
mod http;
mod mailbox;
mod remote;
mod replay;
mod socket;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use noise_wire::Frame;

pub use self::http::start as over_http;
pub use self::mailbox::Mailbox;
pub use self::remote::{Answer, Fault, Link, Remote};
pub use self::replay::ReplaySource;
pub use self::socket::{SocketLink, access_advice, start as over_socket};

/// Requests a route from a local socket once; waits for so long at most.
///
/// # Errors
/// Why there is no answer.
pub fn ask_socket(socket: &Path, route: &str, timeout: Duration) -> Result<Answer, Fault> {
    SocketLink::with_timeout(socket.to_owned(), timeout).ask(route)
}

/// Requests a frame from a local socket once.
///
/// # Errors
/// Why there is no frame.
pub fn frame(socket: &Path) -> Result<Frame, Fault> {
    remote::ask(&mut SocketLink::new(socket.to_owned()), 0)
}

/// Whether a local socket answers with a frame.
///
/// # Errors
/// Why there is no frame.
pub fn probe(socket: &Path) -> Result<(), Fault> {
    frame(socket).map(|_| ())
}

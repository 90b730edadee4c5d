//! IO: how commands ask a daemon, over its local socket or over HTTP, and where the frames of a view come from: a daemon or
//! a recording of frames. What a process measures itself is a source of its own, in the command line.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod connect;
mod descriptors;
#[cfg(any(test, feature = "fixtures"))]
pub mod fake;
mod http;
mod mailbox;
mod remote;
mod replay;
mod socket;
mod source;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use noise_wire::Frame;

pub use self::descriptors::runtime;
pub use self::http::start as over_http;
pub use self::mailbox::Mailbox;
pub use self::remote::{Answer, Fault, Link, Remote, too_long};
pub use self::replay::ReplaySource;
pub use self::socket::{AnswerReader, IsWanted, SocketLink, access_advice, start as over_socket};
pub use self::source::{FrameSource, News, Position, Replay};

/// Longest document about less than the whole host, bytes: those of victims have some KiB for each of 64 cgroups.
pub const MAX_SMALL_BYTES: usize = 4 << 20;

/// Requests a small document from a local socket once; waits for so long at most.
/// Errors: why there is no answer.
pub fn ask_socket(socket: &Path, route: &str, timeout: Duration) -> Result<Answer, Fault> {
    SocketLink::with_timeout(socket.to_owned(), timeout).at_most(MAX_SMALL_BYTES).ask(route)
}

/// How long to wait for a single frame: on a host without a free CPU a daemon takes seconds to answer, and that is
/// when it is asked.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests a frame from a local socket once.
/// Errors: why there is no frame.
pub fn frame(socket: &Path) -> Result<Frame, Fault> {
    remote::ask(&mut SocketLink::with_timeout(socket.to_owned(), FRAME_TIMEOUT), 0)
}

/// Whether a local socket answers with a frame.
/// Errors: why there is no frame.
pub fn probe(socket: &Path) -> Result<(), Fault> {
    remote::ask(&mut SocketLink::new(socket.to_owned()), 0).map(|_| ())
}

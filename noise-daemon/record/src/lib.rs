//! IO: recordings of kernel events: where events come from, a daemon's flight recorder or programs of our own, who is who in
//! them, and the folder that they go to; and the socket that marks come through.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod bounds;
mod buffer;
mod child;
mod daemon;
mod dump;
mod files;
pub mod folder;
mod line;
pub mod marks;
mod own_marks;
mod session;
mod summary;
mod supply;

pub use self::bounds::AnswerBounds;
pub use self::buffer::BUFFER_BYTES;
pub use self::child::Child;
pub use self::daemon::{EventAdder, flight};
pub use self::dump::{DumpedHost, cgroup as cgroup_of};
pub use self::line::RecordingLine;
pub use self::session::{Session, offset_ns, pause, uuid};
pub use self::summary::Limits;
pub use self::supply::{Supply, SupplyResult, own};

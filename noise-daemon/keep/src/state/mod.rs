//! IO: what outlives the daemon: past incidents, long waits and baselines, in a folder of its own.
//!
//! One file, written as a whole beside the old one and then renamed, so that a reader or a crash
//! finds one of the two. A file that cannot be used is never overwritten: it is set aside, or stays where it cannot be
//! read now. Folder and files are for the daemon's own user alone.

mod document;
mod folder;
mod guard;
mod keeper;

pub use document::{Baselines, Document, Unusable};
pub use folder::{DEFAULT_DIRECTORY, Folder, StatePlace, demand, ensure_own, read, written};
pub use guard::FILE_MODE;
pub use keeper::Keeper;

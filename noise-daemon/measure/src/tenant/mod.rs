//! The same accounting for work that is there anyway: how much of a task's or cgroup's running time
//! was taken from it, by what; how long it waited for a CPU, behind whom.

mod account;
mod subject;
mod tables;

pub use account::{Charge, SubjectAccount};
pub use subject::{Subject, SubjectError, Usage};
pub use tables::{json, text};

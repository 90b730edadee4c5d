//! The kernel's own osnoise tracer, driven from outside: its threads measure, its events name the cause,
//! and its text is read back into the same periods that noised's own workload hands on.
//!
//! It works in a private trace instance. What it has to change for the whole machine (`osnoise/*` and
//! `tracing_thresh`) is put back when it ends, and other tracing is not disturbed. With
//! PREEMPT_RT the tracer does not count softirqs, which are threads' time there.

mod crosscheck;
mod error;
mod instance;
mod line;
mod periods;
mod settings;
mod threads;
mod tracefs;
mod tracer;

pub use crosscheck::{Agreement, Both, CrossCheck};
pub use error::TracerError;
pub use line::parse as read_line;
pub use tracefs::Tracefs;
pub use tracer::{KernelOptions, Tracer};

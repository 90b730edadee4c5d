//! PURE: what a piece of work really waited for. No clock, no file, no kernel: the caller reads the recording,
//! and hands events in.
//!
//! [`build`] makes the execution graph ([`graph`]) of events: a point per worker and moment at which its state
//! changes, states between them, links by which one worker acts on another. [`walk`] finds the critical path
//! of an execution ([`execution`]) in it ([`path`]); [`document`] is what commands
//! print, and [`blame`] says in it who had the CPUs that were waited for. [`account`] sums up where the time of
//! some threads went.

pub mod account;
pub mod blame;
pub mod build;
pub mod document;
pub mod execution;
pub mod graph;
pub mod path;
pub mod state;
pub mod walk;

//! PURE: what a piece of work really waited for. No clock, no file, no kernel: the caller reads the recording,
//! and hands events in.
//!
//! [`build`] makes the execution graph ([`graph`]) of events: a point per worker and moment at which its state
//! changes, states between them, links by which one worker acts on another. [`walk`] finds the critical path
//! of an execution ([`execution`]) in it ([`path`]); [`via`] says what links its threads, [`document`] is what commands
//! print, and [`blame`] says in it for whom it waits. [`account`] sums up where the time of some threads went,
//! [`held`] who was on the path while they slept until each other, and [`beside`] holds paths of two recordings side by
//! side.
//! [`packets`] are matched where they are sent and where they arrive, and [`clocks`] of several machines are brought
//! together by them.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

pub mod account;
pub mod beside;
pub mod blame;
pub mod build;
pub mod calls;
pub mod clocks;
pub mod delayed_ack;
pub mod document;
pub mod execution;
pub mod feed;
pub mod graph;
pub mod held;
pub mod link;
#[cfg(any(test, feature = "fixtures"))]
pub mod made;
pub mod packets;
pub mod path;
pub mod several;
pub mod state;
pub mod via;
pub mod walk;

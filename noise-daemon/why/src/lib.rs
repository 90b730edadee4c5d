//! What held one victim up: its accounts are gathered from events, from what a daemon counted and from what the host shows
//! of its sleeps, and judged. Each page on a victim is made of these findings.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod around;
pub mod awaited;
pub mod beside;
pub mod counted;
mod cpu_time;
pub mod culprits;
mod executions;
pub mod findings;
mod gather;
mod grouped;
mod journal;
mod judging;
mod known;
mod ledger;
pub mod locks;
#[cfg(any(test, feature = "fixtures"))]
#[expect(clippy::unwrap_used, reason = "what only tests are made of fails by panicking")]
pub mod made;
pub mod memory;
mod moment;
pub mod peers;
pub mod places;
pub mod processes;
pub mod pushed;
pub mod request;
mod sends;
mod sleeping;
mod sleeps;
mod standstill;
mod storage;
pub mod stretch;
pub mod target;
mod translated;
pub mod unwoken;
mod watching;
mod who;
pub mod writeback;
pub mod writers;

pub use self::gather::{
    Daemon, VictimQuestion, When, ensure_threads, gather, sight, warn_of_sight,
};
pub use self::grouped::{Grouped, grouped};
pub use self::target::Target;
pub use self::watching::{Watching, on_ports};

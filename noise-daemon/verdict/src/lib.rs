//! PURE: what held a victim up, and what to do about it. No clock, no file, no kernel.
//!
//! [`Accounts`] divide all time of a victim's threads among what it was spent on. What was lost to a cause is a
//! [`Finding`], and a remedy belongs to its finding: [`judge`] ranks them by what was lost beyond what is usual, and
//! decides which of them deserves a command. [`advise`] says which remedies apply to this host, and how they are taken
//! back. Of an incident, counters alone are known: [`judge_incident`].

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod account;
mod advice;
mod case;
mod finding;
mod incident;
mod judge;
mod kind;
mod memory;
mod words;

pub use account::{ACCOUNTS, Account, Accounts, completes_requests, mostly};
pub use advice::{Advice, advise, argument};
pub use case::{Case, CulpritLoss, Reply, Standstill, Unclear, UsualNote};
pub use finding::{Culprit, CulpritKind, Evidence, Finding};
pub use incident::{
    Advised, ChargedCulprit, Disturbed, Thread, called, held_up, is_worth, judge_incident, lacking,
    leads, only_completes,
};
pub use judge::{Verdict, judge};
pub use kind::Kind;
pub use memory::{Shortage, stalled_for};

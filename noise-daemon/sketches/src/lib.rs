//! PURE: how work travels through threads, processes and tiers. No clock, no file, no kernel.
//!
//! [`input`] is what is computed with: who runs, who wakes whom, what a thread sends, receives, posts and waits for.
//! [`feed`] makes it of the events of a trace. [`follow`] cuts it into slices and joins them by causality; [`system`] is
//! what comes out, with sketches and true latencies. [`mod@cluster`] finds kinds of slices and of sketches, [`query`] asks
//! about them, and [`tiers`] and [`summed`] sum up.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::disallowed_types))]

mod channels;
pub mod cluster;
pub mod counts;
pub mod document;
pub mod feed;
pub mod follow;
pub mod input;
pub mod marker;
pub mod query;
pub mod requests;
pub mod served;
pub mod slices;
pub mod summed;
pub mod system;
pub mod tallies;
pub mod tiers;
mod tokens;
pub mod whole;

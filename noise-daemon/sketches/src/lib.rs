//! PURE: how work travels through threads, processes and tiers. No clock, no file, no kernel.
//!
//! [`input`] is what is computed with: who runs, who wakes whom, what a thread sends, receives, posts and waits for.
//! [`feed`] makes it of the events of a trace. [`follow`] cuts it into slices and joins them by causality; [`system`] is
//! what comes out, with sketches and true latencies. [`query`] asks for probabilities over slices, [`tiers`] sums up.

pub mod channels;
pub mod counts;
pub mod feed;
pub mod follow;
pub mod input;
pub mod marker;
pub mod query;
pub mod slices;
pub mod system;
pub mod tallies;
pub mod tokens;

//! `noised bench` and `noised osnoise`: what each is asked, how it runs a measurement, and what it says of it.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod bench;
mod measured;
pub mod osnoise;

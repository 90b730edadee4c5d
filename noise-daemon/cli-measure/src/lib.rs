//! `noised bench` and `noised osnoise`: what each is asked, how it runs a measurement, and what it says of it.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)
)]

pub mod bench;
mod measured;
pub mod osnoise;

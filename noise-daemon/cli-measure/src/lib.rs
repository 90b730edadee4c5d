//! `noised bench` and `noised osnoise`: what each is asked, how it runs a measurement, and what it says of it.

pub mod bench;
mod measured;
pub mod osnoise;

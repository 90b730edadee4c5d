//! PURE: what is different when work is slow. No clock, no file, no kernel, no randomness of its own.
//!
//! [`cluster`] finds kinds of executions by their vectors, and [`align`] puts their paths side by side.

pub mod align;
pub mod cluster;
mod chance;
#[cfg(test)]
mod made;
pub mod rules;
pub mod stretches;
pub mod vectors;

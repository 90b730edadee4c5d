//! Executions of a program compared with each other: two recordings, of which one has a known difference.
//!
//! In `faults`, a program into which a fault is planted; in `quota`, one that a cgroup holds to a tenth of a CPU. What
//! `noised trace compare` says is held against what the program itself, and the kernel, know.

pub mod faults;
pub mod program;
pub mod quota;
mod said;

pub use said::arguments;

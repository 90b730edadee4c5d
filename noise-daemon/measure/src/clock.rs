//! The clock of all measurements: CLOCK_MONOTONIC, which the BPF programs read as well, so that gaps
//! and events are on one scale. Read without a system call wherever the kernel allows it.

pub use noise_host::kernel::monotonic_ns as now_ns;

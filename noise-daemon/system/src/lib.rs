//! How this program uses the system: files of people and of the kernel, threads, and the heap.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod files;
pub mod memory;
pub mod output;
pub mod ports;
pub mod procfs;
pub mod tcp_owners;
pub mod unix_sockets;
pub mod variables;
pub mod worker;

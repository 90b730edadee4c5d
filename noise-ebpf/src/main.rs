//! The kernel side of `noised`.
//!
//! `hooks/` holds one thin program per kernel tracepoint: it decodes the arguments, reads the
//! clock once and fans out to the signals. `signals/` holds state and logic of each signal, in a
//! file of the name that the signal has in noise-common; `task_time.rs` is what those have in common
//! that begin and end in one task. `ledger.rs` keeps who ran and lays waits over it, `charge.rs` adds up
//! who is charged, `held_back.rs` knows sleeps for pages to be written. `calls.rs` keeps what system calls are about. `maps.rs` owns the maps, `kernel.rs` the typed views of kernel
//! structs.
#![no_std]
#![feature(core_intrinsics)]
#![allow(internal_features, reason = "the atomic addition of BPF has no other name")]
#![no_main]

mod calls;
mod charge;
mod held_back;
mod hooks;
mod kernel;
mod ledger;
mod maps;
mod object;
mod outlier;
mod programs;
mod queue;
mod signals;
mod store;
mod task_time;

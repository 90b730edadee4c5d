//! Empty programs on the same hooks: what merely being called costs, for the benchmarks.
#![no_std]
#![no_main]

mod object;
mod programs;

use core::ffi::c_void;

use noise_common::for_each_hook;
use noise_common::hooks::{Edge, Hook, Vector};

use crate::programs::define_programs;

/// Stands for the access of either form.
struct Typed(#[expect(dead_code, reason = "an empty program looks at nothing")] *mut c_void);
use Typed as Raw;

for_each_hook!(define_programs);

#[inline(always)]
fn handle(_hook: Hook, _access: Typed) {}

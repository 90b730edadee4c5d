//! Empty programs on the same hooks: what merely being called costs, for the benchmarks.
#![no_std]
#![no_main]

mod object;

use core::ffi::c_void;

use noise_common::for_each_hook;

macro_rules! define_empty_programs {
    ($($variant:ident $tracepoint:literal $typed:ident $raw:ident $first:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(link_section = concat!("tp_btf/", $tracepoint))]
            extern "C" fn $typed(_context: *mut c_void) -> i32 {
                0
            }

            #[unsafe(no_mangle)]
            #[unsafe(link_section = concat!("raw_tp/", $tracepoint))]
            extern "C" fn $raw(_context: *mut c_void) -> i32 {
                0
            }
        )*
    };
}

for_each_hook!(define_empty_programs);

//! The kernel side of `noised`.
//!
//! `hooks/` holds one thin program per kernel tracepoint: it decodes the arguments, reads the
//! clock once and fans out to the signals. `signals/` holds state and logic of each signal, in a
//! file of the name that the signal has in noise-common; `task_time.rs` is what those have in common
//! that begin and end in one task. `maps.rs` owns the maps, `kernel.rs` the
//! typed views of kernel structs.
#![no_std]
#![no_main]

mod hooks;
mod kernel;
mod maps;
mod signals;
mod task_time;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

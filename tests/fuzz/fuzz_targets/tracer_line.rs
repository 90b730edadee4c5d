//! libFuzzer's entry to [`targets::tracer_line`].

#![no_main]

use noise_fuzz::targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::tracer_line(bytes));

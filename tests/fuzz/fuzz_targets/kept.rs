//! libFuzzer's entry to [`targets::kept`].

#![no_main]

use noise_fuzz::targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::kept(bytes));

//! libFuzzer's entry to [`targets::paths`].

#![no_main]

use noise_fuzz::targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::paths(bytes));

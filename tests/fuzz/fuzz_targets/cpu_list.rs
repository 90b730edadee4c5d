//! libFuzzer's entry to [`targets::cpu_list`].

#![no_main]

use noise_fuzz::targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::cpu_list(bytes));

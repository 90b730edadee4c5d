//! libFuzzer's entry to [`targets::web_file`].

#![no_main]

use noise_fuzz::targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::web_file(bytes));

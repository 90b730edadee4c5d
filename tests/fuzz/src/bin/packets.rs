#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| noise_fuzz::targets::packets(bytes));

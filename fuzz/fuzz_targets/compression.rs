//! libFuzzer on the target `compression`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("compression", bytes));

//! libFuzzer on the target `requests`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("requests", bytes));

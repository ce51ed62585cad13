//! libFuzzer on the target `properties`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("properties", bytes));

//! libFuzzer on the target `filter`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("filter", bytes));

//! libFuzzer on the target `operations`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("operations", bytes));

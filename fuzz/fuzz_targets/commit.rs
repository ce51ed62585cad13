//! libFuzzer on the target `commit`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("commit", bytes));

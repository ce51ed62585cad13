//! libFuzzer on the target `numbers`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("numbers", bytes));

//! libFuzzer on the target `manifest`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("manifest", bytes));

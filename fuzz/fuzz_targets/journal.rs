//! libFuzzer on the target `journal`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("journal", bytes));

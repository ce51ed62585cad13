//! libFuzzer on the target `table`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("table", bytes));

//! libFuzzer on the target `footer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("footer", bytes));

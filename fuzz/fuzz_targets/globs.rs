//! libFuzzer on the target `globs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| velella_reliability::targets::run("globs", bytes));

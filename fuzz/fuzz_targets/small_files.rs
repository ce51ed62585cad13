//! libFuzzer on the target `small_files`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    velella_reliability::targets::run("small_files", bytes)
});

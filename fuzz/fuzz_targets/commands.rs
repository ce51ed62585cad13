//! libFuzzer on the target `commands`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    velella_reliability::targets::run("commands", bytes)
});

//! Asking for memory before it is needed, so that several cache misses overlap.
//!
//! Hints: best effort, they may do nothing, and no result depends on them.
//!
//! Threads: any. Tests: none are possible but that it compiles and returns.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Asks for the cache line where `value` begins.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_at(std::ptr::from_ref(value));
}

/// Asks for the cache line at `address`, which need not be mapped.
#[inline]
pub fn prefetch_at<T: ?Sized>(address: *const T) {
    fetch(address.cast());
}

/// Asks for the cache lines of `bytes`.
#[inline]
pub fn prefetch_all(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        fetch(line.as_ptr());
    }
}

#[inline]
fn fetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

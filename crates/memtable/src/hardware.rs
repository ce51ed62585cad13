//! Two hints to the machine, neither of which changes what a program means.
//!
//! Both are best effort and may do nothing; correctness never depends on them.

/// Asks for the cache line at `address`, which need not be mapped.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Bytes of a huge page, on the processors that matter here.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages behind `bytes` bytes at `start`: a search's next node is rarely on a page
/// whose translation the processor still knows. Less than a huge page is left alone.
pub(crate) fn advise_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE_PAGE {
        use rustix::mm::{Advice, madvise};
        let skipped = start.align_offset(4096);
        let (start, bytes) = (start.wrapping_add(skipped), bytes - skipped);
        // SAFETY: advice on memory of the caller's; it changes no content. A refusal is harmless.
        let _refused = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}

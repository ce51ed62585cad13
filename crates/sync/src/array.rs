//! Arrays of a size known when they are made; large ones are pages of their own.
//!
//! Source: none. What a table keeps in memory (filter, index, slots for its blocks) lives for hours
//! beside blocks and buffers that live for milliseconds. Where they share a heap, what the latter
//! leave free cannot go back for what lives on behind it; and once a mapped allocation is freed,
//! glibc no longer maps what is as large (docs/decisions/0020).
//!
//! A1. An array never moves and never grows: room is made once.
//! A2. From [`MAPPED_FROM`] on the room is mapped, and leaves the process with the array. Beyond
//!     `MAPPINGS_MAX` arrays, and where the system maps no more, it is the allocator's, as for
//!     smaller ones: a system grants a process some 65,000 mappings, journals need theirs.
//! A3. The first `len` elements are initialised, no others.
//! A4. An element whose destructor panics takes the room of its array with it.
//!
//! Threads: as a `Vec`. Tests: below, under Miri too (where nothing is mapped).

use crate::atomic::machine::{AtomicUsize, Ordering};
use crate::memory::{Block, MAPS, SMALLEST_PAGE};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes from which an array is mapped by itself: a few pages, so that what the last one leaves
/// unused is little.
pub const MAPPED_FROM: usize = 16 << 10;

/// Arrays that are mapped at once, at most.
const MAPPINGS_MAX: usize = 16 << 10;

/// Arrays that are mapped.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// A vector that has the room it was made with.
pub struct Array<T> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    /// Whether the room is mapped; else it is the allocator's, as of a `Vec` of this capacity.
    is_mapped: bool,
    owned: PhantomData<T>,
}

// SAFETY: an array owns its elements, as a vector does, and its room may be sent.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: through a shared reference elements are only shared.
unsafe impl<T: Sync> Sync for Array<T> {}

/// Where an array of so many bytes is mapped, if it is to be (A2).
fn mapped(bytes: usize) -> Option<NonNull<u8>> {
    // Relaxed, here and where it goes: a tally that publishes nothing. Several threads at once may
    // exceed the bound by as many.
    if !MAPS || bytes < MAPPED_FROM || MAPPINGS.load(Ordering::Relaxed) >= MAPPINGS_MAX {
        return None;
    }
    let block = Block::map(bytes)?;
    MAPPINGS.fetch_add(1, Ordering::Relaxed);
    Some(block.into_start())
}

impl<T> Array<T> {
    /// An empty array with room for `capacity` elements.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = capacity.saturating_mul(size_of::<T>());
        let mapped = mapped(bytes);
        const { assert!(align_of::<T>() <= SMALLEST_PAGE, "a page is aligned for it") };
        let (start, capacity) = match mapped {
            Some(start) => (start.cast(), capacity),
            None => {
                let mut room = ManuallyDrop::new(Vec::with_capacity(capacity));
                let start = NonNull::new(room.as_mut_ptr());
                (start.unwrap_or(NonNull::dangling()), room.capacity())
            }
        };
        Array {
            start,
            len: 0,
            capacity,
            is_mapped: mapped.is_some(),
            owned: PhantomData,
        }
    }

    /// An array of what `elements` gives, without room for more.
    #[must_use]
    pub fn of(elements: impl ExactSizeIterator<Item = T>) -> Self {
        let mut array = Array::with_capacity(elements.len());
        elements.for_each(|element| array.push(element));
        array
    }

    /// Elements there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory it takes, however many elements it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = self.capacity * size_of::<T>();
        match self.is_mapped {
            true => bytes.next_multiple_of(SMALLEST_PAGE),
            false => bytes,
        }
    }

    /// Appends an element.
    ///
    /// # Panics
    /// There is no room left (A1).
    pub fn push(&mut self, element: T) {
        assert!(self.len < self.capacity, "an array does not grow");
        // SAFETY: the room has `capacity` elements, more than `len`.
        let end = unsafe { self.start.add(self.len) };
        // SAFETY: within the room, aligned, and nobody else's; nothing there needs to be dropped
        // (A3).
        unsafe { end.write(element) };
        self.len += 1;
    }

    /// Drops what is behind the first `len` elements.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            let behind = std::ptr::from_mut(&mut self[len..]);
            // First, so that nothing is dropped twice if a destructor panics.
            self.len = len;
            // SAFETY: these were initialised (A3), and are no longer counted as such.
            unsafe { behind.drop_in_place() };
        }
    }
}

impl<T: Copy> Array<T> {
    /// `len` times `element`.
    #[must_use]
    pub fn filled(element: T, len: usize) -> Self {
        let mut array = Array::<T>::with_capacity(len);
        let room = array.start.as_ptr().cast::<MaybeUninit<T>>();
        // SAFETY: room for `len` elements, which may hold anything, and is this array's alone.
        let room = unsafe { std::slice::from_raw_parts_mut(room, len) };
        room.fill(MaybeUninit::new(element));
        array.len = len;
        array
    }

    /// Appends copies of `elements`.
    ///
    /// # Panics
    /// There is not so much room (A1).
    pub fn extend_from_slice(&mut self, elements: &[T]) {
        let room = self.capacity - self.len;
        assert!(elements.len() <= room, "an array does not grow");
        // SAFETY: `len` is at most `capacity`.
        let end = unsafe { self.start.add(self.len) };
        // SAFETY: as many fit behind `len`, and this array's room is no part of a slice borrowed
        // while it is borrowed to be changed.
        unsafe { end.copy_from_nonoverlapping(NonNull::from(elements).cast(), elements.len()) };
        self.len += elements.len();
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` elements are initialised (A3), and borrowed with the array.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; nobody else borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        Array::with_capacity(0)
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        self.truncate(0);
        if self.is_mapped {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            let bytes = self.capacity * size_of::<T>();
            // SAFETY: `mapped` has it from `into_start`, for as many bytes; no element is left.
            unsafe { Block::unmap(self.start.cast(), bytes) };
        } else {
            // SAFETY: `with_capacity` took these parts of a vector; no element is left in it.
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.capacity) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::lock::{Mutex, MutexGuard};
    use crate::memory::HUGE_PAGE;
    use std::rc::Rc;

    /// The tally of mappings is the process's: tests that look at it take turns.
    static TALLY: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        TALLY.lock()
    }

    /// Sizes on both sides of where arrays are mapped, and beyond a huge page.
    fn sizes() -> Vec<usize> {
        let edge = MAPPED_FROM / size_of::<u64>();
        let large = [edge - 1, edge, edge + 1, HUGE_PAGE / size_of::<u64>() + 1];
        [&[0, 1, 3, 1000][..], if MAPS { &large } else { &[] }].concat()
    }

    #[test]
    fn an_array_is_what_a_vector_is() {
        let _alone = alone();
        for len in sizes() {
            let expected: Vec<u64> = (0..len as u64).collect();
            let mut array = Array::of(expected.iter().copied());
            assert_eq!(array[..], expected[..]);
            assert_eq!(array.is_mapped, MAPS && len * 8 >= MAPPED_FROM);
            assert!(array.bytes() >= len * 8 && array.bytes() < len * 8 + SMALLEST_PAGE);
            array.iter_mut().for_each(|element| *element += 1);
            assert!(array.iter().zip(1..).all(|(element, n)| *element == n));
            array.truncate(len / 2);
            array.truncate(len);
            assert_eq!(array.len(), len / 2);
            array.extend_from_slice(&expected[len / 2..]);
            assert_eq!(array[len / 2..], expected[len / 2..]);
            assert!(array.capacity() >= len);
        }
        assert_eq!(Array::filled(7_u8, 3)[..], [7; 3]);
        assert!(Array::<u64>::default().is_empty());
    }

    #[test]
    #[should_panic(expected = "an array does not grow")]
    fn what_does_not_fit_is_refused() {
        let mut array = Array::with_capacity(2);
        array.extend_from_slice(&[1_u8, 2]);
        array.extend_from_slice(&[3; 1 << 10]);
    }

    #[test]
    #[should_panic(expected = "an array does not grow")]
    fn an_element_too_many_is_refused() {
        let mut array = Array::with_capacity(1);
        (0..1 << 10).for_each(|element: u64| array.push(element));
    }

    #[test]
    fn elements_are_dropped_once_wherever_they_are() {
        let _alone = alone();
        let counted = Rc::new(());
        let large = if MAPS { MAPPED_FROM } else { 100 };
        for len in [0, 1, 10, large] {
            let mut array = Array::of((0..len).map(|_| Rc::clone(&counted)));
            assert_eq!(Rc::strong_count(&counted), 1 + len);
            array.truncate(len / 3);
            assert_eq!(Rc::strong_count(&counted), 1 + len / 3);
            drop(array);
            assert_eq!(Rc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn elements_without_a_size_are_counted() {
        let mut array = Array::of((0..5).map(|_| ()));
        array.push(());
        assert_eq!((array.len(), array.bytes()), (6, 0));
    }

    #[test]
    fn arrays_beyond_the_most_mappings_are_the_allocator_s() {
        let _alone = alone();
        if !MAPS {
            return;
        }
        let filled = || Array::filled(7_u8, MAPPED_FROM);
        // Twice as often as there may be: each gives its mapping back.
        assert!((0..2 * MAPPINGS_MAX).all(|_| filled().is_mapped));
        let arrays: Vec<_> = (0..MAPPINGS_MAX + 1)
            .map(|_| Array::<u8>::with_capacity(MAPPED_FROM))
            .collect();
        let last = filled();
        assert!(!last.is_mapped && last[..] == [7; MAPPED_FROM]);
        drop(arrays);
        assert!(filled().is_mapped);
    }

    #[test]
    fn any_alignment_is_kept() {
        let _alone = alone();
        #[derive(Clone, Copy)]
        #[repr(align(64))]
        struct Line([u8; 64]);
        for len in [1, if MAPS { MAPPED_FROM / 64 } else { 2 }] {
            let lines = Array::filled(Line([3; 64]), len);
            assert!(lines.as_ptr().addr().is_multiple_of(64));
            assert!(lines.iter().all(|line| line.0 == [3; 64]));
        }
    }
}

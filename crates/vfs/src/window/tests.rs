//! Windows over heap memory (so that Miri can judge them), and the carver.

use super::*;
use std::cell::UnsafeCell;
use velella_base::ErrorKind;
use velella_sync::rng::Rng;

/// Memory as a mapping is: shared, written through pointers only, aligned like a page's words.
struct Heap(Box<[UnsafeCell<u64>]>);

// SAFETY: the tests touch it through windows that do not overlap.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Mapping for Heap {
    fn retire(&self, _offset: u64, _len: usize) {}
}

fn heap(words: usize) -> Arc<Heap> {
    Arc::new(Heap((0..words).map(|_| UnsafeCell::new(0)).collect()))
}

fn window(heap: &Arc<Heap>, offset: usize, len: usize) -> Window {
    assert!(offset + len <= heap.0.len() * 8);
    let base = NonNull::from(&*heap.0).cast::<u8>();
    // SAFETY: within the allocation, as just asserted.
    let base = unsafe { base.add(offset) };
    let mapping: Arc<dyn Mapping> = Arc::<Heap>::clone(heap);
    // SAFETY: valid while the heap lives; the tests ask for disjoint windows.
    unsafe { Window::in_memory(base, offset as u64, len, mapping) }
}

#[test]
fn what_is_written_is_read_back_and_nothing_else_changes() {
    let heap = heap(8);
    let mut left = window(&heap, 0, 20);
    let mut right = window(&heap, 20, 44);
    left.write(0, &[1; 20]);
    right.write(3, b"abc");
    right.publish_u32(8, 0x0403_0201);
    right.write(44, b"");
    right.fill_zero(4, 1);
    assert_eq!(left.read(0, 20), vec![1; 20]);
    assert_eq!(
        right.read(0, 14),
        [0, 0, 0, b'a', 0, b'c', 0, 0, 1, 2, 3, 4, 0, 0]
    );
    assert_eq!((right.offset(), right.len()), (20, 44));
}

#[test]
fn a_window_keeps_its_memory_alive() {
    let heap = heap(2);
    let mut window = window(&heap, 0, 16);
    drop(heap);
    window.write(15, &[9]);
    assert_eq!(window.read(14, 2), [0, 9]);
}

#[test]
fn windows_of_one_mapping_are_written_from_many_threads_at_once() {
    let heap = heap(64);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let mut window = window(&heap, usize::from(thread) * 128, 128);
            scope.spawn(move || {
                for at in 0..31 {
                    window.write(at * 4 + 4, &[thread; 4]);
                    window.publish_u32(0, u32::try_from(at).unwrap());
                }
                assert_eq!(window.read(0, 4), 30u32.to_le_bytes());
                assert_eq!(window.read(4, 124), vec![thread; 124]);
            });
        }
    });
}

#[test]
#[should_panic(expected = "out of a window")]
fn a_write_beyond_the_end_panics() {
    window(&heap(2), 0, 9).write(8, &[0; 2]);
}

#[test]
#[should_panic(expected = "out of a window")]
fn an_offset_that_overflows_panics() {
    window(&heap(2), 0, 16).write(u64::MAX, &[0; 2]);
}

#[test]
#[should_panic(expected = "unaligned word")]
fn an_unaligned_word_panics() {
    window(&heap(2), 2, 8).publish_u32(0, 1);
}

#[test]
fn the_carver_gives_no_byte_out_twice() {
    let bytes = 256;
    let carver = Carver::new(bytes);
    let mut taken = [false; 256];
    let mut rng = Rng::new(7);
    for _ in 0..2000 {
        let (offset, len) = (rng.below(bytes + 10), rng.below(12));
        let range = usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap();
        let free = len > 0 && taken.get(range.clone()).is_some_and(|t| !t.contains(&true));
        match carver.take(offset, len) {
            Ok(()) => {
                assert!(free, "[{offset}, +{len}) was given out twice");
                taken[range].fill(true);
            }
            Err(error) => {
                assert!(!free, "[{offset}, +{len}) was free: {error}");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
            }
        }
    }
    assert!(carver.take(u64::MAX, 2).is_err());
    let holes = taken.iter().filter(|&&taken| !taken).count();
    assert!(holes < 40, "the sequence should nearly fill the mapping");
}

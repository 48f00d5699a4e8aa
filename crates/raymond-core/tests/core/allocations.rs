//! Counts the bytes that some work allocates, so that tests can compare costs without a clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(
    unsafe_code,
    reason = "an allocator needs unsafe code; this one only counts and calls the system's allocator"
)]
// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more, and no test reads it.
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size() as u64)));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the result of some work on this thread, and how many bytes it allocated.
pub fn allocated<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = BYTES.get();
    let result = work();
    (result, BYTES.get().wrapping_sub(before))
}

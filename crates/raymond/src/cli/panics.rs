//! Tells panics that are caught from panics that must end the program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls `part`, without which the program can go on. Returns `None` if it panics.
pub fn catch<T>(part: impl FnOnce() -> T) -> Option<T> {
    let before = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(part));
    IS_CAUGHT.set(before);
    result.ok()
}

/// Whether a panic of this thread is caught, so that the program need not end.
pub fn is_caught() -> bool {
    IS_CAUGHT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_what_is_caught() {
        assert!(!is_caught());
        assert_eq!(catch(is_caught), Some(true));
        assert_eq!(catch(|| -> i32 { panic!("on purpose") }), None);
        assert!(!is_caught());
    }
}

//! What was computed before some functions got other values, and some values were refused: see
//! docs/decisions/0024.
//!
//! Owns: whether this thread computes as it was done then. Only what was defined at that time is
//! computed so, and replayed: views, indexes, checks and changes of columns of an old database have
//! to mean what their rows were stored with.

use std::cell::Cell;

thread_local! {
    static EARLIER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with the values of that time.
pub fn with<T>(body: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            EARLIER.set(self.0);
        }
    }
    let _before = Before(EARLIER.replace(true));
    body()
}

/// Whether this thread computes so. To be asked only where the value differs.
#[inline]
pub fn values() -> bool {
    EARLIER.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_the_length_of_the_body_also_where_it_panics() {
        assert!(!values());
        with(|| {
            with(|| assert!(values()));
            assert!(values());
        });
        std::panic::catch_unwind(|| with(|| panic!("within"))).expect_err("it panics");
        assert!(!values());
    }
}

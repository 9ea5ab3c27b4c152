//! What was computed before some functions got other values, and some values were refused: see
//! docs/decisions/0024.
//!
//! Owns: whether this thread computes as it was done then. Only what was defined at that time is
//! computed so, and replayed: views, indexes, checks and changes of columns of an old database have
//! to mean what their rows were stored with.
//!
//! Later than that, literals were still rounded to twelve decimals (docs/decisions/0072): a time of
//! its own, which the earlier one includes.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Time {
    Today,
    RoundedLiterals,
    Earlier,
}

thread_local! {
    static TIME: Cell<Time> = const { Cell::new(Time::Today) };
}

/// Runs `body` with the values of that time.
pub fn with<T>(body: impl FnOnce() -> T) -> T {
    at(Time::Earlier, body)
}

/// Runs `body` with today's values, but literals as they were read before they kept all digits.
pub fn with_rounded_literals<T>(body: impl FnOnce() -> T) -> T {
    at(Time::RoundedLiterals, body)
}

fn at<T>(time: Time, body: impl FnOnce() -> T) -> T {
    struct Before(Time);
    impl Drop for Before {
        fn drop(&mut self) {
            TIME.set(self.0);
        }
    }
    let _before = Before(TIME.replace(time));
    body()
}

/// Whether this thread computes so. To be asked only where the value differs.
#[inline]
pub fn values() -> bool {
    TIME.get() == Time::Earlier
}

/// Whether literals are DECIMAL wherever they have a point, and rounded to its decimals.
#[inline]
pub fn rounded_literals() -> bool {
    TIME.get() >= Time::RoundedLiterals
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
        with_rounded_literals(|| {
            assert!(rounded_literals() && !values());
            with(|| assert!(rounded_literals() && values()));
            assert!(rounded_literals() && !values());
        });
        assert!(!rounded_literals());
        std::panic::catch_unwind(|| with(|| panic!("within"))).expect_err("it panics");
        assert!(!values());
    }
}

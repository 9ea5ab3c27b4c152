//! The part of memory that clients may make the server hold (docs/decisions/0019-strangers.md):
//! unfinished frames, calls that wait, answers that were not read.
//!
//! Owns how much that may be, and the sum of the answers that were made and have not left. Who
//! holds how much of the rest is known where connections are; it is asked for here.

use super::ceiling::{rows_limit, used};
use crate::UserError;
use crate::error::ErrorKind;
use crate::limits::{ANSWER_ALWAYS_BYTES, ANSWER_SMALL_BYTES, CLIENTS_BYTES_DEFAULT, CLIENTS_MEMORY_PART};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicIsize, AtomicUsize};

/// Of what clients may hold, one part in this many is theirs however much memory the tables take.
const ALWAYS_PART: usize = 4;

static MOST: AtomicUsize = AtomicUsize::new(CLIENTS_BYTES_DEFAULT);
/// What this thread has counted of an answer that it is building. What a thread leaves behind goes
/// with it.
struct Building(Cell<usize>);

impl Building {
    fn is(&self, bytes: usize) {
        answers_changed(bytes as isize - self.0.replace(bytes) as isize);
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.is(0);
    }
}

thread_local! {
    static BUILDING: Building = const { Building(Cell::new(0)) };
}

/// Signed, since threads tell of what came and what went in their own time.
static ANSWERS: AtomicIsize = AtomicIsize::new(0);

pub(super) fn set_clients_limit(memory_limit: Option<usize>) {
    MOST.store(memory_limit.map_or(CLIENTS_BYTES_DEFAULT, |bytes| bytes / CLIENTS_MEMORY_PART), Relaxed);
}

/// What all clients together may make the server hold.
#[inline]
pub fn clients_bytes_max() -> usize {
    MOST.load(Relaxed)
}

/// How much more clients may make the server hold that hold so much: less where the tables have
/// taken the memory.
#[inline]
pub fn clients_room(held: usize) -> usize {
    let most = clients_bytes_max();
    let beside = rows_limit().saturating_sub(used());
    most.saturating_sub(held).min(beside).max((most / ALWAYS_PART).saturating_sub(held))
}

/// This many more bytes of answers were made, or fewer are left to be read. Told per batch.
#[inline]
pub fn answers_changed(bytes: isize) {
    ANSWERS.fetch_add(bytes, Relaxed);
}

/// Bytes of answers that were made and are not written to a socket yet.
#[inline]
pub fn answers_held() -> usize {
    ANSWERS.load(Relaxed).max(0) as usize
}

/// Whether they take so much that their buffers' spare room counts: long before any is refused.
#[inline]
pub fn answers_are_many() -> bool {
    answers_held() >= clients_bytes_max() / 4
}

/// Whether unread answers take as much as all clients may hold.
pub fn is_full_of_answers() -> bool {
    answers_held() >= clients_bytes_max()
}

/// Whether an answer that has this many bytes by now may go on. A small one has a place always, or
/// nothing would ever be answered; a middling one, while all others are only a little too many. A
/// large one must not make them too many either, but where there are few; it counts until
/// [`answer_built`].
#[inline]
pub fn takes_answer(bytes: usize) -> bool {
    let most = clients_bytes_max();
    if bytes <= ANSWER_SMALL_BYTES {
        let others = || answers_held().saturating_sub(BUILDING.with(|building| building.0.get()));
        return bytes <= ANSWER_ALWAYS_BYTES || others() < most + most / 4;
    }
    takes_large_answer(bytes, most)
}

#[cold]
fn takes_large_answer(bytes: usize, most: usize) -> bool {
    BUILDING.with(|building| building.is(bytes));
    let others = answers_held().saturating_sub(bytes);
    let takes = others < most && (others < most / ALWAYS_PART || others + bytes < most + most / 4);
    if !takes {
        answer_built();
    }
    takes
}

/// The answer that this thread was building is counted where it is now, or was taken back.
#[inline]
pub fn answer_built() {
    // A thread that ends builds no more.
    let _ = BUILDING.try_with(|building| {
        if building.0.get() > 0 {
            building.is(0);
        }
    });
}

/// What whoever is refused is told whose answer has no place.
#[cold]
pub fn refused_answer() -> UserError {
    let text = "no memory for the answer: other answers wait to be read";
    UserError::new(ErrorKind::Unavailable, "53200", text)
        .with_detail(format!(
            "{} bytes of answers are unread, of {} that clients may make the server hold (a quarter of --memory-limit)",
            answers_held(),
            clients_bytes_max()
        ))
        .with_hint("the call was rolled back: call again later")
}

/// What whoever is refused is told whose call has no place.
#[cold]
pub fn refused_call(bytes: usize) -> UserError {
    UserError::new(ErrorKind::Unavailable, "53200", format!("no memory for a call of {bytes} bytes"))
        .with_detail(format!(
            "the calls and answers of all clients may take {} bytes (a quarter of --memory-limit)",
            clients_bytes_max()
        ))
        .with_hint("the call was not executed: send it again later, or in smaller calls")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test of this process that counts answers.
    #[test]
    fn small_answers_have_a_place_always() {
        let _alone = super::super::ceiling::tests::ALONE.lock().expect("no test fails with it");
        let most = clients_bytes_max();
        assert_eq!((most, clients_room(0)), (CLIENTS_BYTES_DEFAULT, CLIENTS_BYTES_DEFAULT));
        assert_eq!((clients_room(most - 1), clients_room(most), clients_room(most + 1)), (1, 0, 0));
        let sizes = [ANSWER_ALWAYS_BYTES, ANSWER_ALWAYS_BYTES + 1, ANSWER_SMALL_BYTES, ANSWER_SMALL_BYTES + 1];
        let taken = || {
            sizes.map(|bytes| {
                let takes = takes_answer(bytes);
                answer_built();
                takes
            })
        };
        assert_eq!(taken(), [true; 4]);
        let mut held = 0;
        let mut hold = |bytes: usize| {
            answers_changed(bytes as isize - held);
            held = bytes as isize;
        };
        hold(most - 1);
        assert!(!is_full_of_answers());
        assert_eq!(taken(), [true; 4], "one below the limit");
        hold(most);
        assert!(is_full_of_answers());
        assert_eq!(taken(), [true, true, true, false], "at the limit");
        hold(most + most / 4);
        assert_eq!(taken(), [true, false, false, false]);
        hold(0);
        assert!(takes_answer(2 * most), "alone it may be as large as answers may be");
        assert!(is_full_of_answers(), "it counts while it is built");
        let other = std::thread::spawn(|| [ANSWER_SMALL_BYTES, ANSWER_SMALL_BYTES + 1, 1].map(takes_answer));
        assert_eq!(other.join().expect("no panic"), [false, false, true]);
        answer_built();
        assert_eq!(answers_held(), 0, "also that of a thread that is gone");
        hold(most / 2);
        assert!(takes_answer(most / 2) && !takes_answer(most), "beside others it must not be too much");
        assert_eq!(answers_held(), most / 2, "refused is not counted");
        hold(most + most / 4);
        assert!(refused_answer().to_string().contains("call again"), "{}", refused_answer());
        hold(0);
        assert_eq!((answers_held(), taken()), (0, [true; 4]));
    }
}

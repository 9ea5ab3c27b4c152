//! The calls that the node has taken and not yet answered, all connections together: how many there
//! may be; and the bytes that it holds for clients, of which there is a budget.
//!
//! Owns the sums, whether the node is full, and whether a connection waits for memory. Promises
//! that threads which found it full are woken when there is room again: a thread that learns so
//! from [`Work::give_back`] or [`Work::found_full`] wakes all. Sums are reported once per read and
//! once per batch of answers, so that calls pay nothing; with several network threads, each may
//! take what it has just read while the others do.

use ferrite_base::{Settings, memory};
use ferrite_member::forward::Outstanding;
use ferrite_notice::Notice;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize};
use std::time::{Duration, Instant};

/// Between two lines about the same want in the server's log.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Waiting connections are woken when one part in this many of what clients may hold was given
/// back.
const EASED_PART: usize = 16;

/// What may be taken at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room(Outstanding);

impl Room {
    /// The room of administrators, which are not held up.
    pub const ENDLESS: Room = Room(Outstanding { calls: usize::MAX, bytes: usize::MAX });

    /// Whether one more may be taken after these.
    #[inline]
    pub fn has_more_than(self, taken: Outstanding) -> bool {
        taken.calls < self.0.calls && taken.bytes < self.0.bytes
    }
}

pub struct Work {
    most: Outstanding,
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// Nothing more is taken until an eighth of what may be outstanding is answered: connections
    /// that wait come before those that do not.
    full: AtomicBool,
    /// Bytes held for clients. Signed, since threads tell of what came and what went in their own
    /// time.
    held: AtomicIsize,
    /// A connection waits for memory; and how much was held when that was last reported.
    short: AtomicBool,
    short_at: AtomicUsize,
    told: Mutex<Option<Instant>>,
    told_short: Mutex<Option<Instant>>,
}

impl Work {
    pub fn new(settings: &Settings) -> Work {
        let most = Outstanding { calls: settings.node_outstanding_calls, bytes: settings.node_outstanding_bytes };
        Work {
            most,
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            held: AtomicIsize::new(0),
            short: AtomicBool::new(false),
            short_at: AtomicUsize::new(0),
            told: Mutex::new(None),
            told_short: Mutex::new(None),
        }
    }

    pub fn outstanding(&self) -> Outstanding {
        Outstanding { calls: self.calls.load(SeqCst), bytes: self.bytes.load(SeqCst) }
    }

    #[inline]
    pub fn room(&self) -> Room {
        if self.full.load(SeqCst) {
            return Room(Outstanding::default());
        }
        let now = self.outstanding();
        Room(Outstanding {
            calls: self.most.calls.saturating_sub(now.calls),
            bytes: self.most.bytes.saturating_sub(now.bytes),
        })
    }

    #[inline]
    pub fn add(&self, taken: Outstanding) {
        if taken.calls > 0 {
            self.calls.fetch_add(taken.calls, SeqCst);
            self.bytes.fetch_add(taken.bytes, SeqCst);
        }
    }

    /// These were answered. True: the waiting connections must be woken.
    #[inline]
    #[must_use]
    pub fn give_back(&self, answered: Outstanding) -> bool {
        if answered.calls > 0 {
            self.calls.fetch_sub(answered.calls, SeqCst);
            self.bytes.fetch_sub(answered.bytes, SeqCst);
        }
        self.full.load(SeqCst) && self.opens()
    }

    /// A connection has found no room, and waits from now on. True: room has come meanwhile, and
    /// the waiting connections must be woken.
    #[must_use]
    pub fn found_full(&self) -> bool {
        if !self.full.swap(true, SeqCst) {
            self.report_limit();
        }
        // A thread that answered calls before the line above woke no other.
        self.opens()
    }

    /// Whether the node was full and has room again.
    fn opens(&self) -> bool {
        let now = self.outstanding();
        let room =
            now.calls < self.most.calls - self.most.calls / 8 && now.bytes < self.most.bytes - self.most.bytes / 8;
        room && self.full.swap(false, SeqCst)
    }

    /// Bytes that are held for clients, with those that the caller has not reported.
    #[inline]
    pub fn charged(&self, untold: isize) -> usize {
        (self.held.load(Relaxed) + untold).max(0) as usize
    }

    /// This many more bytes are held, or fewer. True: connections that wait for memory must be
    /// woken.
    #[inline]
    #[must_use]
    pub fn charge(&self, bytes: isize) -> bool {
        let before = self.held.fetch_add(bytes, Relaxed);
        bytes < 0 && self.short.load(Relaxed) && self.has_eased((before + bytes).max(0) as usize)
    }

    #[cold]
    fn has_eased(&self, held: usize) -> bool {
        let eased = held + memory::clients_bytes_max() / EASED_PART <= self.short_at.load(Relaxed);
        eased && self.short.swap(false, Relaxed)
    }

    /// A connection waits for memory. It is woken when much is given back, and looked at again in
    /// any case before long.
    #[cold]
    pub fn lacks_memory(&self) {
        self.short_at.store(self.charged(0), Relaxed);
        if !self.short.swap(true, Relaxed) {
            let mut told = self.told_short.lock().expect("nobody panics with it");
            if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                *told = Some(Instant::now());
                ferrite_io::notify(Notice::ClientMemoryShort {
                    bytes: self.charged(0),
                    most: memory::clients_bytes_max(),
                });
            }
        }
    }

    /// Whether room should be made: a connection waits for it, or answers are refused.
    pub fn is_short(&self) -> bool {
        self.short.load(Relaxed) || memory::is_full_of_answers()
    }

    /// The waiting connections are checked again, and will report it if they still wait.
    pub fn rechecked(&self) {
        self.short.store(false, Relaxed);
    }

    fn report_limit(&self) {
        let mut told = self.told.lock().expect("nobody panics with it");
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            let Outstanding { calls, bytes } = self.outstanding();
            ferrite_io::notify(Notice::CallsOutstanding { calls, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(calls: usize, bytes: usize) -> Work {
        Work::new(&Settings { node_outstanding_calls: calls, node_outstanding_bytes: bytes, ..Settings::default() })
    }

    fn of(calls: usize, bytes: usize) -> Outstanding {
        Outstanding { calls, bytes }
    }

    #[test]
    fn so_many_calls_and_bytes_and_not_one_more() {
        let calls = work(16, 1_000);
        calls.add(of(14, 14));
        assert!(calls.room().has_more_than(of(1, 1)), "one below the limit");
        assert!(!calls.room().has_more_than(of(2, 2)), "at the limit");
        calls.add(of(2, 2));
        assert!(!calls.room().has_more_than(of(0, 0)));
        let bytes = work(1_000, 160);
        bytes.add(of(1, 159));
        assert!(bytes.room().has_more_than(of(0, 0)), "one below the limit");
        bytes.add(of(1, 1_000));
        assert!(!bytes.room().has_more_than(of(0, 0)), "one large call goes past it, and no other");
        assert!(Room::ENDLESS.has_more_than(of(1 << 40, 1 << 50)));
    }

    #[test]
    fn who_waits_is_woken_once_when_an_eighth_is_answered() {
        let work = work(16, 1_600);
        work.add(of(16, 16));
        assert!(!work.found_full(), "there is no room");
        assert!(!work.give_back(of(2, 2)), "14 of 16 are outstanding still");
        assert!(!work.room().has_more_than(of(0, 0)), "those who wait come first");
        assert!(work.give_back(of(1, 1)));
        assert!(work.room().has_more_than(of(2, 0)) && !work.room().has_more_than(of(3, 0)));
        assert!(!work.give_back(of(1, 1)), "nobody waits any more");
        // Between looking and waiting all others were answered.
        assert!(work.found_full(), "who comes too late for the waking wakes");
        assert!(!work.give_back(of(12, 12)));
        assert_eq!(work.outstanding(), Outstanding::default());
        // The least that can be set.
        let one = self::work(1, 1);
        one.add(of(1, 50));
        assert!(!one.found_full());
        assert!(one.give_back(of(1, 50)));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (work, rounds) = (work(4, 1_000_000), 20_000);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (work, wakes) = (&work, std::sync::atomic::AtomicUsize::new(0));
                scope.spawn(move || {
                    for _ in 0..rounds {
                        // The parts of a network thread's turn: take what there is room for, wait
                        // otherwise, answer.
                        let mut taken = Outstanding::default();
                        let room = work.room();
                        while taken.calls < 3 && room.has_more_than(taken) {
                            taken += of(1, 10);
                        }
                        work.add(taken);
                        if taken.calls < 3 && work.found_full() {
                            wakes.fetch_add(1, SeqCst);
                        }
                        if work.give_back(taken) {
                            wakes.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(work.outstanding(), Outstanding::default());
        assert!(!work.full.load(SeqCst), "all is answered, and somebody waits still");
    }

    #[test]
    fn who_waits_for_memory_is_woken_when_much_is_given_back() {
        let (work, part) = (work(1, 1), (memory::clients_bytes_max() / EASED_PART) as isize);
        assert!(!work.charge(10 * part) && !work.charge(-part), "nobody waits");
        work.lacks_memory();
        assert!(work.is_short());
        assert!(!work.charge(-part + 1), "not enough");
        assert!(work.charge(-1));
        assert!(!work.is_short() && !work.charge(-part), "they are awake");
        assert_eq!((work.charged(5), work.charged(-100 * part)), (7 * part as usize + 5, 0));
        work.lacks_memory();
        work.rechecked();
        assert!(!work.is_short());
    }
}

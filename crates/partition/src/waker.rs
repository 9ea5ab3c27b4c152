//! Channels whose receiver goes to sleep at once.
//!
//! A thread that waits in a channel of `crossbeam` looks again for a while first, and yields its
//! processor in between: some microseconds each time, and after a yield the scheduler first runs
//! every other thread that can run. A thread that is given something thousands of times a second,
//! each time after a disk or a network, never finds it within that while. It waits for a [`Waker`],
//! which senders wake.

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Of one thread that waits.
#[derive(Default)]
pub struct Waker {
    sleeps: AtomicBool,
    /// Held by the waiting thread, except while it sleeps; and by the thread that wakes it.
    lock: Mutex<()>,
    woken: Condvar,
}

impl Waker {
    /// To be called after the work for it exists.
    #[inline]
    pub fn wake(&self) {
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // It looks whether it is to sleep under the lock: now it sleeps, or will not.
            drop(self.lock.lock().expect("nobody panics under the lock of a waker"));
            self.woken.notify_one();
        }
    }

    /// Sleeps until it is woken or the time is over, unless there is something to do.
    pub fn wait(&self, time_max: Option<Duration>, has_work: impl Fn() -> bool) {
        let until = time_max.and_then(|time| Instant::now().checked_add(time));
        // A sender puts, then looks at this; here it is the other way round, so that one of the two
        // sees the other.
        self.sleeps.store(true, Ordering::SeqCst);
        if has_work() {
            self.sleeps.store(false, Ordering::SeqCst);
            return;
        }
        let mut guard = self.lock.lock().expect("nobody panics under the lock of a waker");
        while self.sleeps.load(Ordering::SeqCst) {
            let Some(until) = until else {
                guard = self.woken.wait(guard).expect("nobody panics under the lock of a waker");
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.sleeps.store(false, Ordering::SeqCst);
                break;
            }
            guard = self.woken.wait_timeout(guard, left).expect("nobody panics under the lock of a waker").0;
        }
    }
}

/// The sending half of a channel, which wakes the receiver. Clones are the same.
pub struct WakingSender<T> {
    sender: Sender<T>,
    waker: Arc<Waker>,
}

impl<T> Clone for WakingSender<T> {
    fn clone(&self) -> WakingSender<T> {
        WakingSender { sender: self.sender.clone(), waker: Arc::clone(&self.waker) }
    }
}

/// A channel with a waker of its own, [`WakingSender::waker`].
pub fn waking_channel<T>() -> (WakingSender<T>, Receiver<T>) {
    channel_to(&Arc::default())
}

/// A channel to a thread that waits for several.
pub fn channel_to<T>(waker: &Arc<Waker>) -> (WakingSender<T>, Receiver<T>) {
    let (sender, receiver) = unbounded();
    (WakingSender { sender, waker: Arc::clone(waker) }, receiver)
}

impl<T> WakingSender<T> {
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// # Errors
    /// No thread receives any more.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.sender.send(item)?;
        self.waker.wake();
        Ok(())
    }
}

/// The next item within `time_max`. Where that is zero the channel is asked once: its own
/// `recv_timeout` yields the processor several times before it gives up, and a thread of low
/// priority that has more to do gets it back after a tenth of a second on a busy machine.
///
/// # Errors
/// As those of `recv_timeout`.
pub fn receive<T>(inbox: &Receiver<T>, time_max: Duration) -> Result<T, RecvTimeoutError> {
    if !time_max.is_zero() {
        return inbox.recv_timeout(time_max);
    }
    inbox.try_recv().map_err(|error| match error {
        TryRecvError::Empty => RecvTimeoutError::Timeout,
        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_one_look() {
        let (sender, inbox) = unbounded();
        assert_eq!(receive(&inbox, Duration::ZERO), Err(RecvTimeoutError::Timeout));
        sender.send(1).expect("it is received");
        sender.send(2).expect("it is received");
        assert_eq!(receive(&inbox, Duration::ZERO), Ok(1));
        assert_eq!(receive(&inbox, Duration::from_secs(60)), Ok(2));
        drop(sender);
        assert_eq!(receive::<i32>(&inbox, Duration::ZERO), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn nothing_that_is_sent_is_slept_through() {
        const EACH: u64 = if cfg!(miri) { 50 } else { 100_000 };
        let (first, from_first) = waking_channel::<u64>();
        let (second, from_second) = channel_to::<u64>(first.waker());
        let waker = Arc::clone(first.waker());
        let senders = [first, second].map(|way| {
            std::thread::spawn(move || (0..EACH).for_each(|number| way.send(number).expect("the test receives")))
        });
        let mut sum = 0;
        let mut count = 0;
        while count < 2 * EACH {
            waker.wait(None, || !from_first.is_empty() || !from_second.is_empty());
            for number in from_first.try_iter().chain(from_second.try_iter()) {
                (sum, count) = (sum + number, count + 1);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        assert_eq!(sum, EACH * (EACH - 1));
    }

    #[test]
    fn who_waits_does_not_wait_for_longer_than_asked_and_sending_to_nobody_fails() {
        let (way, received) = waking_channel::<u8>();
        way.waker().wait(Some(Duration::from_millis(1)), || !received.is_empty());
        drop(received);
        assert_eq!(way.send(7), Err(SendError(7)));
    }
}

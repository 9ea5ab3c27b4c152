//! A timer that wakes the event loop with microsecond precision, which the loop's own timeout
//! (milliseconds) has not.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Duration;

/// A one-shot timer, registered with the loop. Setting it again disarms the shot before.
#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
}

impl Timer {
    pub fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { descriptor })
    }

    /// Wakes the loop once after `pause`; at once, but not before the next wait, when it is zero.
    pub fn set(&self, pause: Duration) -> io::Result<()> {
        // Zero would disarm the timer.
        let pause = pause.max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

//! The threads of a node: how each begins, and in which order they end.

use crate::notify::notify;
use crate::panic::AbortOnPanic;
use ferrite_base::limits;
use ferrite_notice::Notice;
use std::fmt;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Java frames, deep expressions and recursive plans all live on a partition's stack.
pub const PARTITION_STACK_BYTES: usize = 8 * 1024 * 1024;

/// The system has given no thread.
#[derive(Debug)]
pub struct ThreadError(pub io::Error);

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start a thread: {}", self.0)
    }
}

impl std::error::Error for ThreadError {}

/// Threads in the order in which they began. They end in the opposite one: work goes downwards, so
/// a thread that hands it over ends before the one that takes it.
#[derive(Default)]
pub struct Threads(Vec<Stage>);

/// Threads that end together.
struct Stage {
    stop: Box<dyn FnOnce() + Send>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// The signal to end for the threads that are spawned from now on, until the next such call.
    pub fn ended_by(&mut self, stop: impl FnOnce() + Send + 'static) {
        self.0.push(Stage { stop: Box::new(stop), threads: Vec::new() });
    }

    pub fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), ThreadError> {
        let stage = self.0.last_mut().expect("a stage was begun before its threads");
        stage.threads.push(spawn(name, body)?);
        Ok(())
    }

    /// Answers what was taken, and ends.
    pub fn end(&mut self) {
        while let Some(Stage { stop, threads }) = self.0.pop() {
            stop();
            join(threads);
        }
    }
}

/// The threads of a node that is not complete yet: they end where a later step of the start fails,
/// and one that does not in good time is abandoned.
#[derive(Default)]
pub struct Starting(pub Threads);

impl Starting {
    pub fn succeeded(mut self) -> Threads {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let time_max = Duration::from_secs(limits::STOP_SECONDS_MAX) + limits::STOP_GRACE;
        if !end_within(std::mem::take(&mut self.0), time_max) {
            notify(Notice::StartThreadsAbandoned);
        }
    }
}

/// Whether they have ended by then. Those that have not are abandoned.
fn end_within(mut threads: Threads, time_max: Duration) -> bool {
    if threads.0.is_empty() {
        return true;
    }
    let (tell, ended) = sync_channel::<()>(1);
    let end = spawn("stop", move || {
        threads.end();
        let _ = tell.send(());
    });
    end.is_ok() && ended.recv_timeout(time_max).is_ok()
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a thread that panics ends the process");
    }
}

/// The threads of a node live and die together: state after a panic cannot be trusted, and the log
/// has all that was promised.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ThreadError> {
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(PARTITION_STACK_BYTES)
        .spawn(move || {
            let _guard = AbortOnPanic::default();
            body();
        })
        .map_err(ThreadError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Three stages; each writes its number when it is told to end, and its thread when it does.
    fn three(threads: &mut Threads, log: &Sender<String>) {
        for number in 0..3 {
            let (stop, stopped) = channel::<()>();
            let (told, ended) = (log.clone(), log.clone());
            threads.ended_by(move || {
                let _ = told.send(format!("stop {number}"));
                drop(stop);
            });
            let body = move || {
                let _ = stopped.recv();
                let _ = ended.send(format!("end {number}"));
            };
            threads.spawn(&format!("stage-{number}"), body).expect("there is room for a thread");
        }
    }

    fn check(log: &Receiver<String>) {
        let said: Vec<String> = log.try_iter().collect();
        assert_eq!(said, ["stop 2", "end 2", "stop 1", "end 1", "stop 0", "end 0"]);
    }

    #[test]
    fn what_began_last_ends_first() {
        let (log, said) = channel();
        let mut threads = Threads::default();
        three(&mut threads, &log);
        threads.end();
        check(&said);
    }

    #[test]
    fn a_thread_that_does_not_end_is_left_behind() {
        let (log, said) = channel();
        let mut threads = Threads::default();
        three(&mut threads, &log);
        assert!(end_within(threads, Duration::from_secs(60)));
        check(&said);
        let (hold, held) = channel::<()>();
        let mut threads = Threads::default();
        threads.ended_by(|| {});
        threads.spawn("stubborn", move || assert!(held.recv().is_err())).expect("there is room for a thread");
        assert!(!end_within(threads, Duration::ZERO));
        drop(hold);
    }

    #[test]
    fn a_start_that_fails_ends_what_it_began() {
        let (log, said) = channel();
        let start = || -> Result<Threads, &str> {
            let mut starting = Starting::default();
            three(&mut starting.0, &log);
            Err("a later phase has failed")
        };
        assert!(start().is_err());
        check(&said);
        let mut starting = Starting::default();
        three(&mut starting.0, &log);
        let mut threads = starting.succeeded();
        assert!(said.try_recv().is_err(), "they run on");
        threads.end();
        check(&said);
    }
}

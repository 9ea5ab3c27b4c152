//! Standard output and standard error that hold nobody up: a line is put into a queue, and a thread
//! of each stream writes it.
//!
//! Nobody knows who reads them: a pipe that is full, a reader that has died, a disk that is full.
//! None of that stops or ends a thread that has a line to say. What finds no room in the queue, or
//! cannot be written, is lost, and how much that was is said as soon as something can be written
//! again. Before [`start`] lines are written at once, as suits programs that end soon.

use crate::notices;
use ferrite_base::limits::STDIO_QUEUE_BYTES_MAX;
use ferrite_notice::Notice;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fmt::{self, Write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long an end of the process waits for its last lines.
pub const LAST_LINES_TIME: Duration = Duration::from_secs(1);

pub static OUT: Stream = Stream::new(Which::Out);
pub static ERROR: Stream = Stream::new(Which::Error);

/// A line to standard output, as `println!`.
#[macro_export]
macro_rules! outln {
    ($($words:tt)*) => { $crate::stdio::OUT.line(format_args!($($words)*)) };
}

/// Words to standard output, as `print!`.
#[macro_export]
macro_rules! out {
    ($($words:tt)*) => { $crate::stdio::OUT.words(format_args!($($words)*)) };
}

/// A line of a tool to standard error, as `eprintln!`. A node gives notices ([`crate::notify`]).
#[macro_export]
macro_rules! errln {
    ($($words:tt)*) => { $crate::stdio::ERROR.line(format_args!($($words)*)) };
}

/// Words to standard error, as `eprint!`.
#[macro_export]
macro_rules! err {
    ($($words:tt)*) => { $crate::stdio::ERROR.words(format_args!($($words)*)) };
}

/// From now on lines are written by threads of their own. Whoever ends the process has to
/// [`flush`].
pub fn start() -> io::Result<()> {
    OUT.start("stdout")?;
    ERROR.start("stderr")
}

/// Waits until what was said is written, or for so long. Whether it is.
pub fn flush(time: Duration) -> bool {
    let end = Instant::now() + time;
    let error = ERROR.flush(end);
    OUT.flush(end) && error
}

#[derive(Clone, Copy)]
enum Which {
    Out,
    Error,
}

pub struct Stream {
    which: Which,
    state: Mutex<State>,
    /// There is something to write.
    wanted: Condvar,
    /// A piece is written, or given up.
    done: Condvar,
    /// Why something that was to be written at once could not be.
    failure: OnceLock<Errno>,
}

struct State {
    /// A thread writes.
    queued: bool,
    /// Whole lines.
    waiting: Vec<u8>,
    /// Bytes that the thread is writing.
    under_way: usize,
    /// Lines that found no room since the thread came by.
    lost: u64,
}

impl Stream {
    const fn new(which: Which) -> Stream {
        let state = State { queued: false, waiting: Vec::new(), under_way: 0, lost: 0 };
        Stream {
            which,
            state: Mutex::new(state),
            wanted: Condvar::new(),
            done: Condvar::new(),
            failure: OnceLock::new(),
        }
    }

    /// Says a line, and returns at once.
    pub fn line(&self, words: fmt::Arguments<'_>) {
        let mut text = String::new();
        // Words that cannot be made are said as far as they go.
        let _ = text.write_fmt(words);
        text.push('\n');
        self.lines(text.as_bytes());
    }

    /// Says what may end within a line, and returns at once. For programs that end soon.
    pub fn words(&self, words: fmt::Arguments<'_>) {
        let mut text = String::new();
        let _ = text.write_fmt(words);
        self.lines(text.as_bytes());
    }

    /// Why something could not be written, by a program that ends soon: a closed pipe, which is no
    /// fault of it, or a full disk.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.get().map(|errno| io::Error::from(*errno))
    }

    /// Says whole lines, in whatever encoding, and returns at once.
    pub fn lines(&self, text: &[u8]) {
        let mut state = self.lock();
        if !state.queued {
            drop(state);
            if let (_, Some(errno)) = self.with_descriptor(|descriptor| write(descriptor, text)) {
                let _ = self.failure.set(errno);
            }
            return;
        }
        if state.waiting.len() + state.under_way + text.len() > STDIO_QUEUE_BYTES_MAX {
            state.lost += lines_of(text);
        } else {
            state.waiting.extend_from_slice(text);
        }
        drop(state);
        self.wanted.notify_one();
    }

    fn start(&'static self, name: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.lock().queued, true) {
            return Ok(());
        }
        let started = thread::Builder::new().name(name.to_owned()).spawn(|| {
            let write_here = |bytes: &[u8]| self.with_descriptor(|descriptor| write(descriptor, bytes)).0;
            self.run(write_here, || true);
        });
        if started.is_err() {
            self.lock().queued = false;
        }
        started.map(drop)
    }

    /// Writes what comes, by `write`, which answers how much it could write, as long as `goes_on`.
    fn run(&self, write: impl Fn(&[u8]) -> usize, goes_on: impl Fn() -> bool) {
        let mut unwritten = Unwritten::default();
        while goes_on() {
            let (mut piece, lost) = {
                let mut state = self.lock();
                while state.waiting.is_empty() && state.lost == 0 {
                    state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                let piece = std::mem::take(&mut state.waiting);
                state.under_way = piece.len();
                (piece, std::mem::take(&mut state.lost))
            };
            if lost > 0 {
                piece.extend_from_slice(notices::keep(Notice::LinesLost { lines: lost }).as_bytes());
            }
            if unwritten.report(&write) {
                let written = write(&piece);
                unwritten.torn = written > 0 && piece[written - 1] != b'\n';
                unwritten.lines = lines_of(&piece[written..]);
            } else {
                unwritten.lines += lines_of(&piece);
            }
            self.lock().under_way = 0;
            self.done.notify_all();
        }
    }

    fn flush(&self, end: Instant) -> bool {
        let mut state = self.lock();
        while state.queued && (state.under_way > 0 || !state.waiting.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// The stream itself, past the lock that the standard library has for it: whoever else writes
    /// must not be held up either.
    fn with_descriptor<R>(&self, body: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        match self.which {
            Which::Out => body(io::stdout().as_fd()),
            Which::Error => body(io::stderr().as_fd()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What could not be written.
#[derive(Default)]
struct Unwritten {
    lines: u64,
    /// The first of them was begun.
    torn: bool,
}

impl Unwritten {
    /// Whether lines can be written now, as far as is known: those that could not be have been told
    /// of.
    fn report(&self, write: &impl Fn(&[u8]) -> usize) -> bool {
        if self.lines == 0 {
            return true;
        }
        let lost = || Notice::LinesLost { lines: self.lines };
        let words = format!("{}{}", if self.torn { "\n" } else { "" }, notices::line_of(lost()));
        let is_told = write(words.as_bytes()) == words.len();
        // Not at each attempt: that would take the place of what is kept.
        if is_told {
            notices::keep(lost());
        }
        is_told
    }
}

fn lines_of(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// How much could be written, and why no more.
fn write(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> (usize, Option<Errno>) {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(descriptor, &bytes[written..]) {
            Ok(0) => return (written, Some(Errno::IO)),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            // Somebody else who has the stream wants it so.
            Err(Errno::AGAIN) => {
                if let Err(error) = poll(&mut [PollFd::new(&descriptor, PollFlags::OUT)], None)
                    && error != Errno::INTR
                {
                    return (written, Some(error));
                }
            }
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    const LOST: &str = " WARN  ferrite: 2 lines of this log are lost: they could not be written, or not as fast as \
                        they came [lines-lost]";

    fn queued() -> Stream {
        let stream = Stream::new(Which::Error);
        stream.lock().queued = true;
        stream
    }

    /// Runs `say` while a thread writes what is said, as much at a time as is sent by the second
    /// channel; what it has written.
    fn written_by(say: impl FnOnce(&Stream, &Receiver<usize>, &Sender<usize>)) -> String {
        let stream = queued();
        let (begins, begun) = channel();
        let (permit, permitted) = channel::<usize>();
        let written = Mutex::new(Vec::new());
        let left = AtomicUsize::new(usize::MAX);
        thread::scope(|scope| {
            let (stream, written, left) = (&stream, &written, &left);
            scope.spawn(move || {
                let write = |bytes: &[u8]| {
                    let _ = begins.send(bytes.len());
                    let Ok(count) = permitted.recv() else {
                        left.store(0, Ordering::SeqCst);
                        return 0;
                    };
                    let count = count.min(bytes.len());
                    written.lock().expect("nobody panics").extend_from_slice(&bytes[..count]);
                    count
                };
                stream.run(write, || left.load(Ordering::SeqCst) > 0);
            });
            say(stream, &begun, &permit);
            drop(permit);
            // Lets the thread come by once more, to see that it is over.
            stream.line(format_args!("the end"));
        });
        String::from_utf8(written.into_inner().expect("nobody panics")).expect("text")
    }

    #[test]
    fn a_stream_that_nobody_reads_loses_lines_and_says_how_many() {
        let long = "x".repeat(STDIO_QUEUE_BYTES_MAX / 4 - 1);
        let text = written_by(|stream, begun, permit| {
            stream.line(format_args!("first"));
            begun.recv().expect("it is being written");
            // Nobody takes it; the queue has room for three such lines beside it.
            for _ in 0..5 {
                stream.line(format_args!("{long}"));
            }
            stream.line(format_args!("small"));
            assert!(!stream.flush(Instant::now()), "it is not written yet");
            permit.send(usize::MAX).expect("it waits");
            begun.recv().expect("the next piece");
            permit.send(usize::MAX).expect("it waits");
            assert!(stream.flush(Instant::now() + Duration::from_secs(60)));
        });
        let lines: Vec<&str> = text.lines().map(|line| if line == long { "long" } else { line }).collect();
        let (lost, before) = lines.split_last().expect("lines");
        assert_eq!(before, ["first", "long", "long", "long", "small"]);
        assert!(lost.ends_with(LOST), "{lost}");
    }

    #[test]
    fn what_cannot_be_written_is_told_of_when_it_can_be_again() {
        let text = written_by(|stream, begun, permit| {
            for (line, count) in [("one", 2), ("two", 0), ("three", usize::MAX)] {
                stream.line(format_args!("{line}"));
                begun.recv().expect("it is being written");
                permit.send(count).expect("it waits");
            }
            begun.recv().expect("what came after the news of the loss");
            permit.send(usize::MAX).expect("it waits");
            assert!(stream.flush(Instant::now() + Duration::from_secs(60)));
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(matches!(lines[..], ["on", lost, "three"] if lost.ends_with(LOST)), "{lines:?}");
    }
}

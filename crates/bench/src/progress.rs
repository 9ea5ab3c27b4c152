//! A line of progress while anything takes more than two seconds: nobody should wonder whether a
//! run still does something.
//!
//! In a terminal one line that changes and then goes away; elsewhere a line every ten seconds. Both
//! on standard error, so that what a run prints as its result stays as it is.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What takes no longer needs no word.
const SILENCE: Duration = Duration::from_secs(2);
const TERMINAL_INTERVAL: Duration = Duration::from_secs(1);
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Does something, and says what it is while it takes long.
pub fn with_progress<R>(what: &str, act: impl FnOnce() -> R) -> R {
    let _watch = Watch::begin(what, std::io::stderr().is_terminal(), std::io::stderr());
    act()
}

/// Ends the line when dropped, also on the way out of a panic.
struct Watch {
    done: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Watch {
    fn begin(what: &str, terminal: bool, out: impl Write + Send + 'static) -> Watch {
        let (done, ended) = channel::<()>();
        let what = what.to_string();
        let tell = move || {
            let began = Instant::now();
            let mut out = out;
            let mut wait = SILENCE;
            let mut told = false;
            // Nobody sends: the channel ends when what is waited for does.
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // A progress line that cannot be written is no reason to stop.
                let _ = out.write_all(line(&what, began.elapsed(), terminal).as_bytes());
                let _ = out.flush();
                told = true;
                wait = if terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL };
            }
            if told && terminal {
                let _ = out.write_all(b"\r\x1b[K");
                let _ = out.flush();
            }
        };
        // Without a thread there is no progress line, and nothing else is missing.
        let teller = thread::Builder::new().name("progress".to_string()).spawn(tell).ok();
        Watch { done: Some(done), teller }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done.take();
        if let Some(teller) = self.teller.take() {
            // It has nothing to say any more; a panic in it would have been printed.
            let _ = teller.join();
        }
    }
}

fn line(what: &str, elapsed: Duration, terminal: bool) -> String {
    let text = format!("{what} ... {} s", elapsed.as_secs());
    if terminal { format!("\r\x1b[K{text}") } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<u8>>>);

    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_done_at_once_says_nothing() {
        let heard = Heard::default();
        drop(Watch::begin("counting", true, heard.clone()));
        assert!(heard.0.lock().unwrap().is_empty());
        assert_eq!(with_progress("adding", || 1 + 1), 2);
    }

    #[test]
    fn what_takes_long_says_so_and_cleans_up() {
        let heard = Heard::default();
        let watch = Watch::begin("counting", true, heard.clone());
        let give_up = Instant::now() + Duration::from_secs(30);
        while heard.0.lock().unwrap().is_empty() && Instant::now() < give_up {
            thread::yield_now();
        }
        drop(watch);
        let text = String::from_utf8(heard.0.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("\r\x1b[Kcounting ... 2 s") && text.ends_with("\r\x1b[K"), "{text:?}");
        assert_eq!(line("counting", Duration::from_secs(12), false), "counting ... 12 s\n");
    }
}

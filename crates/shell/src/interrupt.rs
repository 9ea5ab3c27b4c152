//! Ctrl-C as something that a wait can be ended by, instead of the end of the program.

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// What a waiting command is told.
pub enum Wake<T> {
    Interrupted,
    Done(T),
}

type Listener = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    seen: AtomicBool,
    listener: Mutex<Option<Listener>>,
}

/// The interrupts of this process. Clones are the same.
#[derive(Clone, Default)]
pub struct Interrupts {
    state: Arc<State>,
}

impl Interrupts {
    /// Interrupts that never come: SIGINT ends the program, as scripts want it.
    pub fn none() -> Interrupts {
        Interrupts::default()
    }

    /// From now on SIGINT is taken here.
    pub fn catch() -> io::Result<Interrupts> {
        let interrupts = Interrupts::default();
        let state = Arc::clone(&interrupts.state);
        let mut signals = Signals::new([SIGINT])?;
        std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            for _ in signals.forever() {
                state.seen.store(true, Ordering::SeqCst);
                if let Some(listener) = &*state.listener.lock().unwrap_or_else(PoisonError::into_inner) {
                    listener();
                }
            }
        })?;
        Ok(interrupts)
    }

    /// Whether one came since [`Interrupts::forget`].
    pub fn seen(&self) -> bool {
        self.state.seen.load(Ordering::SeqCst)
    }

    pub fn forget(&self) {
        self.state.seen.store(false, Ordering::SeqCst);
    }

    /// Calls `tell` at each interrupt, until the guard is dropped.
    pub fn listen(&self, tell: impl Fn() + Send + 'static) -> Listening<'_> {
        *self.state.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(tell));
        Listening { interrupts: self }
    }

    /// Sends [`Wake::Interrupted`] at each interrupt, until the guard is dropped.
    pub fn wake<T: Send + 'static>(&self, sender: Sender<Wake<T>>) -> Listening<'_> {
        // Nobody waits any more when sending fails.
        self.listen(move || drop(sender.send(Wake::Interrupted)))
    }
}

pub struct Listening<'i> {
    interrupts: &'i Interrupts,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        *self.interrupts.state.listener.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

//! What happened, line by line: summed up in a number, and shown if somebody wants to read it.

use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub struct Trace {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: u64,
    lines: u64,
    show: bool,
}

impl Trace {
    pub fn new(show: bool) -> Trace {
        Trace { inner: Arc::new(Mutex::new(Inner { hash: 0xcbf2_9ce4_8422_2325, lines: 0, show })) }
    }

    pub fn line(&self, text: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in text.bytes().chain([b'\n']) {
            inner.hash = (inner.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        inner.lines += 1;
        if inner.show {
            println!("{:>7} {text}", inner.lines);
        }
    }

    /// Of all lines so far (FNV-1a).
    pub fn hash(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).hash
    }
}

//! The wakers of calls that go on, as Java knows them: by number, so that a call that has ended, or
//! its number misused, harms nobody.

use jni::sys::{JNIEnv as RawEnv, jclass, jlong};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[derive(Default)]
struct WakerRegistry {
    by_number: HashMap<jlong, Waker>,
    last: jlong,
}

static REGISTRY: Mutex<Option<WakerRegistry>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<WakerRegistry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A waker's number, which holds as long as this is kept.
pub(crate) struct RegisteredWaker(pub jlong);

impl RegisteredWaker {
    pub fn register(waker: &Waker) -> RegisteredWaker {
        let mut registry = registry();
        let registry = registry.get_or_insert_default();
        registry.last += 1;
        registry.by_number.insert(registry.last, waker.clone());
        RegisteredWaker(registry.last)
    }
}

impl Drop for RegisteredWaker {
    fn drop(&mut self) {
        let waker = registry().as_mut().and_then(|registry| registry.by_number.remove(&self.0));
        drop(waker);
    }
}

/// `Bridge.wake`, called by any thread of Java.
pub(crate) extern "system" fn wake(_: *mut RawEnv, _: jclass, number: jlong) {
    let waker = registry().as_ref().and_then(|registry| registry.by_number.get(&number).cloned());
    if let Some(waker) = waker {
        waker.wake();
    }
}

//! The bells of calls that go on, as Java knows them: by number, so that a call that has ended, or its number misused, harms nobody.

use jni::sys::{JNIEnv as RawEnv, jclass, jlong};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[derive(Default)]
struct Bells {
    by_number: HashMap<jlong, Waker>,
    last: jlong,
}

static BELLS: Mutex<Option<Bells>> = Mutex::new(None);

fn bells() -> MutexGuard<'static, Option<Bells>> {
    BELLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bell's number, which holds as long as this is kept.
pub(crate) struct Bell(pub jlong);

impl Bell {
    pub fn hang(waker: &Waker) -> Bell {
        let mut bells = bells();
        let bells = bells.get_or_insert_default();
        bells.last += 1;
        bells.by_number.insert(bells.last, waker.clone());
        Bell(bells.last)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let bell = bells().as_mut().and_then(|bells| bells.by_number.remove(&self.0));
        drop(bell);
    }
}

/// `Bridge.ring`, called by any thread of Java.
pub(crate) extern "system" fn ring(_: *mut RawEnv, _: jclass, number: jlong) {
    let bell = bells().as_ref().and_then(|bells| bells.by_number.get(&number).cloned());
    if let Some(bell) = bell {
        bell.wake();
    }
}

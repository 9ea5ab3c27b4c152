//! A thread's crossing to Java and back: two buffers outside of Java's heap, and what native code
//! is called for while a procedure runs.

use crate::machine::{Machine, unusable};
use crate::signal_stack;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_plan::external::Host;
use jni::objects::GlobalRef;
use jni::signature::ReturnType;
use jni::sys::{JNIEnv as RawEnv, jclass, jint, jlong, jobject, jstring, jvalue};
use jni::{JNIEnv, NativeMethod};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// Bytes of a buffer at first.
const BUFFER_BYTES: usize = 65_536;
/// A buffer that has grown beyond this goes back when its call is over.
const BUFFER_BYTES_KEPT: usize = 1_048_576;
/// What no procedure runs on this thread is answered with.
const NO_PROCEDURE: jlong = jlong::MIN;

/// What one thread and Java hand each other.
pub(crate) struct Exchange {
    /// The thread's own; valid as long as it stays attached, which it does to its end.
    pub env: *mut RawEnv,
    /// `org.voltdb.Exchange`.
    pub object: GlobalRef,
    /// Written by Java. Its length is its capacity.
    request: Vec<u8>,
    /// Written by us.
    response: Vec<u8>,
    /// Counts the places where `response` has been, for Java to notice when it has moved.
    generation: i32,
    place: (*const u8, usize),
    host: Option<*mut dyn Host>,
    /// What was wrong with the last batch.
    pub error: Option<UserError>,
}

/// What a thread calls Java for. A function may be called by a statement that a procedure executes:
/// the procedure's buffers are in use then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Procedure = 0,
    Function = 1,
}

thread_local! {
    /// By purpose.
    static EXCHANGES: [Cell<*mut Exchange>; 2] = const { [Cell::new(null_mut()), Cell::new(null_mut())] };
}

/// The calling thread's exchange for a purpose, as Java numbers them; null when it has none.
fn known(purpose: jint) -> *mut Exchange {
    EXCHANGES.with(|exchanges| exchanges.get(purpose as usize).map_or(null_mut(), Cell::get))
}

static SLOTS: AtomicI32 = AtomicI32::new(0);

/// The calling thread's exchange, made when it is first asked for: the thread is attached to the
/// JVM and stays so.
pub(crate) fn of_this_thread(machine: &Machine, purpose: Purpose) -> UserResult<*mut Exchange> {
    let known = known(purpose as jint);
    if !known.is_null() {
        return Ok(known);
    }
    let exchange = attach(machine, purpose).map_err(|error| unusable(&error))?;
    let exchange = Box::into_raw(Box::new(exchange));
    EXCHANGES.with(|exchanges| exchanges[purpose as usize].set(exchange));
    Ok(exchange)
}

#[cold]
fn attach(machine: &Machine, purpose: Purpose) -> jni::errors::Result<Exchange> {
    signal_stack::own_stack_for_signals();
    let mut env = machine.vm.attach_current_thread_as_daemon()?;
    let mut request = vec![0u8; BUFFER_BYTES];
    let mut response: Vec<u8> = Vec::with_capacity(BUFFER_BYTES);
    let place = (response.as_ptr(), response.capacity());
    // SAFETY: the exchange keeps both buffers, and tells Java before it uses others.
    let (request_buffer, response_buffer) = unsafe {
        (
            env.new_direct_byte_buffer(request.as_mut_ptr(), request.len())?,
            env.new_direct_byte_buffer(response.as_mut_ptr(), response.capacity())?,
        )
    };
    let thread = env.new_string(std::thread::current().name().unwrap_or_default())?;
    let slot = SLOTS.fetch_add(1, Ordering::Relaxed);
    let arguments = [
        jvalue { i: slot },
        jvalue { i: purpose as jint },
        jvalue { l: thread.as_raw() },
        jvalue { l: request_buffer.as_raw() },
        jvalue { l: response_buffer.as_raw() },
    ];
    // SAFETY: the arguments are those of the method's signature.
    let object = unsafe {
        env.call_static_method_unchecked(machine.bridge_class(), machine.attach, ReturnType::Object, &arguments)?
    };
    let object = env.new_global_ref(object.l()?)?;
    let env = env.get_raw();
    Ok(Exchange { env, object, request, response, generation: 0, place, host: None, error: None })
}

impl Exchange {
    /// Empties the response buffer for `write`; how many bytes it holds then, and its generation
    /// from bit 32 on.
    pub fn send(&mut self, write: impl FnOnce(&mut Vec<u8>) -> UserResult<()>) -> UserResult<jlong> {
        self.response.clear();
        write(&mut self.response)?;
        Ok(self.sent())
    }

    fn sent(&mut self) -> jlong {
        let place = (self.response.as_ptr(), self.response.capacity());
        if place != self.place {
            self.place = place;
            self.generation = (self.generation + 1) & i32::MAX;
        }
        jlong::from(self.generation) << 32 | self.response.len() as jlong
    }

    /// What Java has left in the request buffer.
    pub fn read_request(&self, bytes: usize) -> UserResult<&[u8]> {
        self.request.get(..bytes).ok_or_else(|| UserError::internal("Java told of more bytes than its buffer has"))
    }

    /// Runs `enter` with `host` in reach of the native methods.
    pub fn with_host<R>(exchange: *mut Exchange, host: &mut dyn Host, enter: impl FnOnce() -> R) -> R {
        // SAFETY: the pointer is taken away again below, before the borrow ends; only its lifetime
        // is lengthened.
        let host = unsafe { std::mem::transmute::<*mut (dyn Host + '_), *mut (dyn Host + 'static)>(host) };
        // SAFETY: the exchange is this thread's.
        unsafe {
            (*exchange).host = Some(host);
            (*exchange).error = None;
        }
        let result = enter();
        // SAFETY: as above.
        unsafe { (*exchange).host = None };
        result
    }

    /// Gives back what a large call has made the response buffer grow to; Java asks for another
    /// request buffer with its next one.
    pub fn end_call(&mut self) {
        if self.response.capacity() > BUFFER_BYTES_KEPT {
            self.response = Vec::with_capacity(BUFFER_BYTES);
        }
    }
}

pub(crate) fn native_methods() -> [NativeMethod; 9] {
    let method = |name: &str, signature: &str, function: *mut std::ffi::c_void| NativeMethod {
        name: name.into(),
        sig: signature.into(),
        fn_ptr: function,
    };
    [
        method("execute", "(I)J", execute as *mut _),
        method("response", "(I)Ljava/nio/ByteBuffer;", response as *mut _),
        method("request", "(II)Ljava/nio/ByteBuffer;", request as *mut _),
        method("wake", "(J)V", crate::waker_registry::wake as *mut _),
        method("error", "()Ljava/lang/String;", error as *mut _),
        method("say", "(I[B)V", crate::output::say as *mut _),
        method("exit", "(Ljava/lang/String;)V", crate::output::exit as *mut _),
        method(
            "runsLong",
            "(Ljava/lang/String;Ljava/lang/String;JLjava/lang/String;)V",
            crate::output::runs_long as *mut _,
        ),
        method("stillRuns", "(Ljava/lang/String;Ljava/lang/String;)V", crate::output::still_runs as *mut _),
    ]
}

/// `Bridge.execute`. A fault of ours inside ends the process, as it does on every thread.
extern "system" fn execute(_: *mut RawEnv, _: jclass, bytes: jint) -> jlong {
    let exchange = known(Purpose::Procedure as jint);
    if exchange.is_null() {
        return NO_PROCEDURE;
    }
    // SAFETY: the exchange is this thread's, and whoever called Java holds no reference into it
    // meanwhile.
    let exchange = unsafe { &mut *exchange };
    let Some(batch) = exchange.request.get(..bytes as usize) else { return NO_PROCEDURE };
    // Taken for as long as it executes: a function that a statement calls has no host.
    let Some(host) = exchange.host.take() else { return NO_PROCEDURE };
    exchange.response.clear();
    // SAFETY: the host is set only while its call goes on, on this thread, and not while it
    // executes already.
    let executed = unsafe { &mut *host }.execute(batch, &mut exchange.response);
    exchange.host = Some(host);
    match executed {
        Ok(()) => exchange.sent(),
        Err(error) => {
            exchange.error = Some(error);
            -1
        }
    }
}

/// A reference for Java to return; null, with an exception pending, when there is none to be had.
fn direct_buffer(env: *mut RawEnv, memory: *mut u8, bytes: usize) -> jobject {
    // SAFETY: the environment is the one that the native method was called with.
    let Ok(mut env) = (unsafe { JNIEnv::from_raw(env) }) else { return null_mut() };
    // SAFETY: the memory belongs to the thread's exchange, which tells Java before it uses other
    // memory.
    unsafe { env.new_direct_byte_buffer(memory, bytes) }.map_or(null_mut(), |buffer| buffer.into_raw())
}

/// `Bridge.response`.
extern "system" fn response(env: *mut RawEnv, _: jclass, purpose: jint) -> jobject {
    let exchange = known(purpose);
    if exchange.is_null() {
        return null_mut();
    }
    // SAFETY: the exchange is this thread's.
    let exchange = unsafe { &mut *exchange };
    direct_buffer(env, exchange.response.as_mut_ptr(), exchange.response.capacity())
}

/// `Bridge.request`.
extern "system" fn request(env: *mut RawEnv, _: jclass, purpose: jint, bytes: jint) -> jobject {
    let exchange = known(purpose);
    if exchange.is_null() {
        return null_mut();
    }
    // SAFETY: the exchange is this thread's.
    let exchange = unsafe { &mut *exchange };
    let wanted = usize::try_from(bytes).unwrap_or(0).max(BUFFER_BYTES);
    exchange.request = vec![0u8; wanted];
    direct_buffer(env, exchange.request.as_mut_ptr(), exchange.request.len())
}

/// `Bridge.error`: a letter, C for a constraint that would be violated, then the words.
extern "system" fn error(env: *mut RawEnv, _: jclass) -> jstring {
    let exchange = known(Purpose::Procedure as jint);
    if exchange.is_null() {
        return null_mut();
    }
    // SAFETY: the exchange is this thread's.
    let text = unsafe { (*exchange).error.as_ref() }.map_or_else(
        || "E".to_owned(),
        |error| format!("{}{error}", if error.kind() == ErrorKind::ConstraintViolation { 'C' } else { 'E' }),
    );
    // SAFETY: the environment is the one that the native method was called with.
    let Ok(env) = (unsafe { JNIEnv::from_raw(env) }) else { return null_mut() };
    env.new_string(text).map_or(null_mut(), |text| text.into_raw())
}

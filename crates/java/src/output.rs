//! What code in Java prints, what operators should know of it, and its wish to end the process.

use ferrite_io::stdio;
use ferrite_notice::Notice;
use jni::JNIEnv;
use jni::objects::{JByteArray, JString};
use jni::sys::{JNIEnv as RawEnv, jbyteArray, jclass, jint, jlong, jstring};
use std::sync::OnceLock;
use std::time::Duration;

/// Ends the server in good order.
static STOP: OnceLock<fn()> = OnceLock::new();

/// Says what `System.exit` does.
pub(crate) fn on_exit(stop: fn()) {
    let _ = STOP.set(stop);
}

/// `Bridge.say`.
pub(crate) extern "system" fn say(env: *mut RawEnv, _: jclass, stream: jint, lines: jbyteArray) {
    // SAFETY: the environment and the array are those that the native method was called with.
    let (env, lines) = unsafe { (JNIEnv::from_raw(env), JByteArray::from_raw(lines)) };
    let Ok(Ok(mut lines)) = env.map(|env| env.convert_byte_array(lines)) else { return };
    if lines.last() != Some(&b'\n') {
        lines.push(b'\n');
    }
    ferrite_io::pass_on(if stream == 0 { &stdio::OUT } else { &stdio::ERROR }, &lines);
}

/// `Bridge.exit`.
pub(crate) extern "system" fn exit(env: *mut RawEnv, _: jclass, at: jstring) {
    // SAFETY: the environment and the string are those that the native method was called with.
    let [stack] = unsafe { texts(env, [at]) };
    ferrite_io::notify(Notice::JavaExits { stack: trace(&stack) });
    if let Some(stop) = STOP.get() {
        stop();
    }
}

/// `Bridge.runsLong`.
pub(crate) extern "system" fn runs_long(
    env: *mut RawEnv,
    _: jclass,
    routine: jstring,
    thread: jstring,
    millis: jlong,
    at: jstring,
) {
    // SAFETY: the environment and the strings are those that the native method was called with.
    let [routine, thread, stack] = unsafe { texts(env, [routine, thread, at]) };
    let elapsed = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    ferrite_io::notify(Notice::JavaCallLong { routine, thread, elapsed, stack: trace(&stack) });
}

/// `Bridge.stillRuns`.
pub(crate) extern "system" fn still_runs(env: *mut RawEnv, _: jclass, procedure: jstring, at: jstring) {
    // SAFETY: the environment and the strings are those that the native method was called with.
    let [procedure, stack] = unsafe { texts(env, [procedure, at]) };
    ferrite_io::notify(Notice::JavaCodeRemains { procedure, stack: trace(&stack) });
}

/// What strings of Java's say; empty where they cannot be read.
///
/// # Safety
/// The environment is the calling thread's, and the strings live as long as the call.
unsafe fn texts<const N: usize>(env: *mut RawEnv, strings: [jstring; N]) -> [String; N] {
    // SAFETY: as the caller promises.
    let mut env = unsafe { JNIEnv::from_raw(env) }.ok();
    strings.map(|string| {
        // SAFETY: as the caller promises.
        let string = unsafe { JString::from_raw(string) };
        let text = env.as_mut().and_then(|env| env.get_string(&string).map(String::from).ok());
        text.unwrap_or_default()
    })
}

/// Frames as Java's side writes them: below one another, each on a line of its own.
fn trace(frames: &str) -> String {
    frames.trim_start_matches('\n').to_owned()
}

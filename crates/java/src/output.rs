//! What code in Java prints, and its wish to end the process.

use ferrite_io::stdio;
use ferrite_notice::Notice;
use jni::JNIEnv;
use jni::objects::{JByteArray, JString};
use jni::sys::{JNIEnv as RawEnv, jbyteArray, jclass, jint, jstring};
use std::sync::OnceLock;

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
    let (env, at) = unsafe { (JNIEnv::from_raw(env), JString::from_raw(at)) };
    let at = env.and_then(|mut env| env.get_string(&at).map(String::from)).unwrap_or_default();
    ferrite_io::notify(Notice::JavaExits { stack: at.trim_start_matches('\n').to_owned() });
    if let Some(stop) = STOP.get() {
        stop();
    }
}

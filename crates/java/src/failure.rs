//! What is told of a call that ended in an exception.

use crate::exchange::Exchange;
use crate::machine::Machine;
use ferrite_base::{ErrorKind, UserError};
use jni::JNIEnv;
use jni::objects::JString;
use jni::signature::ReturnType;
use jni::sys::jvalue;
use std::fmt;

/// A failure's text beyond this is cut.
const FAILURE_BYTES_MAX: usize = 65_536;

/// The exception that Java has kept for us. `what` has failed.
#[cold]
pub(crate) fn told(machine: &Machine, exchange: &mut Exchange, what: &dyn fmt::Display) -> UserError {
    let Ok(text) = text(machine, exchange) else { return pending(exchange, what) };
    let (kind, words) = text.split_at_checked(1).unwrap_or(("E", ""));
    match (kind, exchange.error.take()) {
        ("A", _) => UserError::new(ErrorKind::UserAbort, "45000", words.to_owned()),
        ("C", _) => UserError::new(ErrorKind::CompoundAbort, "45000", words.to_owned()),
        ("S", Some(error)) => {
            let frames = words.trim_start_matches('\n');
            let detail = error.detail().map_or_else(|| frames.to_owned(), |detail| format!("{detail}\n{frames}"));
            if frames.is_empty() { error } else { error.with_detail(detail) }
        }
        _ => UserError::new(ErrorKind::Internal, "38000", format!("{what} failed: {words}")),
    }
}

fn text(machine: &Machine, exchange: &Exchange) -> jni::errors::Result<String> {
    // SAFETY: the environment is this thread's.
    let mut env = unsafe { JNIEnv::from_raw(exchange.env)? };
    env.with_local_frame(8, |env| {
        let arguments = [jvalue { l: exchange.object.as_raw() }];
        // SAFETY: the arguments are those of the method's signature.
        let text = unsafe {
            env.call_static_method_unchecked(machine.bridge_class(), machine.failure, ReturnType::Object, &arguments)?
        };
        let text = JString::from(text.l()?);
        let mut text: String = env.get_string(&text)?.into();
        if text.len() > FAILURE_BYTES_MAX {
            let end = (0..=FAILURE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        Ok::<_, jni::errors::Error>(text)
    })
}

/// Java could not even say what was wrong, for want of memory most likely.
#[cold]
pub(crate) fn pending(exchange: &mut Exchange, what: &dyn fmt::Display) -> UserError {
    // SAFETY: the environment is this thread's.
    if let Ok(env) = unsafe { JNIEnv::from_raw(exchange.env) } {
        let _ = env.exception_clear();
    }
    UserError::new(ErrorKind::Internal, "38000", format!("{what} failed, and so did Java's report of it"))
        .with_hint("its memory may be used up: see -Xmx in --java-options")
}

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
pub(crate) fn thrown(machine: &Machine, exchange: &mut Exchange, what: &dyn fmt::Display) -> UserError {
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
        _ => hinted(UserError::new(ErrorKind::Internal, "38000", format!("{what} failed: {words}")), words),
    }
}

/// With what helps where these words of Java's say that a class is missing.
pub(crate) fn hinted(error: UserError, words: &str) -> UserError {
    let missing = words
        .split("NoClassDefFoundError: ")
        .skip(1)
        // That is how Java tells of a class that is there, but whose initializer has failed before.
        .find(|rest| !rest.starts_with("Could not initialize"))
        .and_then(|rest| rest.split(|c: char| c.is_whitespace() || c == ';').next());
    match missing {
        Some(class) => {
            let class = class.replace('/', ".");
            error.with_hint(format!("class {class} is not here: load a jar with a class of that name"))
        }
        None => error,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_class_is_named_in_the_hint() {
        let hint = |words: &str| hinted(UserError::syntax("failed"), words).hint().map(str::to_owned);
        let expected = Some("class org.voltdb.utils.Gone is not here: load a jar with a class of that name".to_owned());
        assert_eq!(hint("java.lang.NoClassDefFoundError: org/voltdb/utils/Gone\n    at app.Lacks.run"), expected);
        let again = "java.lang.NoClassDefFoundError: Could not initialize class a.B";
        assert_eq!(hint(again), None);
        let caused = format!("{again}\ncaused by java.lang.NoClassDefFoundError: org/voltdb/utils/Gone");
        assert_eq!(hint(&caused), expected);
        assert_eq!(hint("java.lang.IllegalStateException: a"), None);
    }
}

//! One call of a Java procedure: parameters over, results or the failure back.

use crate::exchange::{self, Exchange};
use crate::library::JavaLibrary;
use crate::machine::{Machine, unusable};
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_sql::foreign::{Body, Host};
use ferrite_value::Value;
use ferrite_wire::parameters::write_value;
use ferrite_wire::scalar::CODE_ARRAY;
use jni::JNIEnv;
use jni::objects::{GlobalRef, JString};
use jni::signature::ReturnType;
use jni::sys::jvalue;
use std::fmt;
use std::sync::Arc;

/// The partition that Java code is told of when it runs on all of them.
const ALL_PARTITIONS: i32 = 16_383;
/// The answer's status byte when the procedure has set none.
const STATUS_NOT_SET: i8 = -128;
/// A failure's text beyond this is cut.
const FAILURE_BYTES_MAX: usize = 65_536;

/// A class that is a procedure.
pub(crate) struct Procedure {
    pub machine: Arc<Machine>,
    /// `org.voltdb.ProcedureClass`; keeps the class, and its loader, alive.
    pub class: GlobalRef,
    pub name: String,
    pub _library: Option<Arc<JavaLibrary>>,
}

impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Java class {}", self.name)
    }
}

impl Body for Procedure {
    fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()> {
        let machine = &*self.machine;
        let exchange = exchange::of_this_thread(machine)?;
        // SAFETY: the exchange is this thread's; the reference ends with the statement.
        let (sent, env, object) = unsafe {
            let exchange = &mut *exchange;
            let sent = exchange.send(|out| parameters.iter().try_for_each(|value| encode(out, value)))?;
            (sent, exchange.env, exchange.object.as_raw())
        };
        let partition = host.partition().map_or(ALL_PARTITIONS, |partition| partition as i32);
        let arguments = [
            jvalue { l: self.class.as_raw() },
            jvalue { l: object },
            jvalue { j: sent },
            jvalue { j: host.transaction_time() },
            jvalue { j: host.unique_id() },
            jvalue { i: partition },
        ];
        let answered = Exchange::with_host(exchange, host, || {
            // SAFETY: this thread's environment, the bridge's class and method, and arguments of its signature. The table of functions
            // is complete in every JVM.
            unsafe {
                let functions = &**env;
                let run = functions.CallStaticIntMethodA.expect("a JVM has this function");
                let answered = run(env, machine.bridge.as_raw(), machine.run.into_raw(), arguments.as_ptr());
                let pending = functions.ExceptionCheck.expect("a JVM has this function")(env);
                if pending == 0 { Ok(answered) } else { Err(()) }
            }
        });
        // SAFETY: the exchange is this thread's, and Java has been left.
        let exchange = unsafe { &mut *exchange };
        let result = match answered {
            Ok(bytes) if bytes >= 0 => exchange.received(bytes as usize).and_then(|answer| take(host, answer)),
            Ok(_) => Err(self.failure(exchange)),
            Err(()) => Err(self.pending(exchange)),
        };
        exchange.end_call();
        result
    }
}

impl Procedure {
    #[cold]
    fn failure(&self, exchange: &mut Exchange) -> UserError {
        let text = match self.failure_text(exchange) {
            Ok(text) => text,
            Err(_) => return self.pending(exchange),
        };
        let (kind, words) = text.split_at_checked(1).unwrap_or(("E", ""));
        match (kind, exchange.error.take()) {
            ("A", _) => UserError::new(ErrorKind::UserAbort, "45000", words.to_owned()),
            ("S", Some(error)) => {
                let frames = words.trim_start_matches('\n');
                let detail = error.detail().map_or_else(|| frames.to_owned(), |detail| format!("{detail}\n{frames}"));
                if frames.is_empty() { error } else { error.with_detail(detail) }
            }
            _ => UserError::new(ErrorKind::Internal, "38000", format!("procedure {} failed: {words}", self.name)),
        }
    }

    fn failure_text(&self, exchange: &Exchange) -> jni::errors::Result<String> {
        // SAFETY: the environment is this thread's.
        let mut env = unsafe { JNIEnv::from_raw(exchange.env)? };
        env.with_local_frame(8, |env| {
            let arguments = [jvalue { l: exchange.object.as_raw() }];
            // SAFETY: the arguments are those of the method's signature.
            let text = unsafe {
                env.call_static_method_unchecked(
                    self.machine.bridge_class(),
                    self.machine.failure,
                    ReturnType::Object,
                    &arguments,
                )?
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
    fn pending(&self, exchange: &mut Exchange) -> UserError {
        // SAFETY: the environment is this thread's.
        if let Ok(env) = unsafe { JNIEnv::from_raw(exchange.env) } {
            let _ = env.exception_clear();
        }
        UserError::new(
            ErrorKind::Internal,
            "38000",
            format!("procedure {} failed, and so did Java's report of it", self.name),
        )
        .with_hint("its memory may be used up: see -Xmx in --java-options")
    }
}

/// A value for a `Decoder` of the Java side.
fn encode(out: &mut Vec<u8>, value: &Value<'_>) -> UserResult<()> {
    let failed = |error| unusable(&format_args!("a parameter cannot be handed to it: {error}"));
    let Value::Array(elements) = value else { return write_value(out, value).map_err(failed) };
    out.push(CODE_ARRAY as u8);
    out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
    elements.iter().try_for_each(|element| write_value(out, element).map_err(failed))
}

/// The answer that Java has left: status, its text, tables.
fn take(host: &mut dyn Host, answer: &[u8]) -> UserResult<()> {
    let damaged = || UserError::internal("Java left an answer that is damaged");
    let (status, rest) = answer.split_first().ok_or_else(damaged)?;
    let (length, mut rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let mut text = None;
    if let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) {
        let (words, tables) = rest.split_at_checked(length).ok_or_else(damaged)?;
        text = Some(std::str::from_utf8(words).map_err(|_| damaged())?);
        rest = tables;
    }
    let status = *status as i8;
    if status != STATUS_NOT_SET || text.is_some() {
        host.status(status, text);
    }
    host.answer(rest)
}

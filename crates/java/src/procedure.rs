//! One call of a Java procedure: parameters over, results or the failure back.

use crate::exchange::{self, Exchange, Purpose};
use crate::failure;
use crate::loader::Loader;
use crate::machine::{Machine, unusable};
use ferrite_base::{UserError, UserResult};
use ferrite_plan::external::{Body, Host};
use ferrite_value::Value;
use ferrite_wire::parameters::write_value;
use ferrite_wire::scalar::CODE_ARRAY;
use jni::objects::GlobalRef;
use jni::sys::jvalue;
use std::fmt;
use std::sync::Arc;

/// The partition that Java code is told of when it runs on all of them.
const ALL_PARTITIONS: i32 = 16_383;
/// The answer's status byte when the procedure has set none.
const STATUS_NOT_SET: i8 = -128;

/// A class that is a procedure.
pub(crate) struct Procedure {
    pub machine: Arc<Machine>,
    /// `org.voltdb.ProcedureClass`; keeps the class, and its loader, alive.
    pub class: GlobalRef,
    pub name: String,
    pub _loader: Loader,
}

impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Java class {}", self.name)
    }
}

impl Body for Procedure {
    fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()> {
        let machine = &*self.machine;
        let exchange = exchange::of_this_thread(machine, Purpose::Procedure)?;
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
            // SAFETY: this thread's environment, and arguments of the method's signature.
            unsafe { machine.enter(env, machine.run, &arguments) }
        });
        // SAFETY: the exchange is this thread's, and Java has been left.
        let exchange = unsafe { &mut *exchange };
        let what = format_args!("procedure {}", self.name);
        let result = match answered {
            Some(bytes) if bytes >= 0 => {
                exchange.read_request(bytes as usize).and_then(|answer| apply_answer(host, answer))
            }
            Some(_) => Err(failure::thrown(machine, exchange, &what)),
            None => Err(failure::pending(exchange, &what)),
        };
        exchange.end_call();
        result
    }
}

/// A value for a `Decoder` of the Java side.
pub(crate) fn encode(out: &mut Vec<u8>, value: &Value<'_>) -> UserResult<()> {
    let failed = |error| unusable(&format_args!("a parameter cannot be handed to it: {error}"));
    let Value::Array(elements) = value else { return write_value(out, value).map_err(failed) };
    out.push(CODE_ARRAY as u8);
    out.extend_from_slice(&(elements.len() as u32).to_be_bytes());
    elements.iter().try_for_each(|element| write_value(out, element).map_err(failed))
}

/// The answer that Java has left: status, its text, tables.
fn apply_answer(host: &mut dyn Host, answer: &[u8]) -> UserResult<()> {
    let (status, text, tables) = left_status(answer)?;
    if status.is_some() || text.is_some() {
        host.status(status.unwrap_or(STATUS_NOT_SET), text);
    }
    host.answer(tables)
}

/// The status that a procedure has set, its text, and the tables behind them.
pub(crate) fn left_status(answer: &[u8]) -> UserResult<(Option<i8>, Option<&str>, &[u8])> {
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
    Ok(((status != STATUS_NOT_SET).then_some(status), text, rest))
}

//! Calls of user-defined functions: arguments over, a value back. No SQL runs meanwhile.

use crate::exchange::{self, Exchange, Purpose};
use crate::failure;
use crate::loader::Loader;
use crate::machine::Machine;
use crate::procedure::encode;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_expr::Code;
use ferrite_value::{ColumnType, OwnedValue, SqlType, Value, convert};
use ferrite_wire::{Reader, scalar};
use jni::objects::{GlobalRef, JStaticMethodID};
use jni::sys::{jint, jlong, jvalue};
use std::sync::Arc;

/// A method, or a class that aggregates.
pub(crate) struct Function {
    pub machine: Arc<Machine>,
    /// `org.voltdb.FunctionClass`; keeps the class, and its loader, alive.
    pub class: GlobalRef,
    pub name: String,
    pub result: SqlType,
    pub _loader: Loader,
}

impl Code for Function {
    fn call<'a>(&self, arguments: &[Value<'_>], arena: &'a Bump) -> UserResult<Value<'a>> {
        let write = |out: &mut Vec<u8>| arguments.iter().try_for_each(|value| encode(out, value));
        self.cross(self.machine.call, None, write, arena)
    }

    fn aggregate<'a>(&self, values: &[OwnedValue], arguments: usize, arena: &'a Bump) -> UserResult<Value<'a>> {
        let write = |out: &mut Vec<u8>| values.iter().try_for_each(|value| encode(out, &value.as_value()));
        let rows = values.len() / arguments.max(1);
        let rows = jint::try_from(rows).map_err(|_| UserError::limit(format!("{} over {rows} rows", self.name)))?;
        self.cross(self.machine.aggregate, Some(rows), write, arena)
    }
}

impl Function {
    fn cross<'a>(
        &self,
        method: JStaticMethodID,
        rows: Option<jint>,
        write: impl FnOnce(&mut Vec<u8>) -> UserResult<()>,
        arena: &'a Bump,
    ) -> UserResult<Value<'a>> {
        let machine = &*self.machine;
        let exchange = exchange::of_this_thread(machine, Purpose::Function)?;
        // SAFETY: the exchange is this thread's; the reference ends with the statement, before Java
        // may ask for other buffers.
        let (sent, env, object): (jlong, _, _) = unsafe {
            let exchange = &mut *exchange;
            (exchange.send(write)?, exchange.env, exchange.object.as_raw())
        };
        let arguments = [
            jvalue { l: self.class.as_raw() },
            jvalue { l: object },
            jvalue { j: sent },
            jvalue { i: rows.unwrap_or(0) },
        ];
        // SAFETY: this thread's environment, and arguments of the method's signature, which for a
        // scalar function is without the last.
        let answered = unsafe { machine.enter(env, method, &arguments) };
        // SAFETY: the exchange is this thread's, and Java has been left.
        let exchange = unsafe { &mut *exchange };
        let what = format_args!("function {}", self.name);
        let result = match answered {
            Some(bytes) if bytes >= 0 => self.value(exchange, bytes as usize, arena),
            Some(_) => Err(failure::thrown(machine, exchange, &what)),
            None => Err(failure::pending(exchange, &what)),
        };
        exchange.end_call();
        result
    }

    /// What Java has left: a type code, and the value unless it is NULL.
    fn value<'a>(&self, exchange: &Exchange, bytes: usize, arena: &'a Bump) -> UserResult<Value<'a>> {
        let damaged = |_| UserError::internal("Java left a function's value that is damaged");
        let mut reader = Reader::new(exchange.read_request(bytes)?);
        let code = reader.i8().map_err(damaged)?;
        if code == scalar::CODE_NULL {
            return Ok(Value::Null);
        }
        let value = scalar::read(&mut reader, code).map_err(damaged)?;
        let value = convert::to_declared(value, &ColumnType::unbounded(self.result), arena)
            .map_err(|error| error.in_context(format_args!("the value of function {}", self.name)))?;
        Ok(value.copied_to(arena))
    }
}

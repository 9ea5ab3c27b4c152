//! Calls of procedures outside of transactions, compound ones and those with futures: parameters
//! over, then stage after stage the answers over and what the stage wants back.

use crate::exchange::{self, Purpose};
use crate::failure;
use crate::loader::Loader;
use crate::machine::{Machine, unusable};
use crate::procedure::{encode, left_status};
use crate::waker_registry::RegisteredWaker;
use ferrite_base::{UserError, UserResult};
use ferrite_plan::external::{Answer, AnsweredAs, Compound, Ended, QueuedCall, Stage, Stages};
use ferrite_value::Value;
use ferrite_wire::Reader;
use jni::JNIEnv;
use jni::objects::GlobalRef;
use jni::signature::{Primitive, ReturnType};
use jni::sys::{jint, jvalue};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// A class that is such a procedure.
pub(crate) struct CompoundClass {
    pub machine: Arc<Machine>,
    /// `org.voltdb.ProcedureClass`; keeps the class, and its loader, alive.
    pub class: GlobalRef,
    pub name: String,
    pub _loader: Loader,
}

impl fmt::Debug for CompoundClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Java class {}", self.name)
    }
}

/// A call that has begun.
struct Going {
    machine: Arc<Machine>,
    class: GlobalRef,
    name: String,
    /// `org.voltdb.StagedCall`.
    object: GlobalRef,
    _waker: RegisteredWaker,
}

impl Compound for CompoundClass {
    fn begin(&self, parameters: &[Value<'_>], calls_max: usize, waker: &Waker) -> UserResult<Box<dyn Stages>> {
        let machine = &*self.machine;
        let exchange = exchange::of_this_thread(machine, Purpose::Procedure)?;
        // SAFETY: the exchange is this thread's; the reference ends with the statement, before Java
        // may ask for other buffers.
        let (sent, env, object) = unsafe {
            let exchange = &mut *exchange;
            let sent = exchange.send(|out| parameters.iter().try_for_each(|value| encode(out, value)))?;
            (sent, exchange.env, exchange.object.as_raw())
        };
        let waker = RegisteredWaker::register(waker);
        let arguments = [
            jvalue { l: self.class.as_raw() },
            jvalue { l: object },
            jvalue { j: sent },
            jvalue { i: jint::try_from(calls_max).unwrap_or(jint::MAX) },
            jvalue { j: waker.0 },
        ];
        let what = format_args!("procedure {}", self.name);
        let begun = call_compound(machine, env, &arguments);
        // SAFETY: the exchange is this thread's, and Java has been left.
        let exchange = unsafe { &mut *exchange };
        let result: UserResult<Box<dyn Stages>> = match begun {
            Ok(Some(object)) => {
                let machine = Arc::clone(&self.machine);
                let class = self.class.clone();
                Ok(Box::new(Going { machine, class, name: self.name.clone(), object, _waker: waker }))
            }
            Ok(None) => Err(failure::thrown(machine, exchange, &what)),
            Err(jni::errors::Error::JavaException) => Err(failure::pending(exchange, &what)),
            Err(error) => Err(unusable(&error)),
        };
        exchange.end_call();
        result
    }
}

/// None: it failed, and Java says how when it is asked.
fn call_compound(
    machine: &Machine,
    env: *mut jni::sys::JNIEnv,
    arguments: &[jvalue],
) -> jni::errors::Result<Option<GlobalRef>> {
    // SAFETY: the environment is this thread's.
    let mut env = unsafe { JNIEnv::from_raw(env)? };
    env.with_local_frame(8, |env| {
        // SAFETY: the arguments are those of the method's signature.
        let object = unsafe {
            env.call_static_method_unchecked(machine.bridge_class(), machine.compound, ReturnType::Object, arguments)?
        };
        let object = object.l()?;
        if object.is_null() { Ok(None) } else { env.new_global_ref(object).map(Some) }
    })
}

impl Stages for Going {
    fn next(&mut self, answers: &[Answer]) -> UserResult<Stage> {
        let machine = &*self.machine;
        let exchange = exchange::of_this_thread(machine, Purpose::Procedure)?;
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(&(answers.len() as u32).to_be_bytes());
            for answer in answers {
                out.extend_from_slice(&answer.call.to_be_bytes());
                out.extend_from_slice(&answer.nanos.to_be_bytes());
                out.extend_from_slice(&(answer.body.len() as u32).to_be_bytes());
                out.extend_from_slice(&answer.body);
            }
            match i32::try_from(out.len()) {
                Ok(_) => Ok(()),
                Err(_) => {
                    Err(UserError::limit(format!("the answers to one stage's calls of {} are too large", self.name)))
                }
            }
        };
        // SAFETY: as in `begin`.
        let (sent, env, object) = unsafe {
            let exchange = &mut *exchange;
            (exchange.send(write)?, exchange.env, exchange.object.as_raw())
        };
        let arguments = [
            jvalue { l: self.class.as_raw() },
            jvalue { l: self.object.as_raw() },
            jvalue { l: object },
            jvalue { j: sent },
        ];
        // SAFETY: this thread's environment, and arguments of the method's signature.
        let answered = unsafe { machine.enter(env, machine.stage, &arguments) };
        // SAFETY: the exchange is this thread's, and Java has been left.
        let exchange = unsafe { &mut *exchange };
        let what = format_args!("procedure {}", self.name);
        let result = match answered {
            Some(bytes) if bytes >= 0 => exchange.read_request(bytes as usize).and_then(read),
            Some(_) => Err(failure::thrown(machine, exchange, &what)),
            None => Err(failure::pending(exchange, &what)),
        };
        exchange.end_call();
        result
    }
}

impl Drop for Going {
    /// Lets those go who wait for an answer that does not come any more.
    fn drop(&mut self) {
        let Ok(exchange) = exchange::of_this_thread(&self.machine, Purpose::Procedure) else { return };
        // SAFETY: the exchange, and so the environment, is this thread's.
        let Ok(mut env) = (unsafe { JNIEnv::from_raw((*exchange).env) }) else { return };
        let bridge = self.machine.bridge_class();
        let over = self.machine.over;
        let arguments = [jvalue { l: self.object.as_raw() }];
        // SAFETY: the arguments are those of the method's signature.
        let told = unsafe {
            env.call_static_method_unchecked(bridge, over, ReturnType::Primitive(Primitive::Void), &arguments)
        };
        if told.is_err() {
            let _ = env.exception_clear();
        }
    }
}

const COMPLETED: u8 = 1;
const RESTS: u8 = 2;
const ANSWERED: u8 = 3;

/// What `StagedCall.stage` has left.
fn read(bytes: &[u8]) -> UserResult<Stage> {
    let damaged = || UserError::internal("Java left a stage's calls that are damaged");
    let (kind, rest) = bytes.split_first().ok_or_else(damaged)?;
    let mut reader = Reader::new(rest);
    if matches!(*kind, COMPLETED | ANSWERED) {
        let mut answered = None;
        if *kind == ANSWERED {
            let status = reader.i8().map_err(|_| damaged())?;
            let text = reader.string().map_err(|_| damaged())?.to_owned();
            let code = reader.string().map_err(|_| damaged())?.to_owned();
            answered = Some(AnsweredAs { status, text, code });
        }
        let (status, text, tables) = left_status(reader.rest())?;
        return Ok(Stage::End(Ended { answered, status, text: text.map(str::to_owned), tables: tables.to_vec() }));
    }
    let read = |reader: &mut Reader<'_>| -> Result<Vec<QueuedCall>, ferrite_wire::DecodeError> {
        let count = reader.i16()?;
        let mut calls = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            let procedure = reader.string()?.to_owned();
            let partition = Some(reader.i32()?).filter(|partition| *partition >= 0);
            let length = reader.i32()?;
            let parameters = reader.raw_bytes(usize::try_from(length).unwrap_or(0))?.to_vec();
            calls.push(QueuedCall { procedure, partition, parameters });
        }
        Ok(calls)
    };
    let calls = read(&mut reader).map_err(|_| damaged())?;
    Ok(if *kind == RESTS { Stage::Rests(calls) } else { Stage::Calls(calls) })
}

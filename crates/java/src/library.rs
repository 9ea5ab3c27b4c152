//! The classes of a catalog version in the JVM, and what they say of the procedures that they are.

use crate::compound::CompoundClass;
use crate::function::Function;
use crate::loader::Loader;
use crate::machine::{Machine, unusable};
use crate::procedure::Procedure;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Classes;
use ferrite_expr::{Code, UserFunction};
use ferrite_plan::Parameter;
use ferrite_plan::external::{Compound, Description, Library, RoutineBody, Runtime};
use ferrite_value::{ColumnType, SqlType};
use ferrite_wire::scalar::CODE_TABLE;
use jni::JNIEnv;
use jni::objects::{GlobalRef, JObject, JObjectArray, JString};
use jni::signature::ReturnType;
use jni::sys::jvalue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub(crate) struct JavaRuntime {
    options: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    machine: Option<Arc<Machine>>,
    /// The classes that were loaded last, as long as somebody uses them: a schema change that
    /// leaves them alone loads nothing.
    last: Option<(Classes, Weak<JavaLibrary>)>,
}

impl JavaRuntime {
    pub fn new(options: Vec<String>) -> JavaRuntime {
        JavaRuntime { options, state: Mutex::default() }
    }
}

impl Runtime for JavaRuntime {
    fn load(&self, classes: &Classes) -> UserResult<Arc<dyn Library>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, library)) = &state.last
            && known == classes
            && let Some(library) = library.upgrade()
        {
            return Ok(library);
        }
        let machine = match &state.machine {
            Some(machine) => Arc::clone(machine),
            None => {
                let machine = Machine::start(&self.options, &crate::exchange::native_methods())?;
                Arc::clone(state.machine.insert(Arc::new(machine)))
            }
        };
        let loader = in_java(&machine, |env| {
            let jar = env.byte_array_from_slice(&classes.jar())?;
            let arguments = [jvalue { l: jar.as_raw() }];
            // SAFETY: the arguments are those of the method's signature.
            let loader = unsafe {
                env.call_static_method_unchecked(machine.bridge_class(), machine.load, ReturnType::Object, &arguments)?
            };
            env.new_global_ref(loader.l()?)
        })?;
        let texts = classes.mention(&RUN_TEXTS);
        let library =
            Arc::new_cyclic(|me| JavaLibrary { machine, loader, texts, described: Mutex::default(), me: me.clone() });
        state.last = Some((classes.clone(), Arc::downgrade(&library)));
        Ok(library)
    }
}

/// Methods that run SQL that is made up. Whoever calls them, by reflection too, has their names.
const RUN_TEXTS: [&str; 2] = ["voltQueueSQLExperimental", "voltLoadTable"];

/// A class loader, and what has been asked of it.
pub(crate) struct JavaLibrary {
    machine: Arc<Machine>,
    loader: GlobalRef,
    /// Some class knows the name of a method that runs SQL that is made up.
    texts: bool,
    /// By class name. A procedure keeps its library alive, and the programs of a catalog version
    /// their procedures.
    described: Mutex<HashMap<String, Weak<Procedure>>>,
    me: Weak<JavaLibrary>,
}

impl JavaLibrary {
    fn loader(&self) -> Loader {
        Loader::of(self.me.upgrade())
    }
}

impl Library for JavaLibrary {
    fn describe(&self, class: &str) -> UserResult<Description> {
        let (procedure, lines) = in_java(&self.machine, |env| {
            let name = env.new_string(class)?;
            let arguments = [jvalue { l: self.loader.as_raw() }, jvalue { l: name.as_raw() }];
            let bridge = self.machine.bridge_class();
            // SAFETY: the arguments are those of the method's signature.
            let found = unsafe {
                env.call_static_method_unchecked(bridge, self.machine.describe, ReturnType::Object, &arguments)?.l()?
            };
            if env.is_instance_of(&found, "java/lang/String")? {
                return Ok(Err(env.get_string(&JString::from(found))?.into()));
            }
            let arguments = [jvalue { l: found.as_raw() }];
            // SAFETY: the arguments are those of the method's signature.
            let lines = unsafe {
                env.call_static_method_unchecked(bridge, self.machine.description, ReturnType::Object, &arguments)?
                    .l()?
            };
            let lines = strings(env, lines)?;
            Ok(Ok((env.new_global_ref(found)?, lines)))
        })?
        .map_err(unfit)?;
        let kind = lines.first().map_or("", String::as_str);
        if matches!(kind, "compound" | "futures") {
            let futures = kind == "futures";
            let machine = Arc::clone(&self.machine);
            let loader = self.loader();
            let body = CompoundClass { machine, class: procedure, name: class.to_owned(), _loader: loader };
            let body: Arc<dyn Compound> = Arc::new(body);
            let body = if futures { RoutineBody::NonTransactional(body) } else { RoutineBody::Compound(body) };
            return read_description(lines, body, false);
        }
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let body = described.get(class).and_then(Weak::upgrade).unwrap_or_else(|| {
            let machine = Arc::clone(&self.machine);
            let loader = self.loader();
            let body = Arc::new(Procedure { machine, class: procedure, name: class.to_owned(), _loader: loader });
            described.insert(class.to_owned(), Arc::downgrade(&body));
            body
        });
        read_description(lines, RoutineBody::Transaction(body), self.texts)
    }

    fn function(&self, function: &UserFunction) -> UserResult<Arc<dyn Code>> {
        let class = in_java(&self.machine, |env| {
            let class = env.new_string(&function.class)?;
            let method = env.new_string(function.method.as_deref().unwrap_or_default())?;
            let arguments =
                [jvalue { l: self.loader.as_raw() }, jvalue { l: class.as_raw() }, jvalue { l: method.as_raw() }];
            let bridge = self.machine.bridge_class();
            // SAFETY: the arguments are those of the method's signature.
            let found = unsafe {
                env.call_static_method_unchecked(bridge, self.machine.function, ReturnType::Object, &arguments)?.l()?
            };
            if env.is_instance_of(&found, "java/lang/String")? {
                return Ok(Err(env.get_string(&JString::from(found))?.into()));
            }
            Ok(Ok(env.new_global_ref(found)?))
        })?
        .map_err(unfit)?;
        let machine = Arc::clone(&self.machine);
        let loader = self.loader();
        Ok(Arc::new(Function { machine, class, name: function.name.clone(), result: function.result, _loader: loader }))
    }
}

/// The bridge says why a class cannot be used.
fn unfit(reason: String) -> UserError {
    let error = UserError::ddl("42P13", reason.clone());
    crate::failure::hinted(error, &reason)
}

fn strings(env: &mut JNIEnv<'_>, array: JObject<'_>) -> jni::errors::Result<Vec<String>> {
    let array = JObjectArray::from(array);
    let count = env.get_array_length(&array)?;
    let mut lines = Vec::with_capacity(count as usize);
    for index in 0..count {
        let line = JString::from(env.get_object_array_element(&array, index)?);
        lines.push(env.get_string(&line)?.into());
        env.delete_local_ref(line)?;
    }
    Ok(lines)
}

/// The lines of `ProcedureClass.description`.
fn read_description(lines: Vec<String>, body: RoutineBody, texts: bool) -> UserResult<Description> {
    let damaged = || UserError::internal("the bridge's description of a class is damaged");
    // The first said what kind of body it is.
    let mut lines = lines.into_iter().skip(1);
    let mut next = || lines.next().ok_or_else(damaged);
    let count: usize = next()?.parse().map_err(|_| damaged())?;
    let mut parameters = Vec::with_capacity(count);
    for _ in 0..count {
        let line = next()?;
        let (array, code) = match line.strip_prefix('[') {
            Some(code) => (true, code),
            None => (false, line.as_str()),
        };
        let code: i8 = code.parse().map_err(|_| damaged())?;
        let table = code == CODE_TABLE;
        let sql_type = if table { SqlType::Varbinary } else { SqlType::from_code(code).ok_or_else(damaged)? };
        parameters.push(Parameter { name: None, column_type: ColumnType::unbounded(sql_type), array, table });
    }
    let partition_info = Some(next()?).filter(|info| !info.is_empty());
    let mut statements = Vec::new();
    while let Ok(field) = next() {
        statements.push((field, next()?));
    }
    Ok(Description { parameters, statements, partition_info, texts, body })
}

/// Runs `ask` on a thread that is attached, and frees its local references. An exception is an
/// error that says which.
fn in_java<R>(machine: &Machine, ask: impl FnOnce(&mut JNIEnv<'_>) -> jni::errors::Result<R>) -> UserResult<R> {
    crate::signal_stack::own_stack_for_signals();
    let mut env = machine.vm.attach_current_thread().map_err(|error| unusable(&error))?;
    let result = env.with_local_frame(64, ask);
    result.map_err(|error| {
        let Ok(exception) = env.exception_occurred() else { return unusable(&error) };
        let _ = env.exception_clear();
        if exception.is_null() {
            return unusable(&error);
        }
        let words = env
            .call_method(&exception, "toString", "()Ljava/lang/String;", &[])
            .and_then(|words| words.l())
            .and_then(|words| env.get_string(&JString::from(words)).map(String::from));
        // What it says of itself may fail, too.
        let _ = env.exception_clear();
        UserError::ddl("42P13", words.unwrap_or_else(|_| "an exception without words".to_owned()))
    })
}

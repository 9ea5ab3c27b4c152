//! Functions that users bring, whose code is written in another language: what an expression needs
//! to know of them.
//!
//! Owns the signature and the place for the code, which is put there when the catalog version that
//! the function belongs to is compiled. Knows no language.

use crate::checks::check_length;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::{OwnedValue, SqlType, Value};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

/// The code of a function. Called by many threads at once.
pub trait Code: Send + Sync {
    /// The function's value for arguments of the declared types. Text and bytes are copied to
    /// `arena`.
    fn call<'a>(&self, arguments: &[Value<'_>], arena: &'a Bump) -> UserResult<Value<'a>>;

    /// An aggregate's value over rows, the arguments of which stand in `values` one after the
    /// other.
    fn aggregate<'a>(&self, values: &[OwnedValue], arguments: usize, arena: &'a Bump) -> UserResult<Value<'a>>;
}

/// A function, scalar or aggregate, as it is declared and as its class says.
pub struct UserFunction {
    /// In upper case.
    pub name: String,
    /// As Java writes it.
    pub class: String,
    /// None: an aggregate, which is its whole class.
    pub method: Option<String>,
    pub parameters: Vec<SqlType>,
    pub result: SqlType,
    code: OnceLock<Arc<dyn Code>>,
    /// Why there is no code.
    trouble: OnceLock<UserError>,
}

impl UserFunction {
    pub fn new(name: String, class: String, method: Option<String>, parameters: Vec<SqlType>, result: SqlType) -> Self {
        let code = OnceLock::new();
        let trouble = OnceLock::new();
        UserFunction { name, class, method, parameters, result, code, trouble }
    }

    pub fn is_aggregate(&self) -> bool {
        self.method.is_none()
    }

    /// Whether its code is there.
    pub fn is_linked(&self) -> bool {
        self.code.get().is_some()
    }

    /// Once; later calls change nothing.
    pub fn link(&self, code: Arc<dyn Code>) {
        let _ = self.code.set(code);
    }

    /// Calls will fail with this until there is code.
    pub fn cannot_be_linked(&self, error: UserError) {
        let _ = self.trouble.set(error);
    }

    /// Why it could not be had.
    pub fn trouble(&self) -> Option<&UserError> {
        self.trouble.get().filter(|_| !self.is_linked())
    }

    fn code(&self) -> UserResult<&dyn Code> {
        self.code.get().map(|code| &**code).ok_or_else(|| self.unlinked())
    }

    #[cold]
    fn unlinked(&self) -> UserError {
        let trouble = self.trouble.get().cloned();
        trouble
            .unwrap_or_else(|| UserError::internal("its class is not loaded in this program"))
            .in_context(format_args!("function {}", self.name))
    }

    pub(crate) fn call<'a>(&self, arguments: &[Value<'_>], arena: &'a Bump) -> UserResult<Value<'a>> {
        self.code()?.call(arguments, arena).and_then(within_size)
    }
}

/// A function's value is no longer than any other.
fn within_size(value: Value<'_>) -> UserResult<Value<'_>> {
    match value {
        Value::Text(text) => check_length(text.len())?,
        Value::Bytes(bytes) | Value::Geography(bytes) => check_length(bytes.len())?,
        _ => {}
    }
    Ok(value)
}

/// Without the code: two functions that are declared alike over the same class look alike.
impl fmt::Debug for UserFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserFunction")
            .field("name", &self.name)
            .field("class", &self.class)
            .field("method", &self.method)
            .field("parameters", &self.parameters)
            .field("result", &self.result)
            .finish()
    }
}

/// What is put into it once is whole.
impl RefUnwindSafe for UserFunction {}
impl UnwindSafe for UserFunction {}

impl PartialEq for UserFunction {
    fn eq(&self, other: &UserFunction) -> bool {
        (&self.name, &self.class, &self.method, &self.parameters, self.result)
            == (&other.name, &other.class, &other.method, &other.parameters, other.result)
    }
}

/// The arguments of an aggregate's rows, until the group is complete.
#[derive(Clone, Debug)]
pub struct Gathered {
    function: Arc<UserFunction>,
    values: Vec<OwnedValue>,
}

impl Gathered {
    pub(crate) fn new(function: Arc<UserFunction>) -> Gathered {
        Gathered { function, values: Vec::new() }
    }

    /// One row's arguments: [`crate::Function::Together`]'s. A row with a NULL among them does not
    /// count.
    pub(crate) fn add(&mut self, row: Value<'_>) {
        match row {
            Value::Array(values) if !values.iter().any(Value::is_null) => {
                self.values.extend(values.iter().map(Value::to_owned_value));
            }
            _ => {}
        }
    }

    pub(crate) fn merge(&mut self, other: &Gathered) {
        self.values.extend_from_slice(&other.values);
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn result<'a>(&self, arena: &'a Bump) -> UserResult<Value<'a>> {
        let value = self.function.code()?.aggregate(&self.values, self.function.parameters.len(), arena);
        value.and_then(within_size)
    }
}

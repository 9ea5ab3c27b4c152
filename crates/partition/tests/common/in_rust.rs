//! Classes whose procedures are written in Rust, in the place of a JVM.

use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Classes;
use ferrite_expr::{Code, UserFunction};
use ferrite_plan::external::{Description, Library, Runtime, RuntimeHandle};
use std::sync::Arc;

/// What the class of that name is. There are no functions among them.
type Describe = fn(&str) -> UserResult<Description>;

/// For which the classes of every jar are what `describe` says.
pub fn runtime(describe: Describe) -> RuntimeHandle {
    RuntimeHandle::new(InRust(describe))
}

struct InRust(Describe);

impl Runtime for InRust {
    fn load(&self, _: &Classes) -> UserResult<Arc<dyn Library>> {
        Ok(Arc::new(InRust(self.0)))
    }
}

impl Library for InRust {
    fn function(&self, function: &UserFunction) -> UserResult<Arc<dyn Code>> {
        Err(UserError::not_found(&function.class))
    }

    fn describe(&self, class: &str) -> UserResult<Description> {
        (self.0)(class)
    }
}

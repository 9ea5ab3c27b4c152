//! Panics in a call: undone where undo is known to be sound, the end of the process otherwise
//! (docs/decisions/0022-panics.md).

use ferrite_base::{UserError, UserResult, fault};
use ferrite_exec::{Marks, roll_back};
use ferrite_notice::Notice;
use ferrite_table::Store;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Within a call something other than executing is in progress, which must not be left half done: a
/// panic in it ends the process.
#[derive(Default)]
pub(crate) struct Outside(Cell<bool>);

impl Outside {
    pub(crate) fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        self.0.set(true);
        let result = body();
        self.0.set(false);
        result
    }

    /// Executing continues within what [`Outside::run`] runs.
    pub(crate) fn inside<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.0.replace(false);
        let result = body();
        self.0.set(before);
        result
    }
}

/// Runs `body`, which executes on `stores` for the program `name`. After it panics the stores are
/// as they were at `marks`, and the result reports it. The panic continues where that is not
/// possible.
#[inline(always)]
pub(crate) fn contained<T>(
    stores: &mut [Store],
    marks: impl FnOnce(&[Store]) -> Marks,
    outside: &Outside,
    name: &str,
    body: impl FnOnce(&mut [Store]) -> UserResult<T>,
) -> UserResult<T> {
    match catch_unwind(AssertUnwindSafe(|| body(stores))) {
        Ok(result) => result,
        Err(panic) => Err(undo(stores, marks, outside, name, panic)),
    }
}

#[cold]
#[inline(never)]
fn undo(
    stores: &mut [Store],
    marks: impl FnOnce(&[Store]) -> Marks,
    outside: &Outside,
    name: &str,
    panic: Box<dyn Any + Send>,
) -> UserError {
    let mut sound = !outside.0.get();
    for store in stores.iter_mut() {
        sound &= store.recover();
    }
    if !sound {
        ferrite_io::notify(Notice::FaultNotContained { procedure: name.to_owned() });
        resume_unwind(panic);
    }
    let marks = marks(stores);
    roll_back(stores, marks);
    if fault::contain() {
        ferrite_io::notify(Notice::FaultContained { procedure: name.to_owned() });
    }
    UserError::internal(format!("internal error in {name}; the call was rolled back"))
        .with_hint("please report it, with the messages in the server's log")
}

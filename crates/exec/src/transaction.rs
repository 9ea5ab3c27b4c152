//! The door: runs a call's program on the stores, as a transaction.

use crate::call::{Call, ResultSink, Scratch};
use crate::marks::{roll_back, set_marks};
use crate::run::Run;
use ferrite_base::UserResult;
use ferrite_table::Store;
use ferrite_value::Value;

/// Runs a call's program, all or nothing: after an error the stores are as before. Commit and redo
/// stay with the caller.
pub fn run_transaction(
    stores: &mut [Store],
    call: &Call<'_>,
    scratch: &mut Scratch,
    sink: &mut impl ResultSink,
) -> UserResult<()> {
    if let [store] = stores {
        let mark = store.mark();
        let result = run(stores, call, scratch, sink);
        if result.is_err() {
            stores[0].rollback_to(mark);
        }
        return result;
    }
    let marks = set_marks(stores);
    let result = run(stores, call, scratch, sink);
    if result.is_err() {
        roll_back(stores, marks);
    }
    result
}

/// Runs the program on `stores`: one partition's for a single-partition call, all partitions' for
/// the others. The caller sets marks before, and after an error rolls all stores back to them, as
/// [`run_transaction`] does. It goes on in [`Run::steps`], in `procedure.rs`.
pub fn run(stores: &mut [Store], call: &Call<'_>, scratch: &mut Scratch, sink: &mut impl ResultSink) -> UserResult<()> {
    let program = call.program;
    assert_eq!(program.parameters.len(), call.parameters.len(), "parameters were matched with the declaration");
    let registers = call.arena.alloc_slice_fill_copy(program.registers.len(), Value::Null);
    Run::new(stores, call, registers, scratch).steps(&program.body, sink)?;
    Ok(())
}

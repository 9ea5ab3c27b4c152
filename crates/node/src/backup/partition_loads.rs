//! Rows of a restore for one partition, which the node that restores has sent to the node that
//! leads the partition's group.

use super::answers::of_group;
use crate::load::program_call;
use crate::message::look_up_again;
use crate::routes;
use crate::submit::Submit;
use ferrite_base::{GroupId, PartitionId, UserError, UserResult};
use ferrite_partition::{Event, Reply};
use ferrite_value::Value;
use std::sync::Arc;

/// The call by which a partition gets rows; only nodes make it.
pub const OF_PARTITION: &str = "@RestoreGroup";

/// `@RestoreGroup(group, partition, table, rows)`: this node, which leads the group, inserts rows
/// that are the partition's.
pub fn load(submit: &Arc<Submit>, parameters: &[Value<'_>], body: &[u8], reply: &Reply) -> UserResult<()> {
    let unknown = || UserError::parameters("@RestoreGroup takes a group, one of its partitions, a table, and rows");
    let [Value::Integer(group), Value::Integer(partition), Value::Text(table), Value::Table(rows)] = parameters else {
        return Err(unknown());
    };
    let group = GroupId(u32::try_from(*group).map_err(|_| unknown())?);
    let partition = PartitionId(u32::try_from(*partition).map_err(|_| unknown())?);
    if !submit.routes.table().partitions_of(group).any(|own| own == partition) {
        return Err(of_group(group, unknown()));
    }
    submit.mode.admit(false, true)?;
    let compiled = submit.schemas.of(group).ok_or_else(routes::not_here)?;
    let insert = compiled.find(&format!("{table}.insert")).ok_or_else(|| UserError::unknown_table(table))?;
    let program = Arc::clone(compiled.program(insert));
    let retry = look_up_again(&submit.system, &compiled, body, reply);
    let call = program_call(program, compiled, rows.to_vec(), None, reply.clone(), retry);
    // One that is not here has answered.
    let _ = submit.routes.to_partition(partition, Event::Program(Box::new(call)));
    Ok(())
}

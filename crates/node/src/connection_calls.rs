//! Parameters of the system procedures about connections, which network threads answer themselves.

use crate::connection;
use ferrite_base::UserError;
use ferrite_value::Value;
use ferrite_wire::failure;
use ferrite_wire::invocation::Invocation;

/// What `@Cancel` is about: a connection (none: the caller's) and a handle (none: all calls).
pub fn target(invocation: &Invocation<'_>, host: i32) -> Result<(Option<i64>, Option<i64>), UserError> {
    let number = |index| match invocation.parameters.nth(index) {
        Ok(Some(Value::Integer(number))) => Ok(Some(number)),
        Ok(Some(Value::Null)) => Ok(None),
        _ => Err(UserError::parameters("@Cancel takes the number of a connection and a handle, or the handle only")),
    };
    match invocation.parameters.count() {
        0 => Ok((None, None)),
        1 => Ok((None, number(0)?)),
        2 => {
            let connection = number(0)?;
            if let Some(connection) =
                connection.filter(|connection| connection::host_of(*connection) != i64::from(host))
            {
                let text = format!("connection {connection} is not one of this node: nothing was cancelled");
                return Err(
                    UserError::parameters(text).with_hint("send @Cancel to the node that the connection leads to")
                );
            }
            Ok((connection, number(1)?))
        }
        given => Err(failure::parameter_count("@Cancel", 2, given)),
    }
}

pub fn subscription(invocation: &Invocation<'_>) -> Result<(), UserError> {
    for index in 0..invocation.parameters.count() {
        match invocation.parameters.nth(index) {
            Ok(Some(Value::Text(word))) if word.eq_ignore_ascii_case("TOPOLOGY") => {}
            Ok(Some(Value::Text(word))) => {
                return Err(UserError::parameters(format!("unknown subscription topic {word}"))
                    .with_hint("the only topic is TOPOLOGY"));
            }
            _ => return Err(UserError::parameters("@Subscribe takes strings")),
        }
    }
    Ok(())
}

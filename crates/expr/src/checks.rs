//! What operands and results must be, whatever is computed.

use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;

/// No computed value is longer than a stored one may be.
pub(crate) fn check_length(bytes: usize) -> UserResult<()> {
    if bytes > VALUE_BYTES_MAX {
        return Err(UserError::out_of_range(format!(
            "the result of {bytes} bytes exceeds the {VALUE_BYTES_MAX} bytes that a value may have"
        )));
    }
    Ok(())
}

/// Operands of a kind that the binder should not have let through.
#[cold]
#[inline(never)]
pub(crate) fn mismatch(operation: &str, operands: &[Value<'_>]) -> UserError {
    let kinds: Vec<&str> = operands.iter().map(Value::kind_name).collect();
    // The names of our functions mean nothing to users.
    let is_ours = operation.starts_with(char::is_uppercase) && operation.contains(char::is_lowercase);
    let operation = if is_ours { "a function" } else { operation };
    UserError::compile("42804", format!("{operation} does not take {}", kinds.join(", ")))
        .with_hint("CAST the values to the types that it takes")
}

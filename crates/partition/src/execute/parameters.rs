//! A call's parameters: from the wire to values of the declared types, in an arena that lives as
//! long as the call, with the program that takes their types where there are several.
//!
//! It knows no stores, and runs nothing.

use bumpalo::Bump;
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_plan::{Fitted, Parameter, Program};
use ferrite_value::{SqlType, Value, convert};
use ferrite_wire::{Parameters, failure};

/// Decodes and converts the call's parameters to the declared types, or to those of the program
/// that takes their types.
#[inline]
pub fn decode_parameters<'x>(
    program: &'x Program,
    catalog: &Catalog,
    bytes: &'x [u8],
    drop_first: bool,
    arena: &'x Bump,
) -> UserResult<Fitted<'x>> {
    let mut given = Parameters::parse(bytes).map_err(|error| malformed(program, &error))?;
    if drop_first {
        given = given.without_first().map_err(|error| malformed(program, &error))?;
    }
    let declared = &program.parameters;
    if given.count() != declared.len() {
        if let Some(broken) = program.external.as_ref().and_then(|external| external.broken.clone()) {
            return Err(broken);
        }
        return Err(failure::parameter_count(&program.name, declared.len(), given.count()));
    }
    let values = given.decode(arena).map_err(|error| malformed(program, &error))?;
    as_declared(program, catalog, values, arena)
}

/// Values as a call of the program would have them; their number is the declared one.
#[inline]
fn as_declared<'x>(
    program: &'x Program,
    catalog: &Catalog,
    values: &'x [Value<'x>],
    arena: &'x Bump,
) -> UserResult<Fitted<'x>> {
    // Most calls carry exactly the declared kinds; integers of any width are one kind.
    for (value, parameter) in values.iter().zip(&program.parameters) {
        if !is_as_declared(value, parameter) {
            return fit(program, catalog, values, arena);
        }
    }
    Ok(Fitted { program: None, values })
}

fn fit<'x>(program: &Program, catalog: &Catalog, given: &'x [Value<'x>], arena: &'x Bump) -> UserResult<Fitted<'x>> {
    let Some(variants) = &program.variants else {
        return Ok(Fitted { program: None, values: convert_all(program, given, arena)? });
    };
    let Fitted { program: variant, values } = variants.fit(program, catalog, given, arena);
    let values = convert_all(variant.as_deref().unwrap_or(program), values, arena)?;
    Ok(Fitted { program: variant, values })
}

/// Whether a call with these values would get as far as the program.
pub(crate) fn check_parameters(program: &Program, catalog: &Catalog, values: &[Value<'_>]) -> UserResult<()> {
    if values.len() != program.parameters.len() {
        return Err(failure::parameter_count(&program.name, program.parameters.len(), values.len()));
    }
    as_declared(program, catalog, values, &Bump::new()).map(drop)
}

#[inline]
fn is_as_declared(value: &Value<'_>, parameter: &Parameter) -> bool {
    match (value, parameter.column_type.sql_type) {
        (Value::Integer(_), SqlType::Bigint) => !parameter.array,
        (Value::Bytes(bytes), SqlType::Varbinary) => {
            bytes.len() <= VALUE_BYTES_MAX && !parameter.array && !parameter.table
        }
        (Value::Integer(value), SqlType::Integer) => {
            i32::try_from(*value).is_ok_and(|v| v != i32::MIN) && !parameter.array
        }
        (Value::Integer(value), SqlType::Smallint) => {
            i16::try_from(*value).is_ok_and(|v| v != i16::MIN) && !parameter.array
        }
        _ => false,
    }
}

pub(super) fn convert_all<'x>(program: &Program, given: &[Value<'x>], arena: &'x Bump) -> UserResult<&'x [Value<'x>]> {
    let values = arena.alloc_slice_fill_copy(given.len(), Value::Null);
    for (index, ((slot, value), parameter)) in values.iter_mut().zip(given).zip(&program.parameters).enumerate() {
        let converted = if parameter.array && matches!(value, Value::Null) && program.external.is_some() {
            // Other languages have arrays that are null; lists of SQL are not.
            Ok(Value::Null)
        } else if parameter.table {
            to_table(*value, parameter.array)
        } else if parameter.array {
            convert::to_declared_array(*value, &parameter.column_type, arena)
        } else {
            convert::to_declared(*value, &parameter.column_type, arena)
        };
        *slot = converted.map_err(|error| failure::parameter_type(&program.name, index, error.message()))?;
        check_size(program, index, slot)?;
    }
    Ok(values)
}

/// What a statement is given may come back as a value, and clients refuse larger ones. A body in
/// another language may take more: what it passes on to its statements is checked there.
#[inline]
fn check_size(program: &Program, index: usize, value: &Value<'_>) -> UserResult<()> {
    let bytes = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) | Value::Geography(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes > VALUE_BYTES_MAX && program.external.is_none() { Err(too_long(program, index, bytes)) } else { Ok(()) }
}

/// `index` counts from 0, as for types.
#[cold]
fn too_long(program: &Program, index: usize, bytes: usize) -> UserError {
    UserError::limit(format!("limit of {VALUE_BYTES_MAX} bytes of a value exceeded"))
        .with_detail(format!("parameter {index} of {} has {bytes}", program.name))
        .with_hint("store it in several values, or compress it")
}

/// A table parameter: whole and readable to its last cell, so that a body need not distrust it.
fn to_table(value: Value<'_>, array: bool) -> UserResult<Value<'_>> {
    match value {
        Value::Array(elements) if array => {
            elements.iter().try_for_each(|element| to_table(*element, false).map(drop))?;
            Ok(value)
        }
        Value::Null => Ok(value),
        Value::Table(bytes) if !array => {
            let table = ferrite_wire::Table::parse(bytes).and_then(|table| table.check());
            table.map_err(|error| UserError::parameters(format!("the table is malformed: {error}")))?;
            Ok(value)
        }
        other => {
            let declared = if array { "an array of tables" } else { "a table" };
            Err(UserError::parameters(format!("{} given where {declared} is declared", other.kind_name())))
        }
    }
}

#[cold]
pub(super) fn malformed(program: &Program, detail: &dyn std::fmt::Display) -> UserError {
    UserError::parameters(format!("the parameters of {} are malformed: {detail}", program.name))
        .with_hint("the client and the server disagree about the protocol; use a current client")
}

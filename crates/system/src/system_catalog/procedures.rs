//! Procedures and their parameters, as JDBC metadata describes them. What clients route calls by is
//! in the remarks.
//!
//! It knows compiled programs only: the other objects of the schema are the parent's.

use super::jdbc_types::{java_type, octet_length, precision, radix, scale};
use crate::result::{Cell, SystemTable, cells};
use ferrite_plan::{Parameter, Program, Routing};
use ferrite_value::ColumnType;
use ferrite_value::SqlType::{Integer, Smallint, Varchar};
use std::sync::Arc;

pub(super) fn procedures(programs: &[&Arc<Program>]) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("PROCEDURE_CAT", Varchar),
        ("PROCEDURE_SCHEM", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("RESERVED1", Varchar),
        ("RESERVED2", Varchar),
        ("RESERVED3", Varchar),
        ("REMARKS", Varchar),
        ("PROCEDURE_TYPE", Smallint),
        ("SPECIFIC_NAME", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    for program in programs {
        let name = &program.name;
        answer.row(cells![NULL, NULL, name, NULL, NULL, NULL, procedure_remarks(program), 0, name]);
    }
    answer
}

/// What clients route calls by (wire-protocol 11.6).
pub(super) fn procedure_remarks(program: &Program) -> String {
    let partitioning = match &program.routing {
        Routing::Parameter { index, sql_type } => Some((i32::from(*index), sql_type.code())),
        Routing::Directed => Some((-1, -1)),
        // The server finds these calls' partitions itself, so clients need not send them anywhere
        // in particular.
        Routing::Constant { .. } | Routing::Several { .. } | Routing::Any | Routing::All => None,
        // What it calls may write.
        Routing::Compound => {
            let compound = program.is_compound();
            return format!(r#"{{"compound":{compound},"readOnly":false,"singlePartition":false}}"#);
        }
    };
    let read_only = program.read_only;
    match partitioning {
        Some((parameter, code)) => format!(
            "{{\"compound\":false,\"partitionParameter\":{parameter},\"partitionParameterType\":{code},\
             \"readOnly\":{read_only},\"singlePartition\":true}}"
        ),
        None => format!("{{\"compound\":false,\"readOnly\":{read_only},\"singlePartition\":false}}"),
    }
}

pub(super) fn procedure_columns(programs: &[&Arc<Program>]) -> SystemTable {
    let mut answer = SystemTable::new(&[
        ("PROCEDURE_CAT", Varchar),
        ("PROCEDURE_SCHEM", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("COLUMN_NAME", Varchar),
        ("COLUMN_TYPE", Smallint),
        ("DATA_TYPE", Integer),
        ("TYPE_NAME", Varchar),
        ("PRECISION", Integer),
        ("LENGTH", Integer),
        ("SCALE", Smallint),
        ("RADIX", Smallint),
        ("NULLABLE", Smallint),
        ("REMARKS", Varchar),
        ("COLUMN_DEF", Varchar),
        ("SQL_DATA_TYPE", Integer),
        ("SQL_DATETIME_SUB", Integer),
        ("CHAR_OCTET_LENGTH", Integer),
        ("ORDINAL_POSITION", Integer),
        ("IS_NULLABLE", Varchar),
        ("SPECIFIC_NAME", Varchar),
    ]);
    const NULL: Cell = Cell::NULL;
    const IN: i32 = 1;
    const NULLABLE_UNKNOWN: i32 = 2;
    for program in programs {
        for (position, parameter) in program.parameters.iter().enumerate() {
            let column_type = parameter_type(parameter);
            let sql_type = column_type.sql_type;
            let size = match sql_type {
                variable if variable.is_variable_length() => Some(column_type.length as i32),
                _ => precision(&column_type),
            };
            answer.row(cells![
                NULL,
                NULL,
                &program.name,
                parameter.name.clone().unwrap_or_else(|| format!("param{position}")),
                IN,
                if parameter.table { 1111 } else { java_type(sql_type) },
                if parameter.table { "VOLTTABLE" } else { sql_type.name() },
                size,
                column_type.bytes_max() as i32,
                scale(&column_type),
                radix(sql_type),
                NULLABLE_UNKNOWN,
                parameter_remarks(program, position, parameter),
                NULL,
                NULL,
                NULL,
                octet_length(&column_type),
                position as i32 + 1,
                "",
                &program.name
            ]);
        }
    }
    answer
}

/// A `?` takes any value of its type: what it is compared or assigned to decides whether a long one
/// is too long.
fn parameter_type(parameter: &Parameter) -> ColumnType {
    match parameter.name {
        Some(_) => parameter.column_type,
        None => ColumnType::unbounded(parameter.column_type.sql_type),
    }
}

fn parameter_remarks(program: &Program, position: usize, parameter: &Parameter) -> Option<&'static str> {
    let is_key = matches!(&program.routing, Routing::Parameter { index, .. } if usize::from(*index) == position);
    match (is_key, parameter.array) {
        (true, true) => Some("PARTITION_PARAMETER,ARRAY_PARAMETER"),
        (true, false) => Some("PARTITION_PARAMETER"),
        (false, true) => Some("ARRAY_PARAMETER"),
        (false, false) => None,
    }
}

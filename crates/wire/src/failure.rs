//! What a user error becomes on the wire: a status and a text that begins as clients expect
//! (wire-protocol 12.8).

use crate::Status;
use ferrite_base::{ErrorKind, UserError};
use std::fmt::Display;

/// The status that tells a client what sort of failure this is.
#[inline]
pub fn status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::ConstraintViolation
        | ErrorKind::Sql
        | ErrorKind::Compile
        | ErrorKind::Ddl
        | ErrorKind::Parameters
        | ErrorKind::Limit => Status::GracefulFailure,
        ErrorKind::UserAbort => Status::UserAbort,
        ErrorKind::CompoundAbort => Status::CompoundUserAbort,
        ErrorKind::CompoundTimeout => Status::CompoundTimeout,
        ErrorKind::UnknownProcedure | ErrorKind::Permission | ErrorKind::Internal => Status::UnexpectedFailure,
        ErrorKind::Mispartitioned => Status::Mispartitioned,
        ErrorKind::Unavailable => Status::ServerUnavailable,
        ErrorKind::OutcomeUnknown => Status::ResponseUnknown,
    }
}

/// The words in front of the message; empty where the message stands alone.
pub fn prefix(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConstraintViolation => "VOLTDB ERROR: CONSTRAINT VIOLATION ",
        ErrorKind::Sql => "VOLTDB ERROR: SQL ERROR ",
        ErrorKind::UserAbort => "VOLTDB ERROR: USER ABORT ",
        ErrorKind::Internal => "VOLTDB ERROR: UNEXPECTED FAILURE: ",
        // The compiler's errors name the statement and bring their words along.
        ErrorKind::Compile
        | ErrorKind::Ddl
        | ErrorKind::Parameters
        | ErrorKind::UnknownProcedure
        | ErrorKind::Permission
        | ErrorKind::Limit
        | ErrorKind::Mispartitioned
        | ErrorKind::CompoundAbort
        | ErrorKind::CompoundTimeout
        | ErrorKind::Unavailable
        | ErrorKind::OutcomeUnknown => "",
    }
}

/// The whole status text: prefix, message, then detail and hint on lines of their own.
#[cold]
pub fn text(error: &UserError) -> String {
    format!("{}{error}", prefix(error.kind()))
}

// Errors of the door itself, in the words that existing clients and tests look for.

#[cold]
pub fn unknown_procedure(name: &str) -> UserError {
    UserError::new(ErrorKind::UnknownProcedure, "42883", format!("Procedure {name} was not found"))
}

#[cold]
pub fn parameter_count(procedure: &str, expected: usize, received: usize) -> UserError {
    UserError::parameters(format!(
        "VOLTDB ERROR: PROCEDURE {procedure} EXPECTS {expected} PARAMS, BUT RECEIVED {received}"
    ))
    .with_code("07001")
}

/// `index` counts from 0.
#[cold]
pub fn parameter_type(procedure: &str, index: usize, reason: impl Display) -> UserError {
    UserError::parameters(format!("VOLTDB ERROR: PROCEDURE {procedure} TYPE ERROR FOR PARAMETER {index}: {reason}"))
        .with_code("07006")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_begin_as_clients_expect() {
        let cases: [(UserError, Status, &str); 8] = [
            (
                UserError::constraint("23505", "duplicate key").with_detail("table T").with_hint("use UPSERT"),
                Status::GracefulFailure,
                "VOLTDB ERROR: CONSTRAINT VIOLATION duplicate key\ntable T\nhint: use UPSERT",
            ),
            (UserError::division_by_zero(), Status::GracefulFailure, "VOLTDB ERROR: SQL ERROR division by zero"),
            (UserError::not_found("NOSUCH"), Status::GracefulFailure, "object not found: NOSUCH"),
            (UserError::ddl("42P07", "table T exists"), Status::GracefulFailure, "table T exists"),
            (UserError::internal("bad page"), Status::UnexpectedFailure, "VOLTDB ERROR: UNEXPECTED FAILURE: bad page"),
            (unknown_procedure("P"), Status::UnexpectedFailure, "Procedure P was not found"),
            (
                parameter_count("P", 1, 2),
                Status::GracefulFailure,
                "VOLTDB ERROR: PROCEDURE P EXPECTS 1 PARAMS, BUT RECEIVED 2",
            ),
            (UserError::new(ErrorKind::UserAbort, "45000", "no"), Status::UserAbort, "VOLTDB ERROR: USER ABORT no"),
        ];
        for (error, expected_status, expected_text) in cases {
            assert_eq!(status(error.kind()), expected_status);
            assert_eq!(text(&error), expected_text);
        }
    }
}

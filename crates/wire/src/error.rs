//! What can be wrong with bytes that came in, and with values that are to go out.

use ferrite_base::{ErrorKind, UserError};
use std::fmt;

/// Why bytes are not what they should be. Small and free of allocation: a hostile peer makes these
/// at line rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The bytes end before the value does, or a length or count promises more than there is.
    Truncated,
    /// Bytes are left over after everything was read.
    TrailingBytes,
    /// A length or count below zero where it means nothing.
    NegativeLength,
    /// A length field disagrees with what it encloses.
    LengthMismatch,
    /// Null where a value is required.
    UnexpectedNull,
    /// Text that is not UTF-8.
    NotUtf8,
    /// A type code that does not exist, or may not stand here.
    UnknownType(i8),
    /// A value outside its type: a decimal beyond 38 digits, a date that is in no calendar, a
    /// boolean other than 0 and 1.
    BadValue,
    /// The first byte of a request or response names no known layout.
    UnknownLayout(i8),
    /// The timeout kind of a type 1 request is neither "none" nor "given".
    UnknownTimeoutKind(i8),
    /// More extensions than `EXTENSIONS_MAX`, or a negative number of them.
    ExtensionCount(i8),
    /// A known extension whose size or value is not what its id calls for.
    BadExtension(i8),
    /// A procedure name of no bytes.
    EmptyProcedureName,
    /// An array stands where one value is needed.
    ArrayNotAllowed,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the message ends too early or a length in it is too large"),
            DecodeError::TrailingBytes => f.write_str("the message has bytes left over at its end"),
            DecodeError::NegativeLength => f.write_str("a length or count is negative"),
            DecodeError::LengthMismatch => f.write_str("a length disagrees with the content it describes"),
            DecodeError::UnexpectedNull => f.write_str("null where a value is required"),
            DecodeError::NotUtf8 => f.write_str("text is not valid UTF-8"),
            DecodeError::UnknownType(code) => write!(f, "unknown or misplaced type code {code}"),
            DecodeError::BadValue => f.write_str("a value is outside the range of its type"),
            DecodeError::UnknownLayout(byte) => write!(f, "unknown message version {byte}"),
            DecodeError::UnknownTimeoutKind(kind) => write!(f, "unknown timeout kind {kind}"),
            DecodeError::ExtensionCount(count) => write!(f, "{count} extensions, where 0 to 30 are allowed"),
            DecodeError::BadExtension(id) => write!(f, "extension {id} has a wrong size or value"),
            DecodeError::EmptyProcedureName => f.write_str("the procedure name is empty"),
            DecodeError::ArrayNotAllowed => f.write_str("an array where a single value is required"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<DecodeError> for UserError {
    #[cold]
    fn from(error: DecodeError) -> UserError {
        UserError::new(ErrorKind::Parameters, "08P01", format!("malformed request: {error}"))
            .with_hint("check that client and server speak the same protocol version")
    }
}

/// Why a request cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeError {
    /// The frame would be longer than `FRAME_BYTES_MAX`.
    FrameTooLarge,
    /// More parameters or array elements than the count field can say.
    TooMany,
    /// An array of values of different types, of nulls only, or of arrays.
    MixedArray,
}

impl EncodeError {
    /// SQLSTATE.
    pub fn code(self) -> &'static str {
        match self {
            EncodeError::FrameTooLarge | EncodeError::TooMany => "54000",
            EncodeError::MixedArray => "07006",
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EncodeError::FrameTooLarge => "the request is longer than the largest frame (52428800 bytes)",
            EncodeError::TooMany => "more than 32767 parameters or array elements",
            EncodeError::MixedArray => {
                "an array parameter needs elements of one scalar type, at least one of them not null"
            }
        })
    }
}

impl std::error::Error for EncodeError {}

impl From<EncodeError> for UserError {
    #[cold]
    fn from(error: EncodeError) -> UserError {
        let kind = if error == EncodeError::MixedArray { ErrorKind::Parameters } else { ErrorKind::Limit };
        UserError::new(kind, error.code(), error.to_string())
    }
}

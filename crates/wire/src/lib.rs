//! The client protocol, both directions, as pure functions over byte slices (wire-protocol sections
//! 1 to 9).
//!
//! Owns the layouts of frames, logins, invocations, parameter sets, responses and tables. Promises
//! that decoding borrows from the frame, returns an error for every malformed byte, never panics,
//! and never allocates by a count that the bytes at hand could not hold. Knows no sockets,
//! sessions, catalogs or statements.
//!
//! | room | what is in it |
//! |---|---|
//! | [`frame`] | cutting a byte stream into frames |
//! | [`reader`], [`writer`] | the primitive layouts |
//! | [`login`] | connection set-up |
//! | [`invocation`], [`parameters`] | requests |
//! | [`response`], [`answer`] | responses as a server writes them, and as a client reads them |
//! | [`table`], [`rows`] | result tables as a server writes them, and as a client reads them |
//! | [`scalar`] | one value by its type code, shared by parameters and cells |
//! | [`status`], [`failure`] | status codes, and what a user error becomes |

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod answer;
pub mod error;
pub mod failure;
pub mod frame;
pub mod invocation;
pub mod login;
pub mod parameters;
pub mod reader;
pub mod response;
pub mod rows;
pub mod scalar;
pub mod status;
pub mod table;
pub mod writer;

pub use answer::{OwnedResponse, Response};
pub use error::{DecodeError, EncodeError};
pub use invocation::{Extensions, Invocation, InvocationError, RequestWriter};
pub use login::{HashScheme, LoginAccepted, LoginFailure, LoginRequest, LoginResponse, Service};
pub use parameters::{Parameter, ParameterSet, Parameters};
pub use reader::Reader;
pub use response::ResponseWriter;
pub use rows::{OwnedTable, Row, Table};
pub use status::{Status, handles};
pub use table::{OpenTable, TableHeader, TableWriter};

//! The Rust client: calls to procedures over the client protocol, pipelined, with batched writes.
//!
//! Two ways in, over the same core:
//! * [`Client`] for applications: a handle that any thread may clone and call, blocking, with a callback, or as a future that
//!   any executor can run. A background thread owns the sockets.
//! * [`Driver`] for load generators and proxies: the same event loop in the caller's own thread, with a context of the
//!   caller's choice per call, and neither allocation nor hand-over per call.
//!
//! | room | what is in it |
//! |---|---|
//! | [`connection`] | one connection without its socket: encodes calls, matches responses |
//! | [`slab`] | calls in flight, by handle |
//! | [`prepared`] | the constant part of a request |
//! | [`driver`], [`timer`] | sockets, reconnecting, the event loop |
//! | [`client`], [`worker`], [`gate`], [`completion`] | the handle, its background thread, and what connects them |
//! | [`options`], [`error`], [`statistics`] | what is configured, what goes wrong, what is counted |
//!
//! Knows no SQL types beyond what `ferrite_wire` decodes, and no servers' internals.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod client;
pub mod completion;
pub mod connection;
pub mod driver;
pub mod error;
pub mod gate;
pub mod options;
pub mod prepared;
pub mod slab;
pub mod statistics;
pub mod timer;
pub mod worker;

pub use client::Client;
pub use completion::CallFuture;
pub use connection::{Connection, Event};
pub use driver::{Driver, DriverOptions, Handler, Links};
pub use error::ClientError;
pub use options::{ClientOptions, Credentials, WhenFull};
pub use prepared::Prepared;
pub use statistics::Statistics;

pub use ferrite_value::OwnedValue;
pub use ferrite_wire::{OwnedResponse, OwnedTable, Parameter, ParameterSet, Response, Status};

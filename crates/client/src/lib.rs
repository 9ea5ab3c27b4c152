//! The Rust client of FerriteDB: SQL and procedures over the client protocol, blocking or as
//! futures that any executor can run, pipelined over a few connections.
//!
//! ```no_run
//! use ferrite_client::{Client, ClientError, ClientOptions};
//!
//! fn main() -> Result<(), ClientError> {
//!     let client = Client::connect(ClientOptions::new(["localhost:21212"]))?;
//!     client.execute("INSERT INTO accounts VALUES (?, ?, ?)", (7, "Ann", 100)).wait()?;
//!     let rows = client.query("SELECT name, balance FROM accounts WHERE id = ?", (7,)).wait()?;
//!     for row in &rows {
//!         println!("{}: {}", row.get::<&str>("name")?, row.get::<i64>("balance")?);
//!     }
//!     match client.call("deposit", (7, -5)).wait() {
//!         Err(error) if error.code() == "45000" => println!("refused: {error}"),
//!         other => drop(other?),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! * [`Client`] is a handle that threads share by cloning it. A background thread owns the sockets.
//!   It has [`query`](Client::query), [`execute`](Client::execute) and [`call`](Client::call).
//! * [`Rows`] and [`Row`] read results by column name as Rust types.
//! * [`ClientError`] has a [code](ClientError::code) and says whether the call may have run.
//! * [`event_loop`] is for load generators and proxies: the same protocol in the caller's own
//!   thread.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![deny(missing_docs)]

mod client;
mod connection;
mod driver;
mod error;
mod future;
mod gate;
mod options;
mod prepared;
mod recipient;
mod resolver;
mod router;
mod rows;
mod slab;
mod statistics;
mod timer;
mod topology;
mod worker;

pub use client::Client;
pub use error::ClientError;
pub use future::{CallFuture, ResultFuture};
pub use options::{ClientOptions, Credentials, WhenFull};
pub use prepared::Prepared;
pub use recipient::CallResult;
pub use rows::{ColumnError, ColumnIndex, FromValue, Row, RowIter, Rows};
pub use statistics::Statistics;

pub use ferrite_value::{Decimal, OwnedValue, Point, SqlType};
pub use ferrite_wire::{DecodeError, EncodeError, OwnedResponse, OwnedTable, Parameter, ParameterSet, Status};

/// The event loop in the caller's own thread, for load generators and proxies: a context of the
/// caller's choice per call, and neither allocation nor hand-over per call.
///
/// A [`Driver`](event_loop::Driver) turns the loop and tells a [`Handler`](event_loop::Handler); a
/// [`Connection`](event_loop::Connection) is one connection without its socket.
pub mod event_loop {
    pub use crate::connection::{Connection, ConnectionError, Event, LoginInfo, RECEIVE_BYTES};
    pub use crate::driver::{Driver, DriverOptions, Handler, Links, Turn};
    pub use crate::topology::{Learned, Topology};
    pub use ferrite_wire::Response;
}

//! The handle that applications hold.

use crate::driver::{Driver, DriverOptions};
use crate::error::ClientError;
use crate::future::{CallFuture, ResultFuture};
use crate::gate::{Gate, Queued, Submitted};
use crate::options::{ClientOptions, WhenFull, with_port};
use crate::prepared::Prepared;
use crate::recipient::{AnswerSlot, CallResult, Recipient};
use crate::router::{Router, RouterOptions};
use crate::rows::Rows;
use crate::statistics::Statistics;
use crate::worker;
use ferrite_wire::writer::Put;
use ferrite_wire::{EncodeError, OwnedResponse, Parameter, ParameterSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A client of one cluster. Clones share its connections; when the last is dropped they are closed.
///
/// With one address calls go to its connections in turn, with several to the node that leads what
/// they touch ([`ClientOptions::affinity`]). A connection that breaks is made again in the
/// background; the calls that were in flight on it end with an error for which
/// [`ClientError::is_outcome_unknown`] holds. Those of which not a byte was sent go to another
/// node. Calls made while no connection is up fail at once with [`ClientError::NotConnected`].
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    gate: Arc<Gate>,
    call_timeout: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.gate.close();
    }
}

impl Client {
    /// Connects, blocking until each connection is up or has failed once, or one has been up for a
    /// second. Fails when none is up.
    ///
    /// ```no_run
    /// # use ferrite_client::{Client, ClientError, ClientOptions, Credentials};
    /// # fn main() -> Result<(), ClientError> {
    /// let client = Client::connect(ClientOptions {
    ///     credentials: Credentials::new("ann", "secret"),
    ///     ..ClientOptions::new(["db1:21212", "db2:21212"])
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Options`] if the options name no address or allow no connection or no
    /// outstanding call, [`ClientError::Connect`] or [`ClientError::Login`] if no server takes the
    /// client.
    pub fn connect(options: ClientOptions) -> Result<Client, ClientError> {
        options.check().map_err(ClientError::Options)?;
        let addresses: Vec<String> = options.addresses.iter().filter_map(|address| with_port(address)).collect();
        let router = Router::new(RouterOptions {
            affinity: options.affinity && (addresses.len() > 1 || options.discover),
            discover: options.discover,
            connections_per_address: options.connections_per_address,
            named: addresses.len() * options.connections_per_address,
        });
        let driver = Driver::new(DriverOptions {
            addresses,
            connections_per_address: options.connections_per_address,
            credentials: options.credentials,
            connection_timeout: options.connection_timeout,
            reconnect_pause: options.reconnect_pause,
            reconnect_pause_max: options.reconnect_pause_max,
            precise_timer: false,
        })
        .map_err(system)?;
        let waker = driver.waker().map_err(system)?;
        let gate = Arc::new(Gate::new(waker, options.outstanding_max, options.when_full));
        let thread_gate = Arc::clone(&gate);
        let call_timeout = options.call_timeout;
        thread::Builder::new()
            .name("ferrite-client".to_string())
            .spawn(move || worker::run(driver, thread_gate, router, call_timeout))
            .map_err(system)?;
        let client = Client { inner: Arc::new(Inner { gate, call_timeout }) };
        client.inner.gate.wait_for_first_connect()?;
        Ok(client)
    }

    /// Runs a query with parameters for its question marks, and gives the rows of its first result.
    /// The future may be awaited in any executor, or waited for with [`ResultFuture::wait`].
    ///
    /// ```no_run
    /// # use ferrite_client::{Client, ClientError};
    /// # fn example(client: &Client) -> Result<(), ClientError> {
    /// let rich = "SELECT COUNT(*) AS n FROM accounts WHERE balance > ?";
    /// let rows = client.query(rich, (100,)).wait()?;
    /// let rich: i64 = rows.first().map_or(Ok(0), |row| row.get("n"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&self, sql: &str, parameters: impl ParameterSet) -> ResultFuture<Rows> {
        ResultFuture::of(self.call("@AdHoc", AdHoc { sql, parameters }), Rows::first_of)
    }

    /// Runs a statement that changes rows, or the schema, and gives the number of changed rows.
    ///
    /// ```no_run
    /// # use ferrite_client::{Client, ClientError};
    /// # fn example(client: &Client) -> Result<(), ClientError> {
    /// match client.execute("INSERT INTO accounts VALUES (?, ?, 0)", (7, "Ann")).wait() {
    ///     Ok(changed) => println!("{changed} row"),
    ///     Err(error) if error.code() == "23505" => println!("account 7 exists already"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn execute(&self, sql: &str, parameters: impl ParameterSet) -> ResultFuture<i64> {
        let changed = |response: OwnedResponse| response.scalar().unwrap_or(0);
        ResultFuture::of(self.call("@AdHoc", AdHoc { sql, parameters }), changed)
    }

    /// Calls a procedure. The future may be awaited in any executor, or waited for with
    /// [`CallFuture::wait`].
    ///
    /// ```no_run
    /// # use ferrite_client::{Client, ClientError};
    /// # fn example(client: &Client) -> Result<(), ClientError> {
    /// // Two calls under way at once.
    /// let (one, other) = (client.call("deposit", (7, 50)), client.call("deposit", (8, 50)));
    /// one.wait()?;
    /// other.wait()?;
    /// // The first table of the answer, row by row.
    /// for row in &client.call("top_accounts", (10,)).rows().wait()? {
    ///     println!("{}", row.get::<String>("name")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, procedure: &str, parameters: impl ParameterSet) -> CallFuture {
        match Prepared::new(procedure) {
            Ok(procedure) => self.call_prepared(&procedure, parameters),
            Err(error) => CallFuture::failed(error.into()),
        }
    }

    /// As [`Client::call`], with the constant part of the request at hand.
    pub fn call_prepared(&self, procedure: &Prepared, parameters: impl ParameterSet) -> CallFuture {
        let slot = Arc::new(AnswerSlot::default());
        let call = match self.encode(procedure, &parameters, Recipient::Slot(Arc::clone(&slot))) {
            Ok(call) => call,
            Err(error) => return CallFuture::failed(error),
        };
        let gate = &self.inner.gate;
        match gate.submit(call) {
            Submitted::Taken => CallFuture::sent(slot),
            Submitted::Closed => CallFuture::failed(ClientError::Closed),
            Submitted::Full(_) if gate.when_full == WhenFull::Reject => {
                CallFuture::failed(ClientError::TooManyOutstanding { limit: gate.outstanding_max })
            }
            Submitted::Full(call) => CallFuture::waiting(Arc::clone(gate), call, slot),
        }
    }

    /// Calls a procedure and blocks until it has ended. Not from within a callback: it would wait
    /// for itself.
    pub fn call_blocking(&self, procedure: &str, parameters: impl ParameterSet) -> CallResult {
        self.call(procedure, parameters).wait()
    }

    /// Calls a procedure; `callback` runs in the client's thread when it has ended, and must not
    /// block. If it panics, other calls go on. An error returned here means that the call was not
    /// made and the callback will not run.
    pub fn call_with_callback(
        &self,
        procedure: &Prepared,
        parameters: impl ParameterSet,
        callback: impl FnOnce(CallResult) + Send + 'static,
    ) -> Result<(), ClientError> {
        let call = self.encode(procedure, &parameters, Recipient::Callback(Box::new(callback)))?;
        let gate = &self.inner.gate;
        match (gate.submit(call), gate.when_full) {
            (Submitted::Taken, _) => Ok(()),
            (Submitted::Closed, _) => Err(ClientError::Closed),
            (Submitted::Full(_), WhenFull::Reject) => {
                Err(ClientError::TooManyOutstanding { limit: gate.outstanding_max })
            }
            (Submitted::Full(call), WhenFull::Block) => {
                if gate.submit_blocking(call) {
                    Ok(())
                } else {
                    Err(ClientError::Closed)
                }
            }
        }
    }

    fn encode(
        &self,
        procedure: &Prepared,
        parameters: &impl ParameterSet,
        recipient: Recipient,
    ) -> Result<Queued, ClientError> {
        let mut request = Vec::new();
        procedure.write(&mut request, 0, parameters)?;
        let deadline = Instant::now() + self.inner.call_timeout;
        Ok(Queued { request, handle_at: procedure.handle_at(), recipient, deadline })
    }

    /// Asks the server to cancel all calls that are in flight, whichever node each was sent to. It
    /// does not wait: each call ends with its own answer, that it was cancelled or, where it had
    /// ended before, its result.
    pub fn cancel(&self) {
        self.inner.gate.cancel();
    }

    /// Blocks until no call is outstanding. Not from within a callback.
    pub fn drain(&self) {
        self.inner.gate.wait_until_idle();
    }

    /// Counts up to the last turn of the client's loop: a call that has just ended may not be in
    /// them. After [`Client::drain`] all are.
    pub fn statistics(&self) -> Statistics {
        self.inner.gate.statistics()
    }

    /// Closes the connections. Calls in flight end with an unknown outcome; later ones with
    /// [`ClientError::Closed`].
    pub fn close(&self) {
        self.inner.gate.close();
    }
}

fn system(error: std::io::Error) -> ClientError {
    ClientError::System(Arc::new(error))
}

/// The parameters of `@AdHoc`: the statement, then those for its question marks.
struct AdHoc<'s, P> {
    sql: &'s str,
    parameters: P,
}

impl<P: ParameterSet> ParameterSet for AdHoc<'_, P> {
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let count_at = out.len();
        out.put_i16(0);
        self.sql.write(out)?;
        // The set begins with its count.
        let set_at = out.len();
        self.parameters.write_set(out)?;
        let count: [u8; 2] = out[set_at..set_at + 2].try_into().map_err(|_| EncodeError::TooMany)?;
        out.drain(set_at..set_at + 2);
        out.patch_i16(count_at, i16::from_be_bytes(count).checked_add(1).ok_or(EncodeError::TooMany)?);
        Ok(())
    }
}

//! Where a load's calls go: to one connection, or to the leader of each call's key.

use ferrite_client::event_loop::{Connection, Links, Response, Topology};
use ferrite_client::{ParameterSet, Prepared};
use ferrite_wire::EncodeError;

/// When a call was to be sent: nanoseconds since the load's epoch.
#[derive(Clone, Copy, Debug)]
pub struct Intended(pub(crate) u64);

impl Intended {
    #[inline]
    pub fn with<N>(self, note: N) -> InFlight<N> {
        InFlight { intended: self.0, note }
    }
}

/// What the connection keeps per call.
#[derive(Clone, Copy, Debug)]
pub struct InFlight<N> {
    pub(crate) intended: u64,
    pub(crate) note: N,
}

/// Takes the calls of a load.
pub struct Calls<'a, N>(Destination<'a, N>);

enum Destination<'a, N> {
    Connection(&'a mut Connection<InFlight<N>>),
    Leaders(&'a mut Leaders, &'a mut Links<InFlight<N>>),
}

impl<'a, N> Calls<'a, N> {
    /// Each call goes to this connection.
    #[inline]
    pub fn to(connection: &'a mut Connection<InFlight<N>>) -> Calls<'a, N> {
        Calls(Destination::Connection(connection))
    }

    /// Each call goes to the leader of its partition. At least one connection is up.
    #[inline]
    pub fn to_leaders(leaders: &'a mut Leaders, links: &'a mut Links<InFlight<N>>) -> Calls<'a, N> {
        assert!(links.up_count() > 0, "no connection is up");
        Calls(Destination::Leaders(leaders, links))
    }

    #[inline]
    pub fn call(
        &mut self,
        procedure: &Prepared,
        parameters: &(impl ParameterSet + ?Sized),
        call: InFlight<N>,
    ) -> Result<(), EncodeError> {
        match &mut self.0 {
            Destination::Connection(connection) => connection.call(procedure, parameters, call).map(drop),
            Destination::Leaders(leaders, links) => leaders.call(links, procedure, parameters, call),
        }
    }
}

/// What is known of the nodes' leads, as drivers know it.
#[derive(Default)]
pub struct Leaders {
    topology: Topology,
    /// By connection: it was asked for changes.
    subscribed: Vec<bool>,
    last_link: usize,
    request: Vec<u8>,
}

impl Leaders {
    fn call<N>(
        &mut self,
        links: &mut Links<InFlight<N>>,
        procedure: &Prepared,
        parameters: &(impl ParameterSet + ?Sized),
        call: InFlight<N>,
    ) -> Result<(), EncodeError> {
        self.request.clear();
        procedure.write(&mut self.request, 0, parameters)?;
        let handle_at = procedure.handle_at();
        let leader = self.topology.leader_of_request(&self.request, handle_at);
        let leader = leader.and_then(|host| links.next_up_to(host, self.last_link));
        let (link, connection) = match leader {
            Some(found) => found,
            None => links.next_up(self.last_link).expect("a connection is up"),
        };
        self.last_link = link;
        connection.call_encoded(&self.request, handle_at, call);
        Ok(())
    }

    /// Asks each connection that has come up for the leaders, and to be told of changes.
    pub fn turn<C>(&mut self, links: &mut Links<C>) {
        self.subscribed.resize(links.len(), false);
        for (link, subscribed) in self.subscribed.iter_mut().enumerate() {
            if !*subscribed && let Some(connection) = links.get(link) {
                Topology::subscribe(connection);
                *subscribed = true;
            }
        }
    }

    pub fn disconnected(&mut self, link: usize) {
        if let Some(subscribed) = self.subscribed.get_mut(link) {
            *subscribed = false;
        }
    }

    pub fn pushed(&mut self, response: &Response<'_>) {
        self.topology.learn(response);
    }
}

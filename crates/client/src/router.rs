//! Where a client's calls go: to the leader that the topology names if a connection to it is up, to
//! all in turn otherwise. Asks the cluster, and asks again when an answer says that it has changed.
//!
//! With one connection, or without affinity, it looks at nothing and asks nothing.

use crate::connection::Connection;
use crate::driver::Links;
use crate::topology::{Learned, Topology};
use ferrite_base::limits::CLIENT_NODES_MAX;
use ferrite_wire::{OwnedResponse, Response, Status};
use std::time::{Duration, Instant};

/// Refused calls ask who leads no more often than this: an answer has the whole ring, and while a
/// leader is elected everybody asks.
const ASK_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Router {
    options: RouterOptions,
    topology: Topology,
    /// The connection that got the last call.
    last_link: usize,
    /// The last one that was asked who leads after a refused call, and when.
    asked: (usize, Option<Instant>),
    /// Connections that have come up since the last turn.
    new: Vec<usize>,
    /// A connection whose answer was that it does not lead.
    doubt: Option<usize>,
    /// A connection that named hosts, which may not all be known.
    named_hosts: Option<usize>,
    /// What a node says of the nodes that there are.
    nodes: Option<Vec<(i32, String)>>,
}

pub(crate) struct RouterOptions {
    pub affinity: bool,
    pub discover: bool,
    pub connections_per_address: usize,
    /// Connections to addresses that the caller has named.
    pub named: usize,
}

impl RouterOptions {
    /// Whether there is, or may be, something to choose from.
    fn asks(&self) -> bool {
        self.affinity || self.discover
    }
}

impl Router {
    pub fn new(options: RouterOptions) -> Router {
        Router {
            topology: Topology::default(),
            last_link: options.named - 1,
            asked: (0, None),
            new: Vec::new(),
            doubt: None,
            named_hosts: None,
            nodes: None,
            options,
        }
    }

    /// The connection for a request. None: none is up.
    #[inline]
    pub fn choose<'l, C>(
        &mut self,
        links: &'l mut Links<C>,
        request: &[u8],
        handle_at: usize,
    ) -> Option<&'l mut Connection<C>> {
        if self.options.affinity
            && links.up_count() > 1
            && let Some(host) = self.topology.leader_of_request(request, handle_at)
            && let Some((link, _)) = links.next_up_to(host, self.last_link)
        {
            self.last_link = link;
            return links.get(link);
        }
        let (link, connection) = links.next_up(self.last_link)?;
        self.last_link = link;
        Some(connection)
    }

    pub fn connected(&mut self, link: usize) {
        if self.options.asks() {
            self.new.push(link);
        }
    }

    /// An answer with another status than success.
    pub fn failed(&mut self, link: usize, response: &OwnedResponse) {
        let moved = matches!(response.status(), Some(Status::ServerUnavailable | Status::ResponseUnknown));
        if moved && self.topology.hosts().len() > 1 {
            self.doubt = Some(link);
        }
    }

    pub fn pushed(&mut self, link: usize, response: &Response<'_>) {
        match self.topology.learn(response) {
            Learned::Leaders => self.named_hosts = Some(link),
            Learned::Nodes(nodes) => self.nodes = Some(nodes),
            Learned::Procedures | Learned::Nothing => {}
        }
    }

    /// Asks what is to be asked, and connects to what was found. Returns when it wants to be called
    /// again at the latest.
    #[inline]
    pub fn turn<C>(&mut self, links: &mut Links<C>, now: Instant) -> Option<Instant> {
        if self.options.asks() { self.ask(links, now) } else { None }
    }

    fn ask<C>(&mut self, links: &mut Links<C>, now: Instant) -> Option<Instant> {
        for link in std::mem::take(&mut self.new) {
            if let Some(double) = self.double(links, link)
                && links.retire(double)
                && double == link
            {
                continue;
            }
            if let Some(connection) = links.get(link) {
                Topology::subscribe(connection);
            }
        }
        for host in self.topology.take_deposed() {
            links.doubt(host, now);
        }
        if let Some(link) = self.named_hosts.take()
            && self.options.discover
            && self.topology.hosts().iter().any(|host| links.next_up_to(*host, 0).is_none())
            && let Some(connection) = links.get(link)
        {
            Topology::ask_nodes(connection);
        }
        if let Some(nodes) = self.nodes.take() {
            self.connect_to(links, &nodes);
        }
        let doubted = self.doubt?;
        if let Some(asked_at) = self.asked.1
            && now < asked_at + ASK_PAUSE
        {
            return Some(asked_at + ASK_PAUSE);
        }
        self.doubt = None;
        self.ask_another(links, doubted, now);
        None
    }

    /// Asks who leads, not the node that has just said that it does not if there is another: it may
    /// be cut off and know less than they do. A different one each time.
    fn ask_another<C>(&mut self, links: &mut Links<C>, doubted: usize, now: Instant) {
        let host = links.host(doubted);
        let count = links.len();
        let mut others = (1..=count).map(|step| (self.asked.0 + step) % count);
        let other = others.find(|link| links.host(*link).is_some() && links.host(*link) != host);
        if let Some(link) = other.or_else(|| host.map(|_| doubted))
            && let Some(connection) = links.get(link)
        {
            Topology::ask_leaders(connection);
            self.asked = (link, Some(now));
        }
    }

    /// If the host of this connection, which is new, is connected under another address, too: the
    /// one of the two that is to go. An address that the caller has named stays.
    fn double<C>(&self, links: &Links<C>, link: usize) -> Option<usize> {
        let host = links.host(link)?;
        let mut others = (0..links.len()).filter(|other| {
            links.host(*other) == Some(host) && *other != link && links.address(*other) != links.address(link)
        });
        if link >= self.options.named {
            others.next().map(|_| link)
        } else {
            others.find(|other| *other >= self.options.named)
        }
    }

    /// Adds connections to nodes that there are none to, and takes those away that were found
    /// before and are nodes no more.
    fn connect_to<C>(&mut self, links: &mut Links<C>, nodes: &[(i32, String)]) {
        for link in self.options.named..links.len() {
            let is_node = nodes.iter().any(|(_, address)| address == links.address(link));
            if !is_node && links.host(link).is_none() {
                links.retire(link);
            }
        }
        for (host, address) in nodes {
            let mut known = (0..links.len()).filter(|link| !links.is_retired(*link));
            let used = known.clone().count();
            let is_known = known.any(|link| {
                // A node that was named is waited for where the caller has said.
                let connected = links.host(link).is_some() || link < self.options.named;
                links.address(link) == address || connected && links.last_host(link) == Some(*host)
            });
            if !is_known && used + self.options.connections_per_address <= self.links_max() {
                links.add(address, self.options.connections_per_address);
            }
        }
    }

    fn links_max(&self) -> usize {
        CLIENT_NODES_MAX.saturating_mul(self.options.connections_per_address)
    }
}

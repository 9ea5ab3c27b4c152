//! The first part of a node's start: from a directory and a command line to a node of a cluster
//! that knows which node it is. Other nodes hear nothing but founding's questions.

use crate::descriptors::peer_strangers_max;
use crate::directory::{self, Unsynced};
use crate::error::MemberError;
use crate::founding::{Formed, Founders};
use crate::from_single_node::{self, BegunAlone};
use crate::links::{Links, hosts_of};
use crate::options::ClusterOptions;
use crate::peer_dispatcher::PeerDispatcher;
use crate::place;
use crate::waits::Waits;
use ferrite_base::{GroupId, Incarnation, NodeId};
use ferrite_group::{FIRST_GROUP, Identity};
use ferrite_io::threads::ThreadError;
use ferrite_io::{Disk, DiskLock, Random, SystemRandom};
use ferrite_log::{DatabaseId, Durability};
use ferrite_meta::founding::{
    Declaration, Manner, NeedsWitnesses, Partitions, Plan, WrittenDown, foresee, partitions_per_node,
};
use ferrite_meta::voter::{self, Before, Known, Voter, VoterError};
use ferrite_meta::{Kind, Node as Registration, Presence, State};
use ferrite_notice::Notice;
use ferrite_partition::commit::DatabaseLog;
use ferrite_peer::{Hello, Lane, Limits, NO_CLUSTER, Peers, VERSION};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The voter's files, in the directory of the node.
const METADATA: &str = "metadata";

/// What a node is before it belongs to a cluster.
pub struct About<'a> {
    pub disk: Arc<dyn Disk>,
    pub dir: &'a Path,
    pub kind: Kind,
    pub durability: Durability,
    /// How many partitions it would have.
    pub partitions: Partitions,
    /// Where clients and administrators connect.
    pub clients: Vec<SocketAddr>,
    /// For operators who look while it waits.
    pub waits: &'a Waits,
    /// The other settings with which a node that keeps data was started.
    pub manner: Option<Manner>,
    /// Reads the database that a single server has left in the directory. None: a witness.
    pub look: Option<&'a dyn Fn() -> Result<BegunAlone, MemberError>>,
    /// Whether a new database can be begun with what this node was given for it. None: a witness.
    pub begins: Option<&'a dyn Fn() -> Result<(), MemberError>>,
}

/// A node that knows its cluster and its own id. Its incarnation is that of an earlier process: the
/// next is to be made durable.
pub struct Joined {
    pub dir: std::path::PathBuf,
    pub links: Links,
    /// Until another owner ends the connections.
    pub leaving: Leaving,
    pub dispatcher: Arc<PeerDispatcher>,
    /// The metadata as this node knew it last.
    pub state: State,
    /// Keeps what is written down about the cluster.
    pub founders: Arc<Founders>,
    pub node: NodeId,
    /// The id that all nodes' logs have.
    pub database: DatabaseId,
    pub voter: Option<Voter>,
    pub registration: Registration,
    pub unsynced: Arc<Unsynced>,
    /// The log has everything that was acknowledged.
    pub intact: bool,
    hello: Hello,
}

/// Ends the connections, and gives the port back, where a start fails.
pub struct Leaving(Option<Peers>);

impl Leaving {
    /// The receiver of these ends them from then on.
    pub fn hand_over(&mut self) -> Peers {
        self.0.take().expect("connections are ended by one")
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(peers) = self.0.take() {
            peers.stop();
        }
    }
}

impl Joined {
    /// This process's incarnation is durable: other nodes are contacted from now on.
    pub fn introduce(&mut self, incarnation: Incarnation) {
        self.registration.incarnation = incarnation;
        // They are admitted from the start; their addresses are looked up later.
        let others: Vec<_> = hosts_of(&self.state, self.node).into_keys().map(|node| (node, Vec::new())).collect();
        self.links.peers().expect(&others);
        self.links.peers().introduce(Hello { incarnation, ..self.hello });
    }
}

/// The members of a cluster copy the redo stream, and a member that comes back has to have what it
/// acknowledged (docs/decisions/0106-durability-memory.md).
const NO_MEMORY_IN_A_CLUSTER: &str = "--durability memory is for a single server: other nodes get the redo that it does not write. \
                                      Use --durability none, with which a transaction is acknowledged when K + 1 nodes have it in \
                                      memory and no node waits for its disk";

const NO_RACK_WITHOUT_GROUPS: &str = "--rack decides where groups of partitions are, and without --partitions-per-node there is one group: omit \
                                      --rack, or give --partitions-per-node on every node";

fn refuse_rack_alone(options: &ClusterOptions) -> Result<(), MemberError> {
    let is_alone = options.partitions_per_node.is_none() && options.rack.is_some() && !options.joins;
    if is_alone { Err(MemberError::Cluster(NO_RACK_WITHOUT_GROUPS.to_owned())) } else { Ok(()) }
}

fn lock_directory(about: &About<'_>) -> Result<Box<dyn DiskLock>, MemberError> {
    if about.durability == Durability::Memory {
        return Err(MemberError::Cluster(NO_MEMORY_IN_A_CLUSTER.to_owned()));
    }
    DatabaseLog::lock(&*about.disk, about.dir).map_err(|error| MemberError::Cluster(error.to_string()))
}

/// None: a single server.
pub fn join(options: &ClusterOptions, about: &About<'_>) -> Result<Option<Joined>, MemberError> {
    let disk = &*about.disk;
    if options.hosts.is_empty() && !directory::is_of_cluster(disk, about.dir)? {
        return Ok(None);
    }
    let mut lock = lock_directory(about)?;
    let written = directory::founding(disk, about.dir)?;
    let belongs_to = directory::cluster_of(disk, about.dir)?;
    if belongs_to.is_some() && written.as_ref().is_none_or(|written| written.founded.is_none()) {
        let dir = about.dir.display();
        return Err(MemberError::Cluster(format!(
            "{dir} belongs to a cluster, and its file 'founding', which says to which, is gone: restore it from where this \
             directory came from. Without it the node cannot take part. If `ferrite admin recover --leave-cluster` was ended \
             in the middle here, give that command again"
        )));
    }
    let is_new = belongs_to.is_none() && written.as_ref().is_none_or(|written| written.founded.is_none());
    let begun = match is_new && from_single_node::is_there(disk, about.dir) {
        true => {
            drop(lock);
            let begun = begun_alone(options, about, written.as_ref())?;
            lock = DatabaseLog::lock(disk, about.dir).map_err(|error| MemberError::Cluster(error.to_string()))?;
            Some(begun)
        }
        false => None,
    };
    let joins = options.joins || written.as_ref().is_some_and(|written| written.joins);
    if let Some(begins) = about.begins.filter(|_| is_new && begun.is_none() && !joins) {
        // Found later, it would take the first leader down.
        begins()?;
    }
    let wanted = declaration(options, about, written.as_ref(), begun)?;
    let at = place::listen_at(&wanted.plan.hosts, wanted.place, options.listen).map_err(MemberError::Cluster)?;
    let listener = place::bind(at, &options.ends).map_err(|error| MemberError::Listen(at, error))?;
    let start: [u8; 16] = random_bytes();
    let newcomer = newcomer(&wanted, about);
    let founders = Arc::new(Founders::new(written, wanted, joins, about.manner.clone()));
    let dispatcher = Arc::new(PeerDispatcher::new(Arc::clone(&founders)));
    let limits = Limits { strangers_max: peer_strangers_max(), ..Limits::default() };
    let hello = Hello {
        versions: (VERSION, VERSION),
        lane: Lane::Control,
        cluster: NO_CLUSTER,
        node: NodeId(0),
        incarnation: Incarnation(0),
        start: u64::from_le_bytes(start[..8].try_into().expect("8 bytes")),
    };
    let handler = Arc::clone(&dispatcher) as Arc<dyn ferrite_peer::Handler>;
    let peers = ferrite_peer::start(hello, listener, limits, Box::new(SystemRandom), handler).map_err(ThreadError)?;
    let leaving = Leaving(Some(peers.clone()));
    let links = Links::new(peers, &limits);
    about.waits.set(Some(Arc::clone(&founders)));
    let formed = founders.form(disk, about.dir, &newcomer, &options.ends);
    about.waits.set(None);
    let formed = formed?;
    let Part { own, all, state, node, voter } = take_part(about, belongs_to, formed)?;
    ferrite_io::notices::set_node(node.0);
    place::unreached(&own.plan.hosts[own.place as usize - 1], at, &about.clients).for_each(ferrite_io::notify);
    if belongs_to.is_some() {
        founders.check(node, &state)?;
    }
    let rack = known_rack(&state, node);
    layout_ignored(options, &all, rack.as_ref().filter(|_| belongs_to.is_some()))
        .into_iter()
        .for_each(ferrite_io::notify);
    let settings = state.settings().expect("a cluster that was founded has settings").clone();
    let boot = directory::boot();
    let (unsynced, intact) = Unsynced::begin(Arc::clone(&about.disk), about.dir, boot, about.durability)?;
    if belongs_to.is_none() {
        write_identity(about, &own, settings.cluster, node, &state)?;
    }
    // Recovery takes it again.
    drop(lock);
    let vote = voter.as_ref().map(Voter::number);
    let rack = if belongs_to.is_some() { rack.flatten() } else { newcomer.rack.clone() };
    let registration = Registration { start, vote, presence: Presence::Running, rack, ..newcomer };
    let data = all.iter().find_map(|declaration| declaration.database.map(|database| database.id));
    Ok(Some(Joined {
        dir: about.dir.to_path_buf(),
        links,
        leaving,
        dispatcher,
        node,
        database: DatabaseId(data.unwrap_or(settings.cluster)),
        voter,
        registration,
        unsynced: Arc::new(unsynced),
        intact,
        hello: Hello { cluster: settings.cluster, node, ..hello },
        founders,
        state,
    }))
}

/// From here on the directory belongs to that node.
fn write_identity(
    about: &About<'_>,
    own: &Declaration,
    cluster: [u8; 16],
    node: NodeId,
    state: &State,
) -> Result<(), MemberError> {
    // A single server's database may have been opened again since it was declared.
    let incarnation = own.incarnation.max(directory::incarnation(&*about.disk, about.dir)?);
    let mut identity = Identity::new(cluster, node, incarnation);
    identity.hosted = hosted(about, node, state)?;
    identity.write(&*about.disk, about.dir).map_err(|error| MemberError::Cluster(error.to_string()))
}

/// The groups that a node without data is to keep. A witness keeps none, and has no log that would
/// name them.
fn hosted(about: &About<'_>, node: NodeId, state: &State) -> Result<BTreeSet<GroupId>, MemberError> {
    let kept = BTreeSet::from_iter(state.kept_by(node));
    match about.kind {
        Kind::Witness => Ok(BTreeSet::from([FIRST_GROUP])),
        Kind::Data if kept.is_empty() => {
            let host = state.nodes().get(&node).and_then(Registration::host).unwrap_or_default();
            Err(MemberError::Cluster(place::nothing_for(host, state)))
        }
        Kind::Data => Ok(kept),
    }
}

/// The rack of a node that the cluster knows.
fn known_rack(state: &State, node: NodeId) -> Option<Option<String>> {
    state.nodes().get(&node).map(|known| known.rack.clone())
}

/// What an operator asks for beside what the cluster was founded with. `rack`: that of a node which
/// has its place.
fn layout_ignored(options: &ClusterOptions, founders: &[Declaration], rack: Option<&Option<String>>) -> Vec<Notice> {
    let founded = founders.first().map(|one| &one.plan);
    let layout = founded.zip(options.partitions_per_node).and_then(|(plan, asked)| {
        let differs = plan.partitions_per_node != Some(asked);
        differs.then(|| Notice::LayoutIgnored { layout: partitions_per_node(plan), asked })
    });
    let rack = rack.zip(options.rack.as_ref()).and_then(|(rack, asked)| {
        let known = rack.as_ref().map_or_else(|| "no rack".to_owned(), |rack| format!("rack {rack}"));
        (rack.as_ref() != Some(asked)).then(|| Notice::RackIgnored { rack: known, asked: asked.clone() })
    });
    layout.into_iter().chain(rack).collect()
}

/// What a single server has left in the directory.
fn begun_alone(
    options: &ClusterOptions,
    about: &About<'_>,
    written: Option<&WrittenDown>,
) -> Result<BegunAlone, MemberError> {
    let dir = about.dir.display();
    let failed = |text: String| Err(MemberError::Cluster(text));
    if options.joins || written.is_some_and(|written| written.joins) {
        return failed(format!(
            "{dir} has a database, and a node that joins gets the cluster's: start it with an empty directory. What `ferrite \
             dump` writes of this database can be loaded into the cluster"
        ));
    }
    let Some(look) = about.look else {
        return failed(format!("{dir} has a database, and a witness keeps none: give it a directory of its own"));
    };
    let begun = look()?;
    if written.is_some_and(|written| written.own.database != Some(begun.database)) {
        return failed(format!(
            "the database in {dir} is not as it was when this node was first started with --cluster. If no node has founded the \
             cluster yet, remove the file 'founding' from this directory and start the node again"
        ));
    }
    Ok(begun)
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    SystemRandom.fill(&mut bytes);
    bytes
}

/// What the operator wants, or what was declared here before.
fn declaration(
    options: &ClusterOptions,
    about: &About<'_>,
    written: Option<&WrittenDown>,
    begun: Option<BegunAlone>,
) -> Result<Declaration, MemberError> {
    let said = place::hosts(&options.hosts).map_err(MemberError::Cluster)?;
    if written.is_some_and(|written| written.own.kind != about.kind) {
        let is = if about.kind == Kind::Data { "a witness's, without data" } else { "that of a node with data" };
        return Err(MemberError::Cluster(format!(
            "{} is {is}: start it with the command that it was made with, or take an empty directory",
            about.dir.display()
        )));
    }
    if let Some(WrittenDown { own, founded: Some(_), .. }) = written {
        is_named(options.place.as_deref(), own, about.dir).map_err(MemberError::Cluster)?;
    }
    let (plan, place) = match written {
        Some(written) if said.is_empty() => (written.own.plan.clone(), written.own.place),
        Some(WrittenDown { own, founded: Some(_), .. }) => {
            let hosts = own.plan.hosts.join(",");
            let kfactor = own.plan.kfactor;
            if own.plan.hosts != said || options.kfactor.is_some_and(|wanted| wanted != own.plan.kfactor) {
                ferrite_io::notify(Notice::OptionsIgnored { dir: about.dir.to_path_buf(), hosts, kfactor });
            }
            (own.plan.clone(), own.place)
        }
        _ => {
            let (place, _) =
                place::find(&said, options.listen, options.place.as_deref()).map_err(MemberError::Cluster)?;
            if let Some(own) =
                written.map(|written| &written.own).filter(|own| own.plan.hosts == said && own.place != place)
            {
                return Err(MemberError::Cluster(format!(
                    "{} has declared itself as node {} ({}) before: start it so again. To make it node {place} ({}), stop all \
                     nodes that wait, remove the file 'founding' from this directory, and start them again",
                    about.dir.display(),
                    own.place,
                    own.plan.hosts[own.place as usize - 1],
                    said[place as usize - 1]
                )));
            }
            let partitions_per_node = options.partitions_per_node;
            refuse_rack_alone(options)?;
            (Plan { kfactor: kfactor(options, &said)?, partitions_per_node, hosts: said }, place)
        }
    };
    let joins = options.joins || written.is_some_and(|written| written.joins);
    let mut declaration = Declaration {
        plan,
        place,
        key: random_bytes(),
        incarnation: begun.map_or(Incarnation(1), |begun| begun.incarnation),
        kind: about.kind,
        database: begun.map(|begun| begun.database),
        partitions: match (begun, written) {
            (Some(begun), _) => Partitions::Said(begun.partitions),
            // A start with only the directory says nothing else.
            (None, Some(written)) if options.hosts.is_empty() => written.own.partitions,
            (None, _) => about.partitions,
        },
        release: env!("CARGO_PKG_VERSION").to_owned(),
        addresses: Vec::new(),
        rack: options.rack.clone().or_else(|| written.and_then(|written| written.own.rack.clone())),
    };
    declaration.addresses = addresses(&declaration, about);
    report_plan(&declaration, written, joins)?;
    Ok(declaration)
}

/// Refuses or reports, at a node's first start, what cannot become a cluster.
fn report_plan(wanted: &Declaration, written: Option<&WrittenDown>, joins: bool) -> Result<(), MemberError> {
    if written.is_none_or(|written| written.founded.is_none()) {
        let foreseen = check_plan(wanted, joins).map_err(MemberError::Cluster)?;
        foreseen.into_iter().for_each(ferrite_io::notify);
    }
    Ok(())
}

/// Whether there can be such a cluster, or the node can join one.
fn check_plan(own: &Declaration, joins: bool) -> Result<Option<Notice>, String> {
    if !joins {
        let needs = foresee(own).map_err(|unfounded| unfounded.to_string())?;
        return Ok(needs.map(|NeedsWitnesses { witnesses, nodes, without }| Notice::NeedsWitnesses {
            witnesses,
            nodes,
            reason: without.to_string(),
        }));
    }
    match &own.plan.hosts[..] {
        [host] => Err(format!(
            "--join: --cluster {host} names this node only: name one or more that are in the cluster besides"
        )),
        _ => Ok(None),
    }
}

/// Copies beside the first, of a cluster that begins. No operator who has forgotten the option
/// wants one copy of everything on several nodes (docs/decisions/0083-settings-of-founders.md).
fn kfactor(options: &ClusterOptions, hosts: &[String]) -> Result<u32, MemberError> {
    match options.kfactor {
        Some(kfactor) => Ok(kfactor),
        None if options.joins || hosts.len() == 1 => Ok(0),
        None => Err(MemberError::Cluster(format!(
            "--cluster names {} nodes: give --kfactor, the number of copies beside the first, which cannot be changed later. \
             With 1, no loss of one node loses data; with 0, everything is on one node only",
            hosts.len()
        ))),
    }
}

/// Whether the node of this directory is the one that its operator names, if one is named.
fn is_named(named: Option<&str>, own: &Declaration, dir: &Path) -> Result<(), String> {
    let host = &own.plan.hosts[own.place as usize - 1];
    match named.map(|named| place::hosts(&[named.to_owned()])).transpose()?.and_then(|mut named| named.pop()) {
        Some(named) if named != *host => Err(format!(
            "{} belongs to the node {host} of its cluster, and --cluster-as names {named}: start each node with its own \
             directory. With an empty one a node joins anew",
            dir.display()
        )),
        _ => Ok(()),
    }
}

/// Where the node is reached: first by other nodes, then by clients, then by administrators.
fn addresses(own: &Declaration, about: &About<'_>) -> Vec<String> {
    let host = &own.plan.hosts[own.place as usize - 1];
    let name = host.rsplit_once(':').map_or(&host[..], |(name, _)| name);
    let reached = |address: &SocketAddr| match address.ip().is_unspecified() {
        true => format!("{name}:{}", address.port()),
        false => address.to_string(),
    };
    std::iter::once(host.clone()).chain(about.clients.iter().map(reached)).collect()
}

/// What a node says of itself before it has a process.
fn newcomer(own: &Declaration, about: &About<'_>) -> Registration {
    Registration {
        incarnation: own.incarnation,
        start: own.key,
        kind: own.kind,
        presence: Presence::Stopped,
        vote: None,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        addresses: addresses(own, about),
        rack: own.rack.clone(),
    }
}

/// A node of a cluster, with its vote open.
struct Part {
    own: Declaration,
    all: Vec<Declaration>,
    state: State,
    node: NodeId,
    voter: Option<Voter>,
}

fn take_part(about: &About<'_>, belongs_to: Option<[u8; 16]>, formed: Formed) -> Result<Part, MemberError> {
    let Formed { own, all, state, known } = formed;
    // Only a process that took part in the cluster writes down what is known of it.
    let is_new = belongs_to.is_none() && known.is_none();
    let (node, index, state) = match known {
        Some(known) => (known.node, known.index, known.state),
        None => (NodeId(own.place), 1, *state),
    };
    let settings = state.settings().expect("a cluster that was founded has settings");
    if belongs_to.is_some_and(|cluster| cluster != settings.cluster) {
        return Err(MemberError::Cluster(format!(
            "{} is of another cluster than its file 'founding' says: restore either from where it came",
            about.dir.display()
        )));
    }
    let voter = voter(about, node, &own, &state, is_new)?;
    let votes_in = voter.as_ref().and_then(|voter| voter.state().1.settings()).map(|settings| settings.cluster);
    if votes_in.is_some_and(|cluster| cluster != settings.cluster) {
        return Err(MemberError::Cluster(format!(
            "{} is of another cluster than the directory it is in: move it elsewhere, and start the node again",
            about.dir.join(METADATA).display()
        )));
    }
    // The vote may know more than what was written down beside it.
    let newer = voter.as_ref().map(Voter::state).filter(|(later, state)| *later > index && state.settings().is_some());
    let state = newer.map_or(state, |(_, state)| state.clone());
    Ok(Part { own, all, state, node, voter })
}

/// What this node has voted, as its directory records it.
pub fn open_voter(node: NodeId, disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<Voter>, VoterError> {
    Voter::open(node, Arc::clone(disk), &dir.join(METADATA), Box::new(SystemRandom))
}

/// What was voted here, if anything, no longer counts: the next start begins a new vote.
pub fn forget_vote(disk: &dyn Disk, dir: &Path) -> Result<(), VoterError> {
    let dir = dir.join(METADATA);
    // A missing vote has nothing.
    if disk.list(&dir).is_ok() { voter::put_aside(disk, &dir) } else { Ok(()) }
}

/// This node's vote, or a new one that the cluster may give it. Sound data needs none, so a broken
/// vote ends no start.
fn voter(
    about: &About<'_>,
    node: NodeId,
    own: &Declaration,
    state: &State,
    is_new: bool,
) -> Result<Option<Voter>, MemberError> {
    let dir = about.dir.join(METADATA);
    let last = directory::incarnation(&*about.disk, about.dir)?.max(own.incarnation);
    // The incarnation of this process, which is durable before the vote is offered to any node.
    let Ok(number) = u32::try_from(last.0 + 1) else { return Ok(None) };
    let random = || Box::new(SystemRandom) as Box<dyn Random>;
    let known = Known { state, is_new, number };
    match voter::open_or_begin(node, &about.disk, &dir, random, &known) {
        Ok((voter, before)) => {
            match before {
                Before::Sound => {}
                Before::Gone => ferrite_io::notify(Notice::VoteGone { dir }),
                Before::Unusable(error) => ferrite_io::notify(Notice::VoteUnusable { reason: error.to_string() }),
                Before::Taken => ferrite_io::notify(Notice::VoteTaken),
            }
            Ok(Some(voter))
        }
        Err(VoterError::Disk(error)) => {
            ferrite_io::notify(Notice::CannotVote { reason: error.to_string() });
            Ok(None)
        }
        Err(error) => Err(MemberError::Cluster(error.to_string())),
    }
}

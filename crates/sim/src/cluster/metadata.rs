//! What each node has of the metadata: the server's own code, with files on the node's disk.

use crate::cluster::invariants::voters;
use crate::cluster::ledger::Ledger;
use crate::cluster::plan::Plan;
use crate::node::DIRECTORY;
use crossbeam_channel::Sender;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_cluster::{Cause, Errand, Letter, Metadata};
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_meta::voter::{Voter, VoterError};
use ferrite_meta::{
    Ask, Command, Group, Keeper, Kind, Malformed, Node as Registration, Phase, Presence, Settings, State,
};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const MILLI: u64 = 1_000_000;
/// A vote that a fault of the disk has ended is opened again after so long at most.
const AGAIN_MILLIS: u64 = 1_500;

/// What a node says of itself. No directory is copied: its incarnation tells its starts apart.
pub fn registration(id: NodeId, incarnation: Incarnation, kind: Kind) -> Registration {
    Registration {
        incarnation,
        start: u128::from(incarnation.0).to_le_bytes(),
        kind,
        presence: Presence::Running,
        release: "simulated".to_owned(),
        addresses: vec![format!("node{id}:1")],
    }
}

/// A cluster as it is founded: node 1 leads the group, and the first nodes are its members.
pub fn founded(cluster: [u8; 16], plan: &Plan, group: GroupId) -> State {
    let first = Incarnation(1);
    let members: Vec<Member> = (1..=plan.kfactor + 1).map(|id| Member::new(id, 1)).collect();
    let kind = |id: u32| if id <= plan.nodes { Kind::Data } else { Kind::Witness };
    let all = (1..=plan.nodes + plan.witnesses).map(|id| (NodeId(id), registration(NodeId(id), first, kind(id))));
    let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
    let founded = Group {
        configuration,
        parent: Mark::ORIGIN,
        burnt: Epoch(1),
        phase: Phase::Active,
        accepted: None,
        loss: None,
    };
    let command = Command::Found {
        settings: Settings { cluster, revision: 1, kfactor: plan.kfactor, partitions: plan.database.partitions },
        nodes: all.collect(),
        groups: vec![(group, founded)],
        voters: (1..=plan.nodes + plan.witnesses).rev().take(plan.voters()).map(NodeId).collect(),
    };
    let mut state = State::default();
    state.apply(&command).expect("a cluster can be founded");
    state
}

/// What a node asks, until it is sent. Clones are the same.
#[derive(Clone, Default)]
pub struct Asks(Arc<Mutex<Vec<Ask>>>);

impl Asks {
    pub fn push(&self, ask: Ask) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
    }

    fn take(&self) -> Vec<Ask> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of one process.
pub struct Seat {
    here: NodeId,
    metadata: Metadata,
    asks: Asks,
    founded: Arc<State>,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    random: SimulatedRandom,
    causes: Sender<Cause>,
    /// When a vote that was lost is opened again.
    again: Option<u64>,
    led: bool,
    ledger: Ledger,
}

fn open_vote(
    here: NodeId,
    disk: &SimulatedDisk,
    random: &mut SimulatedRandom,
    founded: &State,
) -> Result<Option<Keeper>, VoterError> {
    if !founded.voters().contains(&here) {
        return Ok(None);
    }
    let dir: PathBuf = Path::new(DIRECTORY).join("metadata");
    let opened = Voter::open(here, Arc::new(disk.clone()), &dir, Box::new(random.fork()))?;
    let voter = match opened {
        Some(voter) => voter,
        None => Voter::found(here, Arc::new(disk.clone()), &dir, Box::new(random.fork()), founded)?,
    };
    Ok(Some(Keeper::new(here, voter)))
}

impl Seat {
    /// `causes`: to the node's inbox.
    pub fn open(
        here: NodeId,
        disk: &SimulatedDisk,
        clock: &SimulatedClock,
        mut random: SimulatedRandom,
        founded: &Arc<State>,
        causes: Sender<Cause>,
        ledger: &Ledger,
    ) -> Result<Seat, VoterError> {
        let keeper = open_vote(here, disk, &mut random, founded)?;
        let voters = founded.voters().iter().copied().collect();
        Ok(Seat {
            here,
            metadata: Metadata::new(here, voters, keeper, random.number()),
            asks: Asks::default(),
            founded: Arc::clone(founded),
            disk: disk.clone(),
            clock: clock.clone(),
            random,
            causes,
            again: None,
            led: false,
            ledger: ledger.clone(),
        })
    }

    /// Where the node leaves what it asks.
    pub fn asks(&self) -> &Asks {
        &self.asks
    }

    pub fn received(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), Malformed> {
        self.metadata.received(from, bytes, self.clock.boottime_nanos())
    }

    pub fn lost(&mut self, node: NodeId) {
        self.metadata.lost(node);
    }

    pub fn tick(&mut self) {
        self.metadata.tick(self.clock.boottime_nanos());
    }

    /// Whether it votes, if it should.
    pub fn votes(&self) -> bool {
        self.metadata.keeper().is_some() || !self.founded.voters().contains(&self.here)
    }

    /// Does what follows from all that came.
    pub fn work(&mut self, mut send: impl FnMut(NodeId, Vec<u8>)) {
        let now = self.clock.boottime_nanos();
        if self.again.take_if(|again| now >= *again).is_some() {
            match open_vote(self.here, &self.disk, &mut self.random, &self.founded) {
                Ok(Some(keeper)) => self.metadata.begin_to_vote(keeper),
                Ok(None) => unreachable!("it has a vote"),
                Err(error) => self.vote_lost(&error),
            }
        }
        for ask in self.asks.take() {
            self.metadata.ask(ask, now);
        }
        let mut errands = Vec::new();
        self.metadata.work(now, &mut errands);
        for errand in errands {
            match errand {
                Errand::Send { to, message } => send(to, Letter::Metadata.encode(message)),
                Errand::Cause(cause) => {
                    if let Cause::Lease { .. } = cause {
                        self.ledger.with(|book| book.leases += 1);
                    }
                    self.causes.send(cause).expect("the node lives as long as its process");
                }
                Errand::VoteLost(error) => self.vote_lost(&error),
            }
        }
        self.note();
    }

    fn vote_lost(&mut self, error: &VoterError) {
        self.ledger.with(|book| book.votes_lost += 1);
        // What was acknowledged is never lost here: no disk forgets what it has fsynced.
        assert!(matches!(error, VoterError::Disk(_)), "{error}");
        self.again = Some(self.clock.boottime_nanos() + self.random.below(AGAIN_MILLIS) * MILLI);
    }

    fn note(&mut self) {
        let Some(keeper) = self.metadata.keeper() else { return };
        let (index, state) = keeper.state();
        let begins = keeper.leads() && !self.led;
        self.led = keeper.leads();
        self.ledger.with(|book| {
            book.terms += u64::from(begins);
            voters::note(book, self.here, index, state);
        });
    }
}

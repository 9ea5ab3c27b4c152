//! What each node has of the metadata: the server's own code, with files on the node's disk.

use crate::cluster::invariants::voters;
use crate::cluster::ledger::Ledger;
use crate::cluster::plan::Plan;
use crate::node::DIRECTORY;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_cluster::{Cause, Errand, MessageKind, Metadata};
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_io::{Clock, Disk, Random};
use ferrite_meta::voter::{Before, Known, Voter, VoterError, open_or_begin};
use ferrite_meta::{
    Ask, Assignment, Command, Controller, Group, Kind, Malformed, Node as Registration, Phase, Presence, Settings,
    State,
};
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const MILLI: u64 = 1_000_000;
/// A vote that a fault of the disk has ended is opened again after so long at most.
const AGAIN_MILLIS: u64 = 1_500;

/// What a node says of itself. No directory is copied: its incarnation tells its starts apart.
/// `place`: where others reach it; `vote`: the one that its disk has.
pub fn registration(place: u32, incarnation: Incarnation, kind: Kind, vote: Option<u32>) -> Registration {
    Registration {
        incarnation,
        start: u128::from(incarnation.0).to_le_bytes(),
        kind,
        presence: Presence::Running,
        vote,
        release: "simulated".to_owned(),
        addresses: vec![format!("node{place}:1")],
        rack: None,
    }
}

/// A cluster as it is founded: each group's place has all its members.
pub fn founded(cluster: [u8; 16], plan: &Plan) -> State {
    let first = Incarnation(1);
    let kind = |id: u32| if id <= plan.nodes { Kind::Data } else { Kind::Witness };
    let voters: Vec<u32> = (1..=plan.nodes + plan.witnesses).rev().take(plan.voters()).collect();
    let vote = |id: u32| voters.contains(&id).then_some(0);
    let all = (1..=plan.nodes + plan.witnesses).map(|id| (NodeId(id), registration(id, first, kind(id), vote(id))));
    let command = Command::Found {
        settings: Settings {
            cluster,
            revision: 1,
            kfactor: plan.kfactor,
            partitions: plan.partitions(),
            paused: false,
        },
        nodes: all.collect(),
        groups: groups(plan),
        voters: voters.iter().copied().map(NodeId).collect(),
    };
    let mut state = State::default();
    state.apply(&command).expect("a cluster can be founded");
    state
}

/// The only group is on the first nodes, and node 1 leads it; several are where the server places
/// them.
fn groups(plan: &Plan) -> Vec<(GroupId, Group)> {
    let group = |place: &[NodeId], assignment| {
        let members: Vec<Member> = place.iter().map(|node| Member::new(node.0, 1)).collect();
        Group {
            configuration: GroupConfiguration::new(Epoch(1), members[0], members, Vec::new()),
            parent: Mark::ORIGIN,
            burnt: Epoch(1),
            phase: Phase::Active,
            accepted: None,
            loss: None,
            unequal: false,
            assignment,
        }
    };
    let Some(placement) = plan.placement() else {
        let place: Vec<NodeId> = (1..=plan.kfactor + 1).map(NodeId).collect();
        return vec![(FIRST_GROUP, group(&place, None))];
    };
    let placed = placement.groups.into_iter().map(|of| {
        let assignment = Assignment { partitions: of.partitions, place: of.place.clone() };
        (of.group, group(&of.place, Some(assignment)))
    });
    placed.collect()
}

/// What a node asks, until it is sent. Clones are the same.
#[derive(Clone, Default)]
pub struct Asks(Arc<Mutex<Vec<Ask>>>);

impl Asks {
    pub fn push(&self, ask: Ask) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
    }

    fn drain(&self) -> Vec<Ask> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of one process.
pub struct Seat {
    here: NodeId,
    metadata: Metadata,
    asks: Asks,
    number: u32,
    disk: SimulatedDisk,
    clock: SimulatedClock,
    random: SimulatedRandom,
    causes: WakingSender<Cause>,
    /// When a vote that was lost is opened again.
    again: Option<u64>,
    led: bool,
    ledger: Ledger,
    /// What the node proposes of its group reaches no voter.
    pub loses_proposals: bool,
}

fn dir() -> PathBuf {
    Path::new(DIRECTORY).join("metadata")
}

impl Seat {
    /// `causes`: to the node's inbox.
    pub fn open(
        here: Member,
        disk: &SimulatedDisk,
        clock: &SimulatedClock,
        mut random: SimulatedRandom,
        known: &State,
        causes: WakingSender<Cause>,
        ledger: &Ledger,
    ) -> Result<Seat, VoterError> {
        let drawn = random.number();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        // The first process of a node that the cluster was founded with.
        let is_new = here.incarnation == Incarnation(1);
        let how = Known { state: known, is_new, number: here.incarnation.0 as u32 };
        let draw = || Box::new(SimulatedRandom::new(drawn)) as Box<dyn Random>;
        let (voter, before) = open_or_begin(here.node, &shared, &dir(), draw, &how)?;
        ledger.with(|book| book.votes_renewed += u64::from(!matches!(before, Before::Sound)));
        let number = voter.number();
        let here = here.node;
        let controller = Some(Controller::new(here, voter));
        let voters = known.voters().iter().copied().collect();
        Ok(Seat {
            here,
            metadata: Metadata::new(here, voters, controller, random.number()),
            asks: Asks::default(),
            number,
            disk: disk.clone(),
            clock: clock.clone(),
            random,
            causes,
            again: None,
            led: false,
            ledger: ledger.clone(),
            loses_proposals: false,
        })
    }

    /// Where the node leaves what it asks.
    pub fn asks(&self) -> &Asks {
        &self.asks
    }

    pub fn handle_message(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), Malformed> {
        self.metadata.handle_message(from, bytes, self.clock.boottime_nanos())
    }

    pub fn lost(&mut self, node: NodeId) {
        self.metadata.lost(node);
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        let now = self.clock.boottime_nanos();
        if self.metadata.next_tick(now).is_some_and(|next| now >= next) {
            self.metadata.tick(now);
        }
    }

    /// Whether its vote is open, and which it is.
    pub fn votes(&self) -> bool {
        self.metadata.controller().is_some()
    }

    /// Whether it counts, as far as it knows itself.
    pub fn counts(&self) -> bool {
        self.metadata.controller().is_some_and(Controller::votes)
    }

    /// Whether it leads the voters.
    pub fn is_leader(&self) -> bool {
        self.metadata.controller().is_some_and(Controller::is_leader)
    }

    pub fn vote(&self) -> u32 {
        self.number
    }

    /// Does what follows from all that came.
    pub fn work(&mut self, mut send: impl FnMut(NodeId, Vec<u8>)) {
        let now = self.clock.boottime_nanos();
        if self.again.take_if(|again| now >= *again).is_some() {
            let disk = Arc::new(self.disk.clone());
            let random = Box::new(self.random.fork());
            match Voter::open(self.here, disk, &dir(), random) {
                Ok(Some(voter)) => self.metadata.begin_to_vote(Controller::new(self.here, voter)),
                Ok(None) => unreachable!("it has a vote"),
                Err(error) => self.vote_lost(&error),
            }
        }
        for ask in self.asks.drain() {
            if !(self.loses_proposals && matches!(ask, Ask::Propose { .. })) {
                self.metadata.ask(ask, now);
            }
        }
        let mut errands = Vec::new();
        self.metadata.work(now, &mut errands);
        for errand in errands {
            match errand {
                Errand::Send { to, message } => send(to, MessageKind::Metadata.encode(message)),
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
        let Some(controller) = self.metadata.controller() else { return };
        let (index, state) = controller.state();
        let begins = controller.is_leader() && !self.led;
        self.led = controller.is_leader();
        self.ledger.with(|book| {
            book.terms += u64::from(begins);
            voters::note(book, self.here, index, state);
        });
    }
}

//! Nodes' parts in the metadata, on a network that carries everything: who is told what, in which
//! order, and that a node goes on without its vote.

use ferrite_base::{Incarnation, NodeId};
use ferrite_cluster::{Cause, Errand, Metadata};
use ferrite_io::simulated::{Fault, FaultKind, SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_meta::founding::{Declaration, Partitions, Plan, found};
use ferrite_meta::voter::Voter;
use ferrite_meta::{Ask, Controller, Kind, State};
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MILLI: u64 = 1_000_000;

struct World {
    now: u64,
    all: BTreeMap<NodeId, Metadata>,
    disks: BTreeMap<NodeId, SimulatedDisk>,
    /// By node, what its inbox was sent.
    causes: BTreeMap<NodeId, Vec<Cause>>,
    lost: Vec<NodeId>,
    /// Nobody hears these.
    cut: Vec<NodeId>,
}

/// Of these nodes with data, one of which would be lost.
fn founded(nodes: u32) -> State {
    let plan = Plan {
        hosts: (1..=nodes).map(|node| format!("host{node}:3021")).collect(),
        kfactor: 1,
        partitions_per_node: None,
    };
    let declaration = |place: u32| Declaration {
        plan: plan.clone(),
        place,
        key: [place as u8; 16],
        incarnation: Incarnation(1),
        kind: Kind::Data,
        database: None,
        partitions: Partitions::Suggested(1),
        release: "test".to_owned(),
        addresses: vec![format!("host{place}:21212")],
        rack: None,
    };
    found(&(1..=nodes).map(declaration).collect::<Vec<_>>()).unwrap()
}

fn member(node: u32) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(1) }
}

impl World {
    fn new(nodes: u32) -> World {
        let state = founded(nodes);
        let voters: Vec<NodeId> = state.voters().iter().copied().collect();
        let mut world = World {
            now: MILLI,
            all: BTreeMap::new(),
            disks: BTreeMap::new(),
            causes: BTreeMap::new(),
            lost: Vec::new(),
            cut: Vec::new(),
        };
        for id in (1..=nodes).map(NodeId) {
            let disk = SimulatedDisk::new(u64::from(id.0), SimulatedClock::default());
            let random = Box::new(SimulatedRandom::new(u64::from(id.0)));
            let controller = voters.contains(&id).then(|| {
                let voter = Voter::found(id, Arc::new(disk.clone()), Path::new("/metadata"), random, &state);
                Controller::new(id, voter.unwrap())
            });
            world.all.insert(id, Metadata::new(id, voters.clone(), controller, u64::from(id.0) << 40));
            world.disks.insert(id, disk);
        }
        world
    }

    /// Everything that is said arrives at once.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 10 {
            self.now += 10 * MILLI;
            for id in self.all.keys().copied().collect::<Vec<_>>() {
                self.all.get_mut(&id).unwrap().tick(self.now);
                self.work(id);
            }
        }
    }

    fn work(&mut self, id: NodeId) {
        let mut errands = Vec::new();
        self.all.get_mut(&id).unwrap().work(self.now, &mut errands);
        for errand in errands {
            match errand {
                Errand::Send { to, message } => {
                    assert_ne!(to, id, "a node does not send to itself");
                    if !self.cut.contains(&id) && !self.cut.contains(&to) {
                        self.all.get_mut(&to).unwrap().handle_message(id, &message, self.now).unwrap();
                        self.work(to);
                    }
                }
                Errand::Cause(cause) => self.causes.entry(id).or_default().push(cause),
                Errand::VoteLost(_) => self.lost.push(id),
            }
        }
    }

    fn ask(&mut self, id: u32, ask: Ask) {
        self.all.get_mut(&NodeId(id)).unwrap().ask(ask, self.now);
        self.work(NodeId(id));
    }

    fn look(&mut self, id: u32) {
        let index = self.all[&NodeId(id)].state().0;
        self.ask(id, Ask::Look { member: member(id), index });
    }

    fn leader(&self) -> NodeId {
        let leads = |(_, metadata): &(&NodeId, &Metadata)| metadata.controller().is_some_and(Controller::is_leader);
        *self.all.iter().find(leads).expect("one of the voters leads").0
    }

    /// The end of the lease that a node was told last, and what the state was then.
    fn lease(&mut self, id: u32) -> Option<(u64, u64)> {
        let mut known = 0;
        let mut lease = None;
        for cause in self.causes.remove(&NodeId(id)).unwrap_or_default() {
            match cause {
                Cause::Metadata { index, .. } => known = index,
                Cause::Lease { index, until } => {
                    assert_eq!(index, known, "a lease comes behind its state");
                    lease = Some((index, until));
                }
                _ => panic!("the metadata says nothing else"),
            }
        }
        lease
    }
}

#[test]
fn every_node_gets_state_and_leases_which_count_from_the_question() {
    let mut world = World::new(4);
    assert!(world.all[&NodeId(4)].controller().is_none(), "three of four vote");
    world.pass(5_000);
    for id in 1..=4 {
        // At first some do not know yet who leads, and a leader does not know yet that it is one.
        for _ in 0..3 {
            world.look(id);
            world.pass(100);
        }
        world.lease(id);
        let asked = world.now;
        world.look(id);
        world.pass(500);
        let (index, until) = world.lease(id).expect("it is granted a lease");
        assert_eq!(until, asked + 2_000 * MILLI);
        assert_eq!(world.all[&NodeId(id)].state().0, index);
        assert_eq!(world.all[&NodeId(id)].leader(), Some(world.leader()));
    }
}

#[test]
fn a_node_whose_vote_is_lost_goes_on_without() {
    let mut world = World::new(3);
    world.pass(5_000);
    let first = world.leader();
    let disk = &world.disks[&first];
    disk.fail(Fault {
        kind: FaultKind::Write,
        at: disk.count(FaultKind::Write) + 1,
        times: 1,
        error: Fault::EIO,
        short: 0,
    });
    let end = Member { node: first, incarnation: Incarnation(1) };
    // A command is written.
    world.ask(first.0 % 3 + 1, Ask::Goodbye(Member { node: NodeId(first.0 % 3 + 1), ..end }));
    world.ask(first.0, Ask::Goodbye(end));
    world.pass(5_000);
    assert_eq!(world.lost, [first]);
    assert!(world.all[&first].controller().is_none() && world.leader() != first);
    for _ in 0..4 {
        world.look(first.0);
        world.pass(600);
    }
    assert_eq!(world.all[&first].leader(), Some(world.leader()), "it asks the others");
    // Who still asks it hears who leads.
    let third = NodeId(6 - first.0 - world.leader().0);
    for _ in 0..4 {
        world.look(third.0);
        world.pass(600);
    }
    assert_eq!(world.all[&third].leader(), Some(world.leader()));
}

#[test]
fn a_voter_that_says_nothing_is_not_asked_for_ever() {
    let mut world = World::new(4);
    world.pass(5_000);
    for _ in 0..4 {
        world.look(4);
        world.pass(100);
    }
    let first = world.leader();
    assert_eq!(world.all[&NodeId(4)].leader(), Some(first));
    // The connection does not end, as where packets are dropped.
    world.cut.push(first);
    world.pass(5_000);
    world.lease(4);
    for _ in 0..12 {
        world.look(4);
        world.pass(600);
    }
    assert!(world.lease(4).is_some());
    assert_ne!(world.all[&NodeId(4)].leader(), Some(first));
}

#[test]
fn nobody_asks_in_the_name_of_another_and_unknown_kinds_are_refused() {
    let mut world = World::new(3);
    world.pass(3_000);
    let (mut asker, leader, now) = (Metadata::new(NodeId(9), vec![world.leader()], None, 7), world.leader(), world.now);
    let mut errands = Vec::new();
    asker.ask(Ask::Look { member: member(1), index: 0 }, now);
    asker.work(now, &mut errands);
    let [Errand::Send { to, message }] = &errands[..] else { panic!("it asks") };
    assert_eq!(*to, leader);
    let asked = world.all.get_mut(&leader).unwrap();
    assert!(
        asked.handle_message(NodeId(9), message, now).unwrap_err().to_string().contains("in the name of another node")
    );
    for bytes in [&[][..], &[0], &[4, 1, 2], &[9]] {
        assert!(
            asked.handle_message(NodeId(1), bytes, now).unwrap_err().to_string().contains("does not know"),
            "{bytes:?}"
        );
    }
}

//! A leader that ends: it does not go before somebody else could lead, as long as somebody is on
//! the way to that. Node 1 leads alone; node 2 is what the test says it is.

use crate::world::{Wish, World, founded, member, registration};
use ferrite_base::{Epoch, Incarnation, NodeId, Position};
use ferrite_cluster::{Cause, NotHandedOver};
use ferrite_group::{CannotHandOver, FIRST_GROUP, message};
use ferrite_io::Clock;
use ferrite_meta::{Ask, Command, Node as Registration, Presence, State};
use ferrite_replica::group::{Envelope, GroupConfiguration, Mark, Member, Message, Proposal, Said};
use std::collections::BTreeSet;
use std::time::Duration;

/// Milliseconds: behind that a leader looks at who follows.
const HEARTBEAT: u64 = 100;
const LEASE_NANOS: u64 = 2_000_000_000;
const OTHER: Member = Member { node: NodeId(2), incarnation: Incarnation(2) };

struct Leader {
    world: World,
    state: State,
    index: u64,
    proposed: Option<(Proposal, Mark)>,
}

impl Leader {
    /// Node 1 leads alone, and knows that node 2 runs, too.
    fn alone() -> Leader {
        let mut founded = founded(registration(1));
        founded.apply(&Command::Settings { revision: 1, kfactor: 1 }).unwrap();
        let at = |incarnation| Registration { addresses: vec!["there:1".to_owned()], ..registration(incarnation) };
        let node = Registration { presence: Presence::Stopped, ..at(1) };
        founded.apply(&Command::Join { id: OTHER.node, key: [2; 16], node }).unwrap();
        let register = Command::Register { id: OTHER.node, expected: Incarnation(1), node: at(2) };
        founded.apply(&register).unwrap();
        let mut leader = Leader { world: World::new(1), state: founded, index: 0, proposed: None };
        leader.tell();
        assert!(matches!(&leader.world.outside.take()[..], [Wish::Serves(Some(Epoch(1)))]));
        leader
    }

    /// Node 2 has been made a member, and has nothing of the new epoch.
    fn with_added_member() -> Leader {
        let mut leader = Leader::alone();
        leader.answers(Epoch(1));
        leader.pass(HEARTBEAT);
        let proposed = leader.apply_proposal();
        assert_eq!((proposed.leader, proposed.added()), (member(1), &[OTHER.node][..]));
        leader
    }

    fn tell(&mut self) {
        self.index += 1;
        self.world.told(self.index, &self.state);
    }

    /// The metadata can be reached, and grants leases.
    fn pass(&mut self, millis: u64) {
        self.world.clock.advance(Duration::from_millis(millis));
        let until = self.world.clock.boottime_nanos() + LEASE_NANOS;
        self.world.causes.send(Cause::Lease { index: self.index, until }).unwrap();
        self.world.node.tick(self.world.clock.boottime_nanos());
        self.world.settle();
    }

    /// Node 2 says that it has everything, of this epoch, when it was asked last.
    fn answers(&mut self, epoch: Epoch) {
        self.answers_and_lacks(epoch, 0);
    }

    /// Of that, its tables lack so many entries.
    fn answers_and_lacks(&mut self, epoch: Epoch, lacks: u64) {
        self.answers_as(epoch, lacks, true);
    }

    /// `able`: it can run all procedures.
    fn answers_as(&mut self, epoch: Epoch, lacks: u64, able: bool) {
        self.pass(20);
        let group = self.world.groups.get(FIRST_GROUP).unwrap();
        let acked = Message::Acked { durable: group.end(), compares: true, round: self.world.outside.round() };
        let applied = Position(group.end().position.0 - lacks);
        let knows = Message::Knows { said: Said::default(), applied, able };
        for message in [acked, knows] {
            let mut bytes = Vec::new();
            message::encode(&mut bytes, FIRST_GROUP, &Envelope { from: OTHER, epoch, message }, &[]);
            self.world.groups.dispatch(OTHER, &bytes).unwrap();
        }
        self.world.settle();
    }

    /// What it wanted done since then.
    fn said(&mut self) -> Vec<Wish> {
        let said = self.world.outside.take();
        for wish in &said {
            if let Wish::Ask(Ask::Propose { proposal, parent, .. }) = wish {
                self.proposed = Some((proposal.clone(), *parent));
            }
        }
        said
    }

    /// The metadata decides what was proposed last.
    fn apply_proposal(&mut self) -> GroupConfiguration {
        self.said();
        let (proposal, parent) = self.proposed.take().expect("something is proposed");
        let epoch = Epoch(self.state.groups()[&FIRST_GROUP].burnt.0 + 1);
        let configuration = GroupConfiguration::new(epoch, proposal.leader, proposal.members, proposal.added);
        let (expected, next) = (proposal.expected, configuration.clone());
        let command = Command::Configure { group: FIRST_GROUP, expected, configuration, parent };
        self.state.apply(&command).unwrap();
        self.tell();
        next
    }

    /// For how long it does not say goodbye, in milliseconds; node 2 answers all the time, or not.
    fn stays(&mut self, answers: Option<Epoch>) -> u64 {
        let mut passed = 0;
        loop {
            let said = self.said();
            if said.iter().any(|wish| matches!(wish, Wish::Ask(Ask::Goodbye(_)))) {
                return passed;
            }
            assert!(passed < 60_000, "it never goes");
            passed += 20;
            match answers {
                Some(epoch) => self.answers(epoch),
                None => self.pass(20),
            }
        }
    }
}

#[test]
fn a_leader_that_ends_goes_when_the_member_that_was_just_added_leads() {
    let mut leader = Leader::with_added_member();
    leader.world.node.leave();
    leader.pass(20);
    leader.pass(700);
    let said = leader.said();
    assert!(!said.iter().any(|wish| matches!(wish, Wish::Ask(Ask::Goodbye(_)))), "nobody could lead: {said:?}");
    leader.answers(Epoch(2));
    leader.pass(500);
    let proposed = leader.apply_proposal();
    assert_eq!((proposed.leader, proposed.epoch), (OTHER, Epoch(3)));
    leader.pass(20);
    let said = leader.said();
    assert!(said.iter().any(|wish| matches!(wish, Wish::Ask(Ask::Goodbye(_)))), "{said:?}");
}

#[test]
fn whoever_never_could_lead_is_not_waited_for_long() {
    let mut silent = Leader::with_added_member();
    silent.world.node.leave();
    let patience = silent.stays(None);
    assert!((1_000..3_000).contains(&patience), "{patience}");
    // It answers, but what it says is of the epoch before.
    let mut old = Leader::with_added_member();
    old.world.node.leave();
    let patience = old.stays(Some(Epoch(1)));
    assert!((1_000..3_000).contains(&patience), "{patience}");
    let mut stopped = Leader::with_added_member();
    stopped.state.apply(&Command::Goodbye { node: OTHER.node, incarnation: OTHER.incarnation }).unwrap();
    stopped.tell();
    stopped.world.node.leave();
    let patience = stopped.stays(None);
    assert!((200..600).contains(&patience), "{patience}: nobody runs, but there may be news of that");
}

#[test]
fn nodes_that_end_too_are_neither_handed_over_to_nor_waited_for() {
    let mut leader = Leader::with_added_member();
    leader.answers(Epoch(2));
    leader.pass(HEARTBEAT);
    leader.answers(Epoch(2));
    leader.world.node.are_ending(BTreeSet::from([OTHER.node]));
    let mut said = hands_over(&mut leader, Some(Duration::from_secs(5)));
    leader.answers(Epoch(2));
    said.extend(leader.said());
    let alone = NotHandedOver::Cannot(CannotHandOver::Alone);
    assert!(said.iter().any(|wish| matches!(wish, Wish::HandedOver(Err(reason)) if *reason == alone)), "{said:?}");
    assert!(!said.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{said:?}");
    leader.world.node.leave();
    let patience = leader.stays(Some(Epoch(2)));
    assert!(patience <= 100, "{patience}");
}

#[test]
fn calls_do_not_wait_for_a_node_that_ends_since_they_wait() {
    let mut leader = Leader::with_added_member();
    leader.answers_and_lacks(Epoch(2), 1);
    let mut said = hands_over(&mut leader, Some(Duration::from_secs(5)));
    leader.pass(1);
    said.extend(leader.said());
    assert!(said.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{said:?}");
    assert!(!said.iter().any(|wish| matches!(wish, Wish::Ask(Ask::Propose { .. }))), "it lacks something: {said:?}");
    leader.world.node.are_ending(BTreeSet::from([OTHER.node]));
    leader.pass(1);
    let said = leader.said();
    let alone = NotHandedOver::Cannot(CannotHandOver::Alone);
    assert!(said.iter().any(|wish| matches!(wish, Wish::HandedOver(Err(reason)) if *reason == alone)), "{said:?}");
}

#[test]
fn a_node_that_ends_asks_a_copy_again_that_falls_behind_when_calls_wait_and_an_operator_hears_of_it() {
    for ends in [true, false] {
        let mut leader = Leader::with_added_member();
        leader.answers_and_lacks(Epoch(2), 1);
        let mut said = hands_over(&mut leader, ends.then_some(Duration::from_secs(5)));
        let mut pass = |leader: &mut Leader, count: usize| {
            (0..count).for_each(|_| leader.pass(20));
            said.extend(leader.said());
            std::mem::take(&mut said)
        };
        let first = pass(&mut leader, 2);
        assert!(first.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{first:?}");
        let then = pass(&mut leader, 6);
        assert!(then.iter().any(|wish| matches!(wish, Wish::Holds(false))), "{then:?}");
        let has_failed = then.iter().any(|wish| matches!(wish, Wish::HandedOver(Err(_))));
        assert_eq!(has_failed, !ends, "{then:?}");
        leader.answers(Epoch(2));
        pass(&mut leader, 2);
        if ends {
            assert_eq!(leader.apply_proposal().leader, OTHER);
        }
    }
}

#[test]
fn a_voter_that_ends_stays_until_a_leader_that_ends_has_said_goodbye() {
    let mut former = Leader::with_added_member();
    former.world.node.leave();
    former.pass(20);
    former.answers(Epoch(2));
    former.pass(500);
    assert_eq!(former.apply_proposal().leader, OTHER);
    former.pass(20);
    former.said();
    former.state.apply(&Command::Goodbye { node: NodeId(1), incarnation: Incarnation(1) }).unwrap();
    former.tell();
    assert!(!former.world.node.has_left() && former.world.node.is_needed(), "the leader does not do without it yet");
    former.world.node.are_ending(BTreeSet::from([OTHER.node]));
    assert!(!former.world.node.has_left() && former.world.node.is_needed(), "its last answers need the voters");
    former.state.apply(&Command::Goodbye { node: OTHER.node, incarnation: OTHER.incarnation }).unwrap();
    former.tell();
    assert!(former.world.node.has_left() && !former.world.node.is_needed());
}

fn hands_over(leader: &mut Leader, patience: Option<Duration>) -> Vec<Wish> {
    leader.world.node.hand_over(FIRST_GROUP, None, patience.map(|patience| patience.as_nanos() as u64));
    leader.said()
}

#[test]
fn calls_go_on_until_somebody_could_lead_and_wait_only_then() {
    let mut leader = Leader::alone();
    let said = hands_over(&mut leader, None);
    let [Wish::HandedOver(Err(reason))] = &said[..] else { panic!("{said:?}") };
    assert_eq!(*reason, NotHandedOver::Cannot(CannotHandOver::Alone), "an operator hears at once");
    assert!(hands_over(&mut leader, Some(Duration::from_secs(5))).is_empty());
    // Node 2 follows, becomes a member, and has the epoch's start.
    leader.answers(Epoch(1));
    leader.pass(HEARTBEAT);
    leader.apply_proposal();
    leader.pass(HEARTBEAT);
    let said = leader.said();
    assert!(!said.iter().any(|wish| matches!(wish, Wish::Holds(_) | Wish::HandedOver(_))), "{said:?}");
    leader.answers(Epoch(2));
    leader.pass(500);
    let said = leader.said();
    assert!(said.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{said:?}");
    assert_eq!(leader.apply_proposal().leader, OTHER);
    let said = leader.said();
    let outcome = said.iter().find_map(|wish| match wish {
        Wish::HandedOver(outcome) => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome, Some(Ok(OTHER.node)), "{said:?}");
}

#[test]
fn calls_do_not_wait_for_what_a_copy_has_to_apply() {
    let mut leader = Leader::with_added_member();
    leader.answers_and_lacks(Epoch(2), 1);
    (0..3).for_each(|_| leader.pass(HEARTBEAT));
    assert!(hands_over(&mut leader, None).iter().all(|wish| !matches!(wish, Wish::HandedOver(_))));
    let mut said = Vec::new();
    for _ in 0..5 {
        leader.answers_and_lacks(Epoch(2), 1);
        leader.pass(HEARTBEAT);
        said.extend(leader.said());
    }
    let expected = NotHandedOver::Applying { node: OTHER.node, behind: 1 };
    assert!(said.iter().any(|wish| matches!(wish, Wish::HandedOver(Err(reason)) if *reason == expected)), "{said:?}");
    assert!(!said.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{said:?}");
    // As soon as it has, it is the next.
    leader.answers(Epoch(2));
    hands_over(&mut leader, None);
    leader.pass(20);
    assert_eq!(leader.apply_proposal().leader, OTHER);
}

#[test]
fn a_member_that_cannot_run_all_procedures_leads_where_this_node_ends_and_not_because_an_operator_asks() {
    let mut leader = Leader::with_added_member();
    leader.answers_as(Epoch(2), 0, false);
    leader.answers_as(Epoch(2), 0, false);
    let refused = Err(NotHandedOver::Cannot(CannotHandOver::Unable(OTHER.node)));
    for to in [None, Some(OTHER.node)] {
        leader.world.node.hand_over(FIRST_GROUP, to, None);
        leader.answers_as(Epoch(2), 0, false);
        let said = leader.said();
        assert!(said.iter().any(|wish| matches!(wish, Wish::HandedOver(outcome) if *outcome == refused)), "{said:?}");
        assert!(!said.iter().any(|wish| matches!(wish, Wish::Holds(true))), "{said:?}");
    }
    // An operator installs what was missing, and the node is started again.
    leader.answers(Epoch(2));
    hands_over(&mut leader, None);
    leader.pass(20);
    assert_eq!(leader.apply_proposal().leader, OTHER);
    let mut ending = Leader::with_added_member();
    ending.answers_as(Epoch(2), 0, false);
    ending.answers_as(Epoch(2), 0, false);
    hands_over(&mut ending, Some(Duration::from_secs(5)));
    ending.answers_as(Epoch(2), 0, false);
    assert_eq!(ending.apply_proposal().leader, OTHER, "better than none");
}

#[test]
fn when_the_time_is_up_it_says_that_nobody_leads() {
    let mut leader = Leader::with_added_member();
    assert!(hands_over(&mut leader, Some(Duration::from_secs(3))).is_empty());
    let mut passed = 0;
    let outcome = loop {
        leader.answers(Epoch(1));
        passed += 20;
        let said = leader.said();
        if let Some(outcome) = said.iter().find_map(|wish| match wish {
            Wish::HandedOver(outcome) => Some(*outcome),
            _ => None,
        }) {
            break outcome;
        }
        assert!(passed < 60_000, "it never ends");
    };
    assert_eq!((outcome, passed / 1_000), (Err(NotHandedOver::NoSuccessor), 3));
}

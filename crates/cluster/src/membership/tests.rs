//! Which nodes become members of a group, and when.

use super::*;
use crate::lead_return::LeadReturn;
use ferrite_base::Incarnation;
use ferrite_meta::placement::{PlacedGroup, PlacedNode, place_groups};
use ferrite_meta::{Assignment, Command, Settings};
use ferrite_replica::group::Mark;

#[test]
fn one_that_never_gets_there_is_not_the_only_one_for_ever() {
    let mut offers = Offers::default();
    let mut besides = |epoch, lacking, seconds: u64| offers.besides(Epoch(epoch), lacking, seconds * 1_000_000_000);
    assert_eq!(besides(4, 1, 100), 0);
    assert_eq!(besides(4, 1, 159), 0);
    assert_eq!(besides(4, 1, 160), 1);
    assert_eq!(besides(4, 1, 220), 2);
    assert_eq!(besides(5, 1, 221), 0, "somebody has become a member");
    assert_eq!(besides(5, 0, 300), 0);
    assert_eq!(besides(5, 1, 310), 0, "none was lacking meanwhile");
}

#[test]
fn others_wait_for_one_that_may_come_back_as_long_as_a_transfer_takes() {
    const SECOND: u64 = 1_000_000_000;
    let mut offers = Offers::default();
    assert_eq!(offers.besides(Epoch(4), 1, 100 * SECOND), 0);
    let awaits = |away, transfer, seconds: u64| offers.await_return(away, transfer, seconds * SECOND);
    assert!(awaits(true, 10 * SECOND, 109) && !awaits(true, 10 * SECOND, 110));
    assert!(!awaits(false, 10 * SECOND, 101), "nobody is away");
    assert!(!awaits(true, 0, 100), "there is nothing to send");
    assert!(awaits(true, 7_200 * SECOND, 159) && !awaits(true, 7_200 * SECOND, 160), "a minute at most");
}

#[test]
fn who_was_a_member_since_nobody_was_lacking_comes_back() {
    let mut offers = Offers::default();
    let mut seen = |members: &[u32]| {
        offers.see(members.iter().map(|node| NodeId(*node)), 2);
        offers.had.iter().map(|node| node.0).collect::<Vec<u32>>()
    };
    assert_eq!(seen(&[1]), [1]);
    assert_eq!(seen(&[1, 2]), [1, 2]);
    assert_eq!(seen(&[1]), [1, 2], "2 may come back");
    assert_eq!(seen(&[3]), [1, 2, 3]);
    assert_eq!(seen(&[3, 4]), [3, 4], "the others lack more and more");
}

fn numbers(members: Vec<Member>) -> Vec<u32> {
    members.into_iter().map(|member| member.node.0).collect()
}

fn are(among: &[u32]) -> impl Fn(Member) -> bool {
    |member: Member| among.contains(&member.node.0)
}

#[test]
fn a_dead_node_keeps_nobody_from_becoming_a_member() {
    let candidates: Vec<Member> = (2..5).map(|node| Member::new(node, 1)).collect();
    let chosen = |counts: &[u32], lacking, offered: u32| -> Vec<u32> {
        let offered = (offered > 0).then_some(NodeId(offered));
        numbers(chosen(&candidates, are(counts), lacking, offered))
    };
    assert_eq!(chosen(&[], 1, 0), [2]);
    assert!(chosen(&[2], 1, 2).is_empty(), "it may answer yet");
    assert_eq!(chosen(&[], 1, 2), [3], "it was silent");
    assert_eq!(chosen(&[], 1, 4), [2], "and all once more");
    assert_eq!(chosen(&[3], 2, 3), [4]);
    assert_eq!(chosen(&[3], 2, 4), [2]);
    assert!(chosen(&[2, 3], 1, 3).is_empty(), "one more than is lacking is nobody's harm");
    assert!(chosen(&[], 0, 0).is_empty());
    let offers = Offers { last: Some((NodeId(2), 5 * ANSWER_NANOS)), ..Offers::default() };
    assert!(offers.waits(3, 6 * ANSWER_NANOS - 1) && !offers.waits(3, 6 * ANSWER_NANOS));
    assert!(!Offers::default().waits(3, 0));
}

#[test]
fn nodes_that_answer_late_get_more_time_in_each_round() {
    let time = |made| {
        let offers = Offers { last: Some((NodeId(2), 0)), made, ..Offers::default() };
        (0..200).find(|tenths| !offers.waits(3, tenths * 100_000_000)).expect("it ends")
    };
    assert_eq!([1, 2, 3, 4, 6, 7, 10].map(time), [3, 3, 3, 6, 6, 12, 24]);
    assert_eq!([16, 19, 1_000_000].map(time), [96, 100, 100], "ten seconds at most");
    let mut offers = Offers { made: 7, ..Offers::default() };
    offers.besides(Epoch(4), 1, 0);
    assert_eq!(offers.made, 0, "for another lack they begin anew");
}

#[test]
fn who_has_answered_stays_and_who_is_silent_goes_for_it() {
    let needless = |follow: &[u32], answer: &[u32], lacking| -> Vec<u32> {
        let follow: Vec<Member> = follow.iter().map(|node| Member::new(*node, 1)).collect();
        numbers(needless(&follow, are(answer), lacking))
    };
    assert!(needless(&[2, 3], &[], 1).is_empty(), "either may answer yet");
    assert_eq!(needless(&[2, 3], &[3], 1), [2]);
    assert_eq!(needless(&[2, 3], &[2, 3], 1), [3]);
    assert!(needless(&[2, 3, 4], &[4], 2).is_empty(), "one more is lacking");
    assert_eq!(needless(&[2, 3, 4], &[3, 4], 0), [3, 4, 2]);
}

/// Three nodes, each of which leads a group and copies another's: K = 1.
fn three_groups() -> State {
    let nodes: Vec<PlacedNode> = (1..=3).map(|node| PlacedNode { node: NodeId(node), rack: None }).collect();
    let placement = place_groups(&nodes, 1, 2).unwrap();
    let groups = placement.groups.iter().map(|PlacedGroup { group, partitions, place }| {
        let configuration = GroupConfiguration::alone(Epoch(1), Member::new(place[0].0, 1));
        let assignment = Some(Assignment { partitions: partitions.clone(), place: place.clone() });
        let (parent, burnt, phase) = (Mark::ORIGIN, Epoch(1), Phase::Active);
        (*group, Group { configuration, parent, burnt, phase, accepted: None, loss: None, unequal: false, assignment })
    });
    let mut state = State::default();
    let command = Command::Found {
        settings: Settings { cluster: [1; 16], revision: 1, kfactor: 1, partitions: 3, paused: false },
        nodes: (1..=3).map(|id| (NodeId(id), registration(id, 1))).collect(),
        groups: groups.collect(),
        voters: (1..=3).map(NodeId).collect(),
    };
    state.apply(&command).unwrap();
    state
}

fn registration(id: u32, incarnation: u64) -> Node {
    Node {
        incarnation: Incarnation(incarnation),
        start: [incarnation as u8; 16],
        kind: Kind::Data,
        presence: Presence::Running,
        vote: None,
        release: "test".to_owned(),
        addresses: vec![format!("host{id}:1")],
        rack: None,
    }
}

/// How many members each group lacks, and the nodes that may become one.
fn lacking(state: &State) -> Vec<(usize, Vec<u32>)> {
    let of = |group| {
        let (lacking, candidates) = openings(group, state);
        (lacking, numbers(candidates))
    };
    state.groups().values().map(of).collect()
}

/// The leader and the members of each group.
fn members(state: &State) -> Vec<(u32, Vec<u32>)> {
    let of = |group: &Group| {
        let members = group.configuration.members().iter().map(|member| member.node.0);
        (group.configuration.leader.node.0, members.collect())
    };
    state.groups().values().map(of).collect()
}

fn configure(state: &mut State, id: u32, leader: Member, all: &[Member], added: &[u32]) {
    let known = &state.groups()[&GroupId(id)];
    let (expected, epoch) = (known.configuration.epoch, Epoch(known.burnt.0 + 1));
    let added = added.iter().copied().map(NodeId).collect();
    let configuration = GroupConfiguration::new(epoch, leader, all.to_vec(), added);
    let parent = Mark::ORIGIN;
    state.apply(&Command::Configure { group: GroupId(id), expected, configuration, parent }).unwrap();
}

/// What each leader does about it: the first that may become a member does.
fn add_members(state: &mut State) {
    for id in 0..3 {
        let group = state.groups()[&GroupId(id)].clone();
        let (lacking, candidates) = openings(&group, state);
        for added in chosen(&candidates, |_| false, lacking, None) {
            let leader = group.configuration.leader;
            let others = group.configuration.members().iter().filter(|member| member.node != added.node);
            let all: Vec<Member> = others.copied().chain([added]).collect();
            configure(state, id, leader, &all, &[added.node.0]);
        }
    }
}

#[test]
fn every_node_leads_a_group_and_copies_another_and_the_groups_of_a_dead_one_come_back() {
    let mut state = three_groups();
    let mut returns = [0, 1, 2].map(|_| LeadReturn::default());
    let mut see = |state: &State| {
        returns
            .iter_mut()
            .zip(state.groups().values())
            .map(|(lead, group)| {
                lead.see(group, state);
                lead.to(group, state, group.configuration.leader.node).map(|node| node.0)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(lacking(&state), [(1, vec![2]), (1, vec![3]), (1, vec![1])], "each has one candidate: its place");
    add_members(&mut state);
    let whole = [(1, vec![1, 2]), (2, vec![2, 3]), (3, vec![1, 3])];
    assert_eq!(members(&state), whole);
    assert_eq!(lacking(&state), [(0, vec![]), (0, vec![]), (0, vec![])]);
    assert_eq!(see(&state), [None, None, None]);
    // Node 1 dies: what it led is sealed, and the node of its copy leads; what it copied loses one.
    let (group, expected, epoch) = (GroupId(0), Epoch(2), Epoch(3));
    state.apply(&Command::Seal { group, expected, epoch }).unwrap();
    see(&state);
    let configuration = GroupConfiguration::alone(epoch, Member::new(2, 1));
    state.apply(&Command::Activate { group, configuration, parent: Mark::ORIGIN }).unwrap();
    configure(&mut state, 2, Member::new(3, 1), &[Member::new(3, 1)], &[]);
    assert_eq!(members(&state), [(2, vec![2]), (2, vec![2, 3]), (3, vec![3])]);
    // Both wait for it: nobody else is to keep them.
    assert_eq!(lacking(&state), [(1, vec![1]), (0, vec![]), (1, vec![1])]);
    assert_eq!(see(&state), [None, None, None]);
    // It comes back, as another process.
    let registers = Command::Register { id: NodeId(1), expected: Incarnation(1), node: registration(1, 2) };
    state.apply(&registers).unwrap();
    assert_eq!(see(&state), [None, None, None], "it has nothing yet");
    add_members(&mut state);
    assert_eq!(members(&state), [(2, vec![1, 2]), (2, vec![2, 3]), (3, vec![1, 3])]);
    assert_eq!(see(&state), [Some(1), None, None], "its group goes back to it");
    configure(&mut state, 0, Member::new(1, 2), &[Member::new(1, 2), Member::new(2, 1)], &[]);
    assert_eq!(members(&state), whole);
    assert_eq!(see(&state), [None, None, None]);
    // An operator lets node 2 lead: that is not undone.
    configure(&mut state, 0, Member::new(2, 1), &[Member::new(1, 2), Member::new(2, 1)], &[]);
    assert_eq!(see(&state), [None, None, None]);
}

#[test]
fn a_node_in_the_stead_of_a_lost_one_keeps_its_groups() {
    let mut state = three_groups();
    add_members(&mut state);
    let joins = Node { presence: Presence::Stopped, ..registration(1, 1) };
    state.apply(&Command::Join { id: NodeId(4), key: [4; 16], node: joins }).unwrap();
    let registers = Command::Register { id: NodeId(4), expected: Incarnation(1), node: registration(1, 2) };
    state.apply(&registers).unwrap();
    configure(&mut state, 2, Member::new(3, 1), &[Member::new(3, 1)], &[]);
    assert_eq!(lacking(&state)[2], (1, vec![4]), "it came to the address of node 1");
    let elsewhere = Node { presence: Presence::Stopped, ..registration(5, 1) };
    state.apply(&Command::Join { id: NodeId(5), key: [5; 16], node: elsewhere }).unwrap();
    let registers = Command::Register { id: NodeId(5), expected: Incarnation(1), node: registration(5, 2) };
    state.apply(&registers).unwrap();
    assert_eq!(lacking(&state)[2], (1, vec![4]), "another keeps no group before it is in a place");
}

#[test]
fn a_return_that_failed_is_not_tried_again_at_once() {
    let mut lead = LeadReturn::default();
    assert!(lead.tries(5));
    assert!(!lead.tries(6) && !lead.tries(10_000_000_004));
    assert!(lead.tries(10_000_000_005));
}

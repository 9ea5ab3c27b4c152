use super::duties::{AGAIN_NANOS, MOVE_AGAIN_NANOS, MOVE_NANOS};
use super::failover::{GRACE_AFTER_POWER_NANOS, GRACE_BEFORE_LOSS_NANOS, GRACE_NANOS};
use super::*;
use crate::lease::{LEAD_ENDED_NANOS, LEASE_ENDED_NANOS};
use crate::parts::{Assignment, Phase, Settings};
use crate::testing::founded;
use ferrite_base::{Epoch, Incarnation, PartitionId, Position};
use ferrite_io::simulated::{SimulatedDisk, SimulatedRandom};
use ferrite_replica::group::{GroupConfiguration, History, Mark, Sealed};
use std::path::Path;

/// Three nodes, all of them members.
fn state() -> State {
    let mut state = founded(3, 2);
    let Group { configuration, parent, .. } = state.groups()[&GROUP].clone();
    let members = (1..=3).map(|node| Member { node: NodeId(node), incarnation: Incarnation(1) }).collect();
    let (expected, added) = (configuration.epoch, vec![NodeId(2), NodeId(3)]);
    let configuration = GroupConfiguration::new(Epoch(expected.0 + 1), configuration.leader, members, added);
    state.apply(&Command::Configure { group: GROUP, expected, configuration, parent }).unwrap();
    state
}

const GROUP: GroupId = GroupId(0);

#[test]
fn no_lease_while_a_seal_is_on_its_way_whatever_else_is_applied() {
    let state = state();
    let group = &state.groups()[&GROUP];
    let GroupConfiguration { epoch, leader, .. } = group.configuration;
    let mut duties = Duties::since(0);
    let now = LEASE_ENDED_NANOS + 1;
    let seal = duties.supervise(&state, GROUP, group, now).unwrap();
    let configuration = group.configuration.clone();
    let configure = Command::Configure { group: GROUP, expected: epoch, configuration, parent: group.parent };
    duties.applied(&configure, false, 0);
    assert!(duties.is_given_up(&state, leader.node), "the leader's own proposal was refused");
    let again = duties.supervise(&state, GROUP, group, now + AGAIN_NANOS).unwrap();
    duties.ended(&again);
    assert!(duties.is_given_up(&state, leader.node), "a second seal was not taken");
    duties.applied(&seal, true, 0);
    assert!(!duties.is_given_up(&state, leader.node));
}

#[test]
fn a_node_goes_after_its_vote_and_an_even_number_of_votes_shrinks() {
    let (mut state, mut duties, here, lost) = (founded(5, 2), Duties::since(0), NodeId(1), Member::new(5, 1));
    assert_eq!(state.voters().len(), 5);
    let now = LEASE_ENDED_NANOS + 1;
    duties.heard.extend((1..5).map(|node| (NodeId(node), now)));
    for steps in ["vote", "node"] {
        let command = duties.remove(&state, here, lost, now).unwrap();
        assert_eq!(matches!(command, Command::Voters { .. }), steps == "vote", "{command:?}");
        state.apply(&command).unwrap();
        duties.applied(&command, true, 0);
    }
    assert_eq!(state.nodes()[&lost.node].presence, Presence::Retired);
    assert_eq!(duties.remove(&state, here, lost, now), None);
    // Four nodes call for three voters.
    let command = duties.care(&state, here, now).unwrap();
    state.apply(&command).unwrap();
    duties.applied(&command, true, 0);
    assert_eq!(state.voters().iter().map(|node| node.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(duties.care(&state, here, now), None);
}

#[test]
fn a_node_that_runs_is_not_removed() {
    let (state, mut duties, now) = (founded(5, 2), Duties::since(0), LEASE_ENDED_NANOS + 1);
    duties.heard.extend((1..=5).map(|node| (NodeId(node), now)));
    assert_eq!(duties.remove(&state, NodeId(1), Member::new(5, 1), now), None);
    assert_eq!(duties.remove(&state, NodeId(1), Member::new(5, 2), 2 * now), None, "another process");
}

#[test]
fn a_refused_seal_forgets_no_answers() {
    let mut duties = Duties::since(0);
    let seal = Command::Seal { group: GROUP, expected: Epoch(1), epoch: Epoch(2) };
    duties.applied(&seal, true, 0);
    duties.seals.get_mut(&GROUP).unwrap().sufficed = Some(7);
    duties.applied(&seal, false, 0);
    assert_eq!(duties.seals[&GROUP].sufficed, Some(7));
}

/// The member answers the seal: it has the first entry of the epoch before.
fn answer(duties: &mut Duties, member: Member, seal: &Command) {
    let Command::Seal { expected, epoch, .. } = *seal else { panic!("a seal") };
    let end = Mark { epoch: expected, position: Position(1), chain: 0 };
    let sealed =
        Sealed { member, epoch, end, history: History::default(), intact: true, applied: end.position, able: true };
    duties.seals.get_mut(&GROUP).unwrap().answers.insert(member.node, sealed);
}

/// Of three members node 1 leads, and is silent; those that were heard of are asked, and some
/// answer. Returns how long it takes until one of them leads.
fn decided_after(heard: &[u32], answers: &[u32]) -> Option<u64> {
    let mut state = state();
    let group = &state.groups()[&GROUP];
    let (expected, epoch) = (group.configuration.epoch, Epoch(group.burnt.0 + 1));
    let seal = Command::Seal { group: GROUP, expected, epoch };
    state.apply(&seal).unwrap();
    let mut duties = Duties::since(0);
    duties.applied(&seal, true, 0);
    let begin = LEASE_ENDED_NANOS + 1;
    duties.heard.extend(heard.iter().map(|node| (NodeId(*node), begin)));
    for node in answers {
        answer(&mut duties, Member { node: NodeId(*node), incarnation: Incarnation(1) }, &seal);
    }
    let mut after = (0..2 * GRACE_AFTER_POWER_NANOS).step_by(10_000_000);
    after.find(|waited| duties.supervise(&state, GROUP, &state.groups()[&GROUP], begin + waited).is_some())
}

#[test]
fn a_member_that_is_silent_is_not_waited_for() {
    assert_eq!(decided_after(&[2, 3], &[2, 3]), Some(0), "all that live have answered");
    assert_eq!(decided_after(&[2], &[2]), Some(0));
    assert_eq!(decided_after(&[2, 3], &[3]), Some(GRACE_NANOS));
    assert_eq!(decided_after(&[], &[2, 3]), Some(GRACE_AFTER_POWER_NANOS), "nobody has been heard of yet");
}

#[test]
fn a_leader_that_was_silent_before_is_not_replaced_at_once() {
    let mut state = state();
    let Group { configuration, parent, .. } = state.groups()[&GROUP].clone();
    let (members, expected) = (configuration.members().to_vec(), configuration.epoch);
    let mut duties = Duties::since(0);
    let now = 2 * LEASE_ENDED_NANOS;
    duties.heard.insert(configuration.leader.node, now);
    let next = GroupConfiguration::new(Epoch(expected.0 + 1), members[1], members, Vec::new());
    let configure = Command::Configure { group: GROUP, expected, configuration: next, parent };
    state.apply(&configure).unwrap();
    duties.applied(&configure, true, 0);
    duties.give_time(&configure, now);
    let group = &state.groups()[&GROUP];
    assert_eq!(duties.supervise(&state, GROUP, group, now), None, "it had no reason to ask for a lease");
    assert_eq!(duties.supervise(&state, GROUP, group, now + LEASE_ENDED_NANOS), None);
    assert!(duties.supervise(&state, GROUP, group, now + LEASE_ENDED_NANOS + 1).is_some(), "it is silent");
}

/// Node 1 has started again and answered; whether the voters heard of node 2 in this term.
fn activated_after(heard: bool, waited: u64) -> bool {
    let mut state = state();
    let node = Node { incarnation: Incarnation(2), start: [9; 16], ..state.nodes()[&NodeId(1)].clone() };
    state.apply(&Command::Register { id: NodeId(1), expected: Incarnation(1), node }).unwrap();
    let group = &state.groups()[&GROUP];
    let (expected, epoch) = (group.configuration.epoch, Epoch(group.burnt.0 + 1));
    let seal = Command::Seal { group: GROUP, expected, epoch };
    state.apply(&seal).unwrap();
    let mut duties = Duties::since(0);
    duties.applied(&seal, true, 0);
    answer(&mut duties, Member { node: NodeId(1), incarnation: Incarnation(2) }, &seal);
    let now = LEASE_ENDED_NANOS + 1;
    assert_eq!(duties.supervise(&state, GROUP, &state.groups()[&GROUP], now), None);
    if heard {
        duties.heard.insert(NodeId(2), now);
    }
    duties.supervise(&state, GROUP, &state.groups()[&GROUP], now + waited).is_some()
}

#[test]
fn after_a_loss_of_power_members_that_are_not_back_are_waited_for() {
    assert!(activated_after(true, GRACE_NANOS));
    assert!(!activated_after(false, GRACE_NANOS));
    assert!(!activated_after(false, GRACE_AFTER_POWER_NANOS - 1));
    assert!(activated_after(false, GRACE_AFTER_POWER_NANOS));
}

#[test]
fn whoever_leads_a_group_leaves_the_voters_to_another_that_is_there() {
    let state = state();
    let leader = state.groups()[&GROUP].configuration.leader.node;
    let others: Vec<NodeId> = state.voters().iter().copied().filter(|voter| *voter != leader).collect();
    let mut duties = Duties::since(0);
    assert_eq!(duties.moves_to(leader, &state, MOVE_NANOS), None, "nobody has asked yet");
    duties.heard.insert(others[1], MOVE_NANOS);
    assert_eq!(duties.moves_to(others[0], &state, MOVE_NANOS), None, "it leads no group");
    assert_eq!(duties.moves_to(leader, &state, MOVE_NANOS - 1), None, "others may ask yet");
    assert_eq!(duties.moves_to(leader, &state, MOVE_NANOS), Some(others[1]));
    assert_eq!(duties.moves_to(leader, &state, MOVE_NANOS + 1), None, "that is under way");
    let again = MOVE_NANOS + MOVE_AGAIN_NANOS;
    assert_eq!(duties.moves_to(leader, &state, again), None, "it is silent");
    duties.heard.insert(others[1], again);
    let seal = Command::Seal { group: GROUP, expected: Epoch(2), epoch: Epoch(3) };
    duties.applied(&seal, true, 0);
    assert_eq!(duties.moves_to(leader, &state, again), None, "a group is without a leader");
    duties.seals.clear();
    assert_eq!(duties.moves_to(leader, &state, again), Some(others[1]));
}

#[test]
fn a_member_without_its_log_is_not_taken_for_one_that_has_everything() {
    let mut state = state();
    let Group { configuration, .. } = state.groups()[&GROUP].clone();
    let (expected, leader, members) = (configuration.epoch, configuration.leader, configuration.members().to_vec());
    let parent = Mark { epoch: expected, position: Position(9), chain: 5 };
    let configuration = GroupConfiguration::new(Epoch(expected.0 + 1), leader, members, Vec::new());
    let expected = Epoch(expected.0 + 1);
    state.apply(&Command::Configure { group: GROUP, expected: Epoch(expected.0 - 1), configuration, parent }).unwrap();
    let (member, epoch) = (Member::new(2, 1), Epoch(expected.0 + 1));
    let seal = Command::Seal { group: GROUP, expected, epoch };
    state.apply(&seal).unwrap();
    let mut duties = Duties::since(0);
    duties.applied(&seal, true, 0);
    let mut decided = |end| {
        let sealed =
            Sealed { member, epoch, end, history: History::default(), intact: true, applied: end.position, able: true };
        duties.seals.get_mut(&GROUP).unwrap().answers.insert(member.node, sealed);
        let mut supervise = |now| duties.supervise(&state, GROUP, &state.groups()[&GROUP], now);
        supervise(LEASE_ENDED_NANOS).or_else(|| supervise(LEASE_ENDED_NANOS + GRACE_AFTER_POWER_NANOS))
    };
    assert_eq!(decided(Mark::ORIGIN), None, "its log was taken away");
    let some = Mark { epoch: expected, position: Position(10), chain: 6 };
    assert!(matches!(decided(some), Some(Command::Activate { .. })));
}

/// All members are gone but for what they have lost; node 3 was not one of the last two.
fn sealed_without_anybody(duties: &mut Duties) -> State {
    let mut state = state();
    let Group { configuration, parent, .. } = state.groups()[&GROUP].clone();
    let members = configuration.members()[..2].to_vec();
    let expected = configuration.epoch;
    let configuration = GroupConfiguration::new(Epoch(expected.0 + 1), configuration.leader, members, Vec::new());
    state.apply(&Command::Configure { group: GROUP, expected, configuration, parent }).unwrap();
    let (expected, epoch) = (Epoch(expected.0 + 1), Epoch(expected.0 + 2));
    let seal = Command::Seal { group: GROUP, expected, epoch };
    state.apply(&seal).unwrap();
    duties.applied(&seal, true, 0);
    state
}

#[test]
fn a_node_whose_loss_is_accepted_leads_alone_unless_somebody_has_everything() {
    let mut duties = Duties::since(0);
    let mut state = sealed_without_anybody(&mut duties);
    let group = &state.groups()[&GROUP];
    let (expected, sealed) = (group.configuration.epoch, group.burnt);
    let member = |node| Member { node: NodeId(node), incarnation: Incarnation(1) };
    let accept = |member| Command::AcceptLoss { group: GROUP, expected, sealed, member };
    for wrong in [
        accept(Member { incarnation: Incarnation(9), ..member(3) }),
        accept(member(9)),
        Command::AcceptLoss { group: GROUP, expected, sealed: expected, member: member(3) },
        Command::AcceptLoss { group: GROUP, expected: Epoch(1), sealed, member: member(3) },
    ] {
        state.apply(&wrong).unwrap_err();
    }
    let end = Mark { epoch: Epoch(1), position: Position(7), chain: 0 };
    let says = |duties: &mut Duties, node, end: Mark, intact| {
        let (member, history, applied) = (member(node), History::default(), end.position);
        let answer = Sealed { member, epoch: sealed, end, history, intact, applied, able: true };
        duties.seals.get_mut(&GROUP).unwrap().answers.insert(NodeId(node), answer);
    };
    let now = 100 * LEASE_ENDED_NANOS;
    let decided = |duties: &mut Duties, state: &State| {
        duties.supervise(state, GROUP, &state.groups()[&GROUP], now);
        duties.supervise(state, GROUP, &state.groups()[&GROUP], now + GRACE_BEFORE_LOSS_NANOS)
    };
    says(&mut duties, 3, end, true);
    assert_eq!(decided(&mut duties, &state), None, "it was no member");
    state.apply(&accept(member(3))).unwrap();
    assert_eq!(state.candidates(GROUP).len(), 3);
    says(&mut duties, 3, Mark::ORIGIN, true);
    assert_eq!(decided(&mut duties, &state), None, "it has nothing");
    says(&mut duties, 3, end, false);
    duties.supervise(&state, GROUP, &state.groups()[&GROUP], now);
    let early = duties.supervise(&state, GROUP, &state.groups()[&GROUP], now + GRACE_BEFORE_LOSS_NANOS - 1);
    assert_eq!(early, None, "one that has everything may come yet");
    let Some(Command::Activate { configuration, .. }) = decided(&mut duties, &state) else { panic!("it leads") };
    assert_eq!((configuration.leader, configuration.members().len()), (member(3), 1));
    duties.proposed.clear();
    says(&mut duties, 2, Mark { epoch: expected, ..end }, true);
    assert!(duties.suffices(&state, GROUP, &state.groups()[&GROUP]));
    let Some(command @ Command::Activate { .. }) = decided(&mut duties, &state) else { panic!("somebody leads") };
    let Command::Activate { configuration, .. } = &command else { unreachable!() };
    assert_eq!((configuration.leader, configuration.members()), (member(2), &[member(2)][..]));
    state.apply(&command).unwrap();
    assert_eq!(state.groups()[&GROUP].accepted, None);
    state.apply(&accept(member(3))).unwrap_err();
}

/// Node 1 leads; a member lives whose log does not suffice, and its loss of the rest is accepted.
#[test]
fn before_a_loss_the_members_are_waited_for_also_where_one_lives() {
    let mut state = state();
    let member = |node| Member { node: NodeId(node), incarnation: Incarnation(1) };
    let Group { configuration: last, parent, .. } = state.groups()[&GROUP].clone();
    let expected = last.epoch;
    let (added, sealed) = (Epoch(expected.0 + 1), Epoch(expected.0 + 2));
    let members = last.members()[..2].to_vec();
    let configuration = GroupConfiguration::new(added, last.leader, members, vec![NodeId(2)]);
    state.apply(&Command::Configure { group: GROUP, expected, configuration, parent }).unwrap();
    let seal = Command::Seal { group: GROUP, expected: added, epoch: sealed };
    state.apply(&seal).unwrap();
    state.apply(&Command::AcceptLoss { group: GROUP, expected: added, sealed, member: member(2) }).unwrap();
    let mut duties = Duties::since(0);
    duties.applied(&seal, true, 0);
    let now = 100 * LEASE_ENDED_NANOS;
    duties.heard.insert(NodeId(2), now + GRACE_BEFORE_LOSS_NANOS);
    // It was being added, and has not had the start of the epoch.
    let end = Mark { epoch: expected, position: Position(7), chain: 0 };
    let (history, applied) = (History::default(), end.position);
    let answer = Sealed { member: member(2), epoch: sealed, end, history, intact: true, applied, able: true };
    duties.seals.get_mut(&GROUP).unwrap().answers.insert(NodeId(2), answer);
    let mut supervise = |at| duties.supervise(&state, GROUP, &state.groups()[&GROUP], at);
    assert_eq!([supervise(now), supervise(now + GRACE_BEFORE_LOSS_NANOS - 1)], [None, None], "node 1 may come yet");
    assert!(matches!(supervise(now + GRACE_BEFORE_LOSS_NANOS), Some(Command::Activate { .. })));
}

#[test]
fn a_loss_is_accepted_only_when_the_leader_has_surely_stopped_and_a_new_seal_counts_anew() {
    let mut duties = Duties::since(0);
    assert!(!duties.has_surely_stopped(GROUP, u64::MAX), "nobody has sealed it");
    let seal = Command::Seal { group: GROUP, expected: Epoch(1), epoch: Epoch(2) };
    for at in [7, 100 * LEAD_ENDED_NANOS] {
        duties.applied(&seal, true, at);
        assert!(!duties.has_surely_stopped(GROUP, at + LEAD_ENDED_NANOS));
        assert!(duties.has_surely_stopped(GROUP, at + LEAD_ENDED_NANOS + 1));
    }
}

#[test]
fn it_sleeps_until_a_node_has_been_silent_for_too_long_and_not_while_anything_is_under_way() {
    let (state, mut duties) = (state(), Duties::since(7));
    let ended = LEASE_ENDED_NANOS + 1;
    assert_eq!(duties.next_look(&state, 8), Some(7 + ended));
    for (node, heard) in [(1, 500), (2, 300), (3, 400)] {
        duties.heard.insert(NodeId(node), heard);
    }
    assert_eq!(duties.next_look(&state, 600), Some(300 + ended));
    // Then the node is silent, and the next one is not yet.
    let now = 300 + ended;
    assert!(!duties.is_silent(NodeId(2), now - 1) && duties.is_silent(NodeId(2), now));
    assert_eq!(duties.next_look(&state, now), Some(400 + ended));
    assert_eq!(duties.next_look(&state, 500 + ended), None);
    let group = &state.groups()[&GROUP];
    duties.supervise(&state, GROUP, group, 500 + ended).expect("its leader is silent");
    assert_eq!(duties.next_look(&state, 600 + ended), Some(600 + ended));
}

#[test]
fn what_a_leader_wants_is_proposed_once_until_it_is_decided() {
    let (state, mut duties) = (state(), Duties::since(0));
    let group = &state.groups()[&GROUP];
    let (wanted, parent, now) = (group.configuration.clone(), group.parent, 7 * AGAIN_NANOS);
    let other = GroupConfiguration::alone(wanted.epoch, wanted.leader);
    assert!(duties.is_new(GROUP, &wanted, now));
    duties.configured.insert(GROUP, (wanted.clone(), now));
    assert!(!duties.is_new(GROUP, &wanted, now + 1) && !duties.is_new(GROUP, &wanted, now + AGAIN_NANOS - 1));
    assert!(duties.is_new(GROUP, &other, now + 1), "it wants something else");
    assert!(duties.is_new(GROUP, &wanted, now + AGAIN_NANOS), "it may be lost");
    let configure = Command::Configure { group: GROUP, expected: wanted.epoch, configuration: wanted.clone(), parent };
    duties.applied(&configure, false, 0);
    assert!(duties.is_new(GROUP, &wanted, now + 1), "it was refused");
}

/// Node 1 votes; nodes 2 and 3 lead two groups each, and are next for each other's, and node 1
/// leads one.
fn five_groups() -> State {
    let places = [[2, 3], [2, 1], [3, 2], [3, 1], [1, 2]];
    let group = |(partition, place): (u32, [u32; 2])| {
        let members = place.map(|node| Member::new(node, 1)).to_vec();
        let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
        let place = place.map(NodeId).to_vec();
        let assignment = Some(Assignment { partitions: vec![PartitionId(partition)], place });
        let phase = Phase::Active;
        let (parent, burnt) = (Mark::ORIGIN, Epoch(1));
        (
            GroupId(partition),
            Group { configuration, parent, burnt, phase, accepted: None, loss: None, unequal: false, assignment },
        )
    };
    let settings = Settings { cluster: [7; 16], revision: 1, kfactor: 1, partitions: 5, paused: false };
    let nodes = founded(3, 1).nodes().clone().into_iter();
    let command = Command::Found {
        settings,
        nodes: nodes.map(|(id, node)| (id, Node { vote: None, ..node })).collect(),
        groups: (0..).zip(places).map(group).collect(),
        voters: vec![NodeId(1)],
    };
    let mut state = State::default();
    state.apply(&command).unwrap();
    state
}

#[test]
fn a_nodes_death_seals_its_groups_in_one_turn() {
    let disk = Arc::new(SimulatedDisk::new(1, Default::default()));
    let random = Box::new(SimulatedRandom::new(1));
    let voter = Voter::found(NodeId(1), disk, Path::new("/metadata"), random, &five_groups()).unwrap();
    let mut controller = Controller::new(NodeId(1), voter);
    let mut sealed_at_once = None;
    for now in (0..200).map(|turn| turn * LEASE_ENDED_NANOS / 40) {
        let mut out = Vec::new();
        controller.tick(now);
        // Node 2 never asks.
        for node in [1, 3] {
            let ask = Ask::Look { member: Member::new(node, 1), index: 0 };
            controller.asked(NodeId(node), Question { number: now, ask }, now);
        }
        controller.work(now, &mut out).unwrap();
        let updates = out.iter().filter_map(|out| match out {
            Out::Update { to: NodeId(3), update } => update.state.as_deref(),
            _ => None,
        });
        let sealed = |state: &State| -> Vec<u32> {
            let groups = state.groups().iter().filter(|(_, group)| group.phase == Phase::Sealing);
            groups.map(|(id, _)| id.0).collect()
        };
        sealed_at_once = updates.map(sealed).find(|sealed| !sealed.is_empty());
        if sealed_at_once.is_some() {
            break;
        }
    }
    assert_eq!(sealed_at_once, Some(vec![0, 1]), "in the first update that has any");
}

#[test]
fn of_equal_members_the_first_in_the_groups_place_leads() {
    let mut state = state();
    let group = &state.groups()[&GROUP];
    let (expected, epoch) = (group.configuration.epoch, Epoch(group.burnt.0 + 1));
    state.apply(&Command::Seal { group: GROUP, expected, epoch }).unwrap();
    let answer = |node, position| {
        let end = Mark { epoch: expected, position: Position(position), chain: 0 };
        let applied = Position(1);
        let history = History::default();
        Sealed { member: Member::new(node, 1), epoch, end, history, intact: true, applied, able: true }
    };
    let leader = |place: &[u32], answers: &[Sealed]| {
        let assignment = Assignment { partitions: Vec::new(), place: place.iter().copied().map(NodeId).collect() };
        let group = Group { assignment: Some(assignment), ..state.groups()[&GROUP].clone() };
        let next = super::failover::next(&state, &group, epoch, answers).unwrap();
        assert_eq!((next.epoch, next.members().len(), next.added().len()), (epoch, answers.len(), 0));
        next.leader.node.0
    };
    let equal = [answer(1, 4), answer(2, 4), answer(3, 4)];
    assert_eq!(leader(&[3, 1, 2], &equal), 3);
    assert_eq!(leader(&[3, 2, 1], &equal[..2]), 2, "it is the next one that has answered");
    assert_eq!(leader(&[], &equal), 1, "the lowest where there is no place");
    assert_eq!(leader(&[3, 1, 2], &[answer(1, 4), answer(2, 5), answer(3, 4)]), 2, "a longer stream before that");
}

#[test]
fn where_all_nodes_lead_the_voters_are_left_to_one_that_leads_less() {
    let mut state = five_groups();
    let node = |id: u32| Node { vote: Some(1), incarnation: Incarnation(2), ..state.nodes()[&NodeId(id)].clone() };
    let nodes = [2, 3].map(|id| (NodeId(id), node(id)));
    for (id, node) in nodes {
        state.apply(&Command::Register { id, expected: Incarnation(1), node }).unwrap();
    }
    let voters = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    for (expected, next) in [(&[1][..], &[1, 2][..]), (&[1, 2], &[1, 2, 3])] {
        state.apply(&Command::Voters { expected: voters(expected), voters: voters(next), number: 1 }).unwrap();
    }
    let moves = |here, heard: &[u32]| {
        let mut duties = Duties::since(0);
        duties.heard.extend(heard.iter().map(|node| (NodeId(*node), MOVE_NANOS)));
        duties.moves_to(NodeId(here), &state, MOVE_NANOS).map(|node| node.0)
    };
    assert_eq!([1, 2, 3].map(|here| moves(here, &[1, 2, 3])), [None, Some(1), Some(1)]);
    assert_eq!([2, 3].map(|here| moves(here, &[1, here])), [None; 2], "one that leads groups may have died");
}

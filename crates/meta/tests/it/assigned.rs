//! Groups with partitions and a place, and nodes with racks: as commands, in the state, as bytes.

use crate::founded;
use ferrite_base::{Epoch, GroupId, GroupMap, Incarnation, NodeId, PartitionId};
use ferrite_meta::{
    Assignment, Change, Command, CommandError, FORMAT, FORMAT_SEVERAL_GROUPS, Group, Kind, Node, Phase, Presence,
    Refusal, Settings, State,
};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};

fn node(id: u32) -> Node {
    Node {
        incarnation: Incarnation(1),
        start: [1; 16],
        kind: Kind::Data,
        presence: Presence::Running,
        vote: Some(0),
        release: "test".to_owned(),
        addresses: vec![format!("host{id}:3021")],
        rack: Some(format!("r{id}")),
    }
}

fn group(partitions: &[u32], place: &[u32]) -> Group {
    let assignment = Assignment {
        partitions: partitions.iter().copied().map(PartitionId).collect(),
        place: place.iter().copied().map(NodeId).collect(),
    };
    Group {
        configuration: GroupConfiguration::alone(Epoch(2), Member::new(1, 1)),
        parent: Mark::ORIGIN,
        burnt: Epoch(2),
        phase: Phase::Active,
        accepted: None,
        loss: None,
        unequal: false,
        assignment: Some(assignment),
    }
}

/// Three nodes, one of which has racks' names only; five partitions.
fn found(groups: &[(&[u32], &[u32])]) -> Command {
    let groups = groups.iter().map(|(partitions, place)| group(partitions, place));
    Command::Found {
        settings: Settings { cluster: [7; 16], revision: 1, kfactor: 1, partitions: 5, paused: false },
        nodes: (1..=3).map(|id| (NodeId(id), node(id))).collect(),
        groups: (0..).map(GroupId).zip(groups).collect(),
        voters: (1..=3).map(NodeId).collect(),
    }
}

fn three() -> Command {
    found(&[(&[0, 3], &[1, 2]), (&[1, 4], &[2, 3]), (&[2], &[3, 1])])
}

#[test]
fn every_partition_is_in_one_group_and_every_group_in_a_place() {
    let mut state = State::default();
    assert_eq!(state.apply(&three()), Ok(Change::Done));
    let partitions = |id| state.partitions_of(GroupId(id)).iter().map(|partition| partition.0).collect::<Vec<_>>();
    assert_eq!([0, 1, 2].map(partitions), [vec![0, 3], vec![1, 4], vec![2]]);
    let groups = (0..6).map(|partition| state.group_of(PartitionId(partition)).map(|group| group.0));
    assert_eq!(groups.collect::<Vec<_>>(), [Some(0), Some(1), Some(2), Some(0), Some(1), None]);
    let map = state.group_map();
    assert_eq!((map.groups(), map.partitions(), map.is_single()), (3, 5, false));
    assert!((0..6).map(PartitionId).all(|partition| map.group_of(partition) == state.group_of(partition)));
    let kept = |node| state.kept_by(NodeId(node)).iter().map(|group| group.0).collect::<Vec<_>>();
    // Node 1 leads all of them as yet, and so keeps one that is to be elsewhere.
    assert_eq!([1, 2, 3, 4].map(kept), [vec![0, 1, 2], vec![0, 1], vec![1, 2], vec![]]);
    let group = &state.groups()[&GroupId(1)];
    assert_eq!((group.lead(), group.place()), (Some(NodeId(2)), &[NodeId(2), NodeId(3)][..]));
    // A seal and what follows it leave what the group has.
    let (id, expected, epoch) = (GroupId(0), Epoch(2), Epoch(3));
    state.apply(&Command::Seal { group: id, expected, epoch }).unwrap();
    let configuration = GroupConfiguration::alone(epoch, Member::new(1, 1));
    state.apply(&Command::Activate { group: id, configuration, parent: Mark::ORIGIN }).unwrap();
    assert_eq!(state.groups()[&id].place(), [NodeId(1), NodeId(2)]);
    assert_eq!(state.partitions_of(id).len(), 2);
}

#[test]
fn one_group_without_a_place_has_all_partitions() {
    let state = founded::founded(3, 1);
    let (id, group) = state.groups().first_key_value().unwrap();
    assert_eq!((group.lead(), group.place()), (None, &[][..]));
    assert_eq!(state.partitions_of(*id), [PartitionId(0), PartitionId(1)]);
    assert_eq!(state.group_of(PartitionId(1)), Some(*id));
    assert_eq!((state.group_of(PartitionId(2)), state.partitions_of(GroupId(9))), (None, Vec::new()));
    assert_eq!((state.place_of(group), state.lead_of(group)), (Vec::new(), None));
    assert_eq!(state.group_map(), GroupMap::single(2));
    assert_eq!((state.kept_by(NodeId(3)), state.kept_by(NodeId(9))), (vec![*id], vec![]));
}

#[test]
fn groups_that_leave_a_partition_out_share_one_or_are_nowhere_are_refused() {
    let refused: [&[(&[u32], &[u32])]; 9] = [
        &[(&[0, 1, 2, 3], &[1, 2])],
        &[(&[0, 1, 2], &[1, 2]), (&[2, 3, 4], &[2, 3])],
        &[(&[0, 1, 2], &[1, 2]), (&[3, 4, 5], &[2, 3])],
        &[(&[0, 2, 1, 3, 4], &[1, 2])],
        &[(&[0, 1, 2, 3, 4], &[1, 2]), (&[], &[2, 3])],
        &[(&[0, 1, 2, 3, 4], &[])],
        &[(&[0, 1, 2, 3, 4], &[1, 1])],
        &[(&[0, 1, 2, 3, 4], &[1, 9])],
        &[(&[0, 1, 2, 3, 4], &[1, 2, 3, 4, 5, 6, 7, 8])],
    ];
    for groups in refused {
        let mut state = State::default();
        assert!(matches!(state.apply(&found(groups)), Err(Refusal::Invalid(_))), "{groups:?}");
        assert_eq!(state, State::default());
    }
    // Several groups without partitions of their own, and a place on a witness.
    type Edit<'a> = &'a dyn Fn(&mut [(NodeId, Node)], &mut [(GroupId, Group)]);
    let is_founded = |change: Edit<'_>| {
        let mut command = three();
        if let Command::Found { nodes, groups, .. } = &mut command {
            change(nodes, groups);
        }
        State::default().apply(&command).is_ok()
    };
    assert!(is_founded(&|_, _| {}));
    assert!(!is_founded(&|_, groups| groups[2].0 = GroupId(7)));
    assert!(!is_founded(&|_, groups| groups[1].1.assignment = None));
    assert!(!is_founded(&|_, groups| groups.iter_mut().for_each(|(_, group)| group.assignment = None)));
    assert!(!is_founded(&|nodes, _| nodes[2].1.kind = Kind::Witness));
    assert!(!is_founded(&|nodes, _| nodes[2].1.rack = Some(String::new())));
}

#[test]
fn a_node_that_comes_to_the_address_of_a_lost_one_has_its_place() {
    let mut state = State::default();
    state.apply(&three()).unwrap();
    let place = |state: &State, id: u32| {
        let place = state.place_of(&state.groups()[&GroupId(id)]);
        place.iter().map(|node| node.0).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2].map(|id| place(&state, id)), [vec![1, 2], vec![2, 3], vec![3, 1]]);
    let joins = Node { presence: Presence::Stopped, vote: None, ..node(2) };
    assert!(state.has_place_for(&joins) && !state.has_place_for(&node(5)));
    assert!(state.has_place_for(&Node { kind: Kind::Witness, ..node(5) }), "it keeps nothing anyway");
    state.apply(&Command::Join { id: NodeId(4), key: [4; 16], node: joins }).unwrap();
    assert_eq!([0, 1, 2].map(|id| place(&state, id)), [vec![1, 4], vec![4, 3], vec![3, 1]]);
    assert_eq!(state.lead_of(&state.groups()[&GroupId(1)]), Some(NodeId(4)));
    let joins = Node { presence: Presence::Stopped, vote: None, ..node(5) };
    state.apply(&Command::Join { id: NodeId(5), key: [5; 16], node: joins }).unwrap();
    assert_eq!(place(&state, 2), [3, 1], "one elsewhere has no place");
    assert!(state.has_place_for(&node(2)), "also for the one after it");
}

#[test]
fn they_read_back_as_written_and_an_earlier_release_refuses_them_by_their_format() {
    let mut state = State::default();
    let registers = Command::Register {
        id: NodeId(3),
        expected: Incarnation(1),
        node: Node { incarnation: Incarnation(2), start: [2; 16], ..node(3) },
    };
    let joins = Command::Join {
        id: NodeId(4),
        key: [4; 16],
        node: Node { presence: Presence::Stopped, vote: None, ..node(4) },
    };
    let commands = [three(), registers, joins, Command::Pause { revision: 1, paused: true }];
    for (command, format) in commands.iter().zip([2, 2, 2, 1]) {
        let bytes = command.encode();
        assert_eq!(bytes[0], format, "{command:?}");
        assert_eq!(Command::decode(&bytes).as_ref(), Ok(command));
        assert!((0..bytes.len()).all(|end| Command::decode(&bytes[..end]).is_err()));
        // The format follows from what a command names, and does not say anything else.
        let other = FORMAT + FORMAT_SEVERAL_GROUPS - format;
        let changed = [&[other][..], &bytes[1..]].concat();
        assert!(matches!(Command::decode(&changed), Err(CommandError::Malformed(_))), "{command:?}");
        state.apply(command).unwrap();
        let snapshot = state.snapshot();
        assert_eq!(snapshot[0], if state.is_paused() { 4 } else { 3 });
        assert_eq!(State::restore(&snapshot), Ok(state.clone()));
        assert!((0..snapshot.len()).all(|end| State::restore(&snapshot[..end]).is_err()));
    }
}

/// The bytes of the release before there were several groups.
#[test]
fn a_cluster_of_one_group_is_written_as_before_there_were_several() {
    let state = founded::founded(1, 0);
    let settings = state.settings().unwrap();
    let (id, group) = state.groups().first_key_value().unwrap();
    let known = &state.nodes()[&NodeId(1)];
    let body = group.configuration.encode(group.parent);
    let expected = [
        &[1_u8, 1][..],
        &settings.cluster,
        &1_u64.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &2_u32.to_le_bytes(),
        // One node.
        &1_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &1_u64.to_le_bytes(),
        &known.start,
        &[0, 0, 1, 0, 0, 0, 0],
        &5_u16.to_le_bytes(),
        b"0.1.0",
        &1_u32.to_le_bytes(),
        &11_u16.to_le_bytes(),
        b"host1:21212",
        // One group.
        &1_u32.to_le_bytes(),
        &id.0.to_le_bytes(),
        &group.burnt.0.to_le_bytes(),
        &[0],
        &group.configuration.epoch.0.to_le_bytes(),
        &(body.len() as u32).to_le_bytes(),
        &body[..],
        &[0; 13],
        // Voters, votes, and those that joined later.
        &1_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &0_u32.to_le_bytes(),
    ]
    .concat();
    let snapshot = state.snapshot();
    assert_eq!(snapshot[..snapshot.len() - 4], expected);
    assert_eq!(State::restore(&snapshot), Ok(state));
}

/// A group that continues from an older copy may have other replicated tables than the others.
#[test]
fn a_group_is_unequal_from_its_loss_until_it_is_said_to_be_equal_since_that_loss() {
    let mut state = State::default();
    state.apply(&three()).unwrap();
    let group = GroupId(1);
    // By node 3, which the last configuration does not have, or by a member that has all.
    let lead = |state: &mut State, expected: u64, member: Member, accepts: bool| {
        let sealed = Epoch(expected + 1);
        state.apply(&Command::Seal { group, expected: Epoch(expected), epoch: sealed }).unwrap();
        if accepts {
            let command = Command::AcceptLoss { group, expected: Epoch(expected), sealed, member };
            assert_eq!(state.apply(&command), Ok(Change::Done));
        }
        let configuration = GroupConfiguration::alone(sealed, member);
        state.apply(&Command::Activate { group, configuration, parent: Mark::ORIGIN }).unwrap();
    };
    let is_unequal = |state: &State| state.groups()[&group].unequal;
    lead(&mut state, 2, Member::new(1, 1), false);
    assert!(!is_unequal(&state), "it has everything");
    lead(&mut state, 3, Member::new(3, 1), true);
    assert!(is_unequal(&state) && !state.groups()[&GroupId(0)].unequal);
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    lead(&mut state, 4, Member::new(3, 1), false);
    assert!(is_unequal(&state), "the next leader has no more than that");
    let equal = |loss| Command::Equal { group, loss: Epoch(loss) };
    let command = equal(4);
    assert_eq!(Command::decode(&command.encode()), Ok(command.clone()));
    assert!(state.apply(&equal(3)).is_err(), "that is no loss");
    assert_eq!(state.apply(&command), Ok(Change::Done));
    assert!(!is_unequal(&state));
    assert_eq!(state.apply(&command), Ok(Change::Repeated));
    lead(&mut state, 5, Member::new(2, 1), true);
    assert!(state.apply(&equal(4)).is_err(), "another loss has followed");
    assert!(is_unequal(&state));
    assert_eq!(State::restore(&state.snapshot()), Ok(state));
}

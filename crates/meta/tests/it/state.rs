//! The metadata's state: what commands do, when they are refused, and as bytes.

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, PartitionId, Position, limits};
use ferrite_meta::{
    Assignment, Change, Command, CommandError, Group, Kind, Node, Phase, Presence, Refusal, Settings, State,
};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};

const GROUP: GroupId = GroupId(0);

fn node(incarnation: u64, kind: Kind) -> Node {
    Node {
        incarnation: Incarnation(incarnation),
        start: [incarnation as u8; 16],
        kind,
        presence: Presence::Running,
        vote: Some(0),
        release: "0.1.0".into(),
        addresses: vec!["10.0.0.1:3021".into(), "ä:1".into()],
        rack: None,
    }
}

fn members(nodes: &[u32]) -> Vec<Member> {
    nodes.iter().map(|node| Member::new(*node, 1)).collect()
}

fn configuration(epoch: u64, nodes: &[u32], added: &[u32]) -> GroupConfiguration {
    let added = added.iter().copied().map(NodeId).collect();
    GroupConfiguration::new(Epoch(epoch), Member::new(nodes[0], 1), members(nodes), added)
}

fn mark(position: u64) -> Mark {
    Mark { epoch: Epoch(1), position: Position(position), chain: 5 }
}

fn found() -> Command {
    let nodes = (1..=4).map(|id| (NodeId(id), node(1, if id == 4 { Kind::Witness } else { Kind::Data }))).collect();
    let group = Group {
        configuration: configuration(1, &[1, 2], &[]),
        parent: Mark::ORIGIN,
        burnt: Epoch(1),
        phase: Phase::Active,
        accepted: None,
        loss: None,
        unequal: false,
        assignment: None,
    };
    Command::Found {
        settings: Settings { cluster: [7; 16], revision: 0, kfactor: 1, partitions: 8, paused: false },
        nodes,
        groups: vec![(GROUP, group)],
        voters: vec![NodeId(1), NodeId(2), NodeId(4)],
    }
}

fn founded() -> State {
    let mut state = State::default();
    assert_eq!(state.apply(&found()), Ok(Change::Done));
    state
}

fn seal(expected: u64, epoch: u64) -> Command {
    Command::Seal { group: GROUP, expected: Epoch(expected), epoch: Epoch(epoch) }
}

fn activate(configuration: GroupConfiguration) -> Command {
    Command::Activate { group: GROUP, configuration, parent: mark(9) }
}

fn configure(expected: u64, configuration: GroupConfiguration) -> Command {
    Command::Configure { group: GROUP, expected: Epoch(expected), configuration, parent: mark(9) }
}

fn register(id: u32, expected: u64, node: Node) -> Command {
    Command::Register { id: NodeId(id), expected: Incarnation(expected), node }
}

fn join(id: u32, key: u8) -> Command {
    let node = Node { presence: Presence::Stopped, vote: None, ..node(1, Kind::Data) };
    Command::Join { id: NodeId(id), key: [key; 16], node }
}

/// The same for a node that says this of itself.
fn join_as(id: u32, node: Node) -> Command {
    let node = Node { presence: Presence::Stopped, vote: None, ..node };
    Command::Join { id: NodeId(id), key: u128::from(id).to_le_bytes(), node }
}

fn voting(incarnation: u64, number: u32) -> Node {
    Node { vote: Some(number), ..node(incarnation, Kind::Data) }
}

fn with(before: GroupConfiguration, added: Member) -> GroupConfiguration {
    let members = before.members().iter().copied().chain([added]).collect();
    GroupConfiguration::new(before.epoch, before.leader, members, vec![added.node])
}

fn voters(expected: &[u32], next: &[u32], number: u32) -> Command {
    let ids = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect();
    Command::Voters { expected: ids(expected), voters: ids(next), number }
}

fn commands() -> Vec<Command> {
    vec![
        found(),
        join(5, 5),
        register(5, 1, voting(2, 7)),
        Command::Goodbye { node: NodeId(2), incarnation: Incarnation(1) },
        Command::Retire { node: NodeId(3), incarnation: Incarnation(1) },
        seal(1, 2),
        Command::AcceptLoss { group: GROUP, expected: Epoch(1), sealed: Epoch(2), member: Member::new(1, 1) },
        activate(configuration(2, &[1], &[])),
        configure(2, with(configuration(3, &[1], &[]), Member::new(5, 2))),
        Command::Settings { revision: 0, kfactor: 2 },
        Command::Pause { revision: 1, paused: true },
        voters(&[1, 2, 4], &[1, 2], 0),
        voters(&[1, 2], &[1, 2, 5], 7),
    ]
}

/// What `commands` say, one after another, each a change.
fn last_state() -> State {
    let mut state = State::default();
    for command in commands() {
        let before = state.hash();
        assert_eq!(state.apply(&command), Ok(Change::Done), "{command:?}");
        assert_ne!(state.hash(), before, "{command:?}");
    }
    state
}

#[test]
fn commands_and_the_state_read_back_as_written() {
    for command in commands() {
        let bytes = command.encode();
        assert_eq!(Command::decode(&bytes), Ok(command));
        for end in 0..bytes.len() {
            assert!(Command::decode(&bytes[..end]).is_err());
        }
        assert!(Command::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
    // A checksum of nothing.
    assert!(State::restore(&[0; 4]).is_err());
    for state in [State::default(), founded(), last_state()] {
        let bytes = state.snapshot();
        assert_eq!(State::restore(&bytes), Ok(state));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(State::restore(&damaged).is_err(), "byte {at}");
            assert!(State::restore(&bytes[..at]).is_err());
        }
    }
}

#[test]
fn a_command_of_a_later_release_is_refused_by_name() {
    let mut bytes = found().encode();
    bytes[3] = b'b';
    let error = Command::decode(&bytes).unwrap_err();
    assert_eq!(error, CommandError::Unknown { kind: "bound".into(), format: 1 });
    assert!(error.to_string().starts_with("the metadata's command 'bound' (format 1) is not known"), "{error}");
    let mut bytes = found().encode();
    bytes[0] = 9;
    assert_eq!(Command::decode(&bytes), Err(CommandError::Unknown { kind: "found".into(), format: 9 }));
}

#[test]
fn hostile_bytes_do_not_panic() {
    bolero::check!().with_iterations(20_000).with_type::<(u8, u16, u8, Vec<u8>)>().for_each(
        |(which, at, value, bytes)| {
            let _ = (Command::decode(bytes), State::restore(bytes));
            let mut changed = commands()[*which as usize % commands().len()].encode();
            let at = *at as usize % changed.len();
            changed[at] = *value;
            // What decodes is carried out or refused, and reads back.
            if let Ok(command) = Command::decode(&changed) {
                assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
                for mut state in [State::default(), founded()] {
                    let before = state.clone();
                    if state.apply(&command) != Ok(Change::Done) {
                        assert_eq!(state, before, "{command:?} was refused, and changed something");
                    }
                    assert_eq!(State::restore(&state.snapshot()), Ok(state));
                }
            }
            changed.truncate(at);
            changed.extend_from_slice(bytes);
            let _ = Command::decode(&changed);
            let mut snapshot = last_state().snapshot();
            snapshot.truncate(at % (snapshot.len() - 4));
            snapshot.extend_from_slice(bytes);
            let checksum = ferrite_base::checksum::crc32c(&snapshot);
            snapshot.extend_from_slice(&checksum.to_le_bytes());
            let _ = State::restore(&snapshot);
        },
    );
}

#[test]
fn nothing_is_done_before_a_cluster_is_founded_and_it_is_founded_once() {
    for command in &commands()[1..] {
        assert_eq!(State::default().apply(command), Err(Refusal::NotFounded));
    }
    let mut state = founded();
    assert_eq!(state.apply(&found()), Ok(Change::Repeated));
    let Command::Found { mut settings, nodes, groups, voters } = found() else { unreachable!() };
    settings.cluster = [8; 16];
    let other = Command::Found { settings, nodes, groups, voters };
    assert_eq!(state.apply(&other), Err(Refusal::Founded));
    assert_eq!(state, founded());
}

#[test]
fn a_cluster_that_does_not_hold_together_is_not_founded() {
    let refused = |change: &dyn Fn(&mut Command)| {
        let mut command = found();
        change(&mut command);
        let mut state = State::default();
        assert!(state.apply(&command).is_err(), "{command:?}");
        assert_eq!(state, State::default());
    };
    let change_group = |change: &dyn Fn(&mut Group)| {
        refused(&|command| {
            if let Command::Found { groups, .. } = command {
                change(&mut groups[0].1);
            }
        });
    };
    change_group(&|group| group.phase = Phase::Sealing);
    change_group(&|group| group.burnt = Epoch(4));
    change_group(&|group| group.configuration = configuration(1, &[1, 2], &[2]));
    change_group(&|group| group.configuration = configuration(1, &[1, 9], &[]));
    // Node 4 is a witness.
    change_group(&|group| group.configuration = configuration(1, &[1, 4], &[]));
    for (count, taken) in [(limits::CLUSTER_GROUPS_MAX, true), (limits::CLUSTER_GROUPS_MAX + 1, false)] {
        let mut command = found();
        if let Command::Found { settings, groups, .. } = &mut command {
            settings.partitions = count as u32;
            let has = |id| Assignment { partitions: vec![PartitionId(id)], place: vec![NodeId(1), NodeId(2)] };
            let group = |id| Group { assignment: Some(has(id)), ..groups[0].1.clone() };
            *groups = (0..count as u32).map(|id| (GroupId(id), group(id))).collect();
        }
        assert_eq!(State::default().apply(&command).is_ok(), taken, "{count} groups");
    }
    for voters in [&[][..], &[1, 2], &[1, 1, 2], &[1, 2, 9]] {
        refused(&|command| {
            if let Command::Found { voters: founded, .. } = command {
                *founded = voters.iter().copied().map(NodeId).collect();
            }
        });
    }
}

#[test]
fn a_node_registers_when_it_starts() {
    let mut state = founded();
    let next = state.next_node();
    assert_eq!(next, NodeId(5));
    assert_eq!(state.apply(&register(5, 0, node(1, Kind::Data))), Err(Refusal::UnknownNode(next)));
    assert_eq!(state.apply(&join(6, 1)), Err(Refusal::NextNode(next)));
    assert_eq!(state.apply(&join(5, 1)), Ok(Change::Done));
    assert_eq!(state.apply(&join(5, 1)), Ok(Change::Repeated));
    assert_eq!(state.apply(&join(6, 1)), Err(Refusal::CopiedDirectory(next)), "one key, one node");
    assert_eq!(state.apply(&join(5, 2)), Err(Refusal::NextNode(NodeId(6))));
    assert_eq!(state.joined_with([1; 16]), Some(next));
    let runs = Command::Join { id: NodeId(6), key: [3; 16], node: node(1, Kind::Data) };
    assert!(matches!(state.apply(&runs), Err(Refusal::Invalid(_))), "no process has registered");
    let copied = Node { start: [99; 16], ..node(1, Kind::Data) };
    assert_eq!(state.apply(&register(5, 1, copied)), Err(Refusal::CopiedDirectory(next)));
    // It started twice more, and somebody decided by the first that the second may register.
    assert_eq!(state.apply(&register(5, 1, node(3, Kind::Data))), Ok(Change::Done));
    let known = Incarnation(3);
    for late in [node(2, Kind::Data), node(4, Kind::Data)] {
        assert_eq!(state.apply(&register(5, 1, late)), Err(Refusal::Incarnation { node: next, known }));
    }
    assert!(matches!(state.apply(&register(5, 3, node(4, Kind::Witness))), Err(Refusal::Invalid(_))));
    let nowhere = Node { addresses: Vec::new(), ..node(4, Kind::Data) };
    let long = Node { release: "x".repeat(256), ..node(4, Kind::Data) };
    for node in [nowhere, long] {
        assert!(matches!(state.apply(&register(5, 3, node)), Err(Refusal::Invalid(_))));
    }
    // One that stopped starts again; one that is retired does not.
    let goodbye = Command::Goodbye { node: next, incarnation: known };
    assert_eq!(state.apply(&goodbye), Ok(Change::Done));
    assert_eq!(state.apply(&goodbye), Ok(Change::Repeated));
    assert_eq!(state.apply(&register(5, 3, node(4, Kind::Data))), Ok(Change::Done));
    assert_eq!(state.apply(&goodbye), Err(Refusal::Incarnation { node: next, known: Incarnation(4) }));
    assert_eq!(state.apply(&Command::Retire { node: next, incarnation: Incarnation(4) }), Ok(Change::Done));
    assert_eq!(state.apply(&register(5, 4, node(5, Kind::Data))), Err(Refusal::Retired(next)));
    assert_eq!(state.next_node(), NodeId(6));
}

#[test]
fn the_leaders_change_is_refused_once_its_epoch_has_ended() {
    let mut state = founded();
    assert_eq!(state.apply(&configure(1, configuration(2, &[1], &[]))), Ok(Change::Done));
    assert_eq!(state.apply(&configure(1, configuration(2, &[1], &[]))), Ok(Change::Repeated));
    let late = Err(Refusal::Epoch { group: GROUP, known: Epoch(2) });
    assert_eq!(state.apply(&configure(1, configuration(2, &[2], &[]))), late);
    assert_eq!(state.apply(&seal(1, 3)), late);
    // Sealed meanwhile: the epoch is burnt, and the leader has none to go on with.
    assert_eq!(state.apply(&seal(2, 3)), Ok(Change::Done));
    assert_eq!(state.apply(&configure(2, configuration(3, &[1, 3], &[3]))), Err(Refusal::Sealing(GROUP)));
    assert_eq!(state.apply(&configure(2, configuration(4, &[1, 3], &[3]))), Err(Refusal::Sealing(GROUP)));
}

#[test]
fn only_members_that_are_there_already_count_as_having_everything() {
    let mut state = founded();
    let why = |result| match result {
        Err(Refusal::Member { node, .. }) => node.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(state.apply(&configure(1, configuration(2, &[1, 3], &[])))), 3);
    assert_eq!(why(state.apply(&configure(1, configuration(2, &[1, 4], &[4])))), 4);
    assert_eq!(state.apply(&register(3, 1, node(2, Kind::Data))), Ok(Change::Done));
    assert_eq!(why(state.apply(&configure(1, configuration(2, &[1, 3], &[3])))), 3, "an earlier process");
    // A member that was started again is another one, and joins again.
    assert_eq!(state.apply(&register(2, 1, node(2, Kind::Data))), Ok(Change::Done));
    let again = vec![Member::new(1, 1), Member::new(2, 2)];
    let next = |added| GroupConfiguration::new(Epoch(2), Member::new(1, 1), again.clone(), added);
    assert_eq!(why(state.apply(&configure(1, next(vec![])))), 2);
    assert_eq!(state.apply(&configure(1, next(vec![NodeId(2)]))), Ok(Change::Done));
}

#[test]
fn a_seal_burns_its_epoch_and_ends_with_a_configuration_of_its_candidates() {
    let mut state = founded();
    assert_eq!(state.apply(&activate(configuration(2, &[2], &[]))), Err(Refusal::NotSealing(GROUP)));
    assert_eq!(state.apply(&seal(1, 3)), Err(Refusal::NextEpoch { group: GROUP, next: Epoch(2) }));
    assert_eq!(state.apply(&seal(1, 2)), Ok(Change::Done));
    // The metadata's next leader begins again.
    assert_eq!(state.apply(&seal(1, 2)), Err(Refusal::NextEpoch { group: GROUP, next: Epoch(3) }));
    assert_eq!(state.apply(&seal(1, 3)), Ok(Change::Done));
    assert_eq!(state.apply(&activate(configuration(2, &[2], &[]))), Err(Refusal::NotSealing(GROUP)));
    assert_eq!(state.groups()[&GROUP].configuration, configuration(1, &[1, 2], &[]), "the last is kept");
    assert!(matches!(state.apply(&activate(configuration(3, &[2, 3], &[]))), Err(Refusal::Member { .. })));
    assert!(matches!(state.apply(&activate(configuration(3, &[2, 1], &[1]))), Err(Refusal::Invalid(_))));
    // Node 2 was started again: it answers as what it is now.
    assert_eq!(state.apply(&register(2, 1, node(2, Kind::Data))), Ok(Change::Done));
    assert_eq!(state.candidates(GROUP), vec![Member::new(1, 1), Member::new(2, 2)]);
    assert!(matches!(state.apply(&activate(configuration(3, &[2], &[]))), Err(Refusal::Member { .. })));
    let restarted = GroupConfiguration::alone(Epoch(3), Member::new(2, 2));
    assert_eq!(state.apply(&activate(restarted.clone())), Ok(Change::Done));
    assert_eq!(state.apply(&activate(restarted)), Ok(Change::Repeated));
    assert_eq!(state.groups()[&GROUP].phase, Phase::Active);
    // What a retired node promised is lost: it is not asked.
    assert_eq!(state.apply(&Command::Retire { node: NodeId(2), incarnation: Incarnation(2) }).ok(), None, "it votes");
    assert_eq!(state.apply(&voters(&[1, 2, 4], &[1, 4], 0)), Ok(Change::Done));
    let retire = Command::Retire { node: NodeId(2), incarnation: Incarnation(2) };
    assert_eq!(state.apply(&retire), Err(Refusal::Needed { node: NodeId(2), group: GROUP }), "the only copy");
    let others = GroupConfiguration::new(
        Epoch(4),
        Member::new(2, 2),
        vec![Member::new(2, 2), Member::new(1, 1)],
        vec![NodeId(1)],
    );
    assert_eq!(state.apply(&configure(3, others)), Ok(Change::Done));
    assert_eq!(state.apply(&seal(4, 5)), Ok(Change::Done));
    assert_eq!(state.apply(&activate(configuration(5, &[1], &[]))), Ok(Change::Done));
    assert_eq!(state.apply(&retire), Ok(Change::Done));
    assert_eq!(state.candidates(GROUP), vec![Member::new(1, 1)]);
}

#[test]
fn voters_change_one_by_one_and_settings_by_their_revision() {
    let mut state = founded();
    assert_eq!(state.apply(&voters(&[1, 2, 4], &[1, 2], 1)), Err(Refusal::Vote(NodeId(4))));
    assert_eq!(state.apply(&voters(&[1, 2, 4], &[1, 2], 0)), Ok(Change::Done));
    assert_eq!(state.apply(&voters(&[1, 2, 4], &[1, 2], 0)), Ok(Change::Repeated));
    assert_eq!(state.apply(&voters(&[1, 2, 4], &[1, 2, 3], 0)), Err(Refusal::Voters));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 3], 0)), Err(Refusal::Voters));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 9], 1)), Err(Refusal::UnknownNode(NodeId(9))));
    // A vote counts once it is there, and never again once it was taken away or lost.
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 3], 4)), Err(Refusal::Vote(NodeId(3))));
    assert_eq!(state.apply(&register(3, 1, voting(4, 4))), Ok(Change::Done));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 3], 5)), Err(Refusal::Vote(NodeId(3))));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 3], 4)), Ok(Change::Done));
    assert_eq!(state.apply(&voters(&[1, 2, 3], &[1, 2], 4)), Ok(Change::Done));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 3], 4)), Err(Refusal::Vote(NodeId(3))));
    assert_eq!(state.apply(&register(3, 4, voting(5, 5))), Ok(Change::Done));
    assert_eq!(state.apply(&voters(&[1, 2], &[1, 2, 3], 5)), Ok(Change::Done));
    let settings = |revision, kfactor| Command::Settings { revision, kfactor };
    assert_eq!(state.apply(&settings(0, 2)), Ok(Change::Done));
    assert_eq!(state.apply(&settings(0, 3)), Err(Refusal::Revision(1)));
    assert!(matches!(state.apply(&settings(1, 7)), Err(Refusal::Invalid(_))));
    assert_eq!(state.settings().map(|settings| settings.kfactor), Some(2));
    let pause = |revision, paused| Command::Pause { revision, paused };
    let first_release = state.snapshot();
    // A pause that was under way while what was not paused was resumed comes too late.
    assert_eq!((state.apply(&pause(1, false)), state.is_paused()), (Ok(Change::Done), false));
    assert_eq!((state.apply(&pause(1, true)), state.is_paused()), (Err(Refusal::Revision(2)), false));
    assert_eq!((state.apply(&pause(2, true)), state.is_paused()), (Ok(Change::Done), true));
    let later_release = state.snapshot();
    // One that was under way while it was resumed does not pause again.
    assert_eq!(state.apply(&pause(3, false)), Ok(Change::Done));
    assert_eq!((state.apply(&pause(2, true)), state.is_paused()), (Err(Refusal::Revision(4)), false));
    // The first release reads what it could have written.
    assert_eq!([&first_release, &later_release, &state.snapshot()].map(|bytes| bytes[0]), [1, 2, 1]);
    for bytes in [first_release, later_release] {
        assert_eq!(State::restore(&bytes).expect("it reads back").snapshot(), bytes);
    }
}

/// Commands that are likely and unlikely, in any order: an epoch has one configuration at most, and
/// none comes after a higher one was burnt.
#[test]
fn an_epoch_is_never_used_twice() {
    type Step = (u8, u8, u8, u8, u8);
    bolero::check!().with_iterations(3_000).with_type::<Vec<Step>>().for_each(|steps| {
        let mut state = founded();
        for (kind, epoch, expected, who, incarnation) in steps {
            let before = state.groups()[&GROUP].clone();
            let epoch = before.burnt.0 + 1 - u64::from(*epoch % 4 == 0);
            let expected = before.configuration.epoch.0 - u64::from(*expected % 8 == 0);
            let nodes: Vec<Member> = (1..=3)
                .filter(|id| who & (1 << id) != 0)
                .map(|id| Member { node: NodeId(id), incarnation: state.nodes()[&NodeId(id)].incarnation })
                .collect();
            let Some(leader) = nodes.first().copied() else { continue };
            let new = |member: &&Member| !before.configuration.has(**member) && **member != leader;
            let added = nodes.iter().filter(new).map(|member| member.node).collect();
            let command = match kind % 4 {
                0 => seal(expected, epoch),
                1 => activate(GroupConfiguration::new(Epoch(epoch), leader, nodes, Vec::new())),
                2 => configure(expected, GroupConfiguration::new(Epoch(epoch), leader, nodes, added)),
                _ => {
                    let known = state.nodes()[&leader.node].incarnation.0;
                    register(leader.node.0, known, node(known + u64::from(incarnation % 2), Kind::Data))
                }
            };
            let result = state.apply(&command);
            let after = &state.groups()[&GROUP];
            let (was, is) = (before.configuration.epoch, after.configuration.epoch);
            assert!(after.burnt >= before.burnt && is >= was && is <= after.burnt);
            assert_eq!(is == was, after.configuration == before.configuration, "two configurations at an epoch");
            assert!(is == was || is == after.burnt, "{command:?} uses an epoch that was burnt: {result:?}");
        }
    });
}

/// Registers nodes until one is refused: how many there are, and why.
fn full_of(node: &Node) -> (State, usize, Refusal) {
    let mut state = founded();
    loop {
        let next = state.next_node();
        match state.apply(&join_as(next.0, node.clone())) {
            Ok(done) => assert_eq!(done, Change::Done),
            Err(refusal) => {
                let count = state.nodes().len();
                return (state, count, refusal);
            }
        }
    }
}

#[test]
fn there_are_no_more_nodes_than_may_be_and_the_state_is_one_message() {
    let (state, count, refusal) = full_of(&node(1, Kind::Data));
    assert_eq!((count, refusal), (limits::CLUSTER_NODES_MAX, Refusal::Invalid("there were too many nodes")));
    assert!(state.snapshot().len() < limits::METADATA_BYTES_MAX / 4);

    let text = "x".repeat(limits::CLUSTER_TEXT_BYTES_MAX);
    let addresses = vec![text.clone(); limits::CLUSTER_ADDRESSES_MAX];
    let large = Node { release: text, addresses, ..node(1, Kind::Data) };
    let (mut state, count, refusal) = full_of(&large);
    assert!(refusal.to_string().starts_with("the metadata has as many bytes as it may"), "{refusal}");
    let bytes = state.snapshot().len();
    let one = bytes / count;
    assert!(bytes <= limits::METADATA_BYTES_MAX + 4 && bytes + one > limits::METADATA_BYTES_MAX, "{bytes} bytes");
    // Nor may those grow that are there: two of the first ones would be too much.
    let grown = Node { incarnation: Incarnation(2), ..large };
    let refused = (1..=2).map(|id| state.apply(&register(id, 1, grown.clone()))).filter(Result::is_err).count();
    assert!(refused > 0 && state.snapshot().len() <= limits::METADATA_BYTES_MAX + 4, "{refused} were refused");
    assert_eq!(state.nodes().len(), count);
}

#[test]
fn a_node_has_no_more_addresses_and_no_longer_ones_than_may_be() {
    let text = |bytes| "x".repeat(bytes);
    let (most, longest) = (limits::CLUSTER_ADDRESSES_MAX, limits::CLUSTER_TEXT_BYTES_MAX);
    for (addresses, taken) in [
        (vec![text(longest); most], true),
        (vec![text(longest); most + 1], false),
        (vec![text(longest + 1)], false),
        (Vec::new(), false),
    ] {
        let outcome = founded().apply(&join_as(5, Node { addresses, ..node(1, Kind::Data) }));
        assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
    }
}

#[test]
fn a_group_has_no_more_members_than_may_be_and_there_are_no_more_voters() {
    for (nodes, taken) in [(limits::CLUSTER_MEMBERS_MAX as u32, true), (limits::CLUSTER_MEMBERS_MAX as u32 + 1, false)]
    {
        let mut state = founded();
        for id in 5..=20 {
            assert_eq!(state.apply(&join_as(id, node(1, Kind::Data))), Ok(Change::Done));
            assert_eq!(state.apply(&register(id, 1, voting(2, 1))), Ok(Change::Done));
        }
        let all: Vec<u32> = [1, 2].into_iter().chain(5..).take(nodes as usize).collect();
        let process = |id: &u32| Member::new(*id, if *id < 5 { 1 } else { 2 });
        let (members, added) = (all.iter().map(process).collect(), all[2..].iter().copied().map(NodeId).collect());
        let next = GroupConfiguration::new(Epoch(2), Member::new(1, 1), members, added);
        let outcome = state.apply(&configure(1, next));
        assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
        // Voters come one by one, from three.
        let mut voters = vec![NodeId(1), NodeId(2), NodeId(4)];
        for id in 5.. {
            let more = [&voters[..], &[NodeId(id)]].concat();
            let outcome = state.apply(&Command::Voters { expected: voters.clone(), voters: more.clone(), number: 1 });
            assert_eq!(outcome.is_ok(), more.len() <= limits::CLUSTER_VOTERS_MAX, "{outcome:?}");
            if outcome.is_err() {
                break;
            }
            voters = more;
        }
    }
}

#[test]
fn a_leader_hands_over_to_a_member_that_runs_and_changes_nothing_else() {
    let led_by = |leader: u32, nodes: &[u32], added: &[u32]| {
        let added = added.iter().copied().map(NodeId).collect();
        GroupConfiguration::new(Epoch(2), Member::new(leader, 1), members(nodes), added)
    };
    for wrong in [led_by(2, &[2], &[]), led_by(2, &[1, 2, 3], &[3]), led_by(2, &[1, 2], &[1])] {
        assert!(matches!(founded().apply(&configure(1, wrong.clone())), Err(Refusal::Invalid(_))), "{wrong:?}");
    }
    let mut state = founded();
    assert_eq!(state.apply(&configure(1, led_by(2, &[1, 2], &[]))), Ok(Change::Done));
    assert_eq!(
        state.apply(&configure(1, led_by(1, &[1, 2], &[]))),
        Err(Refusal::Epoch { group: GROUP, known: Epoch(2) })
    );
    // One that has stopped, or was started again, does not lead.
    for gone in [Command::Goodbye { node: NodeId(2), incarnation: Incarnation(1) }, register(2, 1, node(2, Kind::Data))]
    {
        let mut state = founded();
        state.apply(&gone).unwrap();
        assert!(matches!(state.apply(&configure(1, led_by(2, &[1, 2], &[]))), Err(Refusal::Member { .. })));
    }
}

#[test]
fn loss_is_accepted_for_a_group_that_nobody_leads_and_for_that_once() {
    let accept =
        |node| Command::AcceptLoss { group: GROUP, expected: Epoch(1), sealed: Epoch(2), member: Member::new(node, 1) };
    let mut state = founded();
    assert_eq!(state.apply(&accept(3)), Err(Refusal::NotSealing(GROUP)), "somebody leads");
    state.apply(&seal(1, 2)).unwrap();
    assert!(matches!(state.apply(&accept(4)), Err(Refusal::Member { .. })), "a witness");
    assert_eq!(state.apply(&activate(configuration(2, &[3], &[]))).ok(), None);
    assert_eq!(state.apply(&accept(3)), Ok(Change::Done));
    assert_eq!(state.apply(&accept(3)), Ok(Change::Repeated));
    assert_eq!(State::restore(&state.snapshot()), Ok(state.clone()));
    assert_eq!(state.candidates(GROUP).last(), Some(&Member::new(3, 1)));
    assert_eq!(state.apply(&activate(configuration(2, &[3], &[]))), Ok(Change::Done));
    assert_eq!(state.groups()[&GROUP].loss, Some((Epoch(2), NodeId(3))), "it is never forgotten");
    assert_eq!(State::restore(&state.snapshot()), Ok(state.clone()));
    assert_eq!(state.apply(&accept(3)), Err(Refusal::Epoch { group: GROUP, known: Epoch(2) }));
}

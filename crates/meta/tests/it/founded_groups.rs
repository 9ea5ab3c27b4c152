//! Clusters that are founded with several groups: the same for all founders, each group in its
//! place; and that their declarations differ from earlier ones only where they say so.

use ferrite_base::{Epoch, Incarnation, NodeId, Position};
use ferrite_meta::founding::{
    Database, Declaration, Effect, Founding, Partitions, Plan, Unfounded, WrittenDown, found,
};
use ferrite_meta::{Kind, State};
use ferrite_replica::group::Mark;

fn declarations(kinds: &[Kind], kfactor: u32, partitions_per_node: Option<u32>) -> Vec<Declaration> {
    let hosts = (1..=kinds.len()).map(|place| format!("host{place}:3021")).collect();
    let plan = Plan { hosts, kfactor, partitions_per_node };
    let declaration = |(place, kind): (u32, &Kind)| Declaration {
        plan: plan.clone(),
        place,
        key: [place as u8; 16],
        incarnation: Incarnation(u64::from(place)),
        kind: *kind,
        database: None,
        partitions: Partitions::Suggested(2),
        release: "0.1.0".to_owned(),
        addresses: vec![format!("host{place}:3021")],
        rack: None,
    };
    (1..).zip(kinds).map(declaration).collect()
}

/// The partitions of each group, and its place.
fn groups(state: &State) -> Vec<(usize, Vec<u32>)> {
    let of = |id: &ferrite_base::GroupId| {
        let place = state.groups()[id].place().iter().map(|node| node.0);
        (state.partitions_of(*id).len(), place.collect())
    };
    state.groups().keys().map(of).collect()
}

#[test]
fn every_node_of_a_new_cluster_leads_groups_of_its_own() {
    let all = declarations(&[Kind::Data; 3], 1, Some(4));
    let state = found(&all).unwrap();
    assert_eq!(state.settings().unwrap().partitions, 6);
    let places = [[1, 2], [1, 3], [2, 3], [2, 1], [3, 1], [3, 2]];
    assert_eq!(groups(&state), places.map(|place| (1, place.to_vec())));
    for group in state.groups().values() {
        let leader = group.configuration.leader;
        assert_eq!((Some(leader.node), leader.incarnation), (group.lead(), Incarnation(leader.node.0.into())));
        assert_eq!(group.configuration.members(), [leader], "others become members when they have come");
        assert_eq!((group.configuration.epoch, group.burnt), (Epoch(2), Epoch(2)));
    }
    assert_eq!(State::restore(&state.snapshot()), Ok(state));
}

#[test]
fn a_witness_has_no_place_and_racks_keep_copies_apart() {
    let mut all = declarations(&[Kind::Data, Kind::Witness, Kind::Data, Kind::Data, Kind::Data], 1, Some(2));
    for (declaration, rack) in all.iter_mut().zip(["a", "b", "a", "b", "b"]) {
        declaration.rack = Some(rack.to_owned());
    }
    let state = found(&all).unwrap();
    assert_eq!(state.nodes()[&NodeId(3)].rack.as_deref(), Some("a"));
    for (partitions, place) in groups(&state) {
        assert_eq!((partitions, place.len()), (1, 2));
        let racks: Vec<&str> = place.iter().filter_map(|node| state.nodes()[&NodeId(*node)].rack.as_deref()).collect();
        assert!(!place.contains(&2) && racks[0] != racks[1], "{place:?}");
    }
}

#[test]
fn what_cannot_be_spread_is_refused_with_what_to_do() {
    let refused = |change: &dyn Fn(&mut Vec<Declaration>)| {
        let mut all = declarations(&[Kind::Data; 3], 1, Some(4));
        change(&mut all);
        found(&all).unwrap_err()
    };
    let uneven = refused(&|all| all.iter_mut().for_each(|declaration| declaration.plan.partitions_per_node = Some(3)));
    assert!(uneven.to_string().contains("Possible are 3 nodes with data, K = 1, 2 partitions per node"), "{uneven}");
    let end = Mark { epoch: Epoch(1), position: Position(7), chain: 1 };
    let database = refused(&|all| all[1].database = Some(Database { id: [1; 16], end }));
    assert_eq!(database, Unfounded::DatabaseOfOneGroup("node 2 (host2:3021)".to_owned()));
    let twice = refused(&|all| all[2].partitions = Partitions::Said(6));
    assert!(twice.to_string().contains("node 3 (host3:3021) was started with --partitions"), "{twice}");
}

/// What each of two nodes says until there is nothing to say; and what it has founded.
fn meet(nodes: &mut [Founding; 2]) -> ([Option<State>; 2], Vec<String>) {
    let mut founded = [None, None];
    let mut said = Vec::new();
    loop {
        let mut did = false;
        for at in 0..2 {
            let mut effects = Vec::new();
            nodes[at].move_effects(&mut effects);
            for effect in effects {
                did = true;
                match effect {
                    Effect::Send { message, .. } => {
                        nodes[1 - at].handle_message(Some(at as u32 + 1), &message).unwrap();
                    }
                    Effect::Write(written) => {
                        assert_eq!(WrittenDown::decode(&written.encode()), Ok(*written));
                        nodes[at].written();
                    }
                    Effect::Founded(state) => founded[at] = Some(*state),
                    Effect::Say(notice) => said.push(notice.to_string()),
                    Effect::FoundedWithout(_) => unreachable!("both declare"),
                }
            }
        }
        if !did {
            return (founded, said);
        }
    }
}

#[test]
fn founders_found_the_same_groups_and_none_where_they_differ_in_them() {
    let all = declarations(&[Kind::Data; 2], 0, Some(2));
    let mut nodes = [0, 1].map(|at: usize| Founding::new(None, all[at].clone(), false));
    let (founded, _) = meet(&mut nodes);
    assert_eq!(founded, [Some(found(&all).unwrap()), Some(found(&all).unwrap())]);
    let other = declarations(&[Kind::Data; 2], 0, None);
    let mut nodes = [&all[0], &other[1]].map(|own| Founding::new(None, own.clone(), false));
    let (founded, said) = meet(&mut nodes);
    assert_eq!(founded, [None, None]);
    let differs =
        |line: &&String| line.contains("no --partitions-per-node") && line.contains("--partitions-per-node 2");
    assert_eq!(said.iter().filter(differs).count(), 2, "{said:?}");
}

#[test]
fn a_rack_that_was_forgotten_is_named_before_there_is_a_cluster() {
    let mut all = declarations(&[Kind::Data; 2], 0, Some(2));
    all[0].rack = Some("a".to_owned());
    let mut nodes = [0, 1].map(|at: usize| Founding::new(None, all[at].clone(), false));
    let (founded, said) = meet(&mut nodes);
    assert_eq!(founded, [None, None]);
    assert!(said.iter().any(|line| line.contains("--rack a") && line.contains("no --rack")), "{said:?}");
    all[1].rack = Some("b".to_owned());
    let mut nodes = [0, 1].map(|at: usize| Founding::new(None, all[at].clone(), false));
    assert!(meet(&mut nodes).0.iter().all(Option::is_some));
}

#[test]
fn a_declaration_of_one_group_is_written_as_before_there_were_several() {
    let written = |declaration: &Declaration| {
        let written = WrittenDown { own: declaration.clone(), joins: false, founded: None, known: None };
        assert_eq!(WrittenDown::decode(&written.encode()), Ok(written.clone()));
        written.encode()
    };
    let one = &declarations(&[Kind::Data], 0, None)[0];
    let expected = [
        &[1_u8][..],
        &1_u32.to_le_bytes(),
        &10_u16.to_le_bytes(),
        b"host1:3021",
        &0_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &[1; 16],
        &1_u64.to_le_bytes(),
        // Data, no database, partitions as suggested.
        &[0, 0, 0, 2, 0, 0, 0],
        &5_u16.to_le_bytes(),
        b"0.1.0",
        &1_u32.to_le_bytes(),
        &10_u16.to_le_bytes(),
        b"host1:3021",
        // It does not join, nothing is founded or known.
        &[0; 6],
    ]
    .concat();
    let bytes = written(one);
    assert_eq!(bytes[..bytes.len() - 4], expected);
    // Only what is said adds to it.
    let with_rack = written(&Declaration { rack: Some("a".to_owned()), ..one.clone() });
    assert_eq!(with_rack.len(), bytes.len() + 7);
    assert_eq!(written(&declarations(&[Kind::Data], 0, Some(3))[0]).len(), bytes.len() + 6);
}

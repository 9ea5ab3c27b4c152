//! What a node's own declaration rules out, whatever the others will declare.
//!
//! Promises that a declaration which is refused makes no cluster with any others: what is refused
//! here, [`found`](super::found) refuses, too.

use super::declaration::{Declaration, Partitions};
use super::founded::{Unfounded, name};
use super::layout::Layout;
use crate::Kind;
use crate::placement::{ClusterSize, Unplaceable};

/// A cluster that there will be only if some of the other nodes are witnesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeedsWitnesses {
    /// The fewest with which there is a layout, this node counted.
    pub witnesses: u32,
    pub nodes: u32,
    /// Why there is none without.
    pub without: Unplaceable,
}

/// # Errors
/// No declarations of other nodes make a cluster with this one.
pub fn foresee(own: &Declaration) -> Result<Option<NeedsWitnesses>, Unfounded> {
    let nodes = own.plan.hosts.len() as u32;
    // As good as possible: all the others keep data.
    let kinds: Vec<Kind> = (1..=nodes).map(|place| if place == own.place { own.kind } else { Kind::Data }).collect();
    let layout = Layout::new(&kinds, own.plan.kfactor);
    layout.check().map_err(Unfounded::Layout)?;
    let Some(partitions_per_node) = own.plan.partitions_per_node else { return Ok(None) };
    if own.database.is_some() {
        return Err(Unfounded::DatabaseOfOneGroup(name(own)));
    }
    if matches!(own.partitions, Partitions::Said(_)) {
        return Err(Unfounded::PartitionsTwice(name(own)));
    }
    let size = |nodes| ClusterSize { nodes, kfactor: own.plan.kfactor, partitions_per_node };
    let Err(without) = size(layout.data).check() else { return Ok(None) };
    // More of the others may be witnesses.
    match (own.plan.kfactor + 1..layout.data).rev().find(|data| size(*data).check().is_ok()) {
        Some(data) => Ok(Some(NeedsWitnesses { witnesses: nodes - data, nodes, without })),
        None => Err(Unfounded::Size(without)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::founding::Plan;
    use ferrite_base::Incarnation;

    fn declaration(nodes: u32, kfactor: u32, partitions_per_node: u32, kind: Kind) -> Declaration {
        let hosts = (1..=nodes).map(|place| format!("host-{place}:3021")).collect();
        Declaration {
            plan: Plan { hosts, kfactor, partitions_per_node: Some(partitions_per_node) },
            place: 2,
            key: [1; 16],
            incarnation: Incarnation(1),
            kind,
            database: None,
            partitions: Partitions::Suggested(4),
            release: "1".to_owned(),
            addresses: vec!["host-2:3021".to_owned()],
            rack: None,
        }
    }

    #[test]
    fn what_no_other_node_can_make_possible_is_refused() {
        let foreseen = |nodes, kfactor, per_node, kind| {
            foresee(&declaration(nodes, kfactor, per_node, kind))
                .map(|needs| needs.map(|needs| needs.witnesses))
                .map_err(|unfounded| unfounded.to_string())
        };
        assert_eq!(foreseen(3, 1, 4, Kind::Data), Ok(None));
        assert_eq!(foreseen(3, 1, 3, Kind::Data), Ok(Some(1)), "with two nodes of data and a witness");
        assert_eq!(foreseen(3, 1, 3, Kind::Witness), Ok(None), "it is that witness");
        assert_eq!(foreseen(6, 2, 3, Kind::Witness), Ok(None));
        assert_eq!(foreseen(6, 2, 4, Kind::Witness), Ok(Some(3)));
        let refused = foreseen(4, 2, 1, Kind::Witness);
        assert_eq!(refused, Ok(None), "three nodes keep a partition each");
        let refused = foreseen(3, 2, 1_025, Kind::Data).unwrap_err();
        assert!(refused.contains("a database has 1024 partitions at most. Possible are 3 nodes"), "{refused}");
        let refused = foreseen(4, 3, 2, Kind::Witness).unwrap_err();
        assert!(refused.contains("K + 1 copies of everything need K + 1 nodes with data"), "{refused}");
        for nodes in 1..=7 {
            for kfactor in 0..=3 {
                for per_node in 1..=6 {
                    for kind in [Kind::Data, Kind::Witness] {
                        compare(&declaration(nodes, kfactor, per_node, kind));
                    }
                }
            }
        }
    }

    /// What is foreseen is what comes: with any number of witnesses among the others.
    fn compare(own: &Declaration) {
        let nodes = own.plan.hosts.len() as u32;
        let with = |witnesses: u32| {
            let mut left = witnesses;
            let all: Vec<Declaration> = (1..=nodes)
                .map(|place| {
                    let is_own = place == own.place;
                    let kind = if is_own {
                        own.kind
                    } else if left > 0 {
                        Kind::Witness
                    } else {
                        Kind::Data
                    };
                    left -= u32::from(!is_own && left > 0);
                    Declaration { place, kind, key: [place as u8; 16], ..own.clone() }
                })
                .collect();
            crate::founding::found(&all).is_ok()
        };
        if nodes < own.place {
            return;
        }
        let fewest = (0..nodes).find(|others| with(*others));
        let own_witness = u32::from(own.kind == Kind::Witness);
        match foresee(own) {
            Err(unfounded) => assert_eq!(fewest, None, "{own:?}: {unfounded}"),
            Ok(None) => assert_eq!(fewest, Some(0), "{own:?}"),
            Ok(Some(needs)) => assert_eq!(fewest.map(|others| others + own_witness), Some(needs.witnesses), "{own:?}"),
        }
    }

    #[test]
    fn a_database_or_a_number_of_partitions_is_refused_beside_several_groups() {
        let one = declaration(3, 1, 4, Kind::Data);
        let said = Declaration { partitions: Partitions::Said(3), ..one };
        let refused = foresee(&said).unwrap_err().to_string();
        assert!(refused.starts_with("node 2 (host-2:3021) was started with --partitions and"), "{refused}");
    }
}

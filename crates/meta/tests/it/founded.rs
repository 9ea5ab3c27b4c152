//! The state with which clusters begin.

use ferrite_base::Incarnation;
use ferrite_meta::founding::{Declaration, Partitions, Plan, found};
use ferrite_meta::{Kind, State};

/// This many nodes with data.
pub fn founded(nodes: u32, kfactor: u32) -> State {
    let plan = Plan {
        hosts: (1..=nodes).map(|node| format!("host{node}:3021")).collect(),
        kfactor,
        partitions_per_node: None,
    };
    let declaration = |place: u32| Declaration {
        plan: plan.clone(),
        place,
        key: [place as u8; 16],
        incarnation: Incarnation(1),
        kind: Kind::Data,
        database: None,
        partitions: Partitions::Suggested(2),
        release: "0.1.0".to_string(),
        addresses: vec![format!("host{place}:21212")],
        rack: None,
    };
    found(&(1..=nodes).map(declaration).collect::<Vec<_>>()).unwrap()
}

//! `ferrite admin layout`: how the partitions of a cluster would be spread over its nodes, computed
//! without a server.

use super::tables::columns;
use clap::Args;
use ferrite_base::NodeId;
use ferrite_member::placement::{ClusterSize, PlacedGroup, PlacedNode, Placement, Unplaceable, place_groups};
use serde_json::{Value, json};
use std::fmt::Display;

#[derive(Args)]
pub struct LayoutOptions {
    /// Number of nodes with data. Witnesses do not count.
    #[arg(long, value_name = "NODES")]
    nodes: u32,
    /// Number of additional copies of all data, on other nodes.
    #[arg(long, value_name = "K")]
    kfactor: u32,
    /// Number of partitions that each node keeps: those that it leads, and its copies of others.
    #[arg(long, value_name = "PARTITIONS")]
    partitions_per_node: u32,
    /// The rack of each node, one name per node in the order of their numbers. Two copies of a
    /// partition are not placed in the same rack if that can be avoided.
    #[arg(long, value_name = "RACK,...", value_delimiter = ',')]
    racks: Vec<String>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// # Errors
/// There is no such layout: in words, with the nearest ones that exist.
pub fn show(options: &LayoutOptions) -> Result<String, String> {
    let LayoutOptions { nodes, kfactor, partitions_per_node, .. } = *options;
    let refused = |unplaceable: Unplaceable| unplaceable.to_string();
    // Before as many nodes are made.
    ClusterSize { nodes, kfactor, partitions_per_node }.check().map_err(refused)?;
    let nodes = placed_nodes(nodes, &options.racks)?;
    let placement = place_groups(&nodes, kfactor, partitions_per_node).map_err(refused)?;
    Ok(match options.json {
        true => json_of(&nodes, &placement).to_string(),
        false => text_of(&nodes, &placement),
    })
}

fn placed_nodes(nodes: u32, racks: &[String]) -> Result<Vec<PlacedNode>, String> {
    if !racks.is_empty() && racks.len() != nodes as usize {
        return Err(format!(
            "--racks names the rack of {} nodes, and --nodes is {nodes}: name one rack per node, separated by commas, in \
             the order of the nodes' numbers (the same name for nodes in the same rack)",
            racks.len()
        ));
    }
    if let Some(empty) = racks.iter().position(|rack| rack.trim().is_empty()) {
        return Err(format!("the rack of node {} has no name: name one rack per node, separated by commas", empty + 1));
    }
    let node = |number: u32| PlacedNode {
        node: NodeId(number),
        rack: racks.get(number as usize - 1).map(|rack| rack.trim().to_owned()),
    };
    Ok((1..=nodes).map(node).collect())
}

fn text_of(nodes: &[PlacedNode], placement: &Placement) -> String {
    let has_racks = nodes.iter().any(|node| node.rack.is_some());
    let mut names = vec!["node", "leads", "copies", "groups", "next leads"];
    if has_racks {
        names.insert(1, "rack");
    }
    let by_node = nodes.iter().map(|PlacedNode { node, rack }| {
        let mut cells = vec![
            node.to_string(),
            placement.partitions_led(*node).to_string(),
            placement.partitions_copied(*node).to_string(),
            placement.led(*node).count().to_string(),
            listed(placement.next_leads(*node)),
        ];
        if has_racks {
            cells.insert(1, rack.clone().unwrap_or_default());
        }
        cells
    });
    let by_node: Vec<Vec<String>> = std::iter::once(owned(&names)).chain(by_node).collect();
    let by_group = placement.groups.iter().map(|group| {
        vec![group.group.to_string(), partitions_of(group), group.lead().to_string(), listed(&group.place[1..])]
    });
    let by_group: Vec<Vec<String>> =
        std::iter::once(owned(&["group", "partitions", "leader", "copies on"])).chain(by_group).collect();
    let partitions = counted(placement.partitions() as usize, "partition");
    let mut lines = vec![format!("{}: {partitions} in {}", placement.size, counted(placement.groups.len(), "group"))];
    if placement.size.nodes == 2 && placement.size.kfactor > 0 {
        lines.push("two nodes with copies also need a witness (ferrite witness)".to_owned());
    }
    if placement.groups_sharing_racks > 0 {
        lines.push(format!(
            "{} of the groups have copies in the same rack: no rack may have more than {} of the nodes to avoid that",
            placement.groups_sharing_racks,
            placement.size.nodes / (placement.size.kfactor + 1)
        ));
    }
    for table in [by_node, by_group] {
        lines.push(String::new());
        lines.extend(columns(&table));
    }
    lines.join("\n")
}

fn json_of(nodes: &[PlacedNode], placement: &Placement) -> Value {
    let by_node = nodes.iter().map(|PlacedNode { node, rack }| {
        json!({
            "node": node.0,
            "rack": rack,
            "partitions_led": placement.partitions_led(*node),
            "partitions_copied": placement.partitions_copied(*node),
            "groups_led": placement.led(*node).count(),
            "next_leads": placement.next_leads(*node).iter().map(|node| node.0).collect::<Vec<_>>(),
        })
    });
    let by_group = placement.groups.iter().map(|group| {
        json!({
            "group": group.group.0,
            "partitions": group.partitions.iter().map(|partition| partition.0).collect::<Vec<_>>(),
            "leader": group.lead().0,
            "place": group.place.iter().map(|node| node.0).collect::<Vec<_>>(),
        })
    });
    json!({
        "kfactor": placement.size.kfactor,
        "partitions_per_node": placement.size.partitions_per_node,
        "partitions": placement.partitions(),
        "groups_sharing_racks": placement.groups_sharing_racks,
        "nodes": by_node.collect::<Vec<_>>(),
        "groups": by_group.collect::<Vec<_>>(),
    })
}

/// They follow each other.
fn partitions_of(group: &PlacedGroup) -> String {
    match &group.partitions[..] {
        [first, .., last] => format!("{first}-{last}"),
        all => listed(all),
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn listed(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(nodes: u32, kfactor: u32, partitions_per_node: u32, racks: &str) -> LayoutOptions {
        let racks = racks.split(',').filter(|_| !racks.is_empty()).map(str::to_owned).collect();
        LayoutOptions { nodes, kfactor, partitions_per_node, racks, json: false }
    }

    #[test]
    fn a_layout_is_shown_by_node_and_by_group() {
        let shown = show(&options(3, 1, 2, "a,b, c")).unwrap();
        let expected = "\
3 nodes with data, K = 1, 2 partitions per node: 3 partitions in 3 groups

node  rack  leads  copies  groups  next leads
1     a     1      1       1       2
2     b     1      1       1       3
3     c     1      1       1       1

group  partitions  leader  copies on
0      0           1       2
1      1           2       3
2      2           3       1";
        assert_eq!(shown, expected);
        let shown = show(&options(2, 1, 3, "a,a")).unwrap();
        let warnings: Vec<&str> = shown.lines().skip(1).take_while(|line| !line.is_empty()).collect();
        assert_eq!(
            warnings,
            [
                "two nodes with copies also need a witness (ferrite witness)",
                "2 of the groups have copies in the same rack: no rack may have more than 1 of the nodes to avoid that",
            ]
        );
        assert!(shown.contains("\n0      0-1         1       2\n"), "{shown}");
    }

    #[test]
    fn programs_get_the_same_as_json() {
        let shown = show(&LayoutOptions { json: true, ..options(12, 1, 6, "") }).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["partitions"], &shown["groups_sharing_racks"]), (&json!(36), &json!(0)));
        assert_eq!(shown["groups"].as_array().map(Vec::len), Some(36));
        let node = &shown["nodes"][4];
        assert_eq!((&node["rack"], &node["partitions_led"], &node["groups_led"]), (&Value::Null, &json!(3), &json!(3)));
        assert_eq!(node["next_leads"].as_array().map(Vec::len), Some(3));
        assert_eq!(shown["groups"][0]["place"][0], shown["groups"][0]["leader"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_do() {
        let refused = |nodes, kfactor, per_node, racks| show(&options(nodes, kfactor, per_node, racks)).unwrap_err();
        assert!(refused(3, 1, 3, "").contains("Possible are 3 nodes with data, K = 1, 2 partitions per node"));
        assert!(refused(u32::MAX, 1, 3, "").contains("a cluster is founded with 48 nodes at most"));
        assert!(refused(3, 1, 2, "a,b").contains("--racks names the rack of 2 nodes, and --nodes is 3"));
        assert!(refused(3, 1, 2, "a,,c").contains("the rack of node 2 has no name"));
    }
}

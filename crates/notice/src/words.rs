//! Parts of texts that depend on numbers, or that may be missing.

use ferrite_base::{GroupId, NodeId};
use std::time::Duration;

pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Per second.
pub fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// `s` where it is not one.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `node 1, node 2 and node 3`
pub fn all_of(nodes: &[NodeId]) -> String {
    joined(names(nodes))
}

/// `group 1 and group 2`
pub fn groups_of(groups: &[GroupId]) -> String {
    joined(groups.iter().map(|group| format!("group {group}")).collect())
}

fn joined(mut names: Vec<String>) -> String {
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) }
}

fn names(nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| format!("node {node}")).collect()
}

/// Before what a node knew before it took part.
pub fn as_known(stale: bool) -> &'static str {
    if stale { "as this node knew it last, " } else { "" }
}

/// After the name of the first of several.
pub fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " and another one".to_owned(),
        more => format!(" and {more} others"),
    }
}

pub fn times_more(times: u64) -> String {
    if times == 1 { "once more".to_owned() } else { format!("{times} times more") }
}

/// A colon and the words, where there are any.
pub fn after_colon(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

pub fn rows_part(rows: u64) -> String {
    if rows > 0 { format!(", {rows} rows") } else { String::new() }
}

/// Between the parentheses of the line that says where the server listens.
pub fn ready(partitions: usize, durability: &str, node: Option<NodeId>, admin: Option<std::net::SocketAddr>) -> String {
    let node = node.map_or_else(String::new, |node| format!(", node {node}"));
    let admin = admin.map_or_else(String::new, |address| format!(", administration on {address}"));
    format!("{partitions} partition{}, durability {durability}{node}{admin}", plural(partitions))
}

/// What a group without a leader waits for. `away`: the members that do not run, with their hosts;
/// `incomplete`: those that run and may lack something.
pub fn awaited(epoch: u64, away: &[String], incomplete: &[NodeId]) -> String {
    let mut words = if away.is_empty() {
        format!("waits for a complete copy: all members of its last configuration (epoch {epoch}) run")
    } else {
        format!(
            "waits for {}, of the members of its last configuration (epoch {epoch}): start one of them, and it leads with \
             everything that was acknowledged",
            away.join(" or ")
        )
    };
    if !incomplete.is_empty() {
        words.push_str(&format!(
            ". The copy of {} may lack something that was acknowledged: if the node runs with another directory than \
             before, stop it and start it with its former one",
            names(incomplete).join(" and ")
        ));
    }
    words
}

/// How to accept the loss of the nodes that a group waits for. `latest`: the node with the latest
/// copy of those that run.
pub fn accept_loss(offered: bool, latest: Option<NodeId>) -> String {
    if !offered {
        return String::new();
    }
    let node = match latest {
        Some(node) => format!("{node}, which has the latest copy of the nodes that run"),
        None => "N, where N is a node that has an older copy".to_owned(),
    };
    format!(". Only if their disks are lost for good: ferrite admin recover --accept-loss --node {node}")
}

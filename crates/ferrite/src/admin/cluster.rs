//! `ferrite admin transfer`, `recover` and `remove-node` of a cluster.

use super::tables::Table;
use super::{ServerAddress, call};

pub fn transfer(address: &ServerAddress, to: Option<u32>) -> Result<String, String> {
    let response = match to {
        Some(node) => call(address, "@TransferLead", (i64::from(node),))?,
        None => call(address, "@TransferLead", ())?,
    };
    Ok(response.status_text.clone().unwrap_or_default())
}

pub fn accept_loss(address: &ServerAddress, node: u32) -> Result<String, String> {
    let outcome = call(address, "@AcceptLoss", (i64::from(node),));
    // As it is now: what a group waited for before says nothing of how this ended.
    let status = call(address, "@ClusterStatus", ());
    let groups = status.as_ref().ok().and_then(|status| status.tables.get(1)).map(Table::of).unwrap_or_default();
    for row in 0..groups.len() {
        let waits_for = groups.text(row, "WAITS_FOR");
        if !waits_for.is_empty() {
            ferrite_io::errln!("ferrite: group {} waits for {waits_for}", groups.text(row, "GROUP_ID"));
        }
    }
    Ok(outcome?.status_text.clone().unwrap_or_default())
}

pub fn remove_node(address: &ServerAddress, node: u32) -> Result<String, String> {
    let response = call(address, "@RemoveNode", (i64::from(node),))?;
    Ok(response.status_text.clone().unwrap_or_default())
}

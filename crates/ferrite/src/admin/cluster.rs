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
    let status = call(address, "@ClusterStatus", ())?;
    let groups = status.tables.get(1).map(Table::of).unwrap_or_default();
    for row in 0..groups.len() {
        let waits_for = groups.text(row, "WAITS_FOR");
        if !waits_for.is_empty() {
            ferrite_io::errln!("ferrite: group {} waits for {waits_for}", groups.text(row, "GROUP_ID"));
        }
    }
    let response = call(address, "@AcceptLoss", (i64::from(node),))?;
    Ok(response.status_text.clone().unwrap_or_default())
}

pub fn remove_node(address: &ServerAddress, node: u32) -> Result<String, String> {
    let response = call(address, "@RemoveNode", (i64::from(node),))?;
    Ok(response.status_text.clone().unwrap_or_default())
}

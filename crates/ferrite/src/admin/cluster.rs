//! `ferrite admin status`, `transfer`, `recover` and `remove-node` of a cluster.

use super::{ServerAddress, call};
use ferrite_client::{OwnedTable, OwnedValue};

pub fn transfer(address: &ServerAddress, to: Option<u32>) -> Result<String, String> {
    let response = match to {
        Some(node) => call(address, "@TransferLead", (i64::from(node),))?,
        None => call(address, "@TransferLead", ())?,
    };
    Ok(response.status_text.clone().unwrap_or_default())
}

pub fn accept_loss(address: &ServerAddress, node: u32) -> Result<String, String> {
    let status = call(address, "@ClusterStatus", ())?;
    for row in status.tables.get(1).into_iter().flat_map(rows) {
        if let [group, .., waits_for] = &row[..]
            && !waits_for.is_empty()
        {
            eprintln!("ferrite: group {group} waits for {waits_for}");
        }
    }
    let response = call(address, "@AcceptLoss", (i64::from(node),))?;
    Ok(response.status_text.clone().unwrap_or_default())
}

pub fn remove_node(address: &ServerAddress, node: u32) -> Result<String, String> {
    let response = call(address, "@RemoveNode", (i64::from(node),))?;
    Ok(response.status_text.clone().unwrap_or_default())
}

pub fn status(address: &ServerAddress) -> Result<String, String> {
    let response = call(address, "@ClusterStatus", ())?;
    Ok(text(&response.tables))
}

fn rows(table: &OwnedTable) -> Vec<Vec<String>> {
    let cell = |value: &OwnedValue| match value {
        OwnedValue::Integer(number) => number.to_string(),
        OwnedValue::Text(text) => text.to_string(),
        _ => String::new(),
    };
    table.rows.iter().map(|row| row.iter().map(cell).collect()).collect()
}

fn text(tables: &[OwnedTable]) -> String {
    let mut lines = Vec::new();
    if let Some(nodes) = tables.first() {
        let names = nodes.columns.iter().map(|(name, _)| name.to_lowercase()).collect();
        lines.extend(nodes_of(names, rows(nodes)));
    }
    let decides = |row: &Vec<String>| match &row[..] {
        // Some have not said yet whether they are there.
        [_, _, _, losses, ..] if losses.is_empty() => true,
        [_, there, majority, ..] => there.parse::<u64>().ok() >= majority.parse().ok(),
        _ => true,
    };
    if tables.get(2).into_iter().flat_map(rows).any(|row| !decides(&row)) {
        lines.push("no majority of the voters is heard here: of the group this is what was known last".to_owned());
    }
    for row in tables.get(1).into_iter().flat_map(rows) {
        let [group, epoch, leader, members, kfactor, data, service, waits_for] = &row[..] else { continue };
        let copies = || {
            let all = kfactor.parse::<u64>().map_or(1, |kfactor| kfactor + 1);
            format!("node {leader} leads {members} of {all} copies (epoch {epoch})")
        };
        lines.push(match waits_for.is_empty() {
            true if leader == "0" => format!("group {group}: nobody is known to lead (epoch {epoch})"),
            true if data.is_empty() => format!(
                "group {group}: {}, as far as this node knows; how many losses the cluster stands, it does not know yet: \
                 ask again, or another node",
                copies()
            ),
            true => {
                format!("group {group}: {}; the data survive {}, the service {service}", copies(), more(data))
            }
            false => format!("group {group}: nobody leads; it waits for {waits_for}"),
        });
    }
    for row in tables.get(2).into_iter().flat_map(rows) {
        let [voters, there, majority, losses, missing] = &row[..] else { continue };
        lines.push(match decides(&row) {
            true if losses.is_empty() => format!("voters: {there} of {voters} have said that they are there"),
            true => format!("voters: {there} of {voters} are there; decisions survive {}", more(losses)),
            false => format!("voters: {there} of {voters} are there; {majority} are needed to decide anything"),
        });
        if !missing.is_empty() {
            lines.push(format!("        {missing}"));
        }
    }
    lines.join("\n")
}

/// `1 more loss`
fn more(losses: &str) -> String {
    format!("{losses} more {}", if losses == "1" { "loss" } else { "losses" })
}

/// Those that are gone for good are named in one line.
fn nodes_of(names: Vec<String>, nodes: Vec<Vec<String>>) -> Vec<String> {
    let presence = names.iter().position(|name| name == "presence");
    let is_retired = |node: &Vec<String>| presence.is_some_and(|column| node[column] == "retired");
    let (retired, there): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_retired);
    let mut lines = columns(&[vec![names], there].concat());
    let retired: Vec<String> = retired.into_iter().filter_map(|node| node.into_iter().next()).collect();
    if !retired.is_empty() {
        lines.push(format!("removed or replaced: node {}", retired.join(", node ")));
    }
    lines
}

/// Cells below each other.
fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_gone_for_good_have_one_line() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let names = || row(&["node", "presence", "votes"]);
        let there = row(&["1", "running", "yes"]);
        let nodes = vec![there.clone(), row(&["2", "retired", "no"]), row(&["3", "retired", "no"])];
        let head = ["node  presence  votes", "1     running   yes"];
        assert_eq!(nodes_of(names(), nodes), [&head[..], &["removed or replaced: node 2, node 3"]].concat());
        assert_eq!(nodes_of(names(), vec![there]), head);
    }

    #[test]
    fn a_node_that_does_not_know_the_number_of_losses_says_so() {
        let table = |cells: Vec<OwnedValue>| {
            let columns = vec![(String::new(), ferrite_value::SqlType::Integer); cells.len()];
            OwnedTable { status: 0, columns, rows: vec![cells] }
        };
        let number = OwnedValue::Integer;
        let said = |data: OwnedValue, service: OwnedValue, there: i64, decisions: OwnedValue| {
            let none = || OwnedValue::Text("".into());
            let group = [0, 4, 1, 2, 1].map(number).into_iter().chain([data, service, none()]).collect();
            let voters = vec![number(3), number(there), number(2), decisions, none()];
            super::text(&[table(vec![number(1)]), table(group), table(voters)])
        };
        let heard = said(number(1), number(0), 2, number(0));
        assert!(heard.contains("(epoch 4); the data survive 1 more loss, the service 0\n"), "{heard}");
        assert!(heard.ends_with("voters: 2 of 3 are there; decisions survive 0 more losses"), "{heard}");
        let began = said(OwnedValue::Null, OwnedValue::Null, 1, OwnedValue::Null);
        assert!(began.contains("node 1 leads 2 of 2 copies (epoch 4), as far as this node knows; how many"), "{began}");
        assert!(began.ends_with("voters: 1 of 3 have said that they are there"), "{began}");
        let alone = said(OwnedValue::Null, OwnedValue::Null, 1, number(0));
        assert!(alone.contains("no majority of the voters is heard here"), "{alone}");
        assert!(alone.ends_with("voters: 1 of 3 are there; 2 are needed to decide anything"), "{alone}");
    }

    #[test]
    fn cells_stand_below_each_other() {
        let rows = [vec!["node".to_owned(), "role".to_owned()], vec!["1".to_owned(), String::new()]];
        assert_eq!(columns(&rows), ["node  role", "1"]);
    }
}

//! `@SnapshotScan` and `@SnapshotDelete` where a cluster has several groups: on the machines of all
//! nodes that lead groups.
//!
//! Invariants:
//! - each node that leads a group is asked once, and answers for itself: a node that is not the one
//!   that is meant does nothing, and says that;
//! - rows of an answer have the columns that they are to have;
//! - a backup is complete if a node has all of it, or the nodes have it together;
//! - nodes remove files one after the other, since they may see the same directory;
//! - nodes that were not asked, or have not answered, are named.

use super::answers::{AnswerRows, TablesAnswer, malformed};
use super::files_of_nodes::FoundBackup;
use super::{Backups, PATH_TYPE, Scanned, TablesWithWords, deleted_table, spawn, texts};
use crate::submit::Submit;
use crossbeam_channel::unbounded;
use ferrite_backup::request::{self, checked_nonce};
use ferrite_backup::{csv_files, listing, save};
use ferrite_base::{GroupId, UserError, UserResult};
use ferrite_io::{Clock, SystemClock};
use ferrite_partition::Reply;
use ferrite_system::hosts::Hosts;
use ferrite_system::result::cells;
use ferrite_value::{OwnedValue, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The call by which a node does its part; only nodes make it.
pub const OF_NODE: &str = "@BackupsOfNode";

/// Places in the rows of a scan: of a backup, and of a file.
const CREATED: usize = 3;
const SIZE: usize = 4;
const TABLES: usize = 5;
const INCOMPLETE: usize = 7;
const COMPLETE: usize = 8;
const NONCE: usize = 1;
const FILE_NAME: usize = 3;
const FILE_CREATED: usize = 5;
const FILE_TABLES: usize = 6;
const FILE_COMPLETE: usize = 7;
const FILE_SIZE: usize = 8;
const FILE_RESULT: usize = 13;
const FILE_FAULT: usize = 14;
/// In a row of a deletion.
const DELETED_NAME: usize = 5;
/// Columns of the tables that a node answers, of a scan and of a deletion.
const SCANNED: [usize; 3] = [10, 8, 16];
const DELETED: [usize; 1] = [10];

/// A node, by the first of the groups that it leads.
struct Leader {
    group: GroupId,
    host_id: i32,
    host_name: String,
}

/// The database's nodes, and how they are asked.
struct Nodes {
    node: Arc<Backups>,
    submit: Arc<Submit>,
    /// This one first.
    leaders: Vec<Leader>,
    /// What is to be said of those that are not asked.
    words: Vec<String>,
}

impl Nodes {
    fn of(node: &Arc<Backups>, submit: &Arc<Submit>, hosts: &Hosts) -> Nodes {
        let own = node.identity.host_id;
        let mut first = BTreeMap::new();
        let table = submit.routes.table();
        for (group, of) in table.groups().zip(&hosts.groups) {
            if let Some(leader) = of.leader {
                first.entry((leader != own, leader)).or_insert(group);
            }
        }
        let name = |id: i32| match id == own {
            true => node.identity.host_name.clone(),
            false => host_name_of(hosts, id),
        };
        let leaders = first.iter().map(|((_, id), group)| Leader { group: *group, host_id: *id, host_name: name(*id) });
        let leaders: Vec<Leader> = leaders.collect();
        let is_asked = |id: i32| leaders.iter().any(|leader| leader.host_id == id);
        let others = hosts.hosts.iter().filter(|host| !is_asked(host.id));
        let words = others.map(|host| format!("node {} leads no group and was not asked", host.id)).collect();
        Nodes { node: Arc::clone(node), submit: Arc::clone(submit), leaders, words }
    }

    /// Answers with what `work` makes, from a thread of its own.
    fn answer(self, reply: &Reply, work: impl FnOnce(Nodes) -> TablesWithWords + Send + 'static) -> UserResult<()> {
        let going = self.node.turn.scan()?;
        let reply = reply.clone();
        spawn(move || {
            let result = work(self);
            // A client that has its answer may ask again at once.
            drop(going);
            super::answer_with_words(&reply, result);
        })
    }

    /// The tables that this node answers, of so many columns.
    fn ask<const N: usize>(
        &self,
        leader: &Leader,
        asked: &[Value<'_>],
        columns: [usize; N],
    ) -> UserResult<[AnswerRows; N]> {
        let mut parameters = vec![Value::Integer(leader.host_id.into())];
        parameters.extend_from_slice(asked);
        let (to, heard) = unbounded();
        let mailbox = Arc::new(TablesAnswer(to));
        self.submit.call_leader(OF_NODE, leader.group, &parameters, mailbox, SystemClock.wall_micros());
        let tables = heard.recv().map_err(|_| UserError::parameters("it has not answered"))??;
        of_columns(tables, columns).ok_or_else(malformed)
    }
}

/// What clients know the host by, without the port.
fn host_name_of(hosts: &Hosts, id: i32) -> String {
    let clients = hosts.hosts.iter().find(|host| host.id == id).and_then(|host| host.clients.as_deref());
    let name = clients.and_then(|clients| clients.rsplit_once(':')).map_or("", |(name, _)| name);
    name.to_owned()
}

/// The tables, if these are all, and each of their rows has so many cells.
fn of_columns<const N: usize>(tables: Vec<AnswerRows>, columns: [usize; N]) -> Option<[AnswerRows; N]> {
    let tables = <[AnswerRows; N]>::try_from(tables).ok()?;
    let is_whole = tables.iter().zip(columns).all(|(rows, columns)| rows.iter().all(|row| row.len() == columns));
    is_whole.then_some(tables)
}

/// What the nodes see of one backup.
struct SeenByNodes {
    /// As one node has it.
    row: Vec<OwnedValue>,
    files: BTreeMap<String, i64>,
}

fn text(value: &OwnedValue) -> &str {
    match value {
        OwnedValue::Text(text) => text,
        _ => "",
    }
}

fn number(value: &OwnedValue) -> i64 {
    match value {
        OwnedValue::Integer(number) => *number,
        _ => 0,
    }
}

fn is_complete(row: &[OwnedValue]) -> bool {
    text(&row[COMPLETE]) == "TRUE"
}

/// By nonce. A row of a node that has the whole goes before one of a node that has the manifest.
fn seen(snapshots: &AnswerRows, files: &AnswerRows) -> BTreeMap<String, SeenByNodes> {
    let mut all: BTreeMap<String, SeenByNodes> = BTreeMap::new();
    for row in snapshots {
        let rank = |row: &[OwnedValue]| (is_complete(row), number(&row[CREATED]) > 0);
        let seen = all.entry(text(&row[NONCE]).to_owned());
        let seen = seen.or_insert_with(|| SeenByNodes { row: row.clone(), files: BTreeMap::new() });
        if rank(row) > rank(&seen.row) {
            seen.row = row.clone();
        }
    }
    for row in files {
        let name = text(&row[FILE_NAME]);
        if let Some((_, seen)) = all.iter_mut().find(|(nonce, _)| listing::is_of(name, nonce)) {
            let bytes = number(&row[FILE_SIZE]);
            let known = seen.files.entry(name.to_owned()).or_default();
            *known = bytes.max(*known);
        }
    }
    all
}

/// `@SnapshotScan`, from a thread of its own.
pub fn scan(
    node: &Arc<Backups>,
    submit: &Arc<Submit>,
    hosts: &Hosts,
    parameters: &[Value<'_>],
    reply: &Reply,
) -> UserResult<()> {
    super::scanned(node, parameters)?;
    let [Value::Text(path)] = parameters else { unreachable!("it was judged") };
    let path = (*path).to_owned();
    Nodes::of(node, submit, hosts).answer(reply, move |nodes| nodes.scan(&path))
}

impl Nodes {
    fn scan(mut self, path: &str) -> TablesWithWords {
        let mut snapshots = AnswerRows::new();
        let mut space = AnswerRows::new();
        let mut files = AnswerRows::new();
        let mut failed = Vec::new();
        for leader in &self.leaders {
            match self.ask(leader, &[Value::Text("@SnapshotScan"), Value::Text(path)], SCANNED) {
                Ok([of_snapshots, of_space, of_files]) => {
                    space.extend(of_space);
                    snapshots.extend(of_snapshots);
                    files.extend(of_files);
                }
                Err(error) => failed.push(format!("node {}: {}", leader.host_id, error.message())),
            }
        }
        self.words.extend(failed);
        let mut scanned = Scanned::default();
        for (nonce, SeenByNodes { mut row, files: own }) in seen(&snapshots, &files) {
            let fault = if is_complete(&row) { None } else { self.fault_of(path, &nonce, &own) };
            let whole = OwnedValue::Text(if fault.is_none() { "TRUE" } else { "FALSE" }.into());
            row[COMPLETE] = whole.clone();
            row[INCOMPLETE] = if fault.is_none() { OwnedValue::Text("".into()) } else { row[TABLES].clone() };
            row[SIZE] = OwnedValue::Integer(own.values().sum());
            let result = OwnedValue::Text(if fault.is_none() { "SUCCESS" } else { "FAILURE" }.into());
            let fault = OwnedValue::Text(fault.unwrap_or_default().into());
            for file in files.iter_mut().filter(|file| listing::is_of(text(&file[FILE_NAME]), &nonce)) {
                file[FILE_CREATED] = row[CREATED].clone();
                file[FILE_TABLES] = row[TABLES].clone();
                file[FILE_COMPLETE] = whole.clone();
                file[FILE_RESULT] = result.clone();
                file[FILE_FAULT] = fault.clone();
            }
            scanned.snapshots.row(row);
        }
        space.into_iter().for_each(|row| scanned.space.row(row));
        files.into_iter().for_each(|row| scanned.files.row(row));
        Ok((vec![scanned.snapshots, scanned.space, scanned.files], self.words.join("; ")))
    }

    /// What is wrong with a backup of which no node has the whole. None: the nodes have it
    /// together.
    fn fault_of(&self, path: &str, nonce: &str, own: &BTreeMap<String, i64>) -> Option<String> {
        let parameters = [Value::Text(path), Value::Text(nonce)];
        let asked = parameters.iter().map(Value::to_owned_value).collect();
        let request = request::restore(&parameters, &self.node.identity.backups);
        let fault = request.and_then(|request| {
            let found = FoundBackup::of(&self.node, &self.submit, asked, &request)?;
            let schema = save::schema_name(nonce);
            if !own.contains_key(&schema) {
                return Ok(None);
            }
            let is_there = |name: &str| own.contains_key(name);
            Ok(csv_files::fault(&found.files, &request.dir.join(schema), nonce, is_there))
        });
        fault.unwrap_or_else(|error| Some(error.message().to_owned()))
    }

    /// Where the backup's files are, they go: rows of files, or one that says that there are none.
    fn delete(&self, path: &str, nonce: &str) -> AnswerRows {
        let mut there = AnswerRows::new();
        let mut absent = None;
        for leader in &self.leaders {
            let parameters = [Value::Text("@SnapshotDelete"), Value::Text(path), Value::Text(nonce)];
            match self.ask(leader, &parameters, DELETED) {
                Ok([rows]) => {
                    for row in rows {
                        if text(&row[DELETED_NAME]).is_empty() {
                            absent.get_or_insert(row);
                        } else {
                            there.push(row);
                        }
                    }
                }
                Err(error) => {
                    let host = leader.host_name.as_str();
                    let words = format!("node {}: {}", leader.host_id, error.message());
                    let row = cells![leader.host_id, host, path, PATH_TYPE, nonce, "", 0i64, "FALSE", "FAILURE", words];
                    let mut table = deleted_table();
                    table.row(row);
                    there.extend(table.rows().to_vec());
                }
            }
        }
        if there.is_empty() { absent.into_iter().collect() } else { there }
    }
}

/// `@SnapshotDelete`, from a thread of its own.
pub fn delete(
    node: &Arc<Backups>,
    submit: &Arc<Submit>,
    hosts: &Hosts,
    parameters: &[Value<'_>],
    reply: &Reply,
) -> UserResult<()> {
    super::deletions(node, parameters)?;
    let [paths, nonces] = parameters else { unreachable!("they were judged") };
    let owned = |value: &Value<'_>| texts(value).unwrap_or_default().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let asked: Vec<(String, String)> = owned(paths).into_iter().zip(owned(nonces)).collect();
    Nodes::of(node, submit, hosts).answer(reply, move |nodes| {
        let mut table = deleted_table();
        for (path, nonce) in &asked {
            nodes.delete(path, nonce).into_iter().for_each(|row| table.row(row));
        }
        Ok((vec![table], nodes.words.join("; ")))
    })
}

/// `@BackupsOfNode(group, host, procedure, path [, nonce])`: what this node has, if it is that
/// host.
pub fn serve(node: &Arc<Backups>, parameters: &[Value<'_>], reply: &Reply) -> UserResult<()> {
    let place = &node.identity.backups;
    let own = Arc::clone(node);
    let reply = reply.clone();
    let unknown = || UserError::parameters("@BackupsOfNode takes a group, a host, a procedure and its path");
    let [Value::Integer(group), Value::Integer(host), asked @ ..] = parameters else { return Err(unknown()) };
    if *host != i64::from(node.identity.host_id) {
        return Err(UserError::parameters(format!("group {group} is led by another node now")));
    }
    match asked {
        [Value::Text("@SnapshotScan"), Value::Text(path)] => {
            let dir = place.directory(path)?;
            spawn(move || super::answer(&reply, &super::scan(&own, &dir)))
        }
        [Value::Text("@SnapshotDelete"), Value::Text(path), Value::Text(nonce)] => {
            let asked = vec![(place.directory(path)?, checked_nonce(nonce)?.to_owned())];
            spawn(move || super::answer(&reply, &super::delete(&own, asked)))
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> OwnedValue {
        OwnedValue::Text(text.into())
    }

    fn snapshot(nonce: &str, created: i64, complete: &str) -> Vec<OwnedValue> {
        let zero = OwnedValue::Integer(0);
        let mut row = vec![text_of("/dir"), text_of(nonce), zero.clone(), OwnedValue::Integer(created), zero];
        row.extend([text_of("T"), text_of(""), text_of("T"), text_of(complete), text_of(PATH_TYPE)]);
        row
    }

    fn file(host: i64, name: &str, bytes: i64) -> Vec<OwnedValue> {
        let mut row = vec![OwnedValue::Integer(0); 16];
        row[0] = OwnedValue::Integer(host);
        row[FILE_NAME] = text_of(name);
        row[FILE_SIZE] = OwnedValue::Integer(bytes);
        row
    }

    #[test]
    fn rows_of_other_columns_than_expected_are_refused() {
        let Scanned { snapshots, space, files } = Scanned::default();
        assert_eq!([snapshots, space, files].map(|table| table.columns().count()), SCANNED);
        assert_eq!([deleted_table().columns().count()], DELETED);
        let rows = |cells: usize| vec![vec![OwnedValue::Null; 10], vec![OwnedValue::Null; cells]];
        assert!(of_columns(vec![rows(10)], DELETED).is_some());
        for tables in [vec![rows(9)], vec![rows(11)], vec![rows(10), rows(10)], vec![]] {
            assert!(of_columns(tables, DELETED).is_none());
        }
    }

    #[test]
    fn a_backup_is_seen_as_the_node_has_it_that_has_most_of_it_and_each_file_counts_once() {
        let snapshots = vec![
            snapshot("one", 0, "FALSE"),
            snapshot("one", 7, "FALSE"),
            snapshot("two", 7, "FALSE"),
            snapshot("two", 0, "TRUE"),
            snapshot("two", 9, "FALSE"),
        ];
        let files = vec![
            file(1, "one-p0000.rows", 10),
            file(2, "one-p0000.rows", 10),
            file(2, "one-p0001.rows", 5),
            file(1, "two-T.csv", 1),
            file(3, "", 0),
        ];
        let all = seen(&snapshots, &files);
        let said = |nonce: &str| (number(&all[nonce].row[CREATED]), is_complete(&all[nonce].row));
        assert_eq!((all.len(), said("one"), said("two")), (2, (7, false), (0, true)));
        let bytes = |nonce: &str| all[nonce].files.values().sum::<i64>();
        assert_eq!((all["one"].files.len(), bytes("one"), bytes("two")), (2, 15, 1));
    }
}

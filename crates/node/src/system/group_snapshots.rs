//! `@SnapshotSave` of the database's own snapshot, and `@SnapshotStatus`, where a cluster has
//! several groups: each group's leader saves its group, or says what it has saved, and the caller
//! gets one table of all.
//!
//! The node that leads the first group calls every group's leader by `@SnapshotGroup`. Invariants:
//!
//! - the caller is answered once, when every group has answered;
//! - of a save, each partition has one row: of the node that has saved its group, with that group's
//!   outcome, or of this node, with the reason why the group's leader gave no answer.
//!
//! Groups take their snapshots at different moments. This has no effect: a group starts from its
//! snapshot and its later log, which together contain every part of a transaction over groups that
//! was in doubt (docs/decisions/0124), and never from a snapshot without its log.

use super::all_groups::check_is_of_node;
use super::{Handled, System, answer, write_tables};
use crate::administration;
use crate::message::{SaveCallback, SnapshotJob};
use crate::routes;
use ferrite_base::{GroupId, UserError, UserResult};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_system::result::SystemTable;
use ferrite_system::statistics;
use ferrite_value::{OwnedValue, SqlType, Value};
use ferrite_wire::response::ResponseWriter;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The call by which a group does its part; only nodes make it.
const OF_GROUP: &str = "@SnapshotGroup";
/// Its second parameter.
const SAVE: i64 = 1;
const STATUS: i64 = 0;

/// A group's rows, or why there are none.
type GroupRows = Result<Vec<Vec<OwnedValue>>, String>;

/// What the groups' leaders have answered.
struct Gathering {
    columns: Vec<(String, SqlType)>,
    groups: usize,
    parts: Mutex<BTreeMap<GroupId, GroupRows>>,
    /// Answers the caller.
    finish: Box<dyn Fn(BTreeMap<GroupId, GroupRows>) + Send + Sync>,
}

/// Where one group answers.
struct OfGroup(GroupId, Arc<Gathering>);

impl Mailbox for OfGroup {
    fn deliver(&self, answers: AnswerBatch) {
        let OfGroup(group, all) = self;
        let part = part_of(&answers, &all.columns);
        let mut parts = all.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = parts.insert(*group, part);
        assert!(before.is_none(), "a group answers once");
        if parts.len() == all.groups {
            let whole = std::mem::take(&mut *parts);
            drop(parts);
            (all.finish)(whole);
        }
    }
}

/// The rows of a leader's answer.
fn part_of(answers: &AnswerBatch, columns: &[(String, SqlType)]) -> GroupRows {
    let malformed = || "the leader's answer is malformed".to_owned();
    let response = answers.first().ok_or_else(malformed)?;
    if !answers.is_success() {
        return Err(response.status_text.unwrap_or("it failed without a reason").to_owned());
    }
    let table = response.tables().next().and_then(|table| table.ok()?.to_owned_table().ok());
    let table = table.filter(|table| table.columns.len() == columns.len()).ok_or_else(malformed)?;
    Ok(table.rows)
}

fn columns_of(table: &SystemTable) -> Vec<(String, SqlType)> {
    table.columns().map(|(name, kind)| (name.to_owned(), kind)).collect()
}

fn table_of(columns: &[(String, SqlType)], rows: Vec<Vec<OwnedValue>>) -> SystemTable {
    let columns: Vec<(&str, SqlType)> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let mut table = SystemTable::new(&columns);
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// In the order of the partitions, which the third column names.
fn in_order(mut rows: Vec<Vec<OwnedValue>>) -> Vec<Vec<OwnedValue>> {
    rows.sort_by_key(|row| match row.get(2) {
        Some(OwnedValue::Integer(partition)) => *partition,
        _ => i64::MAX,
    });
    rows
}

/// The table of a save, and words about it: `failed` makes the rows of a group without an answer.
fn saved(
    columns: &[(String, SqlType)],
    parts: BTreeMap<GroupId, GroupRows>,
    failed: impl Fn(GroupId, &str) -> SystemTable,
) -> (SystemTable, String) {
    let groups = parts.len();
    let is_success = |row: &Vec<OwnedValue>| row.get(3) == Some(&OwnedValue::Text("SUCCESS".into()));
    let mut whole = 0;
    let mut rows = Vec::new();
    for (group, part) in parts {
        let of_group = part.unwrap_or_else(|reason| failed(group, &of_this_group(group, &reason)).rows().to_vec());
        whole += usize::from(!of_group.is_empty() && of_group.iter().all(is_success));
        rows.extend(of_group);
    }
    (table_of(columns, in_order(rows)), format!("{whole} of {groups} groups have a new snapshot"))
}

fn of_this_group(group: GroupId, reason: &str) -> String {
    format!("group {group}: {reason}")
}

impl System {
    /// The database's own snapshot; the answer comes when it is whole.
    pub(super) fn save_snapshot(&self, reply: &Reply) -> UserResult<Handled> {
        if !self.submit.has_several_groups() {
            return self.save_group(FIRST_GROUP, reply);
        }
        let identity = Arc::clone(&self.identity);
        let table = self.submit.routes.kept_table();
        let columns = columns_of(&administration::snapshot_saved(&identity, [], Err("")));
        let failed = move |group, reason: &str| {
            administration::snapshot_saved(&identity, table.partitions_of(group), Err(reason))
        };
        self.gather(SAVE, columns, reply, move |columns, parts| saved(columns, parts, &failed));
        Ok(Handled::PassedOn)
    }

    /// `@SnapshotStatus`: of each group what its leader has written.
    pub(super) fn status_of_all_groups(&self, reply: &Reply) -> Handled {
        let columns = columns_of(&statistics::group_status(&self.collector.sources(), FIRST_GROUP, true));
        self.gather(STATUS, columns, reply, |columns, parts| {
            let mut words = Vec::new();
            let mut rows = Vec::new();
            for (group, part) in parts {
                match part {
                    Ok(of_group) => rows.extend(of_group),
                    Err(reason) => words.push(of_this_group(group, &reason)),
                }
            }
            (table_of(columns, rows), words.join("; "))
        });
        Handled::PassedOn
    }

    /// Asks each group's leader; `whole` makes the table and the words of what they answer.
    fn gather(
        &self,
        what: i64,
        columns: Vec<(String, SqlType)>,
        reply: &Reply,
        whole: impl Fn(&[(String, SqlType)], BTreeMap<GroupId, GroupRows>) -> (SystemTable, String) + Send + Sync + 'static,
    ) {
        let groups: Vec<GroupId> = self.submit.routes.table().groups().collect();
        let to = reply.clone();
        let result_bytes = self.settings.result_bytes;
        let of_caller = columns.clone();
        let finish = Box::new(move |parts| {
            let (table, words) = whole(&of_caller, parts);
            answer(&to, |out| {
                let writer = ResponseWriter::begin(out, to.handle).within(result_bytes);
                write_tables(writer, &[table], &words);
            });
        });
        let all = Arc::new(Gathering { columns, groups: groups.len(), parts: Mutex::default(), finish });
        for group in groups {
            let mailbox = Arc::new(OfGroup(group, Arc::clone(&all)));
            self.submit.call_leader(OF_GROUP, group, &[Value::Integer(what)], mailbox, reply.sent_micros);
        }
    }

    /// `@SnapshotGroup(group, what)`: this node, which leads the group, does its part.
    pub(super) fn snapshot_group(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        check_is_of_node(OF_GROUP, reply)?;
        let [Value::Integer(group), Value::Integer(what @ (SAVE | STATUS))] = parameters else {
            return Err(UserError::parameters("@SnapshotGroup takes a group and what is asked of it"));
        };
        let group = u32::try_from(*group).ok().map(GroupId);
        let group = group.filter(|group| self.submit.routes.table().place_of(*group).is_some());
        let group = group.ok_or_else(routes::not_here)?;
        if *what == SAVE {
            return self.save_group(group, reply);
        }
        // The node's backups once, however many groups it leads.
        let leads = |group: &GroupId| self.submit.forward.as_ref().is_none_or(|forward| forward.leads(*group, true));
        let with_backups = self.submit.routes.table().groups().find(leads) == Some(group);
        Ok(Handled::Tables(vec![statistics::group_status(&self.collector.sources(), group, with_backups)]))
    }

    /// A snapshot of a group that this node leads, with a row for each of its partitions.
    fn save_group(&self, group: GroupId, reply: &Reply) -> UserResult<Handled> {
        let identity = Arc::clone(&self.identity);
        let to = reply.clone();
        let table = self.submit.routes.kept_table();
        let several = self.submit.has_several_groups();
        let result_bytes = self.settings.result_bytes;
        let told: SaveCallback = Box::new(move |outcome| {
            let named = outcome.map_err(|error| if several { of_this_group(group, error) } else { error.to_owned() });
            let rows = named.as_ref().map(|_| ()).map_err(String::as_str);
            let table = administration::snapshot_saved(&identity, table.partitions_of(group), rows);
            let words = outcome.map_or_else(|_| String::new(), |saved| saved.notice().to_string());
            answer(&to, |out| {
                write_tables(ResponseWriter::begin(out, to.handle).within(result_bytes), &[table], &words);
            });
        });
        let job = SnapshotJob::Save(group, told);
        self.snapshots.send(job).expect("the snapshot thread outlives the system thread");
        Ok(Handled::PassedOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::UserError;
    use ferrite_system::result::write_response;
    use ferrite_value::SqlType::{Integer, Varchar};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn columns() -> Vec<(String, SqlType)> {
        let named = [("HOST_ID", Integer), ("HOSTNAME", Varchar), ("SITE_ID", Integer), ("RESULT", Varchar)];
        named.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect()
    }

    fn row(host: i64, partition: i64, result: &str) -> Vec<OwnedValue> {
        let text = |text: &str| OwnedValue::Text(text.into());
        vec![OwnedValue::Integer(host), text("host"), OwnedValue::Integer(partition), text(result)]
    }

    fn answered(result: UserResult<Vec<Vec<OwnedValue>>>) -> AnswerBatch {
        let mut answers = AnswerBatch::default();
        write_response(&mut answers.bytes, 1, &result.map(|rows| vec![table_of(&columns(), rows)]));
        answers
    }

    #[test]
    fn the_caller_hears_of_all_groups_once_and_of_each_its_own_outcome() {
        let heard = Arc::new(Mutex::new(None));
        let hear = Arc::clone(&heard);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let failed = |_, reason: &str| table_of(&columns(), vec![row(1, 1, reason)]);
        let finish = Box::new(move |parts| {
            counted.fetch_add(1, Ordering::Relaxed);
            *hear.lock().expect("no panic") = Some(saved(&columns(), parts, failed));
        });
        let all = Arc::new(Gathering { columns: columns(), groups: 3, parts: Mutex::default(), finish });
        let group = |number| OfGroup(GroupId(number), Arc::clone(&all));
        group(2).deliver(answered(Ok(vec![row(3, 2, "FAILURE")])));
        group(0).deliver(answered(Ok(vec![row(2, 3, "SUCCESS"), row(2, 0, "SUCCESS")])));
        assert!(heard.lock().expect("no panic").is_none(), "one group has not answered");
        group(1).deliver(answered(Err(UserError::parameters("no leader"))));
        let (table, words) = heard.lock().expect("no panic").take().expect("all have answered");
        assert_eq!(words, "1 of 3 groups have a new snapshot");
        let expected =
            [row(2, 0, "SUCCESS"), row(1, 1, "group 1: no leader"), row(3, 2, "FAILURE"), row(2, 3, "SUCCESS")];
        assert_eq!(table.rows(), expected);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_answer_of_another_shape_is_a_reason() {
        let mut short = columns();
        short.pop();
        let mut answers = AnswerBatch::default();
        write_response(&mut answers.bytes, 1, &Ok(vec![table_of(&short, Vec::new())]));
        for bytes in [&answers.bytes[..], &answers.bytes[..9], &[]] {
            let mut cut = AnswerBatch::default();
            cut.bytes.extend_from_slice(bytes);
            assert!(part_of(&cut, &columns()).is_err_and(|reason| reason.contains("malformed")));
        }
    }
}

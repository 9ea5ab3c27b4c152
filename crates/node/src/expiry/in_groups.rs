//! Rows of a table that all groups have expire in all of them by one transaction over groups, like
//! any other change of such a table.
//!
//! Groups have the same rows, but not in the same places: a statement that deletes the first so
//! many rows that it finds would delete others in each. So a batch is bounded by time. The node
//! that leads the first group reads the times of the oldest rows, as many as are a batch, and has
//! all groups delete what is not newer than the last of these. Rows of one time go together,
//! however many they are. Where nothing has expired, no partition is held.

use super::{Answers, deleted_rows};
use crate::connection::of_compound;
use crate::message::ExpiryNotice;
use crate::submit::Submit;
use crossbeam_channel::Sender;
use ferrite_base::{CatalogVersion, TableId};
use ferrite_catalog::{Table, TimeToLive};
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_value::{OwnedValue, Value};
use ferrite_wire::{RequestWriter, frame};
use std::sync::Arc;

/// In the place of a batch's partition.
pub(super) const ALL_GROUPS: u64 = 0;

/// The statements of a table's batches.
pub(super) struct GroupsBatches {
    oldest: String,
    delete: String,
    /// What is not newer has expired.
    cutoff: OwnedValue,
}

/// Hears the times of the oldest rows.
struct OldestRows(TableId, Sender<ExpiryNotice>);

/// Hears how many rows were deleted.
struct DeletedRows(TableId, Sender<ExpiryNotice>);

impl Mailbox for OldestRows {
    fn deliver(&self, answers: AnswerBatch) {
        let notice = ExpiryNotice::Bounded { table: self.0, newest: last_of(&answers) };
        // The thread has ended only when the server stops.
        let _ = self.1.send(notice);
    }
}

impl Mailbox for DeletedRows {
    fn deliver(&self, answers: AnswerBatch) {
        let deleted = deleted_rows(&answers.bytes);
        let _ = self.1.send(ExpiryNotice::Answered { table: self.0, partition: ALL_GROUPS, deleted });
    }
}

/// The last row's only column. None: the call has failed; Some(None): there are no rows.
fn last_of(answers: &AnswerBatch) -> Option<Option<OwnedValue>> {
    let response = answers.first().filter(|_| answers.is_success())?;
    let mut rows = response.tables().next()?.ok()?.to_owned_table().ok()?.rows;
    match rows.pop() {
        None => Some(None),
        Some(mut row) => row.pop().map(Some),
    }
}

impl GroupsBatches {
    pub(super) fn new(table: &Table, time: &TimeToLive, cutoff: OwnedValue) -> GroupsBatches {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let column = quoted(&table.columns[usize::from(time.column)].name);
        let name = quoted(&table.name);
        GroupsBatches {
            oldest: format!(
                "SELECT {column} FROM {name} WHERE {column} <= ? ORDER BY {column} LIMIT {}",
                time.batch_size
            ),
            delete: format!("DELETE FROM {name} WHERE {column} <= ?"),
            cutoff,
        }
    }

    /// Asks for the oldest rows.
    pub(super) fn begin(&self, submit: &Submit, answers: &Answers, sent_micros: i64) {
        let mailbox = Arc::new(OldestRows(answers.table, answers.to.clone()));
        let reply = Reply { mailbox, connection: of_compound(true), handle: 0, sent_micros };
        if let Err(error) = submit.frame(&request(&self.oldest, &self.cutoff), &reply) {
            reply.refuse(&error);
        }
    }

    /// Has all groups delete what is not newer, by the schema of the round: by a later one it may
    /// not have expired.
    pub(super) fn delete(
        &self,
        submit: &Submit,
        version: CatalogVersion,
        newest: &OwnedValue,
        answers: &Answers,
        sent_micros: i64,
    ) {
        let Answers { table, to } = answers;
        let mailbox = Arc::new(DeletedRows(*table, to.clone()));
        let reply = Reply { mailbox, connection: of_compound(true), handle: 0, sent_micros };
        let changed = ExpiryNotice::Answered { table: *table, partition: ALL_GROUPS, deleted: None };
        let to = to.clone();
        // The next round goes by the schema then in force.
        let again = Box::new(move || drop(to.send(changed)));
        let request = request(&self.delete, newest);
        let body = &request[frame::LENGTH_BYTES..];
        if let Err(error) = submit.groups_calls.change_all(body, version, reply.clone(), again) {
            reply.refuse(&error);
        }
    }
}

/// A client's call of the statement.
fn request(text: &str, time: &OwnedValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut request = RequestWriter::begin(&mut bytes, "@AdHoc", 0);
    request.parameter(&Value::Text(text));
    request.parameter(&time.as_value());
    request.finish().expect("a small call");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::UserError;
    use ferrite_system::result::{SystemTable, write_response};
    use ferrite_value::SqlType::Bigint;

    #[test]
    fn a_batch_ends_at_the_newest_of_its_rows() {
        let answer = |times: &[i64]| {
            let mut table = SystemTable::new(&[("T", Bigint)]);
            times.iter().for_each(|time| table.row([*time]));
            let mut answers = AnswerBatch::default();
            write_response(&mut answers.bytes, 0, &Ok(vec![table]));
            last_of(&answers)
        };
        assert_eq!(answer(&[3, 5, 5]), Some(Some(OwnedValue::Integer(5))));
        assert_eq!(answer(&[]), Some(None), "nothing has expired");
        let mut failed = AnswerBatch::default();
        write_response(&mut failed.bytes, 0, &Err(UserError::not_started("no leader")));
        assert_eq!(last_of(&failed), None);
        assert_eq!(deleted_rows(&failed.bytes), None);
    }
}

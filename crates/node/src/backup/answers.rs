//! What a node's leaders answer to calls that only nodes make: rows of one table.

use crossbeam_channel::Sender;
use ferrite_base::{ErrorKind, GroupId, UserError, UserResult};
use ferrite_partition::{AnswerBatch, Mailbox};
use ferrite_value::OwnedValue;
use ferrite_wire::{Response, Status};

pub type AnswerRows = Vec<Vec<OwnedValue>>;

/// Where one answer comes, with what it is known by.
pub struct RowsAnswer<K>(pub K, pub Sender<(K, UserResult<AnswerRows>)>);

impl<K: Clone + Send + Sync> Mailbox for RowsAnswer<K> {
    fn deliver(&self, answers: AnswerBatch) {
        // Whether anything waits for it is not its business.
        let _ = self.1.send((self.0.clone(), rows_of(&answers)));
    }
}

/// Where one answer of several tables comes.
pub struct TablesAnswer(pub Sender<UserResult<Vec<AnswerRows>>>);

impl Mailbox for TablesAnswer {
    fn deliver(&self, answers: AnswerBatch) {
        let _ = self.0.send(tables_of(&answers));
    }
}

pub fn malformed() -> UserError {
    UserError::internal("a node's answer is malformed")
}

/// What an answer says of its call.
pub fn outcome(response: &Response<'_>) -> UserResult<()> {
    let text = response.status_text.unwrap_or("a step failed without a text").to_owned();
    let coded = |error: UserError| match response.code {
        Some(code) => error.with_code(code.to_owned()),
        None => error,
    };
    match response.status() {
        Some(Status::Success) => Ok(()),
        // The text says what to do.
        Some(Status::ResponseUnknown) => Err(coded(UserError::new(ErrorKind::OutcomeUnknown, "08007", text))),
        Some(Status::ServerUnavailable) => Err(coded(UserError::new(ErrorKind::Unavailable, "58030", text))),
        _ => Err(coded(UserError::parameters(text))),
    }
}

/// Rows of the first table, or the failure that the answer is.
pub fn rows_of(answers: &AnswerBatch) -> UserResult<AnswerRows> {
    tables_of(answers)?.into_iter().next().ok_or_else(malformed)
}

/// The rows of all tables.
fn tables_of(answers: &AnswerBatch) -> UserResult<Vec<AnswerRows>> {
    let answer = answers.first().ok_or_else(malformed)?;
    outcome(&answer)?;
    let tables = answer.tables().map(|table| Some(table.ok()?.to_owned_table().ok()?.rows));
    tables.collect::<Option<_>>().ok_or_else(malformed)
}

/// A failure as the cell of a table has it.
pub fn in_one_line(error: &UserError) -> String {
    let hint = error.hint().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{}{hint}", error.message())
}

/// A group's failure, with its name.
pub fn of_group(group: GroupId, error: UserError) -> UserError {
    error.in_context(format_args!("group {group}"))
}

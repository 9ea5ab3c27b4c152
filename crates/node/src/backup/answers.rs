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
    let answer = answers.first().ok_or_else(malformed)?;
    outcome(&answer)?;
    let table = answer.tables().next();
    let table = table.and_then(|table| table.ok()?.to_owned_table().ok()).ok_or_else(malformed)?;
    Ok(table.rows)
}

/// A group's failure, with its name.
pub fn of_group(group: GroupId, error: UserError) -> UserError {
    error.in_context(format_args!("group {group}"))
}

//! A call of several groups: what its groups are told of it, and how their answers become one.

use crate::forward::Behind;
use crate::lots::merge::MergeRule;
use ferrite_base::{CatalogVersion, GroupId, GroupMap, PartitionId, UserError, UserResult};
use ferrite_partition::lots::{CHANGE_WORDS, LotCall, LotFailure, LotProgram};
use ferrite_partition::{AnswerBatch, Reply, StoreSet};
use ferrite_wire::ResponseWriter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Has the call looked up again by the catalog in force, and sent again.
pub type LookUpAgain = Box<dyn FnOnce() + Send>;

pub struct GroupsCall {
    pub program: LotProgram,
    /// Which its shares are by.
    pub catalog_version: CatalogVersion,
    /// As on the wire; of ad hoc statements without the text.
    pub parameters: Vec<u8>,
    pub stores: StoreSet,
    /// By statement.
    pub merges: Box<[MergeRule]>,
    pub is_read: bool,
    /// How long it may execute in a group, in milliseconds, by its own wish; 0: as long as any.
    pub time_max_millis: u32,
    pub reply: Reply,
    pub again: LookUpAgain,
    /// Done once this call has been answered, and others.
    pub behind: Vec<Arc<Behind>>,
}

impl GroupsCall {
    /// What waits and travels for it.
    pub fn bytes(&self) -> usize {
        self.program.text().len() + self.parameters.len()
    }

    /// A lot of its own has this call.
    pub fn is_alone(&self) -> bool {
        use LotProgram::{Change, Check, Cut, Equalize};
        matches!(self.program, Change(_) | Check(_) | Cut(_) | Equalize(_))
    }

    /// It is answered when all groups have what it has changed, so that what the caller does next
    /// finds that at every node.
    pub fn is_answered_settled(&self) -> bool {
        matches!(self.program, LotProgram::Change(_))
    }

    /// By group, the partitions that it needs, in ascending order.
    pub fn parts(&self, map: &GroupMap) -> BTreeMap<GroupId, Vec<PartitionId>> {
        if let LotProgram::Check(_) = self.program {
            // It holds none.
            return (0..map.groups()).map(|group| (GroupId(group), Vec::new())).collect();
        }
        let mut parts: BTreeMap<GroupId, Vec<PartitionId>> = BTreeMap::new();
        let mut add = |partition| {
            let group = map.group_of(partition).expect("calls have partitions of the cluster");
            parts.entry(group).or_default().push(partition);
        };
        match &self.stores {
            StoreSet::All => (0..map.partitions()).map(PartitionId).for_each(&mut add),
            StoreSet::Only(partitions) => partitions.iter().copied().for_each(&mut add),
        }
        parts
    }

    /// What a group is told of it.
    pub fn to_group(&self, is_first: bool) -> LotCall {
        LotCall {
            program: self.program.clone(),
            catalog_version: self.catalog_version,
            parameters: self.parameters.clone(),
            is_first,
            time_max_millis: self.time_max_millis,
        }
    }

    /// The response to a call that ran. `answers`: of its groups, in their order, by statement.
    /// `may_fail`: nothing has taken place yet, so it may be refused for its size.
    ///
    /// # Errors
    /// It is too large, or a group has answered with what is no such table.
    pub fn response(&self, answers: &[&[Option<Vec<u8>>]], may_fail: bool) -> UserResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut writer = ResponseWriter::begin(&mut bytes, self.reply.handle);
        if let LotProgram::Change(_) = self.program {
            let words = answers.iter().find_map(|answer| answer.get(CHANGE_WORDS)?.as_deref());
            words.into_iter().for_each(|words| writer.status_text(&String::from_utf8_lossy(words)));
        }
        for (statement, merge) in self.merges.iter().enumerate() {
            let tables = answers.iter().filter_map(|answer| answer.get(statement)?.as_deref());
            match merge.merge(tables)? {
                Some(table) if may_fail => writer.encoded_table(&table)?,
                Some(table) => writer.granted_table(&table),
                None => {}
            }
        }
        writer.finish();
        Ok(bytes)
    }

    /// The answer of a call that ran, of its lot with others.
    pub fn succeed(&self, answers: &[&[Option<Vec<u8>>]]) {
        match self.response(answers, self.is_read) {
            Ok(response) => self.respond(response),
            Err(error) if self.is_read => self.refuse(&error),
            // A group's fault: no such answer is one of a call that failed.
            Err(error) => self.refuse(&UserError::maybe_committed(&error.to_string())),
        }
    }

    pub fn respond(&self, response: Vec<u8>) {
        self.answer(|bytes| *bytes = response);
    }

    /// The answer of a call that failed in a group.
    pub fn fail(&self, failure: &LotFailure) {
        self.answer(|bytes| {
            let mut writer = ResponseWriter::begin(bytes, self.reply.handle);
            writer.status_text(&failure.text);
            writer.finish_as(failure.status, &failure.code);
        });
    }

    pub fn refuse(&self, error: &UserError) {
        self.reply.refuse(error);
    }

    fn answer(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut answers = AnswerBatch::default();
        answers.sent_micros = self.reply.sent_micros;
        write(&mut answers.bytes);
        answers.finish_answer(self.reply.connection);
        self.reply.mailbox.deliver(answers);
    }
}

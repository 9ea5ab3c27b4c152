//! A schema change of several groups on its way to the sequencer: all groups check it, which stops
//! nobody, then all make it, as one transaction (docs/decisions/0127).

use crate::groups_calls::GroupsCalls;
use ferrite_base::{CatalogVersion, SqlLimits};
use ferrite_member::lots::{GroupsCall, MergeRule};
use ferrite_partition::lots::{LotProgram, limits_bytes};
use ferrite_partition::{AnswerBatch, Mailbox, Reply, StoreSet};
use ferrite_wire::Status;
use std::sync::Arc;
use std::time::Duration;

pub struct GroupsChange {
    pub calls: GroupsCalls,
    /// Of the schema that calls are routed with.
    pub version: Box<dyn Fn() -> CatalogVersion + Send + Sync>,
    pub text: String,
    pub limits: SqlLimits,
    /// In each group.
    pub time_max: Duration,
    pub reply: Reply,
}

impl GroupsChange {
    /// One answer comes.
    pub fn begin(self: Arc<Self>) {
        let version = (self.version)();
        let checked = Checked { change: Arc::clone(&self), version };
        let reply = Reply { mailbox: Arc::new(checked), ..self.reply.clone() };
        self.send(LotProgram::Check(self.text.clone()), version, reply);
    }

    fn send(self: &Arc<Self>, program: LotProgram, catalog_version: CatalogVersion, reply: Reply) {
        let is_read = matches!(program, LotProgram::Check(_));
        // What it says of success comes from one group, numbers of rows from all.
        let merges = if is_read { Vec::new() } else { vec![MergeRule::First, MergeRule::Sum] };
        let again = Arc::clone(self);
        self.calls.send(GroupsCall {
            program,
            catalog_version,
            parameters: limits_bytes(&self.limits),
            stores: StoreSet::All,
            merges: merges.into_boxed_slice(),
            is_read,
            time_max_millis: u32::try_from(self.time_max.as_millis()).unwrap_or(u32::MAX),
            reply,
            // Another version of the schema: it is to be checked again.
            again: Box::new(move || again.begin()),
            behind: Vec::new(),
        });
    }
}

/// Hears what the groups say of a change that they have checked.
struct Checked {
    change: Arc<GroupsChange>,
    version: CatalogVersion,
}

impl Mailbox for Checked {
    fn deliver(&self, answers: AnswerBatch) {
        let Checked { change, version } = self;
        match answers.status() {
            Some(Status::Success) => {
                change.send(LotProgram::Change(change.text.clone()), *version, change.reply.clone());
            }
            _ => change.reply.mailbox.deliver(answers),
        }
    }
}

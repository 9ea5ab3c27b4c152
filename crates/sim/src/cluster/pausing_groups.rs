//! What each group's leader does of a pause or a resume, where there are several groups: in the
//! server, nodes ask each other for it (`node/src/system/all_groups.rs`).
//!
//! - A group's part is done by its leader, once that knows the settings that say it, and is
//!   answered when all that was admitted before is executed and durable.
//! - The administrator is answered once: behind the last part and the calls of several groups that
//!   were given to the sequencer before, or when a part fails.

use ferrite_base::{ErrorKind, GroupId, UserError};
use ferrite_member::forward::Behind;
use ferrite_node::groups_calls::GroupsCalls;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_replica::group::Member;
use ferrite_wire::response::ResponseWriter;
use std::sync::{Arc, Mutex, PoisonError};

/// The voters have decided it: the groups are to be asked.
pub(super) struct Decided {
    pub by: Member,
    pub revision: u64,
    pub reply: Reply,
    pub calls: GroupsCalls,
}

/// Of all processes.
#[derive(Clone, Default)]
pub struct DecidedPauses(Arc<Mutex<Vec<Decided>>>);

impl DecidedPauses {
    pub fn push(&self, by: Member, revision: u64, reply: Reply, calls: GroupsCalls) {
        let decided = Decided { by, revision, reply, calls };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(decided);
    }

    pub(super) fn drain(&self) -> Vec<Decided> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where the groups answer.
pub(super) struct AllGroups {
    pub reply: Reply,
    calls: GroupsCalls,
    /// None: the administrator has the answer, or will have it behind calls of several groups.
    awaited: Mutex<Option<usize>>,
}

impl AllGroups {
    pub fn new(groups: usize, reply: Reply, calls: GroupsCalls) -> AllGroups {
        AllGroups { reply, calls, awaited: Mutex::new(Some(groups)) }
    }

    pub fn is_over(&self) -> bool {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    pub fn done(&self, is_success: bool) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = *awaited else { return };
        *awaited = Some(left - 1).filter(|left| is_success && *left > 0);
        let is_over = awaited.is_none();
        drop(awaited);
        let reply = self.reply.clone();
        if !is_success {
            reply.refuse(&UserError::new(ErrorKind::Unavailable, "57P03", "a group has not done its part"));
        } else if is_over {
            self.calls.behind(Behind::new(move || succeed(&reply)));
        }
    }
}

impl Mailbox for AllGroups {
    fn deliver(&self, answers: AnswerBatch) {
        self.done(answers.is_success());
    }
}

fn succeed(reply: &Reply) {
    let mut answers = AnswerBatch::default();
    let mut writer = ResponseWriter::begin(&mut answers.bytes, reply.handle);
    writer.status_table(0);
    writer.finish();
    answers.finish_answer(reply.connection);
    reply.mailbox.deliver(answers);
}

/// One group's part.
pub(super) struct GroupPart {
    pub by: Member,
    pub revision: u64,
    pub group: GroupId,
    /// When it arrives.
    pub due: u64,
    /// The process that has it.
    pub at: Option<Member>,
    pub all: Arc<AllGroups>,
}

/// All parts that are under way.
#[derive(Default)]
pub struct PausingGroups {
    asked: DecidedPauses,
    pub(super) parts: Vec<GroupPart>,
}

impl PausingGroups {
    pub fn asked(&self) -> DecidedPauses {
        self.asked.clone()
    }
}

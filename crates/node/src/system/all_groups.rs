//! `@Quiesce`, `@PingPartitions`, `@Pause` and `@Resume` where a cluster has several groups: each
//! group's leader does its part, and then the sequencer.
//!
//! The node that leads the first group calls the leader of every group by `@QuiesceGroup`, and
//! answers when all have answered. Invariants:
//!
//! - a group's answer comes when all that its leader had admitted is executed and durable, and, of
//!   a pause, from a leader that refuses clients' writes by these settings of the cluster, or by
//!   later ones; every later leader is chosen behind them
//!   (docs/decisions/0085-pausing-a-cluster.md);
//! - calls of several groups that were admitted before the groups have answered are answered before
//!   the caller is;
//! - the first part that fails is the answer, and the caller calls again: each part can be
//!   repeated.

use super::{Handled, System};
use crate::calls_elsewhere::answer_as;
use crate::connection::{is_admin, is_of_compound, trusted_elsewhere};
use crate::message::SystemJob;
use crate::routes;
use crate::submit::Submit;
use ferrite_base::{GroupId, UserError, UserResult};
use ferrite_member::forward::Behind;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_value::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// The call by which a group does its part; only nodes make it.
const OF_GROUP: &str = "@QuiesceGroup";

/// Where the groups answer.
struct AllGroups {
    submit: Arc<Submit>,
    reply: Reply,
    /// None: the caller has its answer.
    awaited: Mutex<Option<usize>>,
}

impl AllGroups {
    /// Whether the caller is to be answered by this one.
    fn is_last(&self, is_success: bool) -> bool {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = *awaited else { return false };
        let is_last = left == 1 || !is_success;
        *awaited = if is_last { None } else { Some(left - 1) };
        is_last
    }
}

impl Mailbox for AllGroups {
    fn deliver(&self, answers: AnswerBatch) {
        let is_success = answers.is_success();
        if !self.is_last(is_success) {
            return;
        }
        let reply = self.reply.clone();
        let answer = move || answer_as(&reply, &answers.bytes);
        match is_success {
            true => self.submit.groups_calls.behind(Behind::new(answer)),
            false => answer(),
        }
    }
}

/// `revision`: the settings of the cluster that every group's leader is to know before its answer;
/// 0: any.
pub(super) fn quiesce(submit: &Arc<Submit>, revision: u64, reply: &Reply) {
    let groups: Vec<GroupId> = submit.routes.table().groups().collect();
    let awaited = Mutex::new(Some(groups.len()));
    let all = Arc::new(AllGroups { submit: Arc::clone(submit), reply: reply.clone(), awaited });
    for group in groups {
        let parameters = [Value::Integer(revision as i64)];
        submit.call_leader(OF_GROUP, group, &parameters, Arc::<AllGroups>::clone(&all), reply.sent_micros);
    }
}

/// # Errors
/// The call is not from a node of the cluster.
pub(super) fn check_is_of_node(procedure: &str, reply: &Reply) -> UserResult<()> {
    let is_of_node = trusted_elsewhere(reply.connection) == Some(true) || is_of_compound(reply.connection);
    if is_of_node && is_admin(reply.connection) {
        return Ok(());
    }
    Err(UserError::parameters(format!("{procedure} is what the nodes of a cluster call each other by")))
}

impl System {
    /// `@QuiesceGroup(group, revision)`: this node, which leads the group, does its part.
    pub(super) fn quiesce_group(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        check_is_of_node(OF_GROUP, reply)?;
        let [Value::Integer(group), Value::Integer(revision)] = parameters else {
            return Err(UserError::parameters("@QuiesceGroup takes a group and a revision of the settings"));
        };
        let table = self.submit.routes.table();
        let group = u32::try_from(*group).ok().and_then(|group| table.place_of(GroupId(group)));
        let group = group.ok_or_else(routes::not_here)?;
        if *revision == 0 {
            // One that is not here has answered.
            let _ = table.to_coordinator(group, Job::Quiesce(reply.clone()));
            return Ok(Handled::PassedOn);
        }
        let system = self.submit.system.clone();
        let reply = reply.clone();
        let settled = move || drop(system.send(SystemJob::Paused(group, reply)));
        self.submit.mode.once_settings(*revision as u64, Box::new(settled));
        Ok(Handled::PassedOn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::handles;
    use crossbeam_channel::{Sender, unbounded};
    use ferrite_wire::response::{ResponseWriter, write_error};
    use ferrite_wire::{Response, Status, frame};

    struct Caller(Sender<(i64, i8)>);

    impl Mailbox for Caller {
        fn deliver(&self, answers: AnswerBatch) {
            let (_, body) = frame::split(&answers.bytes).unwrap().expect("one answer");
            let answer = Response::parse(body).expect("well-formed");
            self.0.send((answer.handle, answer.status_code)).expect("the test waits");
        }
    }

    #[test]
    fn the_caller_is_answered_once_by_the_last_group_or_by_the_first_that_fails() {
        let (to, answers) = unbounded();
        let submit = handles(1).submit;
        let reply = Reply { mailbox: Arc::new(Caller(to)), connection: 3, handle: 9, sent_micros: 1 };
        let all = |groups: usize| AllGroups {
            submit: Arc::clone(&submit),
            reply: reply.clone(),
            awaited: Mutex::new(Some(groups)),
        };
        let success = || {
            let mut batch = AnswerBatch::default();
            ResponseWriter::begin(&mut batch.bytes, 1).finish();
            batch
        };
        let failure = || {
            let mut batch = AnswerBatch::default();
            write_error(&mut batch.bytes, 2, &UserError::not_started("another leads"));
            batch
        };
        let three = all(3);
        three.deliver(success());
        three.deliver(success());
        assert!(answers.try_recv().is_err(), "one group has not answered");
        three.deliver(success());
        assert_eq!(answers.try_recv(), Ok((9, Status::Success.code())));
        let two = all(2);
        two.deliver(failure());
        assert_eq!(answers.try_recv(), Ok((9, Status::ServerUnavailable.code())));
        two.deliver(success());
        assert!(answers.try_recv().is_err(), "it has its answer");
    }
}

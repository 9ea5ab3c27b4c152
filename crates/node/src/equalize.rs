//! Copies of replicated tables are made equal after an accepted loss, by the node that leads the
//! first group: the thread around [`Equalizing`], which says what is done and why
//! (docs/decisions/0129).

use crate::connection::of_compound;
use crate::group_schemas::GroupSchemas;
use crate::groups_calls::GroupsCalls;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ferrite_base::GroupId;
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_member::Handle;
use ferrite_member::equalizing::{Equalizing, EqualizingWish, GroupsSaid, OTHER_SCHEMA, call_of, said_by};
use ferrite_partition::equalize::EqualizeStep;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what the metadata say.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub enum EqualizeNotice {
    Answered { number: u64, said: GroupsSaid },
    Stop,
}

pub struct EqualizeThread {
    pub cluster: Handle,
    pub schemas: Arc<GroupSchemas>,
    pub calls: GroupsCalls,
    pub clock: Arc<dyn Clock>,
    pub groups: Vec<GroupId>,
    pub transaction_bytes_max: usize,
    pub notices: Sender<EqualizeNotice>,
    pub inbox: Receiver<EqualizeNotice>,
}

/// Where the answer to a call of that number comes.
struct StepAnswer {
    number: u64,
    to: Sender<EqualizeNotice>,
}

impl Mailbox for StepAnswer {
    fn deliver(&self, answers: AnswerBatch) {
        let said = said_by(&answers);
        // The thread has ended only when the server stops.
        let _ = self.to.send(EqualizeNotice::Answered { number: self.number, said });
    }
}

impl EqualizeThread {
    /// What ends the thread.
    pub fn stop(&self) -> impl FnOnce() + Send + use<> {
        let notices = self.notices.clone();
        move || drop(notices.send(EqualizeNotice::Stop))
    }

    pub fn run(self) {
        let mut equalizing = Equalizing::new(self.groups.iter().copied(), self.transaction_bytes_max);
        loop {
            let notice = match self.inbox.recv_timeout(LOOK_EVERY) {
                Ok(EqualizeNotice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(notice) => Some(notice),
                Err(RecvTimeoutError::Timeout) => None,
            };
            if !self.schemas.serves(FIRST_GROUP) {
                equalizing.rest();
                continue;
            }
            let now = self.clock.monotonic_nanos();
            let mut wishes = Vec::new();
            if let Some(EqualizeNotice::Answered { number, said }) = notice {
                equalizing.answered(number, said, now, &mut wishes);
            }
            equalizing.advance(&self.cluster.unequal_groups(), now, &mut wishes);
            wishes.into_iter().for_each(|wish| self.carry_out(wish));
        }
    }

    fn carry_out(&self, wish: EqualizingWish) {
        match wish {
            EqualizingWish::Say(notice) => ferrite_io::notify(notice),
            EqualizingWish::Equal { group, loss } => self.cluster.are_equal(group, loss),
            EqualizingWish::Call { number, step, is_read } => self.call(number, &step, is_read),
        }
    }

    fn call(&self, number: u64, step: &EqualizeStep, is_read: bool) {
        let answered = |said| drop(self.notices.send(EqualizeNotice::Answered { number, said }));
        let Some(compiled) = self.schemas.of(FIRST_GROUP) else {
            return answered(Err("the first group has moved".to_owned()));
        };
        let mailbox = Arc::new(StepAnswer { number, to: self.notices.clone() });
        let sent_micros = self.clock.wall_micros();
        let reply = Reply { mailbox, connection: of_compound(true), handle: 0, sent_micros };
        let to = self.notices.clone();
        let other = EqualizeNotice::Answered { number, said: Err(OTHER_SCHEMA.to_owned()) };
        let again = Box::new(move || drop(to.send(other)));
        self.calls.send(call_of(step, is_read, compiled.catalog.version, reply, again));
    }
}

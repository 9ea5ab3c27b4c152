//! How a group that has missed schema changes gets them: the first group has them, and the others
//! follow (docs/decisions/0123-schema-changes-of-several-groups.md).
//!
//! All groups make a change together (docs/decisions/0127), but for the first one of a new
//! database, which the first group makes alone, and for a group whose data are of before. The node
//! that leads the first group sends each change to the leaders of the others, as a call of theirs,
//! until they have it; so does the next node that leads it, from what the stream says. A group
//! makes the change that is the next one for it, and answers every other with the version that it
//! has.
//!
//! Invariant: a change of the first group alone is answered when all groups have made it, so that
//! what a client does next finds it at every node; or with an unknown outcome, where this node
//! leads the first group no longer, or a group does not follow in time.

use crate::connection;
use crate::group_schemas::GroupSchemas;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use ferrite_base::{Epoch, ErrorKind, GroupId, UserError};
use ferrite_group::FIRST_GROUP;
use ferrite_member::Handle;
use ferrite_member::forward::{Batch, Call, Forward};
use ferrite_notice::Notice;
use ferrite_partition::coordinator::{Job, followed};
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_wire::{RequestWriter, Response, frame};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The call by which a group follows; only nodes make it.
pub const FOLLOW: &str = "@FollowSchema";
/// Between two looks at which version the first group has, and between two attempts of a group.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two attempts of the first group to get a change of others.
const CAUGHT_UP_AGAIN: Duration = Duration::from_secs(1);
/// A caller waits no longer for all groups.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(30);
const NO_ANSWER: &str = "it has not answered";
/// The connection by which these calls are known to the thread that forwards.
const CONNECTION: u64 = 0x7fff_ffff;

/// What a group was asked about.
#[derive(Clone, Copy)]
pub struct Question {
    version: u64,
    /// The group's latest accepted loss, as this node knew it then: it asks the leader that it
    /// knows by the same state, which continues from there.
    loss: Option<Epoch>,
}

pub enum FollowNotice {
    /// A change was made by the first group, and is answered when all have it.
    Made(Reply, AnswerBatch),
    /// A group that was sent the change to that version has answered, or has not.
    Answered {
        group: GroupId,
        question: Question,
        answer: Result<i64, String>,
    },
    /// A group that was asked for the change to that version has answered: which version it has,
    /// and the change, if it is known there. Or why there is no answer.
    Change {
        group: GroupId,
        question: Question,
        answer: Result<(i64, Option<String>), String>,
    },
    /// The first group has made a change that another one had, or why it has not.
    CaughtUp(Result<(), String>),
    Stop,
}

/// The way to the thread.
pub struct SchemaFollow {
    notices: Sender<FollowNotice>,
}

impl SchemaFollow {
    /// And the inbox of its thread.
    pub fn connect() -> (Arc<SchemaFollow>, Receiver<FollowNotice>) {
        let (notices, inbox) = unbounded();
        (Arc::new(SchemaFollow { notices }), inbox)
    }

    pub fn stop(&self) {
        let _ = self.notices.send(FollowNotice::Stop);
    }

    /// How a change of the first group alone is answered.
    pub fn reply(self: &Arc<Self>, reply: &Reply) -> Reply {
        let mailbox = Arc::new(Changing { follow: Arc::clone(self), reply: reply.clone() });
        Reply { mailbox, ..reply.clone() }
    }
}

/// Where the first group answers a change.
struct Changing {
    follow: Arc<SchemaFollow>,
    reply: Reply,
}

impl Mailbox for Changing {
    fn deliver(&self, answers: AnswerBatch) {
        if !answers.is_success() {
            return self.reply.mailbox.deliver(answers);
        }
        // The thread has ended only when the server stops.
        let _ = self.follow.notices.send(FollowNotice::Made(self.reply.clone(), answers));
    }
}

/// The answer to a call that has succeeded, or why there is none.
fn success(answers: &AnswerBatch) -> Result<Response<'_>, String> {
    let unreadable = "its answer cannot be read";
    let answer = answers.first().ok_or(unreadable)?;
    if answers.is_success() { Ok(answer) } else { Err(answer.status_text.unwrap_or(unreadable).to_owned()) }
}

/// What a group answers: a number, in one table of one row, a BIGINT, which the frame ends with;
/// and a text, if it has one.
fn version_and_text(answers: &AnswerBatch) -> Result<(i64, Option<String>), String> {
    let text = success(answers)?.status_text.map(str::to_owned);
    let number = answers.bytes.last_chunk::<8>().map(|number| i64::from_be_bytes(*number));
    number.map(|number| (number, text)).ok_or_else(String::new)
}

/// Where a group answers that was told to follow.
struct Following {
    notices: Sender<FollowNotice>,
    group: GroupId,
    question: Question,
}

impl Mailbox for Following {
    fn deliver(&self, answers: AnswerBatch) {
        let answer = version_and_text(&answers).map(|(number, _)| number);
        let _ = self.notices.send(FollowNotice::Answered { group: self.group, question: self.question, answer });
    }
}

/// Where a group answers that was asked for a change.
struct Asking {
    notices: Sender<FollowNotice>,
    group: GroupId,
    question: Question,
}

impl Mailbox for Asking {
    fn deliver(&self, answers: AnswerBatch) {
        let answer = version_and_text(&answers);
        let _ = self.notices.send(FollowNotice::Change { group: self.group, question: self.question, answer });
    }
}

/// What the first group says of a change that it is to make.
struct CatchingUp(Sender<FollowNotice>);

impl Mailbox for CatchingUp {
    fn deliver(&self, answers: AnswerBatch) {
        let _ = self.0.send(FollowNotice::CaughtUp(success(&answers).map(drop)));
    }
}

/// What is known of another group.
struct Other {
    version: Option<u64>,
    /// Until its answer.
    is_asked: bool,
    /// It is asked again then.
    next: Instant,
    /// Its latest accepted loss: what it had before, it may have no longer.
    loss: Option<Epoch>,
}

impl Other {
    fn continues_from(&mut self, loss: Option<Epoch>, now: Instant) {
        if self.loss != loss {
            *self = Other { version: None, is_asked: false, next: now, loss };
        }
    }
}

pub struct SchemaFollowThread {
    pub follow: Arc<SchemaFollow>,
    pub inbox: Receiver<FollowNotice>,
    pub schemas: Arc<GroupSchemas>,
    pub forward: Forward,
    pub cluster: Handle,
    /// Of the first group, where that is hosted here.
    pub coordinator: Option<Sender<Job>>,
    /// Those that follow.
    pub groups: Vec<GroupId>,
}

/// While this node leads the first group.
struct Leading {
    others: BTreeMap<GroupId, Other>,
    waiting: Vec<(Instant, Reply, AnswerBatch)>,
    /// Why a group does not follow, as it was said last.
    said: BTreeMap<GroupId, String>,
    /// Since then not all groups have what the first one has.
    behind_since: Option<Instant>,
    /// The first group makes a change that another one has: until it has answered, no other is
    /// asked for.
    catches_up: bool,
}

impl SchemaFollowThread {
    pub fn run(self) {
        let mut leading: Option<Leading> = None;
        loop {
            let notice = match self.inbox.recv_timeout(LOOK_EVERY) {
                Ok(FollowNotice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(notice) => Some(notice),
                Err(RecvTimeoutError::Timeout) => None,
            };
            if !self.schemas.serves(FIRST_GROUP) {
                let left = leading.take().map(|leading| leading.waiting).unwrap_or_default();
                left.into_iter()
                    .for_each(|(_, reply, _)| reply.refuse(&unknown("this node no longer leads the first group")));
                if let Some(FollowNotice::Made(reply, _)) = notice {
                    reply.refuse(&unknown("this node no longer leads the first group"));
                }
                continue;
            }
            let leading = leading.get_or_insert_with(|| Leading::new(&self.groups));
            match notice {
                Some(FollowNotice::Made(reply, answers)) => leading.waiting.push((Instant::now(), reply, answers)),
                Some(FollowNotice::Answered { group, question, answer }) => leading.answered(group, question, answer),
                Some(FollowNotice::Change { group, question, answer }) => {
                    let change = leading.change_answered(group, question, answer);
                    if let Some(text) = change.filter(|_| !leading.catches_up) {
                        leading.catches_up = self.catch_up(question.version, text);
                    }
                }
                Some(FollowNotice::CaughtUp(made)) => leading.caught_up(made),
                _ => {}
            }
            self.advance(leading);
        }
    }

    fn advance(&self, leading: &mut Leading) {
        let Some(version) = self.schemas.of(FIRST_GROUP).map(|compiled| compiled.catalog.version.0) else { return };
        let now = Instant::now();
        for (group, other) in &mut leading.others {
            other.continues_from(self.cluster.loss_of(*group), now);
        }
        self.look_for_more(leading, version, now);
        for (group, other) in &mut leading.others {
            let is_there = version == 0 || other.version.is_some_and(|has| has >= version);
            if is_there || other.is_asked || now < other.next {
                continue;
            }
            let wanted = other.version.map_or(version, |has| has + 1);
            if self.send(*group, Question { version: wanted, loss: other.loss }) {
                other.is_asked = true;
            }
        }
        let has_all = |other: &Other| version == 0 || other.version.is_some_and(|has| has >= version);
        if leading.others.values().all(has_all) {
            leading.said.clear();
            leading.behind_since = None;
            leading.waiting.drain(..).for_each(|(_, reply, answers)| reply.mailbox.deliver(answers));
            return;
        }
        let is_over = |since: &Instant| since.elapsed() >= FOLLOWED_WITHIN;
        if is_over(&*leading.behind_since.get_or_insert(now)) {
            let behind = leading.others.iter().find(|(_, other)| !has_all(other)).map(|(group, _)| *group);
            behind.into_iter().for_each(|group| leading.say(group, NO_ANSWER.to_owned()));
        }
        for (_, reply, _) in leading.waiting.extract_if(.., |(since, ..)| is_over(since)) {
            reply.refuse(&unknown("not all groups have made the change yet, and they are told until they have"));
        }
    }

    /// After an accepted loss, the first group may lack changes that others have made: it gets them
    /// from these, one after the other. A first group without a schema does not know of any, so it
    /// asks.
    fn look_for_more(&self, leading: &mut Leading, version: u64, now: Instant) {
        let has_more = |other: &Other| other.version.map_or(version == 0, |has| has > version);
        let is_asked = leading.others.values().any(|other| has_more(other) && other.is_asked);
        if leading.catches_up {
            return;
        }
        let asked =
            leading.others.iter_mut().filter(|(_, other)| has_more(other) && !other.is_asked && now >= other.next);
        // One of those that have a change is asked for it; of those that are not known, each.
        for (group, other) in asked.take(if version > 0 { usize::from(!is_asked) } else { usize::MAX }) {
            other.is_asked = true;
            self.ask_for_change(*group, Question { version: version + 1, loss: other.loss });
        }
    }

    fn ask_for_change(&self, group: GroupId, question: Question) {
        let notices = self.follow.notices.clone();
        let mailbox = Arc::new(Asking { notices, group, question });
        self.call(group, question.version, None, mailbox);
    }

    /// The first group makes a change that another group has made, if it is the next one. True: it
    /// answers.
    fn catch_up(&self, version: u64, text: String) -> bool {
        let mailbox = Arc::new(CatchingUp(self.follow.notices.clone()));
        let reply = Reply { mailbox, connection: 0, handle: 0, sent_micros: 0 };
        let job = Job::FollowSchema { version, text, reply };
        self.coordinator.as_ref().is_some_and(|coordinator| coordinator.send(job).is_ok())
    }

    /// Sends the group the change to that version. False: it is not to be had at the moment.
    fn send(&self, group: GroupId, question: Question) -> bool {
        let version = question.version;
        let (to, change) = bounded(1);
        let Some(coordinator) = &self.coordinator else { return false };
        // One that has ended drops the question.
        let _ = coordinator.send(Job::SchemaChange { version, to });
        let Ok(Some(change)) = change.recv() else { return false };
        let notices = self.follow.notices.clone();
        let mailbox = Arc::new(Following { notices, group, question });
        self.call(group, version, Some(&change.text), mailbox)
    }

    /// One answer comes. False: it cannot be sent.
    fn call(&self, group: GroupId, version: u64, text: Option<&str>, mailbox: Arc<dyn Mailbox>) -> bool {
        let mut bytes = Vec::new();
        let mut call = RequestWriter::begin(&mut bytes, FOLLOW, i64::from(group.0));
        call.parameter(&i64::from(group.0));
        call.parameter(&(version as i64));
        if let Some(text) = text {
            call.parameter(&text);
        }
        if call.finish().is_err() {
            return false;
        }
        let body = bytes.split_off(frame::LENGTH_BYTES);
        let connection = connection::of_other_node(CONNECTION, true, true);
        let call = Call { connection, handle: i64::from(group.0), trusted: true, start: 0, end: body.len() as u32 };
        self.forward.submit_one(group, Batch { mailbox, calls: vec![call], bytes: body, sent_micros: 0 });
        true
    }
}

impl Leading {
    fn new(groups: &[GroupId]) -> Leading {
        let now = Instant::now();
        let other = |group: &GroupId| (*group, Other { version: None, is_asked: false, next: now, loss: None });
        Leading {
            others: groups.iter().map(other).collect(),
            waiting: Vec::new(),
            said: BTreeMap::new(),
            behind_since: None,
            catches_up: false,
        }
    }

    fn caught_up(&mut self, made: Result<(), String>) {
        self.catches_up = false;
        if let Err(reason) = made {
            let next = Instant::now() + CAUGHT_UP_AGAIN;
            self.others.values_mut().for_each(|other| other.next = next);
            self.say(FIRST_GROUP, reason);
        }
    }

    /// The group, if the answer is about its stream as it is now.
    fn asked(&mut self, group: GroupId, question: Question) -> Option<&mut Other> {
        let other = self.others.get_mut(&group).filter(|other| other.loss == question.loss)?;
        other.is_asked = false;
        Some(other)
    }

    fn answered(&mut self, group: GroupId, question: Question, answer: Result<i64, String>) {
        let Some(other) = self.asked(group, question) else { return };
        match answer {
            Ok(number) => other.version = Some(followed(question.version, number)),
            Err(reason) => {
                other.next = Instant::now() + LOOK_EVERY;
                self.say(group, reason);
            }
        }
    }

    /// What a group says that was asked for a change: its version, and the change.
    fn change_answered(
        &mut self,
        group: GroupId,
        question: Question,
        answer: Result<(i64, Option<String>), String>,
    ) -> Option<String> {
        let Question { version, .. } = question;
        let other = self.asked(group, question)?;
        other.next = Instant::now() + LOOK_EVERY;
        let (number, text) = answer.ok()?;
        let has = followed(version, number);
        other.version = Some(has);
        if text.is_none() && has >= version {
            self.say(FIRST_GROUP, format!("group {group} has version {has}, and no longer the change to {version}"));
        }
        text
    }

    /// The operator hears why a group does not follow, once.
    fn say(&mut self, group: GroupId, reason: String) {
        if self.said.insert(group, reason.clone()).as_ref() != Some(&reason) {
            ferrite_io::notify(Notice::SchemaNotFollowed { group, reason });
        }
    }
}

/// The change was made by the first group.
#[cold]
fn unknown(why: &str) -> UserError {
    let text = format!("the first group has made the schema change, but {why}");
    UserError::new(ErrorKind::OutcomeUnknown, "08007", text)
        .with_hint("the other groups follow; check the schema before you repeat the change")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_by_what_it_answers_and_a_failure_is_told_once() {
        let mut leading = Leading::new(&[GroupId(1), GroupId(2)]);
        let version = |leading: &Leading, group| leading.others[&GroupId(group)].version;
        let about = |version| Question { version, loss: None };
        leading.answered(GroupId(1), about(5), Ok(0));
        assert_eq!(version(&leading, 1), Some(5), "it has made that change");
        leading.answered(GroupId(1), about(6), Ok(-1 - 3));
        assert_eq!(version(&leading, 1), Some(3), "it is behind");
        leading.answered(GroupId(2), about(6), Err("busy".to_owned()));
        assert_eq!((version(&leading, 2), leading.said.len()), (None, 1));
        assert!(leading.others[&GroupId(2)].next > Instant::now());
    }

    #[test]
    fn a_group_that_has_lost_something_is_asked_again_for_its_version() {
        let mut leading = Leading::new(&[GroupId(1)]);
        let before = Question { version: 7, loss: None };
        leading.answered(GroupId(1), before, Ok(0));
        let other = leading.others.get_mut(&GroupId(1)).expect("it is there");
        assert_eq!(other.version, Some(7));
        other.is_asked = true;
        other.continues_from(Some(Epoch(4)), Instant::now());
        assert!(other.version.is_none() && !other.is_asked);
        leading.answered(GroupId(1), before, Ok(0));
        assert!(leading.change_answered(GroupId(1), before, Ok((0, Some("CREATE".to_owned())))).is_none());
        assert_eq!(leading.others[&GroupId(1)].version, None, "that was about the stream of before");
        leading.answered(GroupId(1), Question { version: 7, loss: Some(Epoch(4)) }, Ok(-1 - 5));
        assert_eq!(leading.others[&GroupId(1)].version, Some(5));
    }
}

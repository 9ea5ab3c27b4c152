//! How a schema change reaches all groups of a cluster: the first group makes it, and the others
//! follow (docs/decisions/0123-schema-changes-of-several-groups.md).
//!
//! The stream of the first group says which changes there are, and in which order. The node that
//! leads it sends each change to the leaders of the others, as a call of theirs, until they have
//! it; so does the next node that leads it, from what the stream says. A group makes the change
//! that is the next one for it, and answers every other with the version that it has.
//!
//! Invariants:
//!
//! - a change is begun only when all groups have made those before;
//! - it is answered when all groups have made it, so that what a client does next finds it at every
//!   node; or with an unknown outcome, where this node leads the first group no longer, or a group
//!   does not follow in time;
//! - no group has a reason of its own to refuse one: the first one's coordinator makes no other.

use crate::connection;
use crate::group_schemas::GroupSchemas;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use ferrite_base::{ErrorKind, GroupId, UserError, UserResult};
use ferrite_group::FIRST_GROUP;
use ferrite_member::forward::{Batch, Call, Forward};
use ferrite_notice::Notice;
use ferrite_partition::coordinator::{Job, followed};
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_wire::{RequestWriter, Response, Status, frame};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The call by which a group follows; only nodes make it.
pub const FOLLOW: &str = "@FollowSchema";
/// Between two looks at which version the first group has, and between two attempts of a group.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A caller waits no longer for all groups.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(30);
const NO_ANSWER: &str = "it has not answered";
/// The connection by which these calls are known to the thread that forwards.
const CONNECTION: u64 = 0x7fff_ffff;

pub enum FollowNotice {
    /// The first group has another version, or is led here.
    Look,
    /// A change was made by the first group, and is answered when all have it.
    Made(Reply, AnswerBatch),
    /// A group that was sent the change to that version has answered, or has not.
    Answered {
        group: GroupId,
        version: u64,
        answer: Result<i64, String>,
    },
    Stop,
}

/// Whether a change may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FollowState {
    /// Not all groups are known to have what the first one has.
    Behind,
    /// All have, and no change is under way.
    Settled,
    /// This change was begun, and the first group has not answered.
    UnderWay(u64),
}

/// For the thread that begins changes.
pub struct SchemaFollow {
    notices: Sender<FollowNotice>,
    /// With the number of the change that was begun last.
    state: Mutex<(FollowState, u64)>,
}

impl SchemaFollow {
    /// And the inbox of its thread.
    pub fn connect() -> (Arc<SchemaFollow>, Receiver<FollowNotice>) {
        let (notices, inbox) = unbounded();
        (Arc::new(SchemaFollow { notices, state: Mutex::new((FollowState::Behind, 0)) }), inbox)
    }

    fn lock(&self) -> MutexGuard<'_, (FollowState, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first group has answered the change with that number, or never will.
    fn ended(&self, number: u64) {
        let mut state = self.lock();
        if state.0 == FollowState::UnderWay(number) {
            state.0 = FollowState::Behind;
        }
    }

    /// All groups have what the first one has. A change that is under way is not there yet.
    fn settle(&self) {
        let mut state = self.lock();
        if state.0 == FollowState::Behind {
            state.0 = FollowState::Settled;
        }
    }

    fn unsettle(&self) {
        let mut state = self.lock();
        if state.0 == FollowState::Settled {
            state.0 = FollowState::Behind;
        }
    }

    pub fn stop(&self) {
        let _ = self.notices.send(FollowNotice::Stop);
    }

    /// A change may begin now, and is under way from here on. Its answer goes by the reply that
    /// this returns.
    pub fn begin(self: &Arc<Self>, reply: &Reply) -> UserResult<Reply> {
        let mut state = self.lock();
        if state.0 != FollowState::Settled {
            let text = "the groups of the cluster are still making an earlier schema change";
            return Err(UserError::not_started(text).with_hint("call again"));
        }
        let number = state.1 + 1;
        *state = (FollowState::UnderWay(number), number);
        drop(state);
        Ok(self.reply_of(number, reply))
    }

    /// How a change of the first group is answered that was not begun by [`SchemaFollow::begin`].
    pub fn reply(self: &Arc<Self>, reply: &Reply) -> Reply {
        self.reply_of(0, reply)
    }

    fn reply_of(self: &Arc<Self>, number: u64, reply: &Reply) -> Reply {
        let mailbox = Arc::new(Changing { follow: Arc::clone(self), number, reply: reply.clone() });
        Reply { mailbox, ..reply.clone() }
    }
}

/// Where the first group answers a change.
struct Changing {
    follow: Arc<SchemaFollow>,
    number: u64,
    reply: Reply,
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.follow.ended(self.number);
    }
}

impl Mailbox for Changing {
    fn deliver(&self, answers: AnswerBatch) {
        let was_made = status_of(&answers) == Some(Status::Success);
        let notice = match was_made {
            true => FollowNotice::Made(self.reply.clone(), answers),
            false => {
                self.reply.mailbox.deliver(answers);
                FollowNotice::Look
            }
        };
        self.follow.ended(self.number);
        // The thread has ended only when the server stops.
        let _ = self.follow.notices.send(notice);
    }
}

fn status_of(answers: &AnswerBatch) -> Option<Status> {
    let (_, body) = frame::split(&answers.bytes).ok()??;
    Status::from_code(Response::parse(body).ok()?.status_code)
}

/// Where a group answers that was told to follow.
struct Following {
    notices: Sender<FollowNotice>,
    group: GroupId,
    version: u64,
}

impl Mailbox for Following {
    fn deliver(&self, answers: AnswerBatch) {
        let answer = match frame::split(&answers.bytes).ok().flatten().map(|(_, body)| (Response::parse(body), body)) {
            Some((Ok(response), body)) if response.status_code == Status::Success.code() => {
                // One table of one row, a BIGINT, which the frame ends with.
                body.last_chunk::<8>().map(|number| i64::from_be_bytes(*number)).ok_or_else(String::new)
            }
            Some((Ok(response), _)) => Err(response.status_text.unwrap_or_default().to_owned()),
            _ => Err("its answer cannot be read".to_owned()),
        };
        let notice = FollowNotice::Answered { group: self.group, version: self.version, answer };
        let _ = self.notices.send(notice);
    }
}

/// What is known of another group.
struct Other {
    version: Option<u64>,
    /// Until its answer.
    is_asked: bool,
    /// It is asked again then.
    next: Instant,
}

pub struct SchemaFollowThread {
    pub follow: Arc<SchemaFollow>,
    pub inbox: Receiver<FollowNotice>,
    pub schemas: Arc<GroupSchemas>,
    pub forward: Forward,
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
                self.follow.lock().0 = FollowState::Behind;
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
                Some(FollowNotice::Answered { group, version, answer }) => leading.answered(group, version, answer),
                _ => {}
            }
            self.advance(leading);
        }
    }

    fn advance(&self, leading: &mut Leading) {
        let Some(version) = self.schemas.of(FIRST_GROUP).map(|compiled| compiled.catalog.version.0) else { return };
        let now = Instant::now();
        for (group, other) in &mut leading.others {
            let is_there = version == 0 || other.version.is_some_and(|has| has >= version);
            if is_there || other.is_asked || now < other.next {
                continue;
            }
            let wanted = other.version.map_or(version, |has| has + 1);
            if self.send(*group, wanted) {
                other.is_asked = true;
            }
        }
        let has_all = |other: &Other| version == 0 || other.version.is_some_and(|has| has >= version);
        if leading.others.values().all(has_all) {
            leading.said.clear();
            leading.behind_since = None;
            // Who hears that a change is made may ask for the next one.
            self.follow.settle();
            leading.waiting.drain(..).for_each(|(_, reply, answers)| reply.mailbox.deliver(answers));
            return;
        }
        self.follow.unsettle();
        let is_over = |since: &Instant| since.elapsed() >= FOLLOWED_WITHIN;
        if is_over(&*leading.behind_since.get_or_insert(now)) {
            let behind = leading.others.iter().find(|(_, other)| !has_all(other)).map(|(group, _)| *group);
            behind.into_iter().for_each(|group| leading.say(group, NO_ANSWER.to_owned()));
        }
        for (_, reply, _) in leading.waiting.extract_if(.., |(since, ..)| is_over(since)) {
            reply.refuse(&unknown("not all groups have made the change yet, and they are told until they have"));
        }
    }

    /// Sends the group the change to that version. False: it is not to be had at the moment.
    fn send(&self, group: GroupId, version: u64) -> bool {
        let (to, change) = bounded(1);
        let Some(coordinator) = &self.coordinator else { return false };
        // One that has ended drops the question.
        let _ = coordinator.send(Job::SchemaChange { version, to });
        let Ok(Some(change)) = change.recv() else { return false };
        let mut bytes = Vec::new();
        let mut call = RequestWriter::begin(&mut bytes, FOLLOW, i64::from(group.0));
        call.parameter(&i64::from(group.0));
        call.parameter(&(version as i64));
        call.parameter(change.text.as_str());
        if call.finish().is_err() {
            return false;
        }
        let body = bytes.split_off(frame::LENGTH_BYTES);
        let notices = self.follow.notices.clone();
        let mailbox = Arc::new(Following { notices, group, version });
        let connection = connection::of_other_node(CONNECTION, true, true);
        let call = Call { connection, handle: i64::from(group.0), trusted: true, start: 0, end: body.len() as u32 };
        self.forward.submit_one(group, Batch { mailbox, calls: vec![call], bytes: body, sent_micros: 0 });
        true
    }
}

impl Leading {
    fn new(groups: &[GroupId]) -> Leading {
        let now = Instant::now();
        let other = |group: &GroupId| (*group, Other { version: None, is_asked: false, next: now });
        Leading {
            others: groups.iter().map(other).collect(),
            waiting: Vec::new(),
            said: BTreeMap::new(),
            behind_since: None,
        }
    }

    fn answered(&mut self, group: GroupId, version: u64, answer: Result<i64, String>) {
        let Some(other) = self.others.get_mut(&group) else { return };
        other.is_asked = false;
        match answer {
            Ok(number) => other.version = Some(followed(version, number)),
            Err(reason) => {
                other.next = Instant::now() + LOOK_EVERY;
                self.say(group, reason);
            }
        }
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
        leading.answered(GroupId(1), 5, Ok(0));
        assert_eq!(version(&leading, 1), Some(5), "it has made that change");
        leading.answered(GroupId(1), 6, Ok(-1 - 3));
        assert_eq!(version(&leading, 1), Some(3), "it is behind");
        leading.answered(GroupId(2), 6, Err("busy".to_owned()));
        assert_eq!((version(&leading, 2), leading.said.len()), (None, 1));
        assert!(leading.others[&GroupId(2)].next > Instant::now());
    }

    struct Nobody;

    impl Mailbox for Nobody {
        fn deliver(&self, _: AnswerBatch) {}
    }

    #[test]
    fn a_change_begins_when_all_groups_have_those_before_and_none_is_under_way() {
        let (follow, _inbox) = SchemaFollow::connect();
        let reply = Reply { mailbox: Arc::new(Nobody), connection: 0, handle: 0, sent_micros: 0 };
        assert!(follow.begin(&reply).is_err(), "nothing is known of the groups");
        follow.settle();
        let first = follow.begin(&reply).expect("all have everything");
        follow.settle();
        assert!(follow.begin(&reply).is_err(), "the first change is not there yet");
        let refused = {
            let mut batch = AnswerBatch::default();
            ferrite_wire::response::write_error(&mut batch.bytes, 0, &UserError::not_started("no"));
            batch
        };
        first.mailbox.deliver(refused);
        follow.settle();
        let second = follow.begin(&reply).expect("the first one was refused");
        drop(first);
        follow.settle();
        assert!(follow.begin(&reply).is_err(), "the end of the first one is not that of the second");
        drop(second);
        follow.settle();
        assert!(follow.begin(&reply).is_ok(), "one that is never answered holds up no other");
    }
}

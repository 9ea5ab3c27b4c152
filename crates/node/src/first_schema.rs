//! What a new cluster's database begins with: the meaning of DECIMAL, classes, a schema. The first
//! leader runs it as a transaction, while the catalog is empty.

use crate::group_schemas::GroupSchemas;
use crate::options::{ServerError, ServerOptions};
use crate::schema_follow::SchemaFollow;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use ferrite_base::SqlLimits;
use ferrite_catalog::DecimalScale;
use ferrite_group::FIRST_GROUP;
use ferrite_member::{MemberError, NodeStatus, StatusSnapshot};
use ferrite_notice::Notice;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Mailbox, Reply};
use ferrite_wire::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(200);

fn serves(seen: &StatusSnapshot) -> bool {
    seen.standing(FIRST_GROUP).serves.is_some()
}

pub struct FirstSchema {
    text: String,
    limits: SqlLimits,
}

/// The outcome of an attempt.
enum Outcome {
    Done,
    /// The node no longer leads: another leader may have it, or not.
    Undecided,
    Failed(String),
}

struct Answer(Sender<Outcome>);

impl Mailbox for Answer {
    fn deliver(&self, answers: AnswerBatch) {
        let outcome = match answers.first() {
            Some(response) => match Status::from_code(response.status_code) {
                Some(Status::Success) => Outcome::Done,
                Some(Status::ServerUnavailable | Status::ResponseUnknown) => Outcome::Undecided,
                _ => Outcome::Failed(response.status_text.unwrap_or("no reason is given").to_owned()),
            },
            None => Outcome::Failed("the answer cannot be read".to_owned()),
        };
        let _ = self.0.send(outcome);
    }
}

/// What a first schema needs from its node, for the first group.
pub struct Place {
    pub node_status: Arc<NodeStatus>,
    pub schemas: Arc<GroupSchemas>,
    /// Where there are several groups: it is done when all have it.
    pub follow: Option<Arc<SchemaFollow>>,
    pub coordinator: Sender<Job>,
}

impl Place {
    fn is_new(&self) -> bool {
        self.schemas.of(FIRST_GROUP).is_some_and(|compiled| compiled.catalog.version.0 == 0)
    }
}

impl FirstSchema {
    /// None: nothing was given.
    pub fn of(options: &ServerOptions) -> Option<FirstSchema> {
        let mut text = String::new();
        if let Some(scale) = options.decimal_scale {
            text.push_str(match scale {
                DecimalScale::Declared => "SET DECIMAL_SCALE DECLARED;\n",
                DecimalScale::Ignored => "SET DECIMAL_SCALE IGNORED;\n",
            });
        }
        for jar in &options.classes {
            text.push_str(&format!("LOAD CLASSES '{}';\n", ferrite_catalog::base64::encode(jar)));
        }
        text.push_str(options.schema.as_deref().unwrap_or_default());
        (!text.trim().is_empty()).then_some(FirstSchema { text, limits: options.settings.sql })
    }

    /// Waits until a leader is known. Where that is this node, and the database is new, it gets its
    /// schema. True: another node leads a database that is new as far as this node knows, and
    /// [`FirstSchema::go_on`] is to look after it.
    pub fn begin(&self, place: &Place, ends: &AtomicBool) -> Result<bool, ServerError> {
        let here = place.node_status.here();
        let leads_elsewhere =
            |seen: &StatusSnapshot| !serves(seen) && seen.leader().is_some_and(|leader| leader != here);
        loop {
            let is_known = |seen: &StatusSnapshot| serves(seen) || leads_elsewhere(seen);
            if place.node_status.wait(LOOK_EVERY, |seen| seen.ended.is_some() || is_known(seen)) {
                let seen = place.node_status.seen();
                if let Some(error) = seen.why_it_ends() {
                    return Err(error.into());
                }
                if !place.is_new() || leads_elsewhere(&seen) {
                    return Ok(place.is_new());
                }
                match self.attempt(place, || ends.load(Ordering::Acquire)) {
                    Some(Outcome::Done) => return Ok(false),
                    Some(Outcome::Failed(reason)) => return Err(ServerError::Schema(reason)),
                    Some(Outcome::Undecided) | None => {}
                }
            }
            if ends.load(Ordering::Acquire) {
                return Err(MemberError::Ended.into());
            }
        }
    }

    /// The first leader may be gone before the schema is committed: the next leader that was given
    /// one uses it. Runs until the database is no longer new, or `stop` is disconnected.
    pub fn go_on(&self, place: &Place, stop: &Receiver<()>) {
        while place.is_new() && stop.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if !serves(&place.node_status.seen()) {
                continue;
            }
            let stops = || stop.try_recv() == Err(TryRecvError::Disconnected);
            if let Some(Outcome::Failed(reason)) = self.attempt(place, stops) {
                ferrite_io::notify(Notice::FirstSchemaFailed { reason: ServerError::Schema(reason).to_string() });
                return;
            }
        }
    }

    /// None: the wait is over.
    fn attempt(&self, place: &Place, stops: impl Fn() -> bool) -> Option<Outcome> {
        let (to, answer) = bounded(1);
        let mailbox = Arc::new(Answer(to));
        let reply = Reply { mailbox, connection: 0, handle: 0, sent_micros: 0 };
        let reply = match &place.follow {
            Some(follow) => follow.reply(&reply),
            None => reply,
        };
        let job = Job::Schema { text: self.text.clone(), limits: self.limits, time_max: None, reply };
        place.coordinator.send(job).expect("the coordinator outlives the start");
        loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return Some(outcome),
                Err(RecvTimeoutError::Timeout) if !stops() => {}
                Err(_) => return None,
            }
        }
    }
}

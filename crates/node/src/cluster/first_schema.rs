//! What a new cluster's database is begun with: the meaning of DECIMAL, classes, a schema. A
//! transaction of the first leader, while the catalog is empty.

use crate::cluster::standing::{Seen, Standing};
use crate::options::{ServerError, ServerOptions};
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::{Sender, bounded};
use ferrite_base::SqlLimits;
use ferrite_catalog::DecimalScale;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Compiled, Mailbox, Reply};
use ferrite_wire::{Response, Status, frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub struct FirstSchema {
    text: String,
    limits: SqlLimits,
}

struct Answer(Sender<Option<String>>);

impl Mailbox for Answer {
    fn deliver(&self, answers: AnswerBatch) {
        let failure = match frame::split(&answers.bytes).ok().flatten().map(|(_, body)| Response::parse(body)) {
            Some(Ok(response)) if response.status_code == Status::Success.code() => None,
            Some(Ok(response)) => Some(response.status_text.unwrap_or("no reason is given").to_owned()),
            _ => Some("the answer cannot be read".to_owned()),
        };
        let _ = self.0.send(failure);
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

    /// Waits until some leader is known. Where that is this node, and the database is new, it gets
    /// its schema.
    pub fn begin(
        self,
        standing: &Standing,
        compiled: &ArcSwap<Compiled>,
        routes: &Routes,
        ends: &AtomicBool,
    ) -> Result<(), ServerError> {
        let here = standing.here();
        let is_known = |seen: &Seen| seen.leads.is_some() || seen.leader().is_some_and(|leader| leader != here);
        while !standing.wait(LOOK_EVERY, |seen| seen.ended.is_some() || is_known(seen)) {
            if ends.load(Ordering::Acquire) {
                return Err(ServerError::Ended);
            }
        }
        if standing.seen().leads.is_none() || compiled.load().catalog.version.0 > 0 {
            return Ok(());
        }
        let (to, answer) = bounded(1);
        let mailbox = Arc::new(Answer(to));
        let reply = Reply { mailbox, connection: 0, handle: 0, sent_micros: 0 };
        let job = Job::Schema { text: self.text, limits: self.limits, time_max: None, reply };
        routes.to_coordinator(job).expect("the coordinator outlives the start");
        match answer.recv() {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(ServerError::Schema(reason)),
            Err(_) => Err(ServerError::Schema("nothing was answered".to_owned())),
        }
    }
}

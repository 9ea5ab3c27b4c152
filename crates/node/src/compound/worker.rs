//! The threads that run stages, and send the calls that a stage queues.

use super::{Call, CallWaker, Compounds, STAYS, Work};
use crate::connection::{is_admin, of_compound};
use bumpalo::Bump;
use crossbeam_channel::Receiver;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_partition::cancel::GroupCancellations;
use ferrite_partition::{Reply, execute};
use ferrite_plan::external::{Answer, QueuedCall, RoutineBody, Stage, Stages};
use ferrite_wire::invocation::write_call_with;
use ferrite_wire::{EncodeError, Extensions, ParameterSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Takes a request frame as a client's. Its error is the answer that does not come by the reply.
pub type SendCall = Box<dyn Fn(&[u8], &Reply) -> UserResult<()> + Send>;

/// A thread that runs stages.
pub struct Worker {
    pub compounds: Arc<Compounds>,
    pub send_call: SendCall,
    pub cancellations: GroupCancellations,
    pub work: Receiver<Work>,
}

impl Worker {
    pub fn run(self) {
        while let Ok(work) = self.work.recv() {
            match work {
                Work::Begin(call, parameters) => match begin(&call, &parameters, self.stage_calls_max()) {
                    Ok(stages) => self.go_on(&call, stages, Vec::new()),
                    Err(error) => self.compounds.end(&call, Err(error)),
                },
                Work::GoOn(call) => {
                    let mut state = call.lock();
                    // Else it has ended meanwhile, or the stage that it was due for has run.
                    if state.due()
                        && let Some(stages) = state.stages.take()
                    {
                        let mut answers = std::mem::take(&mut state.answers);
                        state.rung = false;
                        drop(state);
                        answers.sort_unstable_by_key(|answer| answer.call);
                        self.go_on(&call, stages, answers);
                    }
                }
                Work::LetGo(stages) => drop(stages),
                Work::Stop => return,
            }
        }
    }

    fn stage_calls_max(&self) -> usize {
        self.compounds.stage_calls_max
    }

    /// Runs stages until one queues calls, or the call ends.
    fn go_on(&self, call: &Arc<Call>, mut stages: Box<dyn Stages>, mut answers: Vec<Answer>) {
        let compounds = &self.compounds;
        loop {
            if call.lock().ended {
                return;
            }
            let elapsed = Duration::from_nanos(call.clock.monotonic_nanos().saturating_sub(call.began));
            if self.cancellations.stops(call.reply.call(), elapsed) {
                let error = UserError::data("57014", "Transaction Interrupted: the procedure was cancelled");
                return compounds.end(call, Err(error.with_detail(STAYS.to_owned())));
            }
            match stages.next(&answers) {
                Ok(Stage::Calls(calls)) if calls.is_empty() => answers.clear(),
                Ok(Stage::Calls(calls) | Stage::Rests(calls)) if calls.len() > self.stage_calls_max() => {
                    let queued = calls.len();
                    let most = self.stage_calls_max();
                    let words =
                        format!("a stage may queue {most} calls, and one of {} queued {queued}", call.program.name);
                    return compounds.end(call, Err(UserError::limit(words)));
                }
                Ok(Stage::Calls(calls)) => return self.send(call, stages, calls, false),
                Ok(Stage::Rests(calls)) => return self.send(call, stages, calls, true),
                Ok(Stage::End(ended)) => return compounds.end(call, Ok(ended)),
                Err(error) => return compounds.end(call, Err(error)),
            }
        }
    }

    /// Sends the calls of a stage. Their answers may come, and the next stage run elsewhere, while
    /// this runs.
    fn send(&self, call: &Arc<Call>, stages: Box<dyn Stages>, calls: Vec<QueuedCall>, rests: bool) {
        let first;
        {
            let mut state = call.lock();
            if state.ended {
                return;
            }
            first = state.next_call;
            let next = first + calls.len() as u64;
            state.next_call = next;
            let sent = call.clock.monotonic_nanos();
            state.waited_for.extend((first..next).map(|number| (number, sent)));
            state.rests = rests;
            state.stages = Some(stages);
            // An answer to an earlier call, or its waker, while the stage ran.
            call.go_on_if_due(&state);
        }
        if !calls.is_empty() {
            self.compounds.figures.called(&call.program, &calls);
        }
        let sent_micros = call.clock.wall_micros();
        for (number, queued) in (first..).zip(calls) {
            let handle = number as i64;
            let mailbox: Arc<Call> = Arc::clone(call);
            let connection = of_compound(is_admin(call.reply.connection));
            let reply = Reply { mailbox, connection, handle, sent_micros };
            let mut request = Vec::new();
            let parameters = AsEncoded(&queued.parameters);
            let all_partition = queued.partition.is_some();
            let destination = queued.partition;
            let extensions = Extensions { all_partition, destination, ..Extensions::default() };
            let outcome = match write_call_with(&mut request, &queued.procedure, handle, &extensions, &parameters) {
                Ok(()) => (self.send_call)(&request, &reply),
                Err(error) => {
                    Err(UserError::parameters(format!("the call of {} cannot be sent: {error}", queued.procedure)))
                }
            };
            if let Err(error) = outcome {
                reply.refuse(&error);
            }
        }
    }
}

/// The object of a call, made from its parameters.
fn begin(call: &Call, parameters: &[u8], calls_max: usize) -> UserResult<Box<dyn Stages>> {
    let arena = Bump::new();
    let nothing = Catalog::default();
    let parameters = execute::decode_parameters(&call.program, &nothing, parameters, false, &arena)?.values;
    match call.program.external.as_ref().map(|external| &external.body) {
        Some(RoutineBody::Compound(body) | RoutineBody::NonTransactional(body)) => {
            body.begin(parameters, calls_max, &Waker::from(Arc::new(CallWaker(call.me.clone()))))
        }
        _ => Err(UserError::internal("a procedure that is a transaction was begun as one that is not")),
    }
}

/// A parameter set that was encoded elsewhere.
struct AsEncoded<'b>(&'b [u8]);

impl ParameterSet for AsEncoded<'_> {
    fn write_set(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.0);
        Ok(())
    }
}

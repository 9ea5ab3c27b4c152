//! Calls of other nodes' clients on the way to the partitions: in batches, as a network thread
//! sends those of its own.

use crate::admission::{self, Request};
use crate::batch::Batch;
use crate::call_time::CallTime;
use crate::cancelling::Cancelling;
use crate::connection::{self, is_admin, queued_bytes};
use crate::connections::Connections;
use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::SystemJob;
use crate::route::{AnyOf, Route};
use crate::routes::RouteTable;
use crate::submit::Submit;
use crate::work::Work;
use ferrite_base::{GroupId, PartitionId, UserError, UserResult};
use ferrite_member::forward::{self, Execute, Executor, Forward, Outstanding};
use ferrite_partition::cancel::Cancel;
use ferrite_partition::{CallBatch, Compiled, Event, MailboxHandle, Reply};
use ferrite_wire::invocation::Invocation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this uses of its node.
pub struct Uses {
    pub submit: Arc<Submit>,
    pub work: Arc<Work>,
    pub connections: Arc<Connections>,
    pub cancelling: Arc<Cancelling>,
    /// Of all network threads.
    pub mailboxes: Arc<[Arc<NetworkMailbox>]>,
}

pub struct ForwardExecutor {
    node: Uses,
    forward: Forward,
    /// By group: where the answers go.
    mailboxes: BTreeMap<GroupId, MailboxHandle>,
    compiled: Arc<Compiled>,
    table: Arc<RouteTable>,
    /// None of them has ad hoc statements.
    batches: Vec<Batch>,
    spread: u32,
    time: CallTime,
}

impl ForwardExecutor {
    /// `forward`: the way into the thread that has this.
    pub fn new(node: Uses, forward: Forward) -> ForwardExecutor {
        let compiled = node.submit.compiled.load_full();
        let table = node.submit.routes.kept_table();
        let batches = node.submit.routes.partitions().map(|_| Batch::default()).collect();
        let time = CallTime::default();
        ForwardExecutor { node, forward, mailboxes: BTreeMap::new(), compiled, table, batches, spread: 0, time }
    }

    fn mailbox(&mut self, group: GroupId) -> MailboxHandle {
        Arc::clone(self.mailboxes.entry(group).or_insert_with(|| self.forward.mailbox(group)))
    }

    fn reply(&mut self, group: GroupId, connection: u64, handle: i64) -> Reply {
        Reply { mailbox: self.mailbox(group), connection, handle, sent_micros: self.time.stamp() }
    }

    /// One call, after those that were sent previously.
    fn alone(&self, invocation: &Invocation<'_>, body: &[u8], reply: &Reply) -> UserResult<()> {
        if invocation.procedure.starts_with('@') {
            let job = SystemJob::Call { body: body.to_vec(), reply: reply.clone() };
            let _ = self.node.submit.system.send(job);
            return Ok(());
        }
        self.node.submit.procedure(invocation, &self.compiled, body, reply)
    }

    /// Into its partition's batch, or alone. An error is the call's answer.
    fn route(&mut self, group: GroupId, connection: u64, invocation: &Invocation<'_>, body: &[u8]) -> UserResult<()> {
        let handle = invocation.handle;
        let admin = is_admin(connection);
        let alone = invocation.procedure.starts_with('@')
            || self.node.submit.time_asked(&invocation.extensions, admin).is_some();
        if !alone {
            let procedure = admission::find(&self.compiled, invocation.procedure)?;
            self.spread = self.spread.wrapping_add(1);
            let parameters = &invocation.parameters;
            let any = AnyOf::All(self.spread);
            let request = Request { extensions: &invocation.extensions, parameters, admin, any };
            let submit = &self.node.submit;
            let program = self.compiled.program(procedure);
            let route = admission::admit(&submit.mode, &submit.routes.ring, program, &request)?;
            if let Route::Partition { partition, drop_first_parameter } = route {
                if self.table.id_of(self.table.group_of(partition)) != group {
                    return Err(of_another_group());
                }
                let batch = &mut self.batches[partition.index()];
                batch.push(connection, handle, procedure, parameters, drop_first_parameter);
                if batch.is_full() {
                    self.send_batches();
                }
                return Ok(());
            }
        }
        // What was sent earlier goes first.
        self.send_batches();
        let reply = self.reply(group, connection, handle);
        self.alone(invocation, body, &reply)
    }
}

/// The answer where its sender took the call for one of a group whose partitions it does not go to.
#[cold]
fn of_another_group() -> UserError {
    UserError::not_started("the schema was changed while the call was on its way").with_hint("call again")
}

impl Execute for ForwardExecutor {
    fn admit(&mut self, connection: u64, trusted: bool) -> u64 {
        connection::of_other_node(self.node.connections.next_number(), is_admin(connection), trusted)
    }

    fn call(&mut self, group: GroupId, connection: u64, body: &[u8]) {
        let refused = match Invocation::parse(body) {
            Ok(invocation) => {
                self.route(group, connection, &invocation, body).map_err(|error| (invocation.handle, error))
            }
            // Its node has read it already, and itself answers what has no handle.
            Err(error) => Err((
                error.handle.unwrap_or_default(),
                UserError::parameters(format!("the call is malformed: {}", error.reason)),
            )),
        };
        if let Err((handle, error)) = refused {
            let reply = self.reply(group, connection, handle);
            self.node.submit.refuse_call(&self.compiled, body, &reply, &error);
        }
    }

    fn cancel(&mut self, connection: u64, cancel: Cancel) {
        // They are on their way, so that later ones have a later time.
        self.send_batches();
        let cancel = match cancel {
            Cancel::Calls { handle, .. } => Cancel::Calls { handle, until_micros: self.time.cut() },
            other => other,
        };
        self.node.cancelling.cancel(connection, cancel);
    }

    fn forget(&mut self, connection: u64) {
        self.node.cancelling.list.forget(connection);
    }

    fn begun(&mut self, work: Outstanding) {
        self.node.work.add(work);
        // More is held now: that wakes no thread.
        let _ = self.node.work.charge(queued_bytes(work) as isize);
    }

    fn answered(&mut self, work: Outstanding) {
        let eased = self.node.work.charge(-(queued_bytes(work) as isize));
        if self.node.work.give_back(work) || eased {
            self.wake_network();
        }
    }
}

impl Executor for ForwardExecutor {
    /// Batches never mix versions.
    fn refresh_catalog(&mut self) {
        if !std::ptr::eq(&**self.node.submit.routes.table(), &*self.table) {
            self.send_batches();
            self.table = self.node.submit.routes.kept_table();
        }
        if !std::ptr::eq(&**self.node.submit.compiled.load(), &*self.compiled) {
            self.send_batches();
            self.compiled = self.node.submit.compiled.load_full();
        }
    }

    fn own(&mut self, _: GroupId, batch: &forward::Batch) {
        self.send_batches();
        for call in &batch.calls {
            let mailbox = batch.mailbox.clone();
            let sent_micros = self.time.stamp();
            let reply = Reply { mailbox, connection: call.connection, handle: call.handle, sent_micros };
            let parsed = Invocation::parse(batch.body(call));
            let invocation = parsed.expect("a network thread has read it");
            if let Err(error) = self.alone(&invocation, batch.body(call), &reply) {
                self.node.submit.refuse_call(&self.compiled, batch.body(call), &reply, &error);
            }
        }
    }

    /// Hands every partition its calls.
    fn send_batches(&mut self) {
        let mut sent_micros = None;
        for place in 0..self.batches.len() {
            if self.batches[place].calls.is_empty() {
                continue;
            }
            let partition = PartitionId(place as u32);
            let mailbox = self.mailbox(self.table.id_of(self.table.group_of(partition)));
            let Batch { calls, bytes, .. } = std::mem::take(&mut self.batches[place]);
            let event = Event::Calls(CallBatch {
                compiled: Arc::clone(&self.compiled),
                mailbox,
                calls,
                bytes,
                answers: Vec::new(),
                cached: None,
                sent_micros: *sent_micros.get_or_insert_with(|| self.time.stamp()),
            });
            // Where the partition has ended meanwhile, its calls have got their answers.
            let _ = self.table.to_partition(partition, event);
        }
    }

    fn outstanding(&self) -> usize {
        self.node.work.outstanding().calls
    }

    fn cancelled(&self) -> UserError {
        self.node.cancelling.list.error()
    }

    /// Network threads check again where calls go, and those that wait for room whether there is
    /// some.
    fn wake_network(&self) {
        self.node.mailboxes.iter().for_each(|mailbox| mailbox.send(Mail::Room));
    }
}

#[cfg(test)]
mod tests;

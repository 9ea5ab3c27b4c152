//! System procedures: those that a network thread answers itself, and the way of the others.

use super::Dispatcher;
use crate::connection::{self, Connection};
use crate::connection_calls::{subscription, target};
use crate::mailbox::Mail;
use crate::message::SystemJob;
use crate::system_procedures::{self, Thread};
use ferrite_partition::cancel::Cancel;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::response::{self, ResponseWriter};

impl Dispatcher {
    /// Pings and subscriptions are answered here and at once; other system procedures have a thread
    /// of their own.
    #[cold]
    pub(super) fn system_call(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) {
        connection.system_called(invocation.procedure);
        if system_procedures::find(invocation.procedure).is_some_and(|known| known.thread == Thread::Network) {
            return self.answer_here(connection, invocation);
        }
        connection.count_call(body.len());
        let reply = self.reply(connection, invocation.handle);
        self.send_batches();
        self.node
            .submit
            .system
            .send(SystemJob::Call { body: body.to_vec(), reply })
            .expect("the system thread outlives the network");
    }

    #[cold]
    fn answer_here(&mut self, connection: &mut Connection, invocation: &Invocation<'_>) {
        match invocation.procedure {
            "@Ping" => response::write_pong(connection.out(), invocation.handle),
            "@Cancel" => match target(invocation, self.node.identity.host_id) {
                Ok((target, handle)) => {
                    let own = connection::public_id(self.node.identity.host_id, connection.id);
                    match target.filter(|target| *target != own) {
                        None => self.cancel(connection, handle),
                        Some(target) => {
                            for mailbox in self.node.mailboxes.iter() {
                                mailbox.send(Mail::Cancel { connection: target, handle });
                            }
                        }
                    }
                    let mut writer = ResponseWriter::begin(connection.out(), invocation.handle);
                    writer.status_table(0);
                    writer.finish();
                }
                Err(error) => response::write_error(connection.out(), invocation.handle, &error),
            },
            "@Subscribe" => match subscription(invocation) {
                Ok(()) => {
                    connection.subscribed = true;
                    ResponseWriter::begin(connection.out(), invocation.handle).finish();
                }
                Err(error) => response::write_error(connection.out(), invocation.handle, &error),
            },
            other => unreachable!("{other} is answered on the system procedures' thread"),
        }
    }

    /// The calls that were taken from a connection up to now are no longer wanted; with a handle,
    /// those of it.
    pub fn cancel(&mut self, connection: &mut Connection, handle: Option<i64>) {
        // They are on their way, so that later ones have a later time.
        self.send_batches();
        let until_micros = self.time.cut();
        if connection.outstanding() > 0 {
            connection.listed = true;
            self.node.cancelling.cancel(connection.id, Cancel::Calls { handle, until_micros });
        }
    }
}

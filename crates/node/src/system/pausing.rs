//! The database is paused and resumed: by this server alone, or by the voters of its cluster.

use super::{Handled, System, all_groups};
use crate::mailbox::Mail;
use crate::message::SystemJob;
use ferrite_base::UserResult;
use ferrite_member::forward::Behind;
use ferrite_member::{Order, Pause};
use ferrite_notice::Notice;
use ferrite_partition::Reply;
use ferrite_partition::coordinator::Job;
use std::sync::Arc;

impl System {
    /// `@Pause` of a single server.
    pub(super) fn pause(&self, reply: Reply) -> Handled {
        if self.submit.mode.pause(true) {
            ferrite_io::notify(Notice::Paused);
        }
        self.settle_pause(0, reply);
        Handled::PassedOn
    }

    /// The answer comes when all that was admitted before the pause is executed and durable: no
    /// client's write is acknowledged after it. `group`: its place.
    pub(super) fn settle_pause(&self, group: usize, reply: Reply) {
        self.submit.mode.handed_over();
        let submit = Arc::clone(&self.submit);
        let behind = Behind::new(move || {
            // It has ended only when the server stops.
            let _ = submit.routes.table().to_coordinator(group, Job::Quiesce(reply));
        });
        self.collector.network.iter().for_each(|mailbox| mailbox.send(Mail::Behind(Arc::clone(&behind))));
        if let Some(forward) = &self.forward {
            forward.behind(behind);
        }
    }

    /// `@Pause`, `@Resume`: decided by the voters. The remaining work is done when this node leads
    /// by a state of the metadata that shows it.
    pub(super) fn pause_cluster(&self, procedure: &str, paused: bool, reply: &Reply) -> UserResult<Handled> {
        let back = reply.clone();
        let submit = Arc::clone(&self.submit);
        let told = Box::new(move |outcome: UserResult<u64>| match outcome {
            Ok(revision) if submit.has_several_groups() => {
                if !paused {
                    submit.mode.cancel_stop();
                }
                all_groups::quiesce(&submit, revision, &back);
            }
            Ok(_) if paused => drop(submit.system.send(SystemJob::Paused(0, back))),
            Ok(_) => {
                submit.mode.cancel_stop();
                // This node's state of the metadata may be an old one: the answer comes when the
                // group has confirmed that it leads. It has ended only when the server stops.
                let _ = submit.routes.to_coordinator(Job::Quiesce(back));
            }
            Err(error) => back.refuse(&error),
        });
        self.order(procedure, Order::Pause(Pause { paused, told }))
    }
}

//! The thread that reads the log for nodes that missed something (docs/decisions/0047).

use crate::links::Links;
use crate::notices::Notices;
use crate::peer_dispatcher::{SupplierNotice, TransferNotice, Transfers};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ferrite_base::GroupId;
use ferrite_cluster::MessageKind;
use ferrite_group::{Supplied, Supplier, Urgency};
use ferrite_io::{Clock, Yielding, lower_priority};
use ferrite_notice::Notice;
use ferrite_partition::commit::Completion;
use ferrite_partition::waker::receive;
use ferrite_peer::Lane;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that may wait in a node's outbox before the log is read on for it.
const OUTBOX_BYTES: usize = 8 << 20;
/// Until the outboxes are checked again.
const HELD: Duration = Duration::from_millis(5);
/// Until a place in the log is given up that no node asks for any more.
const IDLE: Duration = Duration::from_secs(1);

pub struct SupplierThread {
    /// By group: each reads the log for the nodes that it leads.
    pub suppliers: BTreeMap<GroupId, Supplier<Completion>>,
    pub inbox: Receiver<SupplierNotice>,
    pub links: Links,
    pub transfers: Transfers,
    pub clock: Arc<dyn Clock>,
    pub notices: Notices,
}

impl SupplierThread {
    pub fn run(mut self) {
        lower_priority(Yielding::Some);
        let mut wait = IDLE;
        loop {
            match receive(&self.inbox, wait) {
                Ok(SupplierNotice::Wanted(group, wanted)) => {
                    let now = self.clock.monotonic_nanos();
                    // One that is not hosted any more leads no node.
                    if let Some(supplier) = self.suppliers.get_mut(&group) {
                        supplier.request(wanted, now);
                    }
                }
                Ok(SupplierNotice::Lost(node)) => {
                    self.suppliers.values_mut().for_each(|supplier| supplier.forget(node));
                }
                Ok(SupplierNotice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            wait = self.step();
        }
    }

    /// A step for each group, so that none waits for another; and how long there is nothing to do
    /// after it.
    fn step(&mut self) -> Duration {
        let mut wait = IDLE;
        for (group, supplier) in &mut self.suppliers {
            let links = &self.links;
            let mut has_room = |to| links.has_room(to, Lane::Entries, OUTBOX_BYTES);
            let mut send = |to, _: Urgency, message| links.send_on(to, Lane::Entries, MessageKind::Group, message);
            let group = *group;
            let (node, notice) = match supplier.step(self.clock.monotonic_nanos(), &mut has_room, &mut send) {
                Supplied::Idle => continue,
                Supplied::Held => {
                    wait = wait.min(HELD);
                    continue;
                }
                Supplied::Working => {
                    wait = Duration::ZERO;
                    continue;
                }
                Supplied::Gone(node) => (node, None),
                Supplied::TooLarge(node, entry) => (node, Some(Notice::EntryTooLarge { group, entry, node })),
                Supplied::Failed(node, error) => (node, Some(Notice::LogNotRead { node, reason: error.to_string() })),
            };
            notice.into_iter().for_each(|notice| self.notices.say(notice));
            self.transfers.send(group, TransferNotice::Wanted(node));
            wait = Duration::ZERO;
        }
        wait
    }
}

//! The thread that reads the log for nodes that missed something (docs/decisions/0047).

use crate::links::Links;
use crate::notices::Notices;
use crate::peer_dispatcher::{SupplierNotice, TransferNotice};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ferrite_cluster::MessageKind;
use ferrite_group::{FIRST_GROUP, Supplied, Supplier, Urgency};
use ferrite_io::{Clock, Yielding, lower_priority};
use ferrite_notice::Notice;
use ferrite_partition::commit::Completion;
use ferrite_partition::waker::receive;
use ferrite_peer::Lane;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that may wait in a node's outbox before the log is read on for it.
const OUTBOX_BYTES: usize = 8 << 20;
/// Until the outboxes are checked again.
const HELD: Duration = Duration::from_millis(5);
/// Until a place in the log is given up that no node asks for any more.
const IDLE: Duration = Duration::from_secs(1);

pub struct SupplierThread {
    pub supplier: Supplier<Completion>,
    pub inbox: Receiver<SupplierNotice>,
    pub links: Links,
    pub transfer: Sender<TransferNotice>,
    pub clock: Arc<dyn Clock>,
    pub notices: Notices,
}

impl SupplierThread {
    pub fn run(mut self) {
        lower_priority(Yielding::Some);
        let mut wait = IDLE;
        loop {
            match receive(&self.inbox, wait) {
                Ok(SupplierNotice::Wanted(wanted)) => self.supplier.request(wanted, self.clock.monotonic_nanos()),
                Ok(SupplierNotice::Lost(node)) => self.supplier.forget(node),
                Ok(SupplierNotice::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let links = &self.links;
            let mut has_room = |to| links.has_room(to, Lane::Entries, OUTBOX_BYTES);
            let mut send = |to, _: Urgency, message| links.send_on(to, Lane::Entries, MessageKind::Group, message);
            let supplied = self.supplier.step(self.clock.monotonic_nanos(), &mut has_room, &mut send);
            wait = match supplied {
                Supplied::Working => Duration::ZERO,
                Supplied::Idle => IDLE,
                Supplied::Held => HELD,
                Supplied::Gone(node) => {
                    let _ = self.transfer.send(TransferNotice::Wanted(node));
                    Duration::ZERO
                }
                Supplied::TooLarge(node, position) => {
                    self.notices.say(Notice::EntryTooLarge { group: FIRST_GROUP, entry: position, node });
                    let _ = self.transfer.send(TransferNotice::Wanted(node));
                    Duration::ZERO
                }
                Supplied::Failed(node, error) => {
                    self.notices.say(Notice::LogNotRead { node, reason: error.to_string() });
                    let _ = self.transfer.send(TransferNotice::Wanted(node));
                    Duration::ZERO
                }
            };
        }
    }
}

//! Messages to other nodes, and which entries go together in one.

use super::{Replication, State};
use crate::host::{FromLog, GroupEvent, Party, Urgency};
use crate::message;
use crate::recent::{Behind, SharedEntry};
use ferrite_base::NodeId;
use ferrite_base::limits::REPLICATION_MESSAGE_BYTES;
use ferrite_replica::group::{Envelope, Mark, Message};

impl<C: Party> Replication<C> {
    pub(super) fn send(&self, to: NodeId, urgency: Urgency, envelope: &Envelope, entries: &[&SharedEntry]) {
        let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let mut out = Vec::with_capacity(message::HEADER_BYTES_MAX + bytes);
        message::encode(&mut out, self.id, envelope, &[]);
        entries.iter().for_each(|entry| out.extend_from_slice(&entry.bytes));
        self.host.send(to, urgency, out);
    }

    /// Entries leave in messages of about [`REPLICATION_MESSAGE_BYTES`]; those that are not in
    /// memory come from the log.
    pub(super) fn send_entries(&self, state: &mut State<C>, wanted: FromLog) {
        let FromLog { to, epoch, after, up_to, commit, round } = wanted;
        let from = state.machine.here();
        let append = |previous| {
            let message = Message::Append { previous, entries: Vec::new(), commit, round };
            Envelope { from, epoch, message }
        };
        let (previous, entries) = match state.recent.behind(after) {
            Behind::Here { previous, entries } => (previous, entries),
            // A heartbeat for a node that is far behind: every stream has its beginning.
            _ if after == up_to => return self.send(to, Urgency::Control, &append(Mark::ORIGIN), &[]),
            _ => return state.event(GroupEvent::FromLog(wanted)),
        };
        let mut previous = previous;
        let mut together = Vec::new();
        let mut bytes = 0;
        let mut too_large = None;
        for entry in entries.take_while(|entry| entry.header.mark.position <= up_to) {
            if self.is_too_large(entry.bytes.len()) {
                too_large = Some(GroupEvent::TooLarge { to, position: entry.header.mark.position });
                break;
            }
            if bytes > 0 && bytes + entry.bytes.len() > REPLICATION_MESSAGE_BYTES {
                self.send(to, Urgency::Entries, &append(previous), &together);
                previous = together.last().map_or(previous, |last: &&SharedEntry| last.header.mark);
                together.clear();
                bytes = 0;
            }
            bytes += entry.bytes.len();
            together.push(entry);
        }
        if !together.is_empty() {
            self.send(to, Urgency::Entries, &append(previous), &together);
        } else if too_large.is_none() {
            self.send(to, Urgency::Control, &append(previous), &[]);
        }
        if let Some(event) = too_large {
            state.machine.needs_more_than_entries(to, self.now());
            state.event(event);
        }
    }

    /// Whether no message holds this many bytes of entries.
    pub(crate) fn is_too_large(&self, bytes: usize) -> bool {
        message::HEADER_BYTES_MAX + bytes > self.message_bytes_max
    }
}

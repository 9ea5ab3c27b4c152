//! Calls that are too large, or that the server has no memory for: refused by their beginning.

use super::Dispatcher;
use crate::connection::{Connection, is_admin};
use ferrite_base::{UserError, memory};
use ferrite_wire::invocation::Invocation;
use ferrite_wire::{frame, response};

impl Dispatcher {
    /// A call that is larger than the server takes, or than it has memory for, is refused as soon
    /// as its beginning is there; what it has sent and what is still to come of it is dropped.
    /// Calls that come in one read are smaller.
    #[cold]
    pub fn refuse_if_too_large(&self, connection: &mut Connection) {
        let most = self.node.settings.frame_bytes;
        let Some(bytes) = incomplete_call(connection) else { return };
        if bytes > most {
            let error = UserError::limit(format!("the call has {bytes} bytes, more than the {most} that one may have"))
                .with_detail("the limit is --limit frame-bytes")
                .with_hint("send it in several calls");
            self.refuse(connection, bytes, &error);
        } else if bytes > memory::clients_bytes_max() / 2 && !is_admin(connection.id) {
            self.refuse(connection, bytes, &memory::refused_call(bytes));
        }
    }

    /// A call that does not come whole while others wait for memory is refused, and dropped in the
    /// same way.
    #[cold]
    pub fn refuse_for_memory(&self, connection: &mut Connection) {
        if let Some(bytes) = incomplete_call(connection) {
            self.refuse(connection, bytes, &memory::refused_call(bytes));
        }
    }

    fn refuse(&self, connection: &mut Connection, bytes: usize, error: &UserError) {
        connection.skip = bytes + frame::LENGTH_BYTES - connection.partial.len();
        let beginning = std::mem::take(&mut connection.partial);
        let handle = match Invocation::parse(&beginning[frame::LENGTH_BYTES..]) {
            Ok(invocation) => Some(invocation.handle),
            Err(error) => error.handle,
        };
        match handle.filter(|_| connection.logged_in) {
            Some(handle) => response::write_error(connection.out(), handle, error),
            None => connection.closing = true,
        }
    }
}

/// Bytes that a call whose frame is not complete yet will have.
fn incomplete_call(connection: &Connection) -> Option<usize> {
    let size = frame::size(&connection.partial).ok()??;
    (connection.partial.len() < size).then_some(size - frame::LENGTH_BYTES)
}

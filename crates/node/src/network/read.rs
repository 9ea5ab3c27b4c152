//! One read from one connection: how much, where the bytes go, and the frames that come with them.
//!
//! Owns nothing. Promises that bytes are copied once at most, and that no memory is taken because a
//! peer announces something.

use crate::connection::Connection;
use crate::dispatch::Dispatcher;
use ferrite_base::limits;
use ferrite_base::settings::FRAME_BYTES_LEAST;
use ferrite_wire::frame;
use std::io;

/// Read at once from one connection; also the most that one turn takes from it.
const READ_BYTES: usize = 128 * 1024;
/// And from one that holds as much as it may.
const READ_BYTES_LEAST: usize = limits::LOGIN_BYTES_MAX;
/// Room for the beginning of a frame that was read before, and for what comes now.
pub const BUFFER_BYTES: usize = 2 * READ_BYTES;
/// Frames that come whole in the buffer are not measured: there is none as large as the least that
/// may be set.
const _: () = assert!(BUFFER_BYTES <= FRAME_BYTES_LEAST);

/// Reads once and dispatches every complete frame. Returns the socket's result; None where the
/// connection waits for memory instead.
pub fn read_once(
    connection: &mut Connection,
    dispatcher: &mut Dispatcher,
    buffer: &mut [u8],
) -> Option<io::Result<Option<usize>>> {
    if connection.partial.len() >= READ_BYTES {
        dispatcher.refuse_if_too_large(connection);
    }
    if connection.skip > 0 {
        return Some(skip(connection, buffer));
    }
    let kept = connection.partial.len();
    if kept > READ_BYTES_LEAST && connection.memory_bytes() >= connection.room {
        connection.wait_for_memory();
        return None;
    }
    let most = match connection.logged_in {
        // Small only where memory is short.
        true => connection.room.saturating_sub(connection.memory_bytes()).clamp(READ_BYTES_LEAST, READ_BYTES),
        // Nothing larger is taken from a client that has not logged in.
        false => (frame::LENGTH_BYTES + limits::LOGIN_BYTES_MAX).saturating_sub(kept).max(1),
    };
    if kept < READ_BYTES {
        Some(read_into_buffer(connection, dispatcher, buffer, most))
    } else {
        Some(read_behind(connection, dispatcher, most))
    }
}

/// The rest of a call that was refused is dropped.
fn skip(connection: &mut Connection, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let most = connection.skip.min(READ_BYTES);
    let read = connection.read(&mut buffer[..most]);
    if let Ok(Some(count)) = read {
        connection.skip -= count;
        if connection.skip == 0 {
            connection.frame_came();
        }
    }
    read
}

/// The usual case: small frames, which are complete in the thread's buffer. What is left of the
/// last one is kept.
fn read_into_buffer(
    connection: &mut Connection,
    dispatcher: &mut Dispatcher,
    buffer: &mut [u8],
    most: usize,
) -> io::Result<Option<usize>> {
    let kept = connection.partial.len();
    buffer[..kept].copy_from_slice(&connection.partial);
    let read = connection.read(&mut buffer[kept..kept + most]);
    if let Ok(Some(count @ 1..)) = read {
        let bytes = &buffer[..kept + count];
        let consumed = dispatcher.frames(connection, bytes);
        connection.keep(&bytes[consumed..]);
    }
    read
}

/// A large frame is gathered where its bytes stay, or each read would copy all that came before.
fn read_behind(connection: &mut Connection, dispatcher: &mut Dispatcher, most: usize) -> io::Result<Option<usize>> {
    let kept = connection.partial.len();
    let mut bytes = std::mem::take(&mut connection.partial);
    if bytes.capacity() < kept + most {
        // By what has come, and by a quarter of it: not by what was announced.
        bytes.reserve_exact(READ_BYTES.max(kept / 4));
    }
    bytes.resize(kept + most, 0);
    let read = connection.read(&mut bytes[kept..]);
    let count = match read {
        Ok(Some(count)) => count,
        _ => 0,
    };
    bytes.truncate(kept + count);
    if count > 0 {
        let consumed = dispatcher.frames(connection, &bytes);
        bytes.drain(..consumed);
    }
    connection.partial = bytes;
    read
}

/// Dispatches frames that were read before and had to wait until others were answered.
pub fn dispatch_kept(connection: &mut Connection, dispatcher: &mut Dispatcher) {
    let mut bytes = std::mem::take(&mut connection.partial);
    let consumed = dispatcher.frames(connection, &bytes);
    bytes.drain(..consumed);
    connection.partial = bytes;
    if connection.partial.is_empty() {
        connection.keep(&[]);
    }
}

/// Gives room back that a large frame has left behind.
pub fn trim(connection: &mut Connection) {
    if connection.partial.is_empty() {
        connection.keep(&[]);
    } else if connection.partial.len() < READ_BYTES && connection.partial.capacity() > 2 * READ_BYTES {
        connection.partial.shrink_to(READ_BYTES);
    }
}

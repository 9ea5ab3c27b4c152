//! One question and one answer on a connection of their own, for a process that is not in a cluster
//! yet.

use crate::frame::{Frames, Lane, write_message};
use crate::handshake::HELLO_BYTES;
use ferrite_base::checksum::crc32c;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of a question, and of an answer.
pub const INQUIRY_BYTES_MAX: usize = 1 << 20;
/// The version of questions and answers, whichever one the nodes of a cluster speak.
const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"FERRASKS";

/// As long as a hello, so that both can be told apart when they are here.
pub(crate) fn greeting() -> [u8; HELLO_BYTES] {
    let mut out = [0; HELLO_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c(&out[..52]);
    out[52..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Collects the question after a greeting.
pub(crate) fn frames() -> Frames {
    Frames::new(Lane::Control, INQUIRY_BYTES_MAX, 0)
}

/// Asks the process that listens there; waits at most `time_max` for the answer.
///
/// # Errors
/// If no process answers in time. `UnexpectedEof`: the process there has no answer, like a node
/// that has only begun to start, or ends. `InvalidData`: what answers is not a node.
pub fn inquire(to: SocketAddr, question: &[u8], time_max: Duration) -> io::Result<Vec<u8>> {
    assert!(question.len() <= INQUIRY_BYTES_MAX, "a question is bounded");
    let deadline = Instant::now() + time_max;
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut stream = TcpStream::connect_timeout(&to, left()?)?;
    // A port of the kernel's range for connections on which no process listens may be given to this
    // connection, which then talks to itself, and keeps the port from a process that comes to
    // listen there.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    let mut out = greeting().to_vec();
    write_message(&mut out, &mut 0, Lane::Control, question);
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(&out)?;
    let mut frames = frames();
    let mut buffer = vec![0; 64 * 1024];
    let mut answer = None;
    while answer.is_none() {
        stream.set_read_timeout(Some(left()?))?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection without an answer"));
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        };
        let decoded = frames.decode(&buffer[..count], |message| answer = answer.take().or(Some(message)));
        decoded.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
    }
    Ok(answer.expect("the loop ends with one"))
}

//! The yardstick's server: a bare loop that does Voter's work on plain hash tables behind the same
//! wire format.
//!
//! One thread for each connection (the yardstick has one), which reads, does all that came, and
//! writes the answers. No SQL, no undo, no log, no other thread to hand anything to, no general
//! decoder: a vote is taken from where its bytes are, and an answer is a copy of one made before.
//! What is not a vote goes a way of its own. With [`crate::limit_client`], or with the load
//! generator.

use crate::area_codes::area_codes;
use crate::error::{BenchResult, Doing};
use ferrite_base::{ErrorKind, UserError};
use ferrite_wire::login::write_failure as write_login_failure;
use ferrite_wire::response::{write_error, write_pong, write_scalar};
use ferrite_wire::{Invocation, LoginAccepted, LoginRequest, frame};
use hashbrown::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

const RECEIVE_BYTES: usize = 256 * 1024;

/// Listens and serves until the process is ended. `rows` is how many votes there is room for from
/// the start. `ready` is told the address once connections are taken.
pub fn serve(listen: SocketAddr, contestants: i32, rows: usize, ready: impl FnOnce(SocketAddr)) -> BenchResult<()> {
    let listener = TcpListener::bind(listen).doing(format!("listening on {listen}"))?;
    let tables = Arc::new(Mutex::new(Tables::new(contestants, rows)));
    ready(listener.local_addr().doing("asking for the address")?);
    for id in 0.. {
        let (stream, _) = listener.accept().doing("accepting a connection")?;
        let tables = Arc::clone(&tables);
        // An error is the connection's end.
        let serve = move || drop(serve_connection(stream, id, &tables));
        thread::Builder::new().name("limit".to_string()).spawn(serve).doing("starting a thread")?;
    }
    Ok(())
}

fn serve_connection(mut stream: TcpStream, id: i64, tables: &Mutex<Tables>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = vec![0; RECEIVE_BYTES];
    let mut filled = 0;
    let mut out = Vec::with_capacity(RECEIVE_BYTES);
    let mut logged_in = false;
    loop {
        let bytes = stream.read(&mut input[filled..])?;
        if bytes == 0 {
            return Ok(());
        }
        filled += bytes;
        let mut handled = 0;
        if !logged_in && let Some((size, body)) = split(&input[..filled])? {
            handled = size;
            logged_in = true;
            if !log_in(body, id, &mut out) {
                return stream.write_all(&out);
            }
        }
        if logged_in {
            let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
            handled += tables.answer(&input[handled..filled], &mut out)?;
        }
        input.copy_within(handled..filled, 0);
        filled -= handled;
        if filled == input.len() {
            return Err(malformed("a frame as large as the buffer is not a call of this load"));
        }
        stream.write_all(&out)?;
        out.clear();
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn split(input: &[u8]) -> io::Result<Option<(usize, &[u8])>> {
    frame::split(input).map_err(|_| malformed("not a frame"))
}

/// Whether the client may go on.
fn log_in(body: &[u8], id: i64, out: &mut Vec<u8>) -> bool {
    match LoginRequest::parse(body) {
        Ok(_) => {
            LoginAccepted {
                host_id: 0,
                connection_id: id,
                cluster_start_ms: 0,
                leader_address: [127, 0, 0, 1],
                build: "ferrite-limit",
            }
            .write(out);
            true
        }
        Err(failure) => {
            write_login_failure(out, failure);
            false
        }
    }
}

/// Bytes of a vote on the wire: length, version, `Vote` with its length, handle, three parameters
/// with their number and kinds.
pub(crate) const VOTE_BYTES: usize = 42;
const VOTE_LENGTH: [u8; 4] = (VOTE_BYTES as u32 - 4).to_be_bytes();
/// What stands at the start of a vote but for its version, and between its numbers: the codes of
/// BIGINT, INTEGER, INTEGER.
const VOTE_NAME: [u8; 8] = *b"\0\0\0\x04Vote";
const VOTE_COUNT: [u8; 2] = 3u16.to_be_bytes();
const BIGINT: u8 = 6;
const INTEGER: u8 = 5;

/// One call of `Vote`, as [`crate::voter_load`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VoteCall {
    pub handle: [u8; 8],
    pub phone: i64,
    pub contestant: i32,
    pub votes_max: i32,
}

fn array<const N: usize>(bytes: &[u8; VOTE_BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("so many bytes were asked for")
}

impl VoteCall {
    /// None for anything else.
    #[inline]
    fn parse(bytes: &[u8; VOTE_BYTES]) -> Option<VoteCall> {
        let known = bytes[..4] == VOTE_LENGTH
            && bytes[5..13] == VOTE_NAME
            && bytes[21..23] == VOTE_COUNT
            && [bytes[23], bytes[32], bytes[37]] == [BIGINT, INTEGER, INTEGER];
        known.then(|| VoteCall {
            handle: array(bytes, 13),
            phone: i64::from_be_bytes(array(bytes, 24)),
            contestant: i32::from_be_bytes(array(bytes, 33)),
            votes_max: i32::from_be_bytes(array(bytes, 38)),
        })
    }

    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; VOTE_BYTES];
        bytes[..4].copy_from_slice(&VOTE_LENGTH);
        bytes[5..13].copy_from_slice(&VOTE_NAME);
        bytes[13..21].copy_from_slice(&self.handle);
        bytes[21..23].copy_from_slice(&VOTE_COUNT);
        bytes[23] = BIGINT;
        bytes[24..32].copy_from_slice(&self.phone.to_be_bytes());
        bytes[32] = INTEGER;
        bytes[33..37].copy_from_slice(&self.contestant.to_be_bytes());
        bytes[37] = INTEGER;
        bytes[38..].copy_from_slice(&self.votes_max.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// Bytes of the answer to a vote; the handle and the number, its last bytes, are all that varies.
pub(crate) const ANSWER_BYTES: usize = 54;
const ANSWER_HANDLE: usize = 5;

fn answer_to_vote() -> [u8; ANSWER_BYTES] {
    let mut answer = Vec::new();
    write_scalar(&mut answer, 0, 0);
    answer.try_into().expect("the answer to a vote is as long as its constant says")
}

#[expect(dead_code, reason = "written as the work asks for; nothing reads the rows back")]
struct Vote {
    phone: i64,
    state: [u8; 2],
    contestant: i32,
}

/// Voter's tables and views.
struct Tables {
    contestants: HashMap<i32, [u8; 50]>,
    area_codes: HashMap<i16, [u8; 2]>,
    votes: Vec<Vote>,
    votes_by_phone: HashMap<i64, i32>,
    votes_by_contestant_and_state: HashMap<(i32, [u8; 2]), i64>,
    answer: [u8; ANSWER_BYTES],
}

impl Tables {
    fn new(contestants: i32, rows: usize) -> Tables {
        Tables {
            contestants: (1..=contestants).map(|number| (number, [b' '; 50])).collect(),
            area_codes: area_codes().iter().map(|area| (area.code as i16, area.state)).collect(),
            votes: Vec::with_capacity(rows),
            votes_by_phone: HashMap::with_capacity(rows),
            votes_by_contestant_and_state: HashMap::new(),
            answer: answer_to_vote(),
        }
    }

    /// Answers all whole frames of `input`. Returns how many bytes those were.
    #[inline]
    fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            if let Some(bytes) = rest.first_chunk()
                && let Some(call) = VoteCall::parse(bytes)
            {
                at += VOTE_BYTES;
                let result = self.vote(call.phone, call.contestant, call.votes_max);
                let mut answer = self.answer;
                answer[ANSWER_HANDLE..ANSWER_HANDLE + 8].copy_from_slice(&call.handle);
                answer[ANSWER_BYTES - 8..].copy_from_slice(&result.to_be_bytes());
                out.extend_from_slice(&answer);
            } else {
                let Some((size, body)) = split(rest)? else { return Ok(at) };
                at += size;
                self.answer_other(body, out)?;
            }
        }
    }

    #[cold]
    fn answer_other(&self, body: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let call = Invocation::parse(body).map_err(|_| malformed("not a call"))?;
        match call.procedure {
            "Count" => write_scalar(out, call.handle, self.votes.len() as i64),
            "@Ping" => write_pong(out, call.handle),
            "Vote" => {
                let error = UserError::parameters("Vote needs a BIGINT and two INTEGER: phone, contestant, votes_max");
                write_error(out, call.handle, &error);
            }
            name => {
                let error = UserError::new(ErrorKind::UnknownProcedure, "FE000", format!("no procedure {name}"));
                write_error(out, call.handle, &error);
            }
        }
        Ok(())
    }

    #[inline]
    fn vote(&mut self, phone: i64, contestant: i32, votes_max: i32) -> i64 {
        if !self.contestants.contains_key(&contestant) {
            return 1;
        }
        let by_phone = self.votes_by_phone.entry(phone).or_insert(0);
        if *by_phone >= votes_max {
            return 2;
        }
        let state = self.area_codes.get(&((phone / 10_000_000) as i16)).copied().unwrap_or(*b"XX");
        *by_phone += 1;
        *self.votes_by_contestant_and_state.entry((contestant, state)).or_insert(0) += 1;
        self.votes.push(Vote { phone, state, contestant });
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::Value;

    #[test]
    fn votes_as_the_procedure_does() {
        let mut tables = Tables::new(6, 0);
        let phone = 2_050_000_001;
        assert_eq!(tables.vote(phone, 999, 2), 1);
        assert_eq!(tables.vote(phone, 1, 2), 0);
        assert_eq!(tables.vote(phone, 6, 2), 0);
        assert_eq!(tables.vote(phone, 6, 2), 2);
        assert_eq!(tables.vote(1_000_000_000, 1, 2), 0);
        assert_eq!(tables.votes.len(), 3);
        assert_eq!(tables.votes_by_contestant_and_state[&(6, *b"AL")], 1);
        assert_eq!(tables.votes_by_contestant_and_state[&(1, *b"XX")], 1);
    }

    #[test]
    fn a_vote_is_written_as_the_protocol_has_it() {
        let call = VoteCall { handle: 7i64.to_be_bytes(), phone: 2_050_000_001, contestant: 6, votes_max: 2 };
        let mut bytes = Vec::new();
        call.write(&mut bytes);
        assert_eq!(VoteCall::parse(bytes.first_chunk().unwrap()), Some(call));
        let (size, body) = frame::split(&bytes).unwrap().unwrap();
        assert_eq!(size, VOTE_BYTES);
        let parsed = Invocation::parse(body).unwrap();
        let arena = bumpalo::Bump::new();
        let parameters = parsed.parameters.decode(&arena).unwrap();
        assert_eq!((parsed.procedure, parsed.handle), ("Vote", 7));
        assert!(matches!(*parameters, [Value::Integer(2_050_000_001), Value::Integer(6), Value::Integer(2)]));
    }

    #[test]
    fn frames_in_pieces_and_of_other_kinds() {
        let mut tables = Tables::new(6, 0);
        let mut input = Vec::new();
        for handle in 0..3i64 {
            VoteCall { handle: handle.to_be_bytes(), phone: 1, contestant: 1, votes_max: 2 }.write(&mut input);
        }
        let mut out = Vec::new();
        for cut in [0, 3, VOTE_BYTES - 1] {
            assert_eq!(tables.answer(&input[..cut], &mut out).unwrap(), 0);
        }
        assert_eq!(tables.answer(&input[..2 * VOTE_BYTES + 5], &mut out).unwrap(), 2 * VOTE_BYTES);
        assert_eq!(tables.answer(&input[2 * VOTE_BYTES..], &mut out).unwrap(), VOTE_BYTES);
        let mut expected = Vec::new();
        [0, 0, 2]
            .into_iter()
            .enumerate()
            .for_each(|(handle, result)| write_scalar(&mut expected, handle as i64, result));
        assert_eq!(out, expected);
        assert!(tables.answer(&[0xff; 100], &mut out).is_err(), "a frame of a length below 0");
    }
}

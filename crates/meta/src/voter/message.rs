//! Raft's messages as bytes, field by field: only this code parses what a peer sends. Decoding
//! returns errors, never panics, and allocates no more than what came.

use crate::VOTERS_MAX;
use crate::bytes::{Malformed, Reader, put_list, put_u32, put_u64};
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType, Snapshot};

const FORMAT: u8 = 1;
/// Of one message.
const ENTRIES_MAX: usize = 4_096;

/// The messages between voters, in the order of their numbers, from 1. A leader asks only itself
/// for a read: a read of another voter, without an entry, would end the library's process.
const KINDS: [MessageType; 10] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

pub(super) fn conf_state(voters: &[u64]) -> ConfState {
    ConfState { voters: voters.to_vec(), ..ConfState::default() }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, u32::try_from(bytes.len()).expect("a part of a message is bounded"));
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(rest: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = rest.u32()? as usize;
    rest.bytes(length)
}

pub(super) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.push(match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => 1,
    });
    put_u64(out, entry.term);
    put_u64(out, entry.index);
    put_bytes(out, &entry.data);
    put_bytes(out, &entry.context);
}

pub(super) fn take_entry(rest: &mut Reader<'_>) -> Result<Entry, Malformed> {
    let mut entry = Entry::default();
    entry.set_entry_type(match rest.u8()? {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        _ => return Err(Malformed("an entry of the metadata is of an unknown kind")),
    });
    (entry.term, entry.index) = (rest.u64()?, rest.u64()?);
    entry.data = take_bytes(rest)?.to_vec().into();
    entry.context = take_bytes(rest)?.to_vec().into();
    Ok(entry)
}

/// None: it is not one that voters send each other.
pub(super) fn encode(message: &Message) -> Option<Vec<u8>> {
    let kind = KINDS.iter().position(|kind| *kind == message.get_msg_type())?;
    let mut out = vec![FORMAT, kind as u8 + 1, u8::from(message.reject)];
    for number in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
        message.deprecated_priority,
        message.priority as u64,
    ] {
        put_u64(&mut out, number);
    }
    put_bytes(&mut out, &message.context);
    put_list(&mut out, &message.entries, put_entry);
    if message.get_msg_type() == MessageType::MsgSnapshot {
        let metadata = message.get_snapshot().get_metadata();
        put_u64(&mut out, metadata.index);
        put_u64(&mut out, metadata.term);
        put_list(&mut out, &metadata.get_conf_state().voters, |out, voter| put_u64(out, *voter));
        put_bytes(&mut out, &message.get_snapshot().data);
    }
    Some(out)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut rest = Reader::new(bytes);
    if rest.u8()? != FORMAT {
        return Err(Malformed("a message between voters is of a format that this release does not know"));
    }
    let kind = usize::from(rest.u8()?).checked_sub(1).and_then(|kind| KINDS.get(kind));
    let kind = *kind.ok_or(Malformed("a message between voters is of an unknown kind"))?;
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.reject = rest.flag()?;
    (message.to, message.from, message.term, message.log_term) = (rest.u64()?, rest.u64()?, rest.u64()?, rest.u64()?);
    (message.index, message.commit, message.commit_term) = (rest.u64()?, rest.u64()?, rest.u64()?);
    (message.request_snapshot, message.reject_hint) = (rest.u64()?, rest.u64()?);
    message.deprecated_priority = rest.u64()?;
    message.priority = rest.u64()? as i64;
    message.context = take_bytes(&mut rest)?.to_vec().into();
    message.entries = rest.list(ENTRIES_MAX, take_entry)?.into();
    // Raft trusts that they follow each other.
    let follows = |(entry, index): (&Entry, u64)| entry.index == index && entry.term <= message.term;
    let Some(first) = message.index.checked_add(1) else { return Err(Malformed("an index is out of range")) };
    if !message.entries.iter().zip(first..).all(follows) {
        return Err(Malformed("entries of the metadata do not follow each other"));
    }
    if kind == MessageType::MsgSnapshot {
        let mut snapshot = Snapshot::default();
        let index = rest.u64()?;
        let term = rest.u64()?;
        let voters = rest.list(VOTERS_MAX + 1, Reader::u64)?;
        if index == 0 || term == 0 || term > message.term || voters.is_empty() {
            return Err(Malformed("a state is of no entry"));
        }
        snapshot.data = take_bytes(&mut rest)?.to_vec().into();
        crate::State::restore(&snapshot.data)?;
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        *metadata.mut_conf_state() = conf_state(&voters);
        message.set_snapshot(snapshot);
    }
    rest.end()?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn entries(first: u64) -> Vec<Entry> {
        let entry = |index| {
            let mut entry = Entry::default();
            (entry.index, entry.term) = (index, 3);
            if index % 2 == 0 {
                entry.set_entry_type(EntryType::EntryConfChange);
                entry.context = vec![9; 5].into();
            }
            entry.data = vec![index as u8; index as usize % 7].into();
            entry
        };
        (first..first + 4).map(entry).collect()
    }

    fn messages() -> Vec<Message> {
        let message = |kind: &MessageType| {
            let mut message = Message::default();
            message.set_msg_type(*kind);
            (message.to, message.from, message.term, message.log_term) = (1, 2, 4, 3);
            (message.index, message.commit, message.commit_term, message.request_snapshot) = (10, 9, 3, 5);
            (message.reject, message.reject_hint, message.deprecated_priority, message.priority) = (true, 8, 6, -1);
            message.context = vec![1, 2, 3].into();
            match kind {
                MessageType::MsgAppend => message.entries = entries(11).into(),
                MessageType::MsgSnapshot => {
                    let snapshot = message.mut_snapshot();
                    snapshot.data = State::default().snapshot().into();
                    let metadata = snapshot.mut_metadata();
                    (metadata.index, metadata.term) = (9, 3);
                    *metadata.mut_conf_state() = conf_state(&[1, 2, 3]);
                }
                _ => {}
            }
            message
        };
        KINDS.iter().map(message).collect()
    }

    #[test]
    fn messages_read_back_as_written() {
        for message in messages() {
            assert_eq!(decode(&encode(&message).unwrap()), Ok(message));
        }
        let mut own = Message::default();
        own.set_msg_type(MessageType::MsgPropose);
        assert_eq!(encode(&own), None, "proposals are not passed on");
        own.set_msg_type(MessageType::MsgReadIndex);
        assert_eq!(encode(&own), None, "nor are reads");
    }

    #[test]
    fn what_raft_would_trust_is_looked_at() {
        let refused = |change: fn(&mut Message), kind| {
            let mut message = messages().into_iter().find(|message| message.get_msg_type() == kind).unwrap();
            change(&mut message);
            assert!(decode(&encode(&message).unwrap()).is_err(), "{message:?}");
        };
        refused(|message| message.index = 11, MessageType::MsgAppend);
        refused(|message| message.entries[1].index = 13, MessageType::MsgAppend);
        refused(|message| message.entries[1].term = 5, MessageType::MsgAppend);
        refused(|message| message.index = u64::MAX, MessageType::MsgHeartbeat);
        refused(|message| message.mut_snapshot().mut_metadata().term = 5, MessageType::MsgSnapshot);
        refused(|message| message.mut_snapshot().data = vec![1, 2].into(), MessageType::MsgSnapshot);
    }

    #[test]
    fn cut_and_hostile_bytes_do_not_panic() {
        for message in messages() {
            let bytes = encode(&message).unwrap();
            assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_err()));
        }
        bolero::check!().with_iterations(20_000).with_type::<(u8, u16, Vec<u8>)>().for_each(|(which, cut, bytes)| {
            let _ = decode(bytes);
            let mut whole = encode(&messages()[*which as usize % KINDS.len()]).unwrap();
            whole.truncate(*cut as usize % (whole.len() + 1));
            whole.extend_from_slice(bytes);
            let _ = decode(&whole);
        });
    }
}

//! Calls and answers between two nodes, as bytes (docs/decisions/0059-forwarding.md).
//!
//! Decoding returns errors, never panics, and allocates nothing.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::{Epoch, GroupId};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::cancel::Cancel;
use std::fmt;

/// A message of the first group, as all were in clusters of one group.
const FORMAT: u8 = 2;
/// One of another group, which it names.
const FORMAT_OF_GROUP: u8 = 3;
/// The size of a call beside its body.
pub const CALL_BYTES: usize = 1 + 8 + 4;

const CALL: u8 = 1;
const TRUSTED_CALL: u8 = 2;
const CANCEL: u8 = 3;
const CANCEL_HANDLE: u8 = 4;
const ENDED: u8 = 5;
const GONE: u8 = 6;
const END: u8 = 7;

const ANSWERS: u8 = 1;
const REFUSED: u8 = 2;
const RETURNED: u8 = 3;
const TRUSTED_RETURNED: u8 = 4;

/// The header of a message between two nodes. Each group has sessions and messages of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// To whose partitions all calls of the message go, or went.
    pub group: GroupId,
    /// The session of the node where the clients are. It starts a new one each time calls may have
    /// been lost; an older one no longer counts.
    pub session: u64,
    /// The number of the message in this direction, from 0: without a gap.
    pub number: u32,
}

/// From the node where the clients are to the one that leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallItem<'a> {
    /// `body`: the frame without its length, as the client sent it. `trusted`: its door permits
    /// operations that run code and touch files.
    Call { connection: u64, trusted: bool, body: &'a [u8] },
    /// The moment of [`Cancel::Calls`] is when this is read: it is not sent.
    Cancel { connection: u64, cancel: Cancel },
    /// The session is over: no client waits for answers.
    End,
}

/// Back from the node that leads, or led.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerItem<'a> {
    /// A call that was not executed, as it came: it is for the node that leads in this epoch or a
    /// later one.
    Returned { epoch: Epoch, connection: u64, trusted: bool, body: &'a [u8] },
    /// Whole response frames of one connection.
    Answers { connection: u64, frames: &'a [u8] },
    /// The session cannot continue: unanswered calls stay unanswered.
    Refused,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

pub fn begin(out: &mut Vec<u8>, header: Header) {
    if header.group == FIRST_GROUP {
        out.push(FORMAT);
    } else {
        out.push(FORMAT_OF_GROUP);
        out.extend_from_slice(&header.group.0.to_le_bytes());
    }
    out.extend_from_slice(&header.session.to_le_bytes());
    out.extend_from_slice(&header.number.to_le_bytes());
}

/// A message of calls. `epoch`: in which the receiver leads the group, as far as the sender knows.
pub fn begin_calls(out: &mut Vec<u8>, header: Header, epoch: Epoch) {
    begin(out, header);
    out.extend_from_slice(&epoch.0.to_le_bytes());
}

/// Appends a [`CallItem::Call`], with room for the body.
pub fn put_call(out: &mut Vec<u8>, connection: u64, trusted: bool, body: &[u8]) {
    out.push(if trusted { TRUSTED_CALL } else { CALL });
    out.extend_from_slice(&connection.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
}

pub fn put_cancel(out: &mut Vec<u8>, connection: u64, cancel: Cancel) {
    let (kind, handle) = match cancel {
        Cancel::Calls { handle: None, .. } => (CANCEL, None),
        Cancel::Calls { handle: Some(handle), .. } => (CANCEL_HANDLE, Some(handle)),
        Cancel::Ended => (ENDED, None),
        Cancel::Gone => (GONE, None),
    };
    out.push(kind);
    out.extend_from_slice(&connection.to_le_bytes());
    out.extend(handle.into_iter().flat_map(i64::to_le_bytes));
}

pub fn put_end(out: &mut Vec<u8>) {
    out.push(END);
}

pub fn put_answers(out: &mut Vec<u8>, connection: u64, frames: &[u8]) {
    out.push(ANSWERS);
    out.extend_from_slice(&connection.to_le_bytes());
    out.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    out.extend_from_slice(frames);
}

/// Of [`AnswerItem::Returned`].
pub fn put_returned(out: &mut Vec<u8>, epoch: Epoch, connection: u64, trusted: bool, body: &[u8]) {
    out.push(if trusted { TRUSTED_RETURNED } else { RETURNED });
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.extend_from_slice(&connection.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
}

pub fn put_refused(out: &mut Vec<u8>) {
    out.push(REFUSED);
}

impl From<ReadFault> for Malformed {
    fn from(fault: ReadFault) -> Malformed {
        Malformed(match fault {
            ReadFault::EndsEarly => "a message of calls is cut short",
            ReadFault::LeftOver => "bytes are left over at the end of a message of calls",
            ReadFault::Malformed(reason) => reason,
        })
    }
}

type Rest<'a> = Reader<'a, Malformed>;

fn read_sized<'a>(rest: &mut Rest<'a>) -> Result<&'a [u8], Malformed> {
    let length = rest.u32()?;
    rest.bytes(length as usize)
}

fn read_header(rest: &mut Rest<'_>) -> Result<Header, Malformed> {
    let group = match rest.u8()? {
        FORMAT => FIRST_GROUP,
        FORMAT_OF_GROUP => match GroupId(rest.u32()?) {
            FIRST_GROUP => return Err(Malformed("a message of the first group's calls has the format of another's")),
            group => group,
        },
        _ => return Err(Malformed("a message of calls has a format that this release does not know")),
    };
    Ok(Header { group, session: rest.u64()?, number: rest.u32()? })
}

fn read_call_item<'a>(rest: &mut Rest<'a>) -> Result<CallItem<'a>, Malformed> {
    let kind = rest.u8()?;
    if kind == END {
        return Ok(CallItem::End);
    }
    let connection = rest.u64()?;
    // The reader's clock says until when.
    let calls = |handle| Cancel::Calls { handle, until_micros: 0 };
    let cancel = match kind {
        CALL | TRUSTED_CALL => {
            return Ok(CallItem::Call { connection, trusted: kind == TRUSTED_CALL, body: read_sized(rest)? });
        }
        CANCEL => calls(None),
        CANCEL_HANDLE => calls(Some(rest.i64()?)),
        ENDED => Cancel::Ended,
        GONE => Cancel::Gone,
        _ => return Err(Malformed("a message of calls has an item of an unknown kind")),
    };
    Ok(CallItem::Cancel { connection, cancel })
}

fn read_answer_item<'a>(rest: &mut Rest<'a>) -> Result<AnswerItem<'a>, Malformed> {
    let kind = rest.u8()?;
    match kind {
        RETURNED | TRUSTED_RETURNED => Ok(AnswerItem::Returned {
            epoch: Epoch(rest.u64()?),
            connection: rest.u64()?,
            trusted: kind == TRUSTED_RETURNED,
            body: read_sized(rest)?,
        }),
        ANSWERS => Ok(AnswerItem::Answers { connection: rest.u64()?, frames: read_sized(rest)? }),
        REFUSED => Ok(AnswerItem::Refused),
        _ => Err(Malformed("a message of answers has an item of an unknown kind")),
    }
}

/// The items of a message that is well-formed as a whole.
pub struct Items<'a, T> {
    rest: Rest<'a>,
    next: fn(&mut Rest<'a>) -> Result<T, Malformed>,
}

impl<'a, T> Items<'a, T> {
    fn of(mut rest: Rest<'a>, next: fn(&mut Rest<'a>) -> Result<T, Malformed>) -> Result<Self, Malformed> {
        let items = Items { rest, next };
        while !rest.is_empty() {
            next(&mut rest)?;
        }
        Ok(items)
    }
}

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        (!self.rest.is_empty()).then(|| (self.next)(&mut self.rest).expect("the message was read to its end before"))
    }
}

/// A message of calls. Nothing of one that is malformed somewhere is handed out.
pub fn calls(bytes: &[u8]) -> Result<(Header, Items<'_, CallItem<'_>>), Malformed> {
    let mut rest = Rest::new(bytes);
    let header = read_header(&mut rest)?;
    rest.u64()?;
    Ok((header, Items::of(rest, read_call_item)?))
}

/// The group of a message of either kind.
pub fn group_of(bytes: &[u8]) -> Result<GroupId, Malformed> {
    Ok(read_header(&mut Rest::new(bytes))?.group)
}

/// In which epoch the receiver of a message of calls leads, as far as its sender knows. 0 where it
/// cannot be read.
pub fn epoch_of_calls(bytes: &[u8]) -> Epoch {
    let mut rest = Rest::new(bytes);
    read_header(&mut rest).and_then(|_| rest.u64()).map_or(Epoch(0), Epoch)
}

/// A message of answers; whether the frames are whole is for the reader to see.
pub fn answers(bytes: &[u8]) -> Result<(Header, Items<'_, AnswerItem<'_>>), Malformed> {
    let mut rest = Rest::new(bytes);
    let header = read_header(&mut rest)?;
    Ok((header, Items::of(rest, read_answer_item)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Format, session, number.
    const HEADER_BYTES: usize = 1 + 8 + 4;
    const HEADER: Header = Header { group: FIRST_GROUP, session: 0x0102_0304_0506_0708, number: 9 };

    fn until_now(handle: Option<i64>) -> Cancel {
        Cancel::Calls { handle, until_micros: 0 }
    }

    fn sample_calls() -> Vec<u8> {
        let mut out = Vec::new();
        begin_calls(&mut out, HEADER, Epoch(6));
        put_call(&mut out, 7, false, b"abc");
        put_call(&mut out, 1 << 63, true, b"");
        put_cancel(&mut out, 7, Cancel::Calls { handle: None, until_micros: 5 });
        put_cancel(&mut out, 7, Cancel::Calls { handle: Some(-2), until_micros: 5 });
        put_cancel(&mut out, 8, Cancel::Ended);
        put_cancel(&mut out, 8, Cancel::Gone);
        put_end(&mut out);
        out
    }

    fn sample_answers() -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out, HEADER);
        put_answers(&mut out, 7, b"xyz");
        put_returned(&mut out, Epoch(6), 7, true, b"uvw");
        put_refused(&mut out);
        out
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn bytes_are_those_that_other_releases_read() {
        let (header, seven, eight) = ("02080706050403020109000000", "0700000000000000", "0800000000000000");
        let six = "0600000000000000";
        let calls = format!(
            "{header}{six}01{seven}03000000616263020000000000000080000000000\
             3{seven}04{seven}feffffffffffffff05{eight}06{eight}07"
        );
        assert_eq!(hex(&sample_calls()), calls);
        assert_eq!(hex(&sample_answers()), format!("{header}01{seven}0300000078797a04{six}{seven}0300000075767702"));
    }

    #[test]
    fn messages_of_other_groups_name_theirs() {
        let header = Header { group: GroupId(7), ..HEADER };
        let mut bytes = Vec::new();
        begin_calls(&mut bytes, header, Epoch(6));
        assert_eq!(hex(&bytes), "03070000000807060504030201090000000600000000000000");
        assert_eq!(
            (calls(&bytes).unwrap().0, epoch_of_calls(&bytes), group_of(&bytes)),
            (header, Epoch(6), Ok(GroupId(7)))
        );
        assert_eq!(group_of(&sample_answers()), Ok(FIRST_GROUP));
        bytes[1] = 0;
        assert!(group_of(&bytes).is_err(), "one message has one form");
        assert!((0..17).all(|length| group_of(&bytes[..length]).is_err()));
        let mut answers_of_it = Vec::new();
        begin(&mut answers_of_it, header);
        assert_eq!(answers(&answers_of_it).unwrap().0, header);
    }

    #[test]
    fn messages_read_back() {
        let bytes = sample_calls();
        let (header, items) = calls(&bytes).unwrap();
        let expected = [
            CallItem::Call { connection: 7, trusted: false, body: b"abc" },
            CallItem::Call { connection: 1 << 63, trusted: true, body: b"" },
            CallItem::Cancel { connection: 7, cancel: until_now(None) },
            CallItem::Cancel { connection: 7, cancel: until_now(Some(-2)) },
            CallItem::Cancel { connection: 8, cancel: Cancel::Ended },
            CallItem::Cancel { connection: 8, cancel: Cancel::Gone },
            CallItem::End,
        ];
        assert_eq!((header, items.collect::<Vec<_>>()), (HEADER, expected.to_vec()));
        assert_eq!((epoch_of_calls(&bytes), epoch_of_calls(&bytes[..12])), (Epoch(6), Epoch(0)));
        let bytes = sample_answers();
        let (header, items) = answers(&bytes).unwrap();
        let expected = vec![
            AnswerItem::Answers { connection: 7, frames: b"xyz" },
            AnswerItem::Returned { epoch: Epoch(6), connection: 7, trusted: true, body: b"uvw" },
            AnswerItem::Refused,
        ];
        assert_eq!((header, items.collect::<Vec<_>>()), (HEADER, expected));
    }

    #[test]
    fn what_is_cut_or_of_another_format_is_refused_as_a_whole() {
        let whole = sample_calls();
        // Between two items it is a shorter message.
        let ends: Vec<usize> = [0, 16, 13, 9, 17, 9, 9, 1]
            .iter()
            .scan(HEADER_BYTES + 8, |end, length| {
                *end += length;
                Some(*end)
            })
            .collect();
        assert_eq!(ends.last(), Some(&whole.len()));
        for length in 0..whole.len() {
            assert_eq!(calls(&whole[..length]).is_ok(), ends.contains(&length), "{length}");
        }
        let mut other = sample_answers();
        other[0] = 1;
        assert!(answers(&other).is_err_and(|error| error.to_string().contains("does not know")));
        let mut other = sample_answers();
        other[HEADER_BYTES] = 9;
        assert!(answers(&other).is_err_and(|error| error.to_string().contains("unknown kind")));
        let mut endless = sample_answers();
        endless[HEADER_BYTES + 9..HEADER_BYTES + 13].copy_from_slice(&[255; 4]);
        assert!(answers(&endless).is_err_and(|error| error.to_string().contains("cut short")));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut with_header = Vec::new();
            begin(&mut with_header, HEADER);
            with_header.extend_from_slice(&bytes);
            for bytes in [&bytes, &with_header] {
                let _ = calls(bytes).map(|(_, items)| items.count());
                let _ = answers(bytes).map(|(_, items)| items.count());
            }
        }

        #[test]
        fn a_changed_byte_harms_nobody(place in 0usize..200, value in any::<u8>()) {
            for mut bytes in [sample_calls(), sample_answers()] {
                let place = place % bytes.len();
                bytes[place] = value;
                let _ = calls(&bytes).map(|(_, items)| items.count());
                let _ = answers(&bytes).map(|(_, items)| items.count());
            }
        }
    }
}

//! Messages, records and ledgers as bytes: what is written is read back, golden bytes stay as they
//! are, and no bytes make a decoder panic or allocate by their word.

use ferrite_base::bytes::ReadFault;
use ferrite_base::{Epoch, GroupId, PartitionId};
use ferrite_multi::{Begin, InDoubt, Ledger, LotId, Outcome, Record, Resolution, Settled, ToAgent, ToSequencer};
use std::collections::{BTreeMap, BTreeSet};

fn lot(epoch: u64, number: u64) -> LotId {
    LotId { epoch: Epoch(epoch), number }
}

fn settled() -> Settled {
    Settled {
        earlier: Epoch(2),
        numbers: BTreeMap::from([(Epoch(2), 7), (Epoch(3), 1)]),
        open: BTreeSet::from([lot(1, 9), lot(2, 5)]),
    }
}

fn to_agents() -> Vec<ToAgent> {
    let begin = |prepare| Begin {
        lot: lot(3, 4),
        epoch: Epoch(6),
        partitions: vec![PartitionId(1), PartitionId(8)],
        work: b"work".to_vec(),
        prepare,
    };
    vec![
        ToAgent::Begin(begin(None)),
        ToAgent::Begin(begin(Some(vec![GroupId(0), GroupId(5)]))),
        ToAgent::Run { lot: lot(3, 4), work: Vec::new() },
        ToAgent::Prepare { lot: lot(3, 4), participants: vec![GroupId(2)] },
        ToAgent::Decide { lot: lot(3, 4), outcome: Outcome::Committed },
        ToAgent::Decide { lot: lot(3, 4), outcome: Outcome::Aborted },
        ToAgent::Release { lot: lot(3, 4) },
        ToAgent::NewOrder { epoch: Epoch(9) },
        ToAgent::Settled(settled()),
        ToAgent::Resolve { lot: lot(3, 4), asks: None },
        ToAgent::Resolve { lot: lot(3, 4), asks: Some(GroupId(1)) },
        ToAgent::Verdict { lot: lot(3, 4), of: GroupId(1), verdict: Resolution::Committed },
    ]
}

fn to_sequencers() -> Vec<ToSequencer> {
    vec![
        ToSequencer::Done { lot: lot(3, 4), ok: true, result: b"result".to_vec() },
        ToSequencer::Vote { lot: lot(3, 4), yes: false },
        ToSequencer::Settled { lot: lot(3, 4) },
        ToSequencer::Fresh { lot: lot(3, 4) },
        ToSequencer::Ordered { epoch: Epoch(3), in_doubt: vec![lot(1, 2), lot(2, 1)] },
        ToSequencer::Verdict { lot: lot(3, 4), verdict: Resolution::Prepared },
        ToSequencer::Verdict { lot: lot(3, 4), verdict: Resolution::Aborted },
    ]
}

fn records() -> Vec<Record<&'static [u8]>> {
    vec![
        Record::Prepared { lot: lot(3, 4), settled: settled(), participants: vec![GroupId(0)], redo: b"redo" },
        Record::Decided { lot: lot(3, 4), settled: settled(), outcome: Outcome::Committed },
        Record::Refused { lot: lot(3, 4), settled: Settled::default() },
        Record::Ordered { epoch: Epoch(3), settled: settled() },
        Record::Settled { settled: settled() },
    ]
}

fn ledger() -> Ledger<Vec<u8>> {
    let part = InDoubt { participants: vec![GroupId(0), GroupId(1)], redo: b"redo".to_vec() };
    let outcomes = BTreeMap::from([(lot(3, 2), Outcome::Aborted), (lot(3, 3), Outcome::Committed)]);
    Ledger::restore(Epoch(3), settled(), BTreeMap::from([(lot(3, 4), part)]), outcomes).expect("it holds together")
}

fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// Reads what was written, and nothing that is cut or longer.
fn check<T: PartialEq + std::fmt::Debug>(value: &T, bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, ReadFault>) {
    assert_eq!(decode(bytes).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        assert!(decode(&bytes[..end]).is_err(), "{value:?} cut to {end}");
    }
    assert!(decode(&[bytes, &[0]].concat()).is_err(), "{value:?} and a byte");
}

#[test]
fn what_is_written_is_read() {
    for message in to_agents() {
        check(&message, &bytes_of(|out| message.encode(out)), ToAgent::decode);
    }
    for message in to_sequencers() {
        check(&message, &bytes_of(|out| message.encode(out)), ToSequencer::decode);
    }
    for record in records() {
        let bytes = bytes_of(|out| record.encode(out));
        assert_eq!(Record::decode(record.kind(), &bytes), Ok(record.clone()));
        for end in 0..bytes.len() {
            assert!(Record::decode(record.kind(), &bytes[..end]).is_err());
        }
    }
    let ledger = ledger();
    check(&ledger, &bytes_of(|out| ledger.encode(out)), Ledger::decode);
}

#[test]
fn the_bytes_stay_as_they_are() {
    let message = ToAgent::Begin(Begin {
        lot: lot(3, 4),
        epoch: Epoch(6),
        partitions: vec![PartitionId(1)],
        work: b"w".to_vec(),
        prepare: Some(vec![GroupId(2)]),
    });
    let expected = [
        &[1][..],
        &[3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 1, 0, 0, 0],
        &[1, 1, 0, 0, 0, 2, 0, 0, 0],
        &[1, 0, 0, 0, b'w'],
    ]
    .concat();
    assert_eq!(bytes_of(|out| message.encode(out)), expected);
    let record: Record<&[u8]> =
        Record::Decided { lot: lot(3, 4), settled: Settled::default(), outcome: Outcome::Committed };
    let expected = [&[0; 8][..], &[0; 4], &[0; 4], &[3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0], &[1]].concat();
    assert_eq!((record.kind(), bytes_of(|out| record.encode(out))), (13, expected));
}

#[test]
fn hostile_bytes_are_errors() {
    let messages = to_agents().into_iter().map(|message| bytes_of(|out| message.encode(out)));
    let answers = to_sequencers().into_iter().map(|message| bytes_of(|out| message.encode(out)));
    let records = records().into_iter().map(|record| bytes_of(|out| record.encode(out)));
    let ledgers = std::iter::once(bytes_of(|out| ledger().encode(out)));
    let all: Vec<Vec<u8>> = messages.chain(answers).chain(records).chain(ledgers).collect();
    let mut state = 1u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below
    };
    for _ in 0..200_000 {
        let mut bytes = all[next(all.len())].clone();
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            bytes[at] = [0, 1, 0xff, next(256) as u8][next(4)];
        }
        bytes.truncate(1 + next(bytes.len()));
        let _ = ToAgent::decode(&bytes);
        let _ = ToSequencer::decode(&bytes);
        let _ = Ledger::decode(&bytes);
        for kind in 11..=17 {
            let _ = Record::decode(kind, &bytes);
        }
    }
}

#[test]
fn sets_have_one_form() {
    let mut bytes = bytes_of(|out| {
        ToAgent::Prepare { lot: lot(1, 1), participants: vec![GroupId(1), GroupId(2)] }.encode(out);
    });
    let groups = bytes.len() - 8;
    bytes.swap(groups, groups + 4);
    assert_eq!(ToAgent::decode(&bytes), Err(ReadFault::Malformed("participants are not in order")));
    bytes[groups] = 1;
    assert!(ToAgent::decode(&bytes).is_err(), "twice the same");
}

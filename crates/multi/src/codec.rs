//! Messages, records and ledgers as bytes (docs/format/lots.md). Little-endian; a decoder makes
//! nothing of a length that exceeds what is there, and never panics.

use crate::ledger::{InDoubt, Ledger};
use crate::lot::{Outcome, Record};
use crate::lot_id::LotId;
use crate::message::{Begin, Resolution, ToAgent, ToSequencer};
use crate::settled::Settled;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::limits::{CLUSTER_GROUPS_MAX, LOTS_OPEN_MAX, PARTITIONS_MAX};
use ferrite_base::{Epoch, GroupId, PartitionId};
use std::collections::BTreeMap;

/// Lots that are named one by one, at most: those that are open, of two sequencers.
const LOTS_MAX: usize = 2 * LOTS_OPEN_MAX * CLUSTER_GROUPS_MAX;

/// Kinds of records in a group's stream, beside those of docs/format/records.md.
pub const KIND_PREPARED: u8 = 12;
pub const KIND_DECIDED: u8 = 13;
pub const KIND_REFUSED: u8 = 14;
pub const KIND_ORDERED: u8 = 15;
pub const KIND_SETTLED: u8 = 16;

type Read<T> = Result<T, ReadFault>;

fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).expect("fewer than 2^32").to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_lot(out: &mut Vec<u8>, lot: LotId) {
    put_u64(out, lot.epoch.0);
    put_u64(out, lot.number);
}

fn read_lot(from: &mut Reader<'_>) -> Read<LotId> {
    Ok(LotId { epoch: Epoch(from.u64()?), number: from.u64()? })
}

fn put_settled(out: &mut Vec<u8>, settled: &Settled) {
    put_u64(out, settled.earlier.0);
    put_u32(out, settled.numbers.len());
    for (epoch, number) in &settled.numbers {
        put_lot(out, LotId { epoch: *epoch, number: *number });
    }
    put_u32(out, settled.open.len());
    settled.open.iter().for_each(|lot| put_lot(out, *lot));
}

fn read_settled(from: &mut Reader<'_>) -> Read<Settled> {
    let earlier = Epoch(from.u64()?);
    let numbers = read_lots(from)?.into_iter().map(|lot| (lot.epoch, lot.number));
    Ok(Settled { earlier, numbers: numbers.collect(), open: read_lots(from)?.into_iter().collect() })
}

fn read_lots(from: &mut Reader<'_>) -> Read<Vec<LotId>> {
    let lots = from.list(LOTS_MAX, read_lot)?;
    if !lots.is_sorted_by(|one, next| one < next) {
        return Err(ReadFault::Malformed("lots are not in order"));
    }
    Ok(lots)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn read_bytes<'b>(from: &mut Reader<'b>) -> Read<&'b [u8]> {
    let length = from.u32()?;
    from.bytes(length as usize)
}

fn put_groups(out: &mut Vec<u8>, groups: &[GroupId]) {
    put_u32(out, groups.len());
    groups.iter().for_each(|group| put_u32(out, group.0 as usize));
}

/// Ascending, so that a set has one form.
fn read_groups(from: &mut Reader<'_>) -> Read<Vec<GroupId>> {
    let groups = from.list(CLUSTER_GROUPS_MAX, |from| from.u32().map(GroupId))?;
    if groups.is_empty() || !groups.is_sorted_by(|one, next| one < next) {
        return Err(ReadFault::Malformed("participants are not in order"));
    }
    Ok(groups)
}

fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Aborted => 0,
        Outcome::Committed => 1,
    }
}

fn read_outcome(from: &mut Reader<'_>) -> Read<Outcome> {
    Ok(if from.flag()? { Outcome::Committed } else { Outcome::Aborted })
}

fn verdict_code(verdict: Resolution) -> u8 {
    match verdict {
        Resolution::Prepared => 0,
        Resolution::Aborted => 1,
        Resolution::Committed => 2,
    }
}

fn read_verdict(from: &mut Reader<'_>) -> Read<Resolution> {
    match from.u8()? {
        0 => Ok(Resolution::Prepared),
        1 => Ok(Resolution::Aborted),
        2 => Ok(Resolution::Committed),
        _ => Err(ReadFault::Malformed("a verdict is unknown")),
    }
}

impl ToAgent {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ToAgent::Begin(Begin { lot, epoch, partitions, work, prepare }) => {
                out.push(1);
                put_lot(out, *lot);
                put_u64(out, epoch.0);
                put_u32(out, partitions.len());
                partitions.iter().for_each(|partition| put_u32(out, partition.index()));
                out.push(u8::from(prepare.is_some()));
                if let Some(participants) = prepare {
                    put_groups(out, participants);
                }
                put_bytes(out, work);
            }
            ToAgent::Run { lot, work } => {
                out.push(2);
                put_lot(out, *lot);
                put_bytes(out, work);
            }
            ToAgent::Prepare { lot, participants } => {
                out.push(3);
                put_lot(out, *lot);
                put_groups(out, participants);
            }
            ToAgent::Decide { lot, outcome } => {
                out.push(4);
                put_lot(out, *lot);
                out.push(outcome_code(*outcome));
            }
            ToAgent::Release { lot } => {
                out.push(5);
                put_lot(out, *lot);
            }
            ToAgent::NewOrder { epoch } => {
                out.push(6);
                put_u64(out, epoch.0);
            }
            ToAgent::Settled(settled) => {
                out.push(7);
                put_settled(out, settled);
            }
            ToAgent::Resolve { lot, asks } => {
                out.push(8);
                put_lot(out, *lot);
                out.push(u8::from(asks.is_some()));
                put_u32(out, asks.unwrap_or_default().0 as usize);
            }
            ToAgent::Verdict { lot, of, verdict } => {
                out.push(9);
                put_lot(out, *lot);
                put_u32(out, of.0 as usize);
                out.push(verdict_code(*verdict));
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Read<ToAgent> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let message = match from.u8()? {
            1 => ToAgent::Begin(read_begin(from)?),
            2 => ToAgent::Run { lot: read_lot(from)?, work: read_bytes(from)?.to_vec() },
            3 => ToAgent::Prepare { lot: read_lot(from)?, participants: read_groups(from)? },
            4 => ToAgent::Decide { lot: read_lot(from)?, outcome: read_outcome(from)? },
            5 => ToAgent::Release { lot: read_lot(from)? },
            6 => ToAgent::NewOrder { epoch: Epoch(from.u64()?) },
            7 => ToAgent::Settled(read_settled(from)?),
            8 => {
                let lot = read_lot(from)?;
                let is_agent = from.flag()?;
                let group = GroupId(from.u32()?);
                ToAgent::Resolve { lot, asks: is_agent.then_some(group) }
            }
            9 => ToAgent::Verdict { lot: read_lot(from)?, of: GroupId(from.u32()?), verdict: read_verdict(from)? },
            _ => return Err(ReadFault::Malformed("a message to an agent is of an unknown kind")),
        };
        from.end()?;
        Ok(message)
    }
}

fn read_begin(from: &mut Reader<'_>) -> Read<Begin> {
    let lot = read_lot(from)?;
    let epoch = Epoch(from.u64()?);
    let partitions = from.list(PARTITIONS_MAX, |from| from.u32().map(PartitionId))?;
    // There may be none: work that concerns no rows.
    if !partitions.is_sorted_by(|one, next| one < next) {
        return Err(ReadFault::Malformed("partitions are not in order"));
    }
    let prepare = if from.flag()? { Some(read_groups(from)?) } else { None };
    Ok(Begin { lot, epoch, partitions, prepare, work: read_bytes(from)?.to_vec() })
}

impl ToSequencer {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ToSequencer::Done { lot, ok, result } => {
                out.push(1);
                put_lot(out, *lot);
                out.push(u8::from(*ok));
                put_bytes(out, result);
            }
            ToSequencer::Vote { lot, yes } => {
                out.push(2);
                put_lot(out, *lot);
                out.push(u8::from(*yes));
            }
            ToSequencer::Settled { lot } => {
                out.push(3);
                put_lot(out, *lot);
            }
            ToSequencer::Fresh { lot } => {
                out.push(4);
                put_lot(out, *lot);
            }
            ToSequencer::Ordered { epoch, in_doubt } => {
                out.push(5);
                put_u64(out, epoch.0);
                put_u32(out, in_doubt.len());
                in_doubt.iter().for_each(|lot| put_lot(out, *lot));
            }
            ToSequencer::Verdict { lot, verdict } => {
                out.push(6);
                put_lot(out, *lot);
                out.push(verdict_code(*verdict));
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Read<ToSequencer> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let message = match from.u8()? {
            1 => ToSequencer::Done { lot: read_lot(from)?, ok: from.flag()?, result: read_bytes(from)?.to_vec() },
            2 => ToSequencer::Vote { lot: read_lot(from)?, yes: from.flag()? },
            3 => ToSequencer::Settled { lot: read_lot(from)? },
            4 => ToSequencer::Fresh { lot: read_lot(from)? },
            5 => ToSequencer::Ordered { epoch: Epoch(from.u64()?), in_doubt: from.list(LOTS_MAX, read_lot)? },
            6 => ToSequencer::Verdict { lot: read_lot(from)?, verdict: read_verdict(from)? },
            _ => return Err(ReadFault::Malformed("a message to the sequencer is of an unknown kind")),
        };
        from.end()?;
        Ok(message)
    }
}

impl<R: AsRef<[u8]>> Record<R> {
    pub fn kind(&self) -> u8 {
        match self {
            Record::Prepared { .. } => KIND_PREPARED,
            Record::Decided { .. } => KIND_DECIDED,
            Record::Refused { .. } => KIND_REFUSED,
            Record::Ordered { .. } => KIND_ORDERED,
            Record::Settled { .. } => KIND_SETTLED,
        }
    }

    /// What follows the kind.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_settled(out, self.settled());
        match self {
            Record::Prepared { lot, participants, redo, .. } => {
                put_lot(out, *lot);
                put_groups(out, participants);
                put_bytes(out, redo.as_ref());
            }
            Record::Decided { lot, outcome, .. } => {
                put_lot(out, *lot);
                out.push(outcome_code(*outcome));
            }
            Record::Refused { lot, .. } => put_lot(out, *lot),
            Record::Ordered { epoch, .. } => put_u64(out, epoch.0),
            Record::Settled { .. } => {}
        }
    }
}

impl<'b> Record<&'b [u8]> {
    pub fn decode(kind: u8, bytes: &'b [u8]) -> Read<Record<&'b [u8]>> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let settled = read_settled(from)?;
        let record = match kind {
            KIND_PREPARED => Record::Prepared {
                settled,
                lot: read_lot(from)?,
                participants: read_groups(from)?,
                redo: read_bytes(from)?,
            },
            KIND_DECIDED => Record::Decided { settled, lot: read_lot(from)?, outcome: read_outcome(from)? },
            KIND_REFUSED => Record::Refused { settled, lot: read_lot(from)? },
            KIND_ORDERED => Record::Ordered { settled, epoch: Epoch(from.u64()?) },
            KIND_SETTLED => Record::Settled { settled },
            _ => return Err(ReadFault::Malformed("a record of a lot is of an unknown kind")),
        };
        from.end()?;
        Ok(record)
    }
}

impl Ledger<Vec<u8>> {
    /// For a snapshot's manifest, or a transfer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.order().0);
        put_settled(out, self.settled());
        put_u32(out, self.in_doubt().len());
        for (lot, part) in self.in_doubt() {
            put_lot(out, *lot);
            put_groups(out, &part.participants);
            put_bytes(out, &part.redo);
        }
        put_u32(out, self.outcomes().len());
        for (lot, outcome) in self.outcomes() {
            put_lot(out, *lot);
            out.push(outcome_code(*outcome));
        }
    }

    pub fn decode(bytes: &[u8]) -> Read<Ledger<Vec<u8>>> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let order = Epoch(from.u64()?);
        let settled = read_settled(from)?;
        let in_doubt = from.list(LOTS_MAX, |from| {
            let lot = read_lot(from)?;
            Ok((lot, InDoubt { participants: read_groups(from)?, redo: read_bytes(from)?.to_vec() }))
        })?;
        let outcomes = from.list(LOTS_MAX, |from| Ok((read_lot(from)?, read_outcome(from)?)))?;
        from.end()?;
        let in_order =
            in_doubt.is_sorted_by(|one, next| one.0 < next.0) && outcomes.is_sorted_by(|one, next| one.0 < next.0);
        if !in_order {
            return Err(ReadFault::Malformed("lots are not in order"));
        }
        let in_doubt: BTreeMap<_, _> = in_doubt.into_iter().collect();
        let outcomes: BTreeMap<_, _> = outcomes.into_iter().collect();
        Ledger::restore(order, settled, in_doubt, outcomes).map_err(|error| ReadFault::Malformed(error.0))
    }
}

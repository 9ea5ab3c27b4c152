//! Messages about lots between two nodes, as bytes (docs/format/peer.md, kind 10). They travel on
//! a lane of their own: on that of calls, what frees partitions would wait behind the calls that
//! wait for these partitions.
//!
//! Invariants: the first message on a connection says which groups its sender leads, and each
//! change of that is said before anything that follows from it. A decoder makes nothing of a length
//! that exceeds what is there, and never panics.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::limits::CLUSTER_GROUPS_MAX;
use ferrite_base::{Epoch, GroupId};
use ferrite_multi::{ToAgent, ToSequencer};

const KIND_LEADS: u8 = 1;
const KIND_TO_AGENT: u8 = 2;
const KIND_TO_SEQUENCER: u8 = 3;

/// A group that the sender leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Led {
    pub group: GroupId,
    /// In which its partitions take calls.
    pub epoch: Epoch,
    /// It is handed over: no more lots are to be begun with it.
    pub holds: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LotFrame {
    /// All that the sender leads, in ascending order.
    Leads(Vec<Led>),
    /// To the agent of a group. `epoch`: in which the sequencer knows that it leads; None: from
    /// another agent, to whichever leads.
    ToAgent { group: GroupId, epoch: Option<Epoch>, message: ToAgent },
    /// From the agent that leads the group in that epoch.
    ToSequencer { group: GroupId, epoch: Epoch, message: ToSequencer },
}

impl LotFrame {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            LotFrame::Leads(leads) => {
                out.push(KIND_LEADS);
                out.extend_from_slice(&(leads.len() as u32).to_le_bytes());
                for Led { group, epoch, holds } in leads {
                    put_group(&mut out, *group, *epoch);
                    out.push(u8::from(*holds));
                }
            }
            LotFrame::ToAgent { group, epoch, message } => {
                out.push(KIND_TO_AGENT);
                // No group is led in epoch 0.
                put_group(&mut out, *group, epoch.unwrap_or_default());
                message.encode(&mut out);
            }
            LotFrame::ToSequencer { group, epoch, message } => {
                out.push(KIND_TO_SEQUENCER);
                put_group(&mut out, *group, *epoch);
                message.encode(&mut out);
            }
        }
        out
    }

    /// # Errors
    /// No node writes this.
    pub fn decode(bytes: &[u8]) -> Result<LotFrame, ReadFault> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let kind = from.u8()?;
        if kind == KIND_LEADS {
            let leads = from.list(CLUSTER_GROUPS_MAX, |from| {
                let group = GroupId(from.u32()?);
                Ok(Led { group, epoch: Epoch(from.u64()?), holds: from.flag()? })
            })?;
            from.end()?;
            if !leads.is_sorted_by(|one, next| one.group < next.group) {
                return Err(ReadFault::Malformed("groups are not in order"));
            }
            return Ok(LotFrame::Leads(leads));
        }
        let group = GroupId(from.u32()?);
        let epoch = Epoch(from.u64()?);
        match kind {
            KIND_TO_AGENT => {
                let epoch = Some(epoch).filter(|epoch| *epoch != Epoch::default());
                Ok(LotFrame::ToAgent { group, epoch, message: ToAgent::decode(from.remainder())? })
            }
            KIND_TO_SEQUENCER => {
                Ok(LotFrame::ToSequencer { group, epoch, message: ToSequencer::decode(from.remainder())? })
            }
            _ => Err(ReadFault::Malformed("a message about lots is of an unknown kind")),
        }
    }
}

fn put_group(out: &mut Vec<u8>, group: GroupId, epoch: Epoch) {
    out.extend_from_slice(&group.0.to_le_bytes());
    out.extend_from_slice(&epoch.0.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_multi::{LotId, Outcome};

    fn frames() -> Vec<LotFrame> {
        let lot = LotId { epoch: Epoch(5), number: 3 };
        let led = |group, holds| Led { group: GroupId(group), epoch: Epoch(9), holds };
        let decide = ToAgent::Decide { lot, outcome: Outcome::Committed };
        vec![
            LotFrame::Leads(Vec::new()),
            LotFrame::Leads(vec![led(0, false), led(7, true)]),
            LotFrame::ToAgent { group: GroupId(2), epoch: Some(Epoch(6)), message: decide },
            LotFrame::ToAgent { group: GroupId(2), epoch: None, message: ToAgent::Resolve { lot, asks: None } },
            LotFrame::ToSequencer {
                group: GroupId(1),
                epoch: Epoch(4),
                message: ToSequencer::Done { lot, ok: true, result: vec![1, 2] },
            },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for frame in frames() {
            let bytes = frame.encode();
            assert_eq!(LotFrame::decode(&bytes), Ok(frame));
            assert!((0..bytes.len()).all(|end| LotFrame::decode(&bytes[..end]).is_err()));
        }
    }

    #[test]
    fn the_bytes_stay_as_they_are() {
        let lead = [1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(frames()[1].encode(), lead);
        let decide = [&[2, 2, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 4, 5][..], &[0; 7], &[3], &[0; 7], &[1]].concat();
        assert_eq!(frames()[2].encode(), decide);
    }

    #[test]
    fn hostile_bytes_are_errors() {
        for start in frames() {
            let start = start.encode();
            with_changed_bytes(&start, |bytes| drop(LotFrame::decode(bytes)));
        }
        let disordered = LotFrame::Leads(vec![
            Led { group: GroupId(3), epoch: Epoch(1), holds: false },
            Led { group: GroupId(3), epoch: Epoch(1), holds: false },
        ]);
        assert!(LotFrame::decode(&disordered.encode()).is_err());
        assert!(LotFrame::decode(&[9; 40]).is_err() && LotFrame::decode(&[]).is_err());
    }

    /// Every byte of it replaced by a few others, and cut there.
    fn with_changed_bytes(bytes: &[u8], check: impl Fn(&[u8])) {
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 127, 128, 255] {
                let mut changed = bytes.to_vec();
                changed[at] = value;
                check(&changed);
                check(&changed[..=at]);
            }
        }
    }
}

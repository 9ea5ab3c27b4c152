//! What a node reports of each group beside its health: behind that, in the same message.
//!
//! The first group's is part of the health itself, as it was where clusters had one group; so the
//! message of such a cluster is as it was.

use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::{Epoch, GroupId, Position};
use ferrite_cluster::FailoverPhase;
use std::collections::BTreeMap;

/// Where a health ends in its message: the flags, and what the later releases of one group added.
pub const HEALTH_BYTES: usize = 1 + 8 + 4 + 1 + 9;

/// The health of one group, as one node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupHealth {
    /// The node is a member of the group's configuration of this epoch, and knows that all members
    /// have what is committed.
    pub in_step: Option<Epoch>,
    /// It was chosen to lead the group in this epoch, and has come this far.
    pub phase: Option<(Epoch, FailoverPhase)>,
    /// Where the node's copy ends: epoch and position of the last entry. Zeros: it has none.
    pub end: (Epoch, Position),
}

/// Of groups other than the first.
pub type GroupHealths = BTreeMap<GroupId, GroupHealth>;

/// Appends it to a health.
pub fn encode(groups: &GroupHealths, out: &mut Vec<u8>) {
    for (group, health) in groups {
        let (epoch, phase) = health.phase.map_or((0, 0), |(epoch, phase)| (epoch.0, phase.code()));
        out.extend_from_slice(&group.0.to_le_bytes());
        out.extend_from_slice(&health.in_step.map_or(0, |epoch| epoch.0).to_le_bytes());
        out.extend_from_slice(&epoch.to_le_bytes());
        out.push(phase);
        out.extend_from_slice(&health.end.0.0.to_le_bytes());
        out.extend_from_slice(&health.end.1.0.to_le_bytes());
    }
}

/// What follows the health in its message, as far as it can be read.
pub fn decode(message: &[u8]) -> GroupHealths {
    let mut rest: Reader<'_, ReadFault> = Reader::new(message.get(HEALTH_BYTES..).unwrap_or_default());
    let mut groups = GroupHealths::new();
    while let Ok((group, health)) = decode_one(&mut rest) {
        groups.insert(group, health);
    }
    groups
}

fn decode_one(rest: &mut Reader<'_, ReadFault>) -> Result<(GroupId, GroupHealth), ReadFault> {
    let group = GroupId(rest.u32()?);
    let in_step = Some(Epoch(rest.u64()?)).filter(|epoch| epoch.0 > 0);
    let epoch = Epoch(rest.u64()?);
    let phase = FailoverPhase::of_code(rest.u8()?).map(|phase| (epoch, phase));
    let end = (Epoch(rest.u64()?), Position(rest.u64()?));
    Ok((group, GroupHealth { in_step, phase, end }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;

    #[test]
    fn groups_follow_the_health_and_one_without_others_is_as_it_was() {
        let health = Health { votes: true, ..Health::default() };
        let mut message = health.encode();
        assert_eq!((message.len(), decode(&message)), (HEALTH_BYTES, GroupHealths::new()));
        encode(&GroupHealths::new(), &mut message);
        assert_eq!(message, health.encode());
        let phase = Some((Epoch(8), FailoverPhase::ALL[0]));
        let leads = GroupHealth { in_step: Some(Epoch(7)), phase, end: (Epoch(8), Position(1_000)) };
        let groups = GroupHealths::from([(GroupId(1), leads), (GroupId(9), GroupHealth::default())]);
        encode(&groups, &mut message);
        assert_eq!((Health::decode(&message), decode(&message)), (Some(health), groups));
        for length in 0..message.len() {
            assert!(decode(&message[..length]).len() < 2, "what is cut off is not there");
        }
    }
}

//! A read of several groups is answered when every one of them has confirmed what it showed.

use ferrite_base::{Epoch, GroupId, PartitionId};
use ferrite_multi::{LotId, LotPart, Sequencer, SequencerEffect, ToSequencer};

const GROUPS: [GroupId; 2] = [GroupId(0), GroupId(1)];

/// A sequencer with a lot that both groups have run, and that is released.
fn released() -> (Sequencer, LotId) {
    let epoch = Epoch(1);
    let mut sequencer = Sequencer::new(epoch, GROUPS);
    for group in GROUPS {
        sequencer.led(group, epoch);
        sequencer.receive(group, epoch, ToSequencer::Ordered { epoch, in_doubt: Vec::new() });
    }
    let part = |group: GroupId| LotPart { group, partitions: vec![PartitionId(group.0)], work: Vec::new() };
    let lot = sequencer.begin(GROUPS.map(part).into(), false).expect("all groups are led");
    for group in GROUPS {
        sequencer.receive(group, epoch, ToSequencer::Done { lot, ok: true, result: Vec::new() });
    }
    assert!(sequencer.release(lot));
    sequencer.effects();
    (sequencer, lot)
}

fn answers(sequencer: &mut Sequencer) -> Vec<bool> {
    let is_fresh = |effect| match effect {
        SequencerEffect::Read { is_fresh, .. } => Some(is_fresh),
        _ => None,
    };
    sequencer.effects().into_iter().filter_map(is_fresh).collect()
}

#[test]
fn all_groups_confirm_before_the_answer() {
    let (mut sequencer, lot) = released();
    sequencer.receive(GROUPS[1], Epoch(1), ToSequencer::Fresh { lot });
    assert_eq!(answers(&mut sequencer), [], "the other group may have been deposed when it showed its rows");
    sequencer.receive(GROUPS[0], Epoch(1), ToSequencer::Fresh { lot });
    assert_eq!(answers(&mut sequencer), [true]);
}

#[test]
fn a_group_that_is_lost_before_it_confirms_makes_the_read_stale() {
    let (mut sequencer, lot) = released();
    sequencer.receive(GROUPS[1], Epoch(1), ToSequencer::Fresh { lot });
    sequencer.lost(GROUPS[0]);
    assert_eq!(answers(&mut sequencer), [false]);
}

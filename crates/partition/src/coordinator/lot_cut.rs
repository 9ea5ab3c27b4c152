//! The moment of a backup of all groups: a lot that only reads, for which every group takes
//! snapshots of its stores while all of them are held (docs/decisions/0128).
//!
//! Invariants:
//! - what groups take for one lot shows no transaction over groups in part: each group holds its
//!   partitions from before the first has taken them until the last has;
//! - it counts when the lot has succeeded: then all of it is committed, and stays so, whoever leads
//!   the group later.
//!
//! A group keeps what it took last, until it is asked for it, until another node leads it, and no
//! longer than a minute: a node that asks no more may have ended. A lot that is begun again has
//! another time, so that what an earlier attempt took is not taken for it.

use super::Coordinator;
use super::lot_hold::Hold;
use crate::event::GroupCut;
use crate::lots::LotCall;
use crate::thread::RECORD_EPOCH;
use crossbeam_channel::Sender;
use ferrite_base::{UserError, UserResult};
use std::sync::Arc;

/// How long what was taken is kept for the node that has asked for it.
const KEPT_NANOS: u64 = 60_000_000_000;

/// What the lot of that name has taken.
pub(super) struct KeptCut {
    name: String,
    at: u64,
    cut: GroupCut,
}

impl KeptCut {
    /// When it is not kept any more.
    pub(super) fn dropped_at(&self) -> u64 {
        self.at.saturating_add(KEPT_NANOS)
    }
}

impl Coordinator {
    /// Takes what the stores show while the lot holds them. No table is answered.
    pub(super) fn cut_for_lot(
        &mut self,
        hold: &mut Hold,
        call: &LotCall,
        now: i64,
    ) -> UserResult<Vec<Option<Vec<u8>>>> {
        if hold.borrowed.iter().any(Option::is_none) {
            return Err(UserError::internal("a backup holds all partitions"));
        }
        self.require_equal()?;
        let mut stores = Vec::new();
        let mut places = Vec::new();
        for (store, position) in hold.borrowed.iter_mut().flatten() {
            stores.push(store.snapshot(|_| true));
            places.push((RECORD_EPOCH, position.sequence));
        }
        assert_eq!(stores.len(), self.of.len(), "each partition of the group is in it");
        let catalog = Arc::clone(&self.compiled.catalog);
        let cut = GroupCut {
            partitions: self.of.ids().collect(),
            stores,
            places,
            catalog,
            history: self.history.clone(),
            time: now,
        };
        let kept = KeptCut { name: call.program.text().to_owned(), at: self.clock.monotonic_nanos(), cut };
        self.lots.as_mut().expect("a lot runs").kept_cut = Some(Box::new(kept));
        Ok(Vec::new())
    }

    /// Gives away what the lot of that name has taken; nothing where that is not here.
    pub(super) fn give_cut(&mut self, name: &str, to: &Sender<GroupCut>) {
        let kept = self.lots.as_mut().and_then(|side| side.kept_cut.take_if(|kept| kept.name == name));
        if let Some(kept) = kept {
            // The caller may have given up waiting.
            let _ = to.send(kept.cut);
        }
    }

    /// What is not asked for any more keeps pages of all stores.
    pub(super) fn drop_old_cut(&mut self) {
        let Some(side) = self.lots.as_mut().filter(|side| side.kept_cut.is_some()) else { return };
        let now = self.clock.monotonic_nanos();
        side.kept_cut.take_if(|kept| kept.dropped_at() <= now);
    }

    /// This node leads the group no longer.
    pub(super) fn drop_cut(&mut self) {
        if let Some(side) = &mut self.lots {
            side.kept_cut = None;
        }
    }
}

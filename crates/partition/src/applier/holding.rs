//! What an applier needs all stores for: a schema change, a snapshot of the copy, or hashes of its
//! tables. It borrows them after all that was dealt out, as the coordinator does, and what the
//! tables hold is compared with the leader's.

use super::Applier;
use crate::compiled::Compiled;
use crate::contents::{Checking, ContentCut};
use crate::delivery::{CopyFault, CopySnapshot};
use crate::event::{Event, Loan};
use crate::judge::ReplayError;
use crate::schema::{self, Planned};
use crossbeam_channel::Sender;
use ferrite_base::{Epoch, Position};
use ferrite_table::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The stores are here, or on their way.
pub(super) struct Holding {
    stores: Vec<Option<Loan>>,
    purpose: Purpose,
}

pub(super) enum Purpose {
    Schema {
        planned: Planned,
        time: i64,
        compiled: Arc<Compiled>,
    },
    Snapshot(Sender<CopySnapshot>),
    /// The entry that is a mark.
    Contents((Epoch, Position)),
}

impl Applier {
    /// Borrows all stores, after all that was dealt out so far.
    pub(super) fn hold(&mut self, purpose: Purpose) {
        self.send_all();
        for lane in &self.lanes {
            let event = Event::Lend { to: self.loans.0.clone(), back: lane.back.1.clone() };
            lane.inbox.send(event).expect("partitions outlive their applier");
        }
        self.holding = Some(Holding { stores: self.lanes.iter().map(|_| None).collect(), purpose });
    }

    /// A store has come; with the last one, what they were borrowed for is done.
    pub(super) fn lent(&mut self, loan: Loan) {
        let Some(mut holding) = self.holding.take() else { panic!("a store comes when it was asked for") };
        assert_eq!(loan.partition, loan.store.partition(), "a partition lends its own store");
        let slot = &mut holding.stores[self.judge.place(loan.partition)];
        assert!(slot.is_none(), "a store comes once");
        *slot = Some(loan);
        if holding.stores.iter().any(Option::is_none) {
            self.holding = Some(holding);
            return;
        }
        let Holding { stores, purpose } = holding;
        let mut loans: Vec<Loan> = stores.into_iter().flatten().collect();
        if self.is_up_to_date(&loans) {
            self.carry_out(purpose, &mut loans);
        }
        for (lane, loan) in self.lanes.iter().zip(loans) {
            lane.back.0.send(loan).unwrap_or_else(|_| panic!("a partition waits for its store"));
        }
        self.publish_applied();
    }

    /// Whether the stores show all that was dealt out. One that does not has reported why, before
    /// it was lent.
    fn is_up_to_date(&mut self, loans: &[Loan]) -> bool {
        let mut lags = loans.iter().zip(&self.judge.sequences).filter(|(loan, expected)| loan.sequence != **expected);
        let Some((loan, expected)) = lags.next() else { return true };
        let partition = loan.partition;
        let expected = *expected;
        let found = loan.sequence;
        while let Ok(delivery) = self.inbox.try_recv() {
            self.handle(delivery);
        }
        let entry = Position(self.dealt.0 + 1);
        self.fail(CopyFault { entry, reason: ReplayError::Sequence { partition, expected, found } });
        false
    }

    fn carry_out(&mut self, purpose: Purpose, loans: &mut Vec<Loan>) {
        match purpose {
            Purpose::Snapshot(to) => {
                let snapshot = CopySnapshot {
                    place: self.place(),
                    stores: loans.iter_mut().map(|loan| loan.store.snapshot(|_| true)).collect(),
                    sequences: self.judge.sequences.clone(),
                    catalog: Arc::clone(&self.compiled.catalog),
                    history: self.judge.history.clone(),
                    lots: self.judge.lots.clone(),
                };
                // The caller may have given up waiting.
                let _ = to.send(snapshot);
            }
            Purpose::Contents(mark) => {
                let stores = loans.iter_mut().map(|loan| loan.store.snapshot(|_| true)).collect();
                self.checking = Some(Checking { mark, own: None, said: None });
                (self.events.contents)(ContentCut { mark, stores, back: self.intake.sender.clone() });
            }
            Purpose::Schema { planned, time, compiled } => {
                let (mut stores, others): (Vec<Store>, Vec<_>) = std::mem::take(loans)
                    .into_iter()
                    .map(|Loan { partition, store, sequence, compiled }| (store, (partition, sequence, compiled)))
                    .unzip();
                let applied = schema::apply(&mut stores, &planned, time);
                let back = |(store, (partition, sequence, before))| Loan {
                    partition,
                    store,
                    sequence,
                    compiled: if applied.is_ok() { Arc::clone(&compiled) } else { before },
                };
                *loans = stores.into_iter().zip(others).map(back).collect();
                match applied {
                    Ok(()) => {
                        self.compiled = Arc::clone(&compiled);
                        (self.events.publish)(compiled);
                    }
                    Err(error) => {
                        let reason = ReplayError::Schema { version: planned.catalog.version.0, error };
                        self.fail(CopyFault { entry: Position(self.dealt.0 + 1), reason });
                    }
                }
            }
        }
    }

    /// Something is known of what the tables hold, here or at the leader.
    pub(super) fn compare(&mut self, note: impl FnOnce(&mut Checking) -> Option<()>) {
        let Some(checking) = &mut self.checking else { return };
        note(checking);
        let Checking { mark: (_, entry), own: Some(own), said: Some(said) } = checking else { return };
        let entry = *entry;
        let difference = own.first_difference(said);
        self.checking = None;
        let Some(table) = difference else {
            self.intake.compared.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let known = self.compiled.catalog.table(table);
        let table = known.map_or_else(|| table.to_string(), |known| known.name.clone());
        self.fail(CopyFault { entry, reason: ReplayError::Contents { table } });
    }
}

//! A partition's store on its way to a borrower and back. The borrower has it between two
//! transactions, and gives it back at rest.

use super::Partition;
use crate::event::Loan;
use crate::predictor::PrefetchPredictor;
use crossbeam_channel::Sender;
use std::sync::Arc;

impl Partition {
    /// Gives the store to the coordinator, which outlives its transactions.
    pub(super) fn lend(&mut self, to: &Sender<Loan>) {
        let store = self.store.take().expect("the store is lent to one borrower at a time");
        assert!(store.is_committed(), "a store is lent between two transactions");
        let loan = Loan { partition: self.id, store, sequence: self.sequence, compiled: Arc::clone(&self.compiled) };
        to.send(loan).unwrap_or_else(|_| panic!("the coordinator waits for the store of partition {}", self.id));
    }

    pub(super) fn take_back(&mut self, loan: Loan) {
        assert!(self.store.is_none(), "the store comes back to where it is missing");
        assert_eq!((loan.partition, loan.store.partition()), (self.id, self.id), "a store comes home");
        assert!(loan.store.is_committed(), "a store comes back between two transactions");
        assert!(loan.sequence >= self.sequence, "a history does not go back");
        self.store = Some(loan.store);
        if !Arc::ptr_eq(&self.compiled, &loan.compiled) {
            self.counters.catalog_changes(&self.compiled);
            self.predictor = PrefetchPredictor::new(&loan.compiled);
            self.compiled = loan.compiled;
            self.executor.catalog_changed();
        }
        // The coordinator has informed the gate.
        self.sequence = loan.sequence;
    }
}

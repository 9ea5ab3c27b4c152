//! Schema changes of all groups, each a lot of its own (docs/decisions/0127).
//!
//! Before it, every group binds and compiles the change while no store is held, so that a change
//! that cannot be made stops nobody. Then all groups hold all their stores, make the change, and
//! prepare it: one that cannot says why, and none has made it. The change names what was checked: a
//! group that has not, or not last, such as under a new leader, is asked to check it again.
//!
//! Invariants:
//! - a change is made when all that the stores show is committed, so that no undo crosses it;
//! - stores go back with it when the entry that says that it counts is committed, or without it;
//! - the group's part is one record, of the change, and whatever makes the part of it makes the
//!   change.

use super::Coordinator;
use super::lending::with_stores;
use super::lot_hold::{HeldChange, Hold, Leading, SettlingChange, UnsettledStores};
use super::schema_change::{Checked, swapped_rows};
use crate::cancel::CallId;
use crate::event::Loan;
use crate::lots::{self, FailureVerdict, LotAnswer, LotCall, LotFailure, LotProgram, LotResult};
use crate::record;
use crate::schema;
use crate::schema_time::SchemaTime;
use ferrite_base::{SqlLimits, UserError, UserResult};
use ferrite_group::NotCommitted;
use ferrite_multi::LotId;
use ferrite_notice::Notice;
use ferrite_table::Store;
use ferrite_wire::table;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

impl Coordinator {
    /// Whether the group can make a change. It is kept compiled for that, under its name.
    pub(super) fn check_change(&mut self, call: &LotCall, text: &str) -> UserResult<()> {
        self.require_equal()?;
        let time = self.change_time(call);
        let checked = self.check(text, &sql_limits(call)?, &time, true)?;
        self.checked = Some(Box::new((lots::change_name(text), checked)));
        Ok(())
    }

    fn change_time(&self, call: &LotCall) -> Rc<SchemaTime> {
        let time_max = Some(time_max(call));
        SchemaTime::begin(&self.clock, time_max, self.long_reads.cancellations(), CallId::default())
    }

    /// Begins a change for the lot that is held; [`Coordinator::make_change`] continues.
    pub(super) fn begin_change_of_lot(&mut self, leading: &mut Leading, lot: LotId, call: &LotCall, now: i64) {
        // What comes later in the stream is not earlier.
        self.log.raise_time(now);
        let hold = leading.hold.as_ref().filter(|hold| hold.lot == lot).expect("what runs is held");
        match self.change_of_lot(hold, call, now) {
            Ok(settling) => leading.settling = Some(Box::new(settling)),
            Err(failure) => leading.failed = Some((lot, failed(failure))),
        }
        self.when_shown(leading, lot);
    }

    fn change_of_lot(&mut self, hold: &Hold, call: &LotCall, now: i64) -> Result<SettlingChange, LotFailure> {
        self.admit_lot_call(call)?;
        let of_user = |error: UserError| LotFailure::of(&error);
        self.require_equal().map_err(of_user)?;
        let time = self.change_time(call);
        let name = call.program.text();
        let Some(checked) = self.checked.take_if(|checked| checked.0 == name) else {
            let error = UserError::not_started("the group has another leader than the one that checked the change");
            return Err(LotFailure { verdict: FailureVerdict::LookUp, ..LotFailure::of(&error) });
        };
        let checked = checked.1;
        let next = self.compiled.catalog.version.0 + 1;
        assert_eq!(checked.compiled.catalog.version.0, next, "what was checked is the next change");
        if hold.borrowed.iter().any(Option::is_none) {
            return Err(of_user(UserError::internal("a schema change holds all partitions")));
        }
        self.check_rows(&hold.borrowed, &checked).map_err(of_user)?;
        Ok(SettlingChange {
            lot: hold.lot,
            checked,
            time_micros: now,
            time_max: time_max(call),
            taken: time.elapsed(),
            is_first: call.is_first,
        })
    }

    /// All that the stores showed is committed: they follow the change.
    pub(super) fn make_change(&mut self, leading: &mut Leading, settling: SettlingChange) {
        let lot = settling.lot;
        // It has ended meanwhile.
        let Some(hold) = leading.hold.as_mut().filter(|hold| hold.lot == lot) else { return };
        let made = self.follow_change(hold, settling);
        let (ok, result) = match made {
            Ok(tables) => (true, LotResult(vec![LotAnswer::Ran(tables)]).encode()),
            Err(error) => (false, failed(LotFailure::of(&error))),
        };
        leading.agent.ran(lot, ok, result, self.clock.monotonic_nanos());
    }

    fn follow_change(&mut self, hold: &mut Hold, settling: SettlingChange) -> UserResult<Vec<Option<Vec<u8>>>> {
        let SettlingChange { checked, time_micros, time_max, taken, is_first, .. } = settling;
        // Another leader may have committed what this one only wrote.
        if !self.are_committed(&mut hold.borrowed) {
            return Err(NotCommitted::Deposed.unavailable());
        }
        let cancellations = self.long_reads.cancellations();
        let time = SchemaTime::resume(&self.clock, Some(time_max), cancellations, CallId::default(), taken);
        let Checked { planned, remarks, compiled, text } = checked;
        let (undo, rows) = with_stores(&mut hold.borrowed, |stores| {
            let rows = swapped_rows(stores, &planned, is_first);
            let undo = schema::apply_watched(stores, &planned, time_micros, &time.watcher())?;
            UserResult::Ok((undo, rows))
        })?;
        record::write_schema(&mut hold.redo, compiled.catalog.version.0, time_micros, &text);
        hold.change = Some(HeldChange { compiled, time_micros, text, undo });
        let mut words = None;
        if is_first {
            remarks.iter().cloned().for_each(|warning| ferrite_io::notify(Notice::SchemaWarning { warning }));
            let warnings: Vec<String> = planned.warnings.into_iter().chain(remarks).collect();
            words = (!warnings.is_empty()).then(|| warnings.join("\n").into_bytes());
        }
        let mut answer = Vec::new();
        match rows {
            Some(rows) => table::write_modified_tuples(&mut answer, rows),
            None => table::write_status_table(&mut answer, 0),
        }
        let is_swap = rows.is_some();
        let answer = Some(answer);
        Ok(if is_swap { vec![None, answer, words] } else { vec![answer, None, words] })
    }

    /// The change of that lot counts, and the stream says so.
    pub(super) fn adopt_change_of_lot(&mut self, mut hold: Hold) {
        let HeldChange { compiled, time_micros, text, undo } = hold.change.take().expect("it is one");
        drop(undo);
        self.adopt(compiled, time_micros, &text);
        self.give_back(hold.borrowed);
    }

    /// Makes the change of an earlier leader's part, which counts.
    pub(super) fn make_change_of_part(&mut self, unsettled: &mut UnsettledStores, version: u64, time: i64, text: &str) {
        let impossible = |error: UserError| -> ! {
            panic!(
                "the schema change to version {version}, which the group has committed, cannot be made here: {error}"
            )
        };
        let Checked { planned, compiled, .. } = self.check_logged(text).unwrap_or_else(|error| impossible(error));
        assert_eq!(compiled.catalog.version.0, version, "a part continues the group's schema");
        let mut stores: Vec<Store> = Vec::new();
        let mut rest = Vec::new();
        for Loan { partition, store, sequence, .. } in unsettled.loans.drain(..) {
            stores.push(store);
            rest.push((partition, sequence));
        }
        schema::apply(&mut stores, &planned, time).unwrap_or_else(|error| impossible(error));
        let loan =
            |(store, (partition, sequence))| Loan { partition, store, sequence, compiled: Arc::clone(&compiled) };
        unsettled.loans = stores.into_iter().zip(rest).map(loan).collect();
        self.adopt(compiled, time, text);
    }
}

/// Whether a lot is to change the schema.
pub(super) fn is_change(call: &LotCall) -> bool {
    matches!(call.program, LotProgram::Change(_))
}

fn failed(failure: LotFailure) -> Vec<u8> {
    LotResult(vec![LotAnswer::Failed(failure)]).encode()
}

fn time_max(call: &LotCall) -> Duration {
    Duration::from_millis(call.time_max_millis.into())
}

fn sql_limits(call: &LotCall) -> UserResult<SqlLimits> {
    lots::limits_of(&call.parameters).map_err(|_| UserError::internal("the limits of a schema change are malformed"))
}

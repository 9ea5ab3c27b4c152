//! What a lot has a group run: calls, each as one transaction of the partitions that are held.

use super::Coordinator;
use super::lot_hold::Hold;
use crate::cancel::CallId;
use crate::counters::CallOutcome;
use crate::execute::{GroupShares, Request};
use crate::lots::{FailureVerdict, LotAnswer, LotCall, LotFailure, LotProgram, LotResult, LotWork};
use crate::record::{self, Part};
use crate::thread::RECORD_EPOCH;
use ferrite_base::{Sequence, UserError, UserResult};
use ferrite_plan::Program;
use ferrite_table::Store;
use ferrite_wire::Parameters;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Ad hoc texts that are kept compiled.
const TEXTS_MAX: usize = 256;

/// Programs of ad hoc texts, of the catalog that is in force.
#[derive(Default)]
pub(super) struct LotTexts(HashMap<String, Arc<Program>>);

impl LotTexts {
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Coordinator {
    /// Runs the calls in turn, up to the first that fails.
    pub(super) fn run_lot(&mut self, hold: &mut Hold, work: &LotWork) -> LotResult {
        let LotWork { time_micros, answers_max, calls } = work;
        let time_micros = *time_micros;
        // What comes later in the stream is not earlier.
        self.log.raise_time(time_micros);
        let mut answers = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        for call in calls {
            match self.run_lot_call(hold, call, time_micros) {
                Ok(tables) => {
                    bytes += tables.iter().flatten().map(Vec::len).sum::<usize>();
                    if bytes > *answers_max as usize {
                        answers.push(LotAnswer::Failed(too_large()));
                        break;
                    }
                    answers.push(LotAnswer::Ran(tables));
                }
                Err(failure) => {
                    let failure = self.without_earlier_calls(hold, call, time_micros, failure);
                    answers.push(LotAnswer::Failed(failure));
                    break;
                }
            }
        }
        LotResult(answers)
    }

    /// Why a call fails on what was there before the lot: what earlier calls of the lot have
    /// changed is undone with it, and no caller may hear of that. One that does not fail then is to
    /// be run again, before any others.
    fn without_earlier_calls(&mut self, hold: &mut Hold, call: &LotCall, now: i64, failure: LotFailure) -> LotFailure {
        if hold.redo.is_empty() || failure.verdict != FailureVerdict::Fails {
            return failure;
        }
        hold.step_back();
        match self.run_lot_call(hold, call, now) {
            Err(alone) => alone,
            Ok(_) => LotFailure { verdict: FailureVerdict::First, ..failure },
        }
    }

    fn run_lot_call(&mut self, hold: &mut Hold, call: &LotCall, now: i64) -> Result<Vec<Option<Vec<u8>>>, LotFailure> {
        self.admit_lot_call(call)?;
        let failed = |error: UserError| LotFailure::of(&error);
        let program = match &call.program {
            LotProgram::Procedure(name) | LotProgram::Load(name) => {
                self.compiled.require(name).map(|id| Arc::clone(self.compiled.program(id)))
            }
            LotProgram::Text(text) => self.lot_program(call, text),
            LotProgram::Check(text) => return self.check_change(call, text).map(|()| Vec::new()).map_err(failed),
            LotProgram::Equalize(_) => return self.equalize(hold, &call.parameters).map_err(failed),
            LotProgram::Cut(_) => return self.cut_for_lot(hold, call, now).map_err(failed),
            LotProgram::Change(_) => Err(UserError::internal("a schema change is a lot of its own")),
        };
        let program = program.map_err(failed)?;
        // It is no call of a client here, and ends when the group falls.
        self.executor.begin(CallId::default()).map_err(failed)?;
        // One that comes first is bounded as any transaction is, by what executes it.
        let has_earlier = !hold.redo.is_empty();
        let mut held = hold.borrowed.iter().flatten();
        let lot_bytes_max = held.next().map_or(usize::MAX, |(store, _)| store.transaction_bytes_max());
        let counted = self.counters.begin_program(&program, &self.compiled);
        let result = self.with_held_stores(hold, |coordinator, stores| {
            if stores.is_empty() {
                return Err(UserError::internal("a lot holds no partition of the group"));
            }
            let parameters = &call.parameters[..];
            let drop_first_parameter = false;
            let request =
                Request { program: &program, parameters, drop_first_parameter, handle: 0, transaction_time: now };
            let Coordinator { of, executor, .. } = coordinator;
            let shares = GroupShares::new(of, call.is_first);
            let own_time = (call.time_max_millis > 0).then(|| Duration::from_millis(call.time_max_millis.into()));
            match &call.program {
                LotProgram::Load(_) => executor.load_in_group(stores, &request, &shares, own_time),
                _ => executor.call_shares(stores, &request, &shares, own_time),
            }
        });
        let outcome = if result.is_ok() { CallOutcome::Committed } else { CallOutcome::RolledBack };
        let bytes: usize = result.iter().flatten().flatten().map(Vec::len).sum();
        self.counters.end(counted, Some(outcome), call.parameters.len(), bytes);
        if has_earlier && hold.redo.len() > lot_bytes_max {
            return Err(too_many_changes(lot_bytes_max));
        }
        result.map_err(failed)
    }

    /// Lets the stores that are held be changed, as one transaction. What has failed has changed
    /// nothing.
    pub(super) fn with_held_stores<T>(
        &mut self,
        hold: &mut Hold,
        change: impl FnOnce(&mut Coordinator, &mut [Store]) -> UserResult<T>,
    ) -> UserResult<T> {
        let mut stores: Vec<Store> = Vec::new();
        let mut positions = Vec::new();
        for (store, position) in hold.borrowed.iter_mut().filter_map(Option::take) {
            stores.push(store);
            positions.push(position);
        }
        let result = change(self, &mut stores);
        self.ticket = Sequence(self.ticket.0 + 1);
        let mut parts = Vec::new();
        for (store, position) in stores.iter().zip(&mut positions).filter(|(store, _)| !store.redo().is_empty()) {
            assert!(result.is_ok(), "a transaction that was rolled back leaves no redo");
            position.sequence = Sequence(position.sequence.0 + 1);
            let partition = position.partition;
            parts.push(Part { partition, epoch: RECORD_EPOCH, sequence: position.sequence, changes: store.redo() });
        }
        if !parts.is_empty() {
            record::write_multi(&mut hold.redo, self.ticket.0, &parts);
        }
        for (mut store, position) in stores.into_iter().zip(positions) {
            store.commit_at(position.sequence);
            let place = position.place;
            hold.borrowed[place] = Some((store, position));
        }
        result
    }

    /// Whether a call may run here, of this schema.
    pub(super) fn admit_lot_call(&self, call: &LotCall) -> Result<(), LotFailure> {
        if let Some(error) = self.refusal() {
            return Err(LotFailure::of(&error));
        }
        let version = self.compiled.catalog.version;
        if call.catalog_version != version {
            let text = format!("the schema has version {version} here, and {} was expected", call.catalog_version);
            let error = UserError::not_started(&text);
            return Err(LotFailure { verdict: FailureVerdict::LookUp, ..LotFailure::of(&error) });
        }
        Ok(())
    }

    fn lot_program(&mut self, call: &LotCall, text: &String) -> UserResult<Arc<Program>> {
        if let Some(program) = self.lot_texts.0.get(text) {
            return Ok(Arc::clone(program));
        }
        let parameters = Parameters::parse(&call.parameters)
            .map_err(|error| UserError::parameters(format!("the parameters are malformed: {error}")))?;
        let statements = ferrite_sql::parse_within(text, &ferrite_base::SqlLimits::CEILING)?;
        let program = ferrite_sql::compile_adhoc(&self.compiled.catalog, &statements, parameters.count())?;
        let program = Arc::new(program);
        if self.lot_texts.0.len() == TEXTS_MAX {
            self.lot_texts.clear();
        }
        self.lot_texts.0.insert(text.clone(), Arc::clone(&program));
        Ok(program)
    }
}

/// A sequencer has sent what this release does not know.
#[cold]
pub(super) fn malformed() -> LotResult {
    let error = UserError::internal("the work of a lot is malformed");
    LotResult(vec![LotAnswer::Failed(LotFailure::of(&error))])
}

/// The answers of the lot are more than go to the sequencer with others'.
#[cold]
fn too_large() -> LotFailure {
    let error = UserError::limit("the answers of the calls of a lot are too large together");
    LotFailure { verdict: FailureVerdict::Alone, ..LotFailure::of(&error) }
}

/// All changes of a lot become one entry of the log: what the calls before it have changed leaves
/// too little room.
#[cold]
fn too_many_changes(bytes_max: usize) -> LotFailure {
    let error = UserError::limit(format!("the calls of a lot change more than {bytes_max} bytes together"));
    LotFailure { verdict: FailureVerdict::First, ..LotFailure::of(&error) }
}

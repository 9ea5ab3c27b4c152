//! Ad hoc statements on one partition, and what else is a program of its own: those whose plan was
//! at hand come in batches, the others one by one.

use super::{Partition, RECORD_EPOCH};
use crate::answer::AnswerBatch;
use crate::call_header::CallHeader;
use crate::compiled::is_same_schema;
use crate::event::{CachedCall, CallBatch, ProgramCall, Reply};
use crate::execute::Request;
use crate::long_read::{self, LongRead};
use crate::record::BatchWriter;
use ferrite_base::Sequence;
use ferrite_group::EntryBuffer;
use ferrite_wire::response;
use std::sync::Arc;

impl Partition {
    /// A call of an ad hoc statement whose plan was at hand. Its answer comes later if the text
    /// must be compiled after all: because it fails, or because the plan was made for a schema that
    /// is no longer in force.
    pub(super) fn run_cached(
        &mut self,
        batch: &CallBatch,
        call: &CallHeader,
        position: usize,
        same_schema: bool,
        now: i64,
        answers: &mut AnswerBatch,
    ) {
        let cached = batch.cached.as_ref().expect("a batch with cached calls says what they mean");
        let CachedCall { program, body_start, body_end, .. } = &cached.calls[position];
        let store = self.store.as_mut().expect("the store is here while the partition runs");
        let stores = std::slice::from_mut(store);
        let out = &mut answers.bytes;
        let parameters = batch.parameters(call);
        if let Err(error) = self.executor.begin(call.id(batch.sent_micros)) {
            response::write_error(out, call.handle, &error);
            return answers.finish_answer(call.connection);
        }
        if same_schema {
            let counted = self.counters.begin_ad_hoc();
            let start = out.len();
            let handle = call.handle;
            let transaction_time = now;
            let request = Request { program, parameters, drop_first_parameter: false, handle, transaction_time };
            let outcome = self.executor.call_cached(stores, &request, None, out);
            self.counters.end(counted, outcome, parameters.len(), out.len() - start);
            if outcome.is_some() {
                answers.finish_answer(call.connection);
                return;
            }
        }
        let mailbox = Arc::clone(&batch.mailbox);
        let connection = call.connection;
        let handle = call.handle;
        let sent_micros = batch.sent_micros;
        let reply = Reply { mailbox, connection, handle, sent_micros };
        (cached.recompile)(reply, &batch.bytes[*body_start as usize..*body_end as usize]);
    }

    /// One ad hoc statement or batch.
    pub(super) fn run_program(&mut self, mut call: ProgramCall) {
        if !is_same_schema(&call.compiled, &self.compiled)
            && let Some(retry) = call.retry.take()
        {
            retry(Arc::clone(&self.compiled));
            return;
        }
        if let Some(error) = self.refusal() {
            return call.reply.refuse(&error);
        }
        if self.long_reads.cancellations().covers(call.reply.call()) {
            return call.reply.refuse(&self.long_reads.cancellations().error());
        }
        let mut answers = AnswerBatch { sent_micros: call.reply.sent_micros, ..AnswerBatch::default() };
        let now = self.log.transaction_time(self.clock.wall_micros());
        let store = self.store.as_mut().expect("the store is here while the partition runs");
        let stores = std::slice::from_mut(store);
        if let Some(program) = long_read::program(&call, stores) {
            if let Some((call, turn)) = self.long_reads.admit(call) {
                let snapshots = long_read::snapshots(&program, stores);
                let call = ProgramCall { program, ..call };
                let cancellations = self.long_reads.cancellations();
                self.long_reads.start(LongRead::new(call, turn, snapshots, now, &self.gate, cancellations));
            }
            return;
        }
        let mut redo = EntryBuffer::new(self.buffers.1.try_recv().unwrap_or_default());
        let mut writer = BatchWriter::begin(redo.records(), self.id, RECORD_EPOCH, Sequence(self.sequence.0 + 1));
        let out = &mut answers.bytes;
        let counted = self.counters.begin_program(&call.program, &self.compiled);
        let outcome = self.executor.call_program(stores, &call, now, None, out);
        self.counters.end(counted, outcome, call.parameters.len(), out.len());
        self.end_transaction(&mut redo, &mut writer);
        let appended = self.append(redo, writer);
        match call.recompile.take() {
            Some(recompile) if outcome.is_none() => recompile(),
            _ => {
                answers.finish_answer(call.reply.connection);
                self.hold(call.reply.mailbox, answers, appended);
            }
        }
    }
}

//! The workloads that experiments run many times on one server: prepared anew, run by a plan,
//! checked each time.

use crate::error::{BenchError, BenchResult};
use crate::kv::{self, KvLoad, KvTally};
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::measurement::{Latency, Measurement, SecondSummary};
use crate::options::{KvOptions, LoadOptions, TargetOptions, VoteProcedure, WorkloadKind};
use crate::process::Usage;
use crate::report::{per_transaction, ratio};
use crate::session::Session;
use crate::voter::{self, VoteCounts};
use crate::voter_load::{Tally, VoterLoad};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

pub const CONTESTANTS: u16 = 6;
pub const VOTES_MAX: i32 = 2;

/// Reads in a hundred calls of the published key-value workload.
const KV_READS: f64 = 90.0;

/// A workload with its random numbers.
pub struct Subject {
    kind: WorkloadKind,
    seed: u64,
    values: Arc<kv::Shape>,
}

/// What one run of it has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Pass {
    pub transactions: u64,
    pub transactions_per_second: f64,
    pub measured_seconds: f64,
    pub latency_microseconds: Latency,
    pub failed: u64,
    /// None for a server that was not started here.
    pub server_cpu_microseconds_per_transaction: Option<f64>,
    pub client_cpu_microseconds_per_transaction: f64,
    pub seconds: Vec<SecondSummary>,
}

impl Subject {
    pub fn new(kind: WorkloadKind, seed: u64) -> Subject {
        Subject::with(kind, seed, &kv_options(kind, seed))
    }

    /// `values`: what the key-value workloads read and write.
    pub fn with(kind: WorkloadKind, seed: u64, values: &KvOptions) -> Subject {
        Subject { kind, seed, values: Arc::new(kv::Shape::new(values)) }
    }

    /// Keys of the key-value workloads.
    pub fn keys(&self) -> u32 {
        self.values.pool_size
    }

    /// The data as they are before a pass: no votes, or every key with a value.
    pub fn prepare(&self, session: &Session) -> BenchResult<()> {
        match self.kind {
            WorkloadKind::Voter => voter::prepare(session, CONTESTANTS, false),
            WorkloadKind::Kv | WorkloadKind::Read | WorkloadKind::Write => kv::prepare(session, &self.values),
        }
    }

    /// One pass on prepared data. An error when what is there afterwards is not what the clients
    /// were told.
    pub fn run(
        &self,
        session: &Session,
        plan: &LoadPlan,
        mut each_second: impl FnMut(i64, &Measurement),
    ) -> BenchResult<Pass> {
        let mut usage: (Option<Usage>, Option<Usage>) = (None, None);
        let watch = |progress: Progress<'_>| match progress {
            Progress::MeasurementBegins => usage.0 = session.usage(),
            Progress::Second(second, measurement) => each_second(second, measurement),
            Progress::MeasurementEnds => usage.1 = session.usage(),
        };
        let (outcome, findings) = match self.kind {
            WorkloadKind::Voter => {
                let before = VoteCounts::read(session)?;
                let make = |thread: usize| {
                    VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, self.seed.wrapping_add(thread as u64))
                };
                let result = run_load(plan, make, watch)?;
                let after = VoteCounts::read(session)?;
                let tally = Tally::of(&result.workloads);
                (WorkloadResult::of(result), voter::compare(&before, &after, &tally))
            }
            WorkloadKind::Kv | WorkloadKind::Read | WorkloadKind::Write => {
                let make = |thread: usize| {
                    KvLoad::new(Arc::clone(&self.values), self.seed.wrapping_add(1 + thread as u64), false)
                };
                let result = run_load(plan, make, watch)?;
                let rows = session.sum_partitions("SELECT COUNT(*) FROM store")?;
                let mut tally = KvTally::default();
                result.workloads.iter().for_each(|load| tally.merge(&load.tally));
                (WorkloadResult::of(result), kv::findings(&tally, rows, i64::from(self.values.pool_size), false))
            }
        };
        if !findings.is_empty() {
            return Err(BenchError::Wrong(findings));
        }
        outcome.pass(usage)
    }
}

/// A load's result without what its workloads counted.
struct WorkloadResult {
    total: Measurement,
    seconds: Vec<SecondSummary>,
    measured: Duration,
    client_cpu: Duration,
    first_failure: Option<String>,
}

impl WorkloadResult {
    fn of<W>(result: LoadResult<W>) -> WorkloadResult {
        WorkloadResult {
            total: result.total,
            seconds: result.seconds,
            measured: result.measured,
            client_cpu: result.client_cpu,
            first_failure: result.first_failure,
        }
    }

    fn pass(self, usage: (Option<Usage>, Option<Usage>)) -> BenchResult<Pass> {
        if self.total.succeeded == 0 {
            let why = self.first_failure.as_deref().unwrap_or("no call was answered");
            return Err(BenchError::Load(format!("not one call succeeded in the measured time: {why}")));
        }
        let server = usage.0.zip(usage.1).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let measured_seconds = self.measured.as_secs_f64();
        Ok(Pass {
            transactions: self.total.succeeded,
            transactions_per_second: ratio(self.total.succeeded as f64, measured_seconds),
            measured_seconds,
            latency_microseconds: self.total.latency(),
            failed: self.total.aborted + self.total.failed + self.total.lost,
            server_cpu_microseconds_per_transaction: server.map(|cpu| per_transaction(cpu, &self.total)),
            client_cpu_microseconds_per_transaction: per_transaction(self.client_cpu, &self.total),
            seconds: self.seconds,
        })
    }
}

/// The published key-value workload: 100,000 keys of 32 bytes, values of 1,024.
pub fn kv_options(kind: WorkloadKind, seed: u64) -> KvOptions {
    let reads = match kind {
        WorkloadKind::Read => 100.0,
        WorkloadKind::Write => 0.0,
        WorkloadKind::Kv | WorkloadKind::Voter => KV_READS,
    };
    KvOptions {
        load: LoadOptions {
            duration: Duration::ZERO,
            warmup: 0,
            rate: None,
            outstanding: 1,
            connections: 1,
            threads: 1,
            json: None,
        },
        target: TargetOptions::default(),
        pool_size: 100_000,
        key_size: 32,
        value_size: 1024,
        value_size_min: None,
        reads,
        entropy: 127,
        keep: false,
        seed: Some(seed),
    }
}

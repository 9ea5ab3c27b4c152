//! One of the two servers of a round: prepared, loaded in bursts, checked at the end.

use crate::adhoc::{self, AdHocLoad, AdHocTally};
use crate::error::{BenchError, BenchResult};
use crate::generator::{Shape, Workload};
use crate::kv::{self, KvLoad, KvTally};
use crate::load::{LoadPlan, LoadResult, Progress, run_load};
use crate::multi::{self, MultiEnd, MultiLoad, MultiTally};
use crate::options::{MultiWrite, RegressBench, TargetOptions, VoteProcedure, WorkloadKind};
use crate::process::Usage;
use crate::session::{Environment, Session};
use crate::voter::{self, VoteCounts};
use crate::voter_load::{Tally, VoterLoad};
use crate::workloads::{CONTESTANTS, VOTES_MAX, kv_options};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Rows of the table that ad hoc statements ask.
const ROWS: u32 = 100_000;
/// Statements in a hundred that update.
const AD_HOC_WRITES: f64 = 10.0;
/// Accounts, few enough that the hand-over between partitions is what counts and not the adding up.
const ACCOUNTS: u32 = 100;
/// Transactions in a hundred that read all accounts.
const MULTI_READS: f64 = 50.0;

impl RegressBench {
    fn partitions(self) -> usize {
        match self {
            RegressBench::Voter | RegressBench::VoterNone | RegressBench::Kv | RegressBench::AdHoc => 1,
            RegressBench::Voter2 | RegressBench::Multi => 2,
        }
    }

    fn durability(self) -> &'static str {
        if self == RegressBench::VoterNone { "none" } else { "sync" }
    }
}

/// What a server did in one burst, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Burst {
    pub transactions: u64,
    pub seconds: f64,
    /// Of the server.
    pub cpu_seconds: f64,
}

impl Burst {
    pub fn add(&mut self, other: &Burst) {
        self.transactions += other.transactions;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }

    pub fn transactions_per_second(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    pub fn cpu_microseconds_per_transaction(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.transactions as f64
    }
}

pub struct Side {
    session: Session,
    plan: LoadPlan,
    seed: u64,
    kind: Kind,
}

/// The workload, and what the server has said so far.
enum Kind {
    Voter(VoteCounts, Tally),
    Kv(Arc<kv::Shape>, KvTally),
    AdHoc(AdHocTally),
    Multi(MultiTally),
}

impl Side {
    pub fn prepare(environment: &Environment, bench: RegressBench, outstanding: u32, seed: u64) -> BenchResult<Side> {
        let target = TargetOptions {
            partitions: Some(bench.partitions()),
            durability: Some(bench.durability().to_string()),
            ..TargetOptions::default()
        };
        let session = Session::open(environment, &target)?;
        let kind = match bench {
            RegressBench::Voter | RegressBench::Voter2 | RegressBench::VoterNone => {
                voter::prepare(&session, CONTESTANTS, false)?;
                Kind::Voter(VoteCounts::read(&session)?, Tally::default())
            }
            RegressBench::Kv => {
                let shape = Arc::new(kv::Shape::new(&kv_options(WorkloadKind::Kv, seed)));
                kv::prepare(&session, &shape)?;
                Kind::Kv(shape, KvTally::default())
            }
            RegressBench::AdHoc => {
                adhoc::prepare(&session, ROWS)?;
                Kind::AdHoc(AdHocTally::default())
            }
            RegressBench::Multi => {
                multi::prepare(&session, ACCOUNTS)?;
                Kind::Multi(MultiTally::default())
            }
        };
        let shape = Shape {
            outstanding: outstanding as usize,
            rate: None,
            limiter: false,
            warmup: Duration::ZERO,
            duration: None,
        };
        let plan = LoadPlan {
            address: session.address().to_string(),
            connections: 1,
            threads: 1,
            shape,
            stop: Arc::clone(&environment.stop),
        };
        Ok(Side { session, plan, seed, kind })
    }

    /// Other calls in each burst, and the same ones on both sides.
    pub fn burst(&mut self, duration: Duration) -> BenchResult<Burst> {
        self.seed = self.seed.wrapping_add(1);
        self.plan.shape.duration = Some(duration);
        let session = &self.session;
        let plan = &self.plan;
        let seed = self.seed;
        match &mut self.kind {
            Kind::Voter(_, tally) => {
                let make = |_| VoterLoad::new(VoteProcedure::Psm, CONTESTANTS, VOTES_MAX, seed);
                let (burst, result) = load(session, plan, make)?;
                tally.merge(&Tally::of(&result.workloads));
                Ok(burst)
            }
            Kind::Kv(shape, tally) => {
                let (burst, result) = load(session, plan, |_| KvLoad::new(Arc::clone(shape), seed, false))?;
                result.workloads.iter().for_each(|load| tally.merge(&load.tally));
                Ok(burst)
            }
            Kind::AdHoc(tally) => {
                let (burst, result) = load(session, plan, |_| AdHocLoad::new(ROWS, AD_HOC_WRITES, seed))?;
                result.workloads.iter().for_each(|load| tally.merge(&load.tally));
                Ok(burst)
            }
            Kind::Multi(tally) => {
                let make = |_| MultiLoad::new(ACCOUNTS, MULTI_READS, MultiWrite::Transfer, seed);
                let (burst, result) = load(session, plan, make)?;
                result.workloads.iter().for_each(|load| tally.merge(&load.tally));
                Ok(burst)
            }
        }
    }

    /// Compares what the server said with what it has.
    pub fn check_and_close(self) -> BenchResult<()> {
        let session = self.session;
        let findings = match &self.kind {
            Kind::Voter(before, tally) => voter::compare(before, &VoteCounts::read(&session)?, tally),
            Kind::Kv(shape, tally) => {
                let rows = session.query_number("SELECT COUNT(*) FROM store")?;
                kv::findings(tally, rows, i64::from(shape.pool_size), false)
            }
            Kind::AdHoc(tally) => adhoc::findings(tally, ROWS, session.query_number("SELECT SUM(amount) FROM item")?),
            Kind::Multi(tally) => multi::findings(tally, ACCOUNTS, MultiEnd::read(&session)?),
        };
        session.close()?;
        if findings.is_empty() { Ok(()) } else { Err(BenchError::Wrong(findings)) }
    }
}

fn load<W: Workload>(
    session: &Session,
    plan: &LoadPlan,
    make: impl FnMut(usize) -> W,
) -> BenchResult<(Burst, LoadResult<W>)> {
    let mut usage: (Option<Usage>, Option<Usage>) = (None, None);
    let result = run_load(plan, make, |progress| match progress {
        Progress::MeasurementBegins => usage.0 = session.usage(),
        Progress::Second(..) => {}
        Progress::MeasurementEnds => usage.1 = session.usage(),
    })?;
    let failed = result.total.answered() - result.total.succeeded + result.total.lost;
    if result.total.succeeded == 0 || failed > 0 {
        let why = result.first_failure.as_deref().unwrap_or("no call was answered");
        return Err(BenchError::Load(format!("a burst did not go as it should: {failed} calls failed ({why})")));
    }
    let cpu = match usage {
        (Some(before), Some(after)) => after.cpu.saturating_sub(before.cpu),
        _ => return Err(BenchError::Server("the server's CPU time is not known without /proc".to_string())),
    };
    let burst = Burst {
        transactions: result.total.succeeded,
        seconds: result.measured.as_secs_f64(),
        cpu_seconds: cpu.as_secs_f64(),
    };
    Ok((burst, result))
}

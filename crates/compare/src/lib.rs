//! `ferrite bench compare`: the same Voter and key-value workloads on this database, PostgreSQL,
//! Redis and SQLite, one after the other in one run, in groups of equal promises about what a crash
//! may take. The others are Debian's packages, started on directories of their own.
//!
//! | room | what is in it |
//! |---|---|
//! | [`load`] | the calls and checks for those who do not speak our protocol |
//! | `peer` | what is asked of every system that is not ours |
//! | [`pipeline`] | many calls at a time over their protocols |
//! | [`postgres`], [`redis`], [`sqlite`] | each system: how it is started, what a call is |
//! | [`system`] | directories, ports, CPU time |
//! | [`table`] | what was found, as a table |
//!
//! What makes it fair, and where it is not: `docs/decisions/0013-comparison.md`. The program
//! `ferrite-compare` is this library with a command line, so that the server's program has no
//! client of another database: `docs/decisions/0043-programs-of-the-benches.md`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod load;
mod peer;
pub mod pipeline;
pub mod postgres;
pub mod redis;
pub mod sqlite;
pub mod system;
pub mod table;

use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::generator::Shape;
use ferrite_bench::load::LoadPlan;
use ferrite_bench::options::{CompareDurability, CompareOptions, KvOptions, SystemName, TargetOptions, WorkloadKind};
use ferrite_bench::progress::with_progress;
use ferrite_bench::random::seed_or_random;
use ferrite_bench::report::ratio;
use ferrite_bench::results::{check_writable, keep};
use ferrite_bench::session::{Environment, Session};
use ferrite_bench::workloads::{Pass, Subject, kv_options};
use load::Job;
use peer::Peer;
use pipeline::{Moment, Plan};
use postgres::Postgres;
use redis::Redis;
use serde::Serialize;
use sqlite::Sqlite;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use system::RunDirectory;

/// Where a log is in memory.
const MEMORY: &str = "/dev/shm";
/// Each server is tried with this many connections, for this long, and then measured with the
/// number that suits it best.
const CONNECTIONS: [usize; 5] = [1, 4, 16, 64, 128];
const TRIAL: Duration = Duration::from_millis(1_500);
const TRIAL_WARMUP: Duration = Duration::from_millis(500);

/// What a crash of the machine may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// An answer means that it has been fsynced.
    Nothing,
    /// The last second, about.
    ASecond,
    /// Anything.
    Anything,
    /// The end of the process, however it comes, may take what came since the last snapshot, or
    /// all.
    SinceSnapshot,
}

impl Promise {
    /// What our server promises with that durability.
    fn of(durability: CompareDurability) -> Promise {
        match durability {
            CompareDurability::Sync => Promise::Nothing,
            CompareDurability::Interval => Promise::ASecond,
            CompareDurability::None => Promise::Anything,
            CompareDurability::Memory => Promise::SinceSnapshot,
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Promise::Nothing => "durable: an answer means that it has been fsynced",
            Promise::ASecond => "a crash may take the last second",
            Promise::Anything => "in memory: a crash may take anything",
            Promise::SinceSnapshot => "no log: the end of the process may take what no snapshot has",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Promise::Nothing => "durable",
            Promise::ASecond => "a second",
            Promise::Anything => "in memory",
            Promise::SinceSnapshot => "no log",
        }
    }
}

/// A system with settings, in its group.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    pub system: SystemName,
    pub promise: Promise,
    pub settings: &'static [(&'static str, &'static str)],
    /// Its log is put into memory.
    pub log_in_memory: bool,
    /// Its tables are made so that no log has their rows.
    pub unlogged: bool,
}

pub const CONTENDERS: &[Contender] = &[
    contender(SystemName::Ferrite, Promise::Nothing, &[("durability", "sync")]),
    contender(SystemName::Postgres, Promise::Nothing, &[("synchronous_commit", "on")]),
    contender(SystemName::Redis, Promise::Nothing, &[("appendonly", "yes"), ("appendfsync", "always")]),
    contender(SystemName::Sqlite, Promise::Nothing, &[("synchronous", "FULL")]),
    contender(SystemName::Ferrite, Promise::ASecond, &[("durability", "interval=1000")]),
    contender(SystemName::Postgres, Promise::ASecond, &[("synchronous_commit", "off")]),
    contender(SystemName::Redis, Promise::ASecond, &[("appendonly", "yes"), ("appendfsync", "everysec")]),
    contender(SystemName::Ferrite, Promise::Anything, &[("durability", "none")]),
    Contender {
        log_in_memory: true,
        ..contender(SystemName::Postgres, Promise::Anything, &[("synchronous_commit", "off")])
    },
    contender(SystemName::Redis, Promise::Anything, &[("appendonly", "no")]),
    contender(SystemName::Sqlite, Promise::Anything, &[("synchronous", "OFF")]),
    contender(SystemName::Ferrite, Promise::SinceSnapshot, &[("durability", "memory")]),
    Contender {
        unlogged: true,
        ..contender(SystemName::Postgres, Promise::SinceSnapshot, &[("synchronous_commit", "off"), ("fsync", "off")])
    },
    contender(SystemName::Redis, Promise::SinceSnapshot, &[("appendonly", "no")]),
];

const fn contender(
    system: SystemName,
    promise: Promise,
    settings: &'static [(&'static str, &'static str)],
) -> Contender {
    Contender { system, promise, settings, log_in_memory: false, unlogged: false }
}

impl Contender {
    fn settings_text(&self) -> String {
        let mut parts: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if self.log_in_memory {
            parts.push("log in memory".to_string());
        }
        if self.unlogged {
            parts.push("UNLOGGED tables".to_string());
        }
        parts.join(", ")
    }
}

#[derive(Debug, Serialize)]
pub struct CompareReport {
    pub settings: CompareSettings,
    pub results: Vec<Compared>,
}

#[derive(Debug, Serialize)]
pub struct CompareSettings {
    pub outstanding: u32,
    /// Of the workloads kv, read and write.
    pub value_bytes: u32,
    pub warmup_seconds: u64,
    pub measured_seconds: f64,
    pub seed: u64,
    /// PostgreSQL's beside those named with each result.
    pub postgres: String,
}

/// One system with one workload.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// Unique in its list, such as `voter, durable, Redis 7.0.15`.
    pub name: String,
    pub workload: String,
    pub promise: Promise,
    pub system: String,
    pub with: String,
    /// 0: within this process.
    pub connections: usize,
    /// How often faster this database is, in the same group. None for itself, or when it did not
    /// take part.
    pub ferrite_is_times: Option<f64>,
    #[serde(flatten)]
    pub pass: Pass,
}

pub fn run_compare(environment: &Environment, options: &CompareOptions) -> BenchResult<()> {
    if let Some(file) = &options.json {
        check_writable(file)?;
    }
    let contenders = chosen(options)?;
    let seed = seed_or_random(options.seed);
    let run = Run { environment, options, seed };
    let mut report = CompareReport { settings: run.settings(), results: Vec::new() };
    ferrite_bench::outln!("{}", run.heading(contenders.len()));
    for &workload in &options.workloads {
        for contender in &contenders {
            if environment.stop.load(Ordering::Relaxed) {
                break;
            }
            let compared = run.one(workload, contender)?;
            ferrite_bench::outln!("{}", table::line(&compared));
            report.results.push(compared);
        }
    }
    if report.results.is_empty() {
        return Err(BenchError::Load("stopped before anything was measured".to_string()));
    }
    table::add_ratios(&mut report.results);
    ferrite_bench::out!("{}", table::text(&report));
    keep(options.json.as_deref(), "compare", &report)
}

/// The contenders asked for. An error names the packages of what is missing.
fn chosen(options: &CompareOptions) -> BenchResult<Vec<Contender>> {
    let wanted = |system: SystemName| options.systems.is_empty() || options.systems.contains(&system);
    let mut missing = Vec::new();
    for (system, packages) in [
        (SystemName::Postgres, Postgres::missing()),
        (SystemName::Redis, Redis::missing()),
        (SystemName::Sqlite, Sqlite::missing()),
    ] {
        if wanted(system)
            && let Some(packages) = packages
        {
            missing.push((system, packages));
        }
    }
    if !missing.is_empty() {
        let systems: Vec<String> = missing.iter().map(|(system, _)| system.to_string()).collect();
        let packages: Vec<&str> = missing.iter().map(|(_, packages)| *packages).collect();
        return Err(BenchError::Load(format!(
            "not installed: {}; on Debian: apt-get install {} (or choose others with --systems)",
            systems.join(", "),
            packages.join(" ")
        )));
    }
    let promises: Vec<Promise> = options.durability.iter().map(|durability| Promise::of(*durability)).collect();
    let promised = |promise: Promise| promises.is_empty() || promises.contains(&promise);
    let chosen = CONTENDERS.iter().filter(|contender| wanted(contender.system) && promised(contender.promise));
    Ok(chosen.copied().collect())
}

struct Run<'r> {
    environment: &'r Environment,
    options: &'r CompareOptions,
    seed: u64,
}

impl Run<'_> {
    fn settings(&self) -> CompareSettings {
        let postgres: Vec<String> = postgres::SETTINGS.iter().map(|(name, value)| format!("{name} {value}")).collect();
        CompareSettings {
            outstanding: self.options.outstanding,
            value_bytes: self.options.value_size,
            warmup_seconds: self.options.warmup,
            measured_seconds: self.options.duration.as_secs_f64(),
            seed: self.seed,
            postgres: postgres.join(", "),
        }
    }

    fn heading(&self, contenders: usize) -> String {
        let workloads: Vec<String> = self.options.workloads.iter().map(WorkloadKind::to_string).collect();
        format!(
            "compare: {} on {contenders} settings of servers; values of {} bytes; {} calls outstanding; {} s each \
             after {} s; connections: whichever of {CONNECTIONS:?} suits a server best",
            workloads.join(", "),
            self.options.value_size,
            self.options.outstanding,
            self.options.duration.as_secs_f64(),
            self.options.warmup
        )
    }

    fn values(&self, workload: WorkloadKind) -> KvOptions {
        KvOptions { value_size: self.options.value_size, ..kv_options(workload, self.seed) }
    }

    fn plan(&self, connections: usize, measured: bool) -> Plan {
        let (warmup, duration) = if measured {
            (Duration::from_secs(self.options.warmup), self.options.duration)
        } else {
            (TRIAL_WARMUP, TRIAL)
        };
        Plan { connections, outstanding: self.options.outstanding as usize, warmup, duration }
    }

    fn one(&self, workload: WorkloadKind, contender: &Contender) -> BenchResult<Compared> {
        let dir = self.options.dir.as_deref();
        let (system, connections, pass) = match contender.system {
            SystemName::Ferrite => self.ferrite(workload, contender)?,
            SystemName::Postgres => {
                let memory =
                    contender.log_in_memory.then(|| RunDirectory::new("postgres-log", Some(Path::new(MEMORY))));
                let place = RunDirectory::new("postgres", dir)?;
                let mut server = Postgres::start(place, memory.transpose()?, contender.settings, contender.unlogged)?;
                let tried = self.best(|plan| self.peer(workload, &mut server, plan))?;
                let version = server.version().to_string();
                server.stop()?;
                (version, tried.0, tried.1)
            }
            SystemName::Redis => {
                let mut server = Redis::start(RunDirectory::new("redis", dir)?, contender.settings)?;
                let tried = self.best(|plan| self.peer(workload, &mut server, plan))?;
                let version = server.version().to_string();
                server.stop()?;
                (version, tried.0, tried.1)
            }
            SystemName::Sqlite => {
                let mut library = Sqlite::start(RunDirectory::new("sqlite", dir)?, contender.settings)?;
                let pass = self.peer(workload, &mut library, self.plan(1, true))?;
                (library.version(), 0, pass)
            }
        };
        let name = format!("{workload}, {}, {}", contender.promise.name(), contender.system);
        let promise = contender.promise;
        let with = contender.settings_text();
        let workload = workload.to_string();
        Ok(Compared { name, workload, promise, system, with, connections, ferrite_is_times: None, pass })
    }

    /// Tries some numbers of connections, then measures with the best.
    fn best(&self, mut measure: impl FnMut(Plan) -> BenchResult<Pass>) -> BenchResult<(usize, Pass)> {
        let mut best = (CONNECTIONS[0], 0.0);
        for connections in CONNECTIONS.into_iter().filter(|count| *count <= self.options.outstanding as usize) {
            let rate = measure(self.plan(connections, false))?.transactions_per_second;
            if rate > best.1 {
                best = (connections, rate);
            }
        }
        Ok((best.0, measure(self.plan(best.0, true))?))
    }

    fn ferrite(&self, workload: WorkloadKind, contender: &Contender) -> BenchResult<(String, usize, Pass)> {
        let durability = contender.settings.iter().find(|(name, _)| *name == "durability").map(|(_, value)| *value);
        let place = self.options.dir.as_deref().map(|dir| RunDirectory::new("server", Some(dir))).transpose()?;
        let target = TargetOptions {
            durability: durability.map(str::to_string),
            dir: place.as_ref().map(|place| place.path().join("data")),
            partitions: self.options.partitions,
            ..TargetOptions::default()
        };
        let session = Session::open(self.environment, &target)?;
        let subject = Subject::with(workload, self.seed, &self.values(workload));
        let (connections, pass) = self.best(|plan| {
            subject.prepare(&session)?;
            let load = LoadPlan {
                address: session.address().to_string(),
                connections: plan.connections,
                threads: 1,
                shape: Shape {
                    outstanding: plan.outstanding,
                    rate: None,
                    limiter: false,
                    // Our generator measures whole seconds after whole seconds.
                    warmup: Duration::from_secs(plan.warmup.as_secs_f64().ceil() as u64),
                    duration: Some(plan.duration),
                },
                stop: Arc::clone(&self.environment.stop),
            };
            subject.run(&session, &load, |_, _| ())
        })?;
        session.close()?;
        Ok((format!("FerriteDB {}", env!("CARGO_PKG_VERSION")), connections, pass))
    }

    /// Fresh data, load, check.
    fn peer(&self, workload: WorkloadKind, peer: &mut impl Peer, plan: Plan) -> BenchResult<Pass> {
        let mut job = Job::new(workload, self.seed, &self.values(workload));
        with_progress("preparing the data", || peer.prepare(&mut job))?;
        let mut cpu = (None, None);
        let driven = peer.drive(&mut job, plan, &self.environment.stop, |moment, used| match moment {
            Moment::MeasurementBegins => cpu.0 = used,
            Moment::MeasurementEnds => cpu.1 = used,
        })?;
        let findings = job.findings(with_progress("counting", || peer.count(&job))?);
        if !findings.is_empty() {
            return Err(BenchError::Wrong(findings));
        }
        if driven.total.succeeded == 0 {
            return Err(BenchError::Load("not one call succeeded in the measured time".to_string()));
        }
        let answered = driven.total.answered() as f64;
        let server = cpu.0.zip(cpu.1).map(|(before, after): (Duration, Duration)| after.saturating_sub(before));
        let measured_seconds = driven.measured.as_secs_f64();
        Ok(Pass {
            transactions: driven.total.succeeded,
            transactions_per_second: ratio(driven.total.succeeded as f64, measured_seconds),
            measured_seconds,
            latency_microseconds: driven.total.latency(),
            failed: driven.total.aborted + driven.total.failed,
            server_cpu_microseconds_per_transaction: server.map(|cpu| ratio(cpu.as_secs_f64() * 1e6, answered)),
            client_cpu_microseconds_per_transaction: ratio(driven.client_cpu.as_secs_f64() * 1e6, answered),
            seconds: driven.seconds,
        })
    }
}

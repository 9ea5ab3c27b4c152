//! `ferrite bench node`: Node.js processes with our driver, each a client of its own as a web
//! application's processes are. How many transactions they make together, per core and per process,
//! and what a call costs on both sides.

use crate::companion::{Companion, find_program};
use crate::error::{BenchError, BenchResult};
use crate::kv;
use crate::measurement::median;
use crate::options::{NodeOptions, NodeWorkload, WorkloadKind};
use crate::progress::with_progress;
use crate::report::{duration_text, grouped, ratio};
use crate::results::{cores, keep};
use crate::session::{Environment, Session};
use crate::voter::{self, VoteCounts};
use crate::voter_load::Tally;
use crate::workloads::{CONTESTANTS, Subject};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Where the driver lies in the source tree, and its load generator in it.
const DRIVER: &str = "clients/node";
const LOAD: &str = "bench/load.mjs";
const BUILT: &str = "dist/esm/index.js";
/// Time for a process to start, and to end its last calls.
const PATIENCE: Duration = Duration::from_secs(60);

const HELLO_DDL: &str = "
DROP PROCEDURE Hello IF EXISTS;
DROP TABLE helloworld IF EXISTS;
CREATE TABLE helloworld (
  dialect VARCHAR(15) NOT NULL,
  hello VARCHAR(15),
  world VARCHAR(15),
  PRIMARY KEY (dialect)
);
PARTITION TABLE helloworld ON COLUMN dialect;
CREATE PROCEDURE Hello PARTITION ON TABLE helloworld COLUMN dialect AS
  SELECT hello, world FROM helloworld WHERE dialect = ?;
INSERT INTO helloworld (dialect, hello, world) VALUES
  ('English', 'Hello', 'World'), ('French', 'Bonjour', 'Monde'), ('Spanish', 'Hola', 'Mundo'),
  ('Danish', 'Hej', 'Verden'), ('Italian', 'Ciao', 'Mondo'), ('German', 'Hallo', 'Welt'),
  ('Dutch', 'Hallo', 'Wereld'), ('Portuguese', 'Olá', 'Mundo');
";
const HELLO_DIALECTS: i64 = 8;

#[derive(Debug, Serialize)]
struct NodeReport {
    settings: NodeSettings,
    runs: Vec<NodeRun>,
}

#[derive(Debug, Serialize)]
struct NodeSettings {
    workload: String,
    server: String,
    node: String,
    outstanding_per_process: u32,
    warmup_seconds: u64,
    measured_seconds: f64,
    cores: usize,
}

/// This many processes.
#[derive(Debug, Serialize)]
struct NodeRun {
    /// Such as `2 processes`.
    name: String,
    processes: usize,
    transactions_per_second: f64,
    transactions_per_second_per_core: f64,
    transactions_per_second_per_process: f64,
    /// None for a server that was not started here.
    server_cpu_microseconds_per_transaction: Option<f64>,
    client_cpu_microseconds_per_transaction: f64,
    /// Medians over the processes; the longest of all.
    latency_microseconds: NodeLatency,
    failed: u64,
    seconds: Vec<NodeSecond>,
    each: Vec<NodeProcess>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct NodeLatency {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct NodeSecond {
    transactions: u64,
}

#[derive(Debug, Serialize)]
struct NodeProcess {
    /// Such as `process 1`.
    name: String,
    transactions_per_second: f64,
    client_cpu_microseconds_per_transaction: f64,
    latency_microseconds: NodeLatency,
}

/// What a process says at its end, in JSON.
#[derive(Debug, Deserialize)]
struct Said {
    result: SaidResult,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SaidResult {
    transactions: u64,
    failed: u64,
    transactions_per_second: f64,
    cpu_microseconds: f64,
    cpu_microseconds_per_call: f64,
    latency_microseconds: SaidLatency,
    first_failure: Option<String>,
    seconds: Vec<NodeSecond>,
    counts: Counts,
}

#[derive(Debug, Deserialize)]
struct SaidLatency {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Of all workloads; each has some of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Counts {
    accepted: Vec<u64>,
    unknown: Vec<u64>,
    hits: u64,
    misses: u64,
    wrong: u64,
}

pub fn run_node(environment: &Environment, options: &NodeOptions) -> BenchResult<()> {
    let programs = Programs::find(environment, options)?;
    let session = Session::open(environment, &options.target)?;
    let run = Run { options, session: &session, programs: &programs };
    let settings = run.settings();
    ferrite_io::outln!(
        "node, {}: {}\n{}, {} calls outstanding per process, {} core(s) for server and processes",
        settings.workload,
        settings.server,
        settings.node,
        options.outstanding,
        settings.cores
    );
    let mut report = NodeReport { settings, runs: Vec::new() };
    for processes in process_counts(options, cores()) {
        if environment.stop.load(Ordering::Relaxed) {
            break;
        }
        let one = run.with(processes)?;
        ferrite_io::out!("{}", text(&one));
        report.runs.push(one);
    }
    session.close()?;
    if report.runs.is_empty() {
        return Err(BenchError::Load("stopped before anything was measured".to_string()));
    }
    keep(options.json.as_deref(), "node", &report)
}

/// How many processes, one run each.
fn process_counts(options: &NodeOptions, cores: usize) -> Vec<usize> {
    if !options.sweep {
        return vec![usize::from(options.forks)];
    }
    let mut counts = [0.5, 1.0, 1.5, 2.0].map(|part| (part * cores as f64).round().max(1.0) as usize).to_vec();
    counts.dedup();
    counts
}

/// Node.js and our driver.
struct Programs {
    node: PathBuf,
    version: String,
    driver: PathBuf,
}

impl Programs {
    fn find(environment: &Environment, options: &NodeOptions) -> BenchResult<Programs> {
        let name = &options.node;
        let missing = || {
            BenchError::Load(format!(
                "there is no program {name}: install Node.js 18 or newer (on Debian: apt-get install nodejs npm), or name it with --node"
            ))
        };
        let node = find_program(name, &[]).ok_or_else(missing)?;
        let version = Command::new(&node).arg("--version").output().map_err(|_| missing())?;
        let version = format!("Node.js {}", String::from_utf8_lossy(&version.stdout).trim());
        let driver = match &options.driver {
            Some(folder) => folder.clone(),
            None => find_driver(&environment.executable).ok_or_else(|| {
                BenchError::Load(format!(
                    "the Node.js driver was not found: run this within FerriteDB's source tree, or name its folder {DRIVER} with --driver"
                ))
            })?,
        };
        if !driver.join(LOAD).is_file() {
            let folder = driver.display();
            return Err(BenchError::Load(format!("{folder} is not the Node.js driver: it has no {LOAD}")));
        }
        if !driver.join(BUILT).is_file() {
            let folder = driver.display();
            return Err(BenchError::Load(format!(
                "the Node.js driver is not built: run 'npm ci && npm run build' in {folder}"
            )));
        }
        Ok(Programs { node, version, driver })
    }
}

/// In the source tree that the executable or the current directory lies in.
fn find_driver(executable: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let starts = [Some(executable), here.as_deref()];
    let mut folders = starts.into_iter().flatten().flat_map(Path::ancestors).map(|folder| folder.join(DRIVER));
    folders.find(|folder| folder.join(LOAD).is_file())
}

struct Run<'r> {
    options: &'r NodeOptions,
    session: &'r Session,
    programs: &'r Programs,
}

impl Run<'_> {
    fn settings(&self) -> NodeSettings {
        NodeSettings {
            workload: self.options.workload.name().to_string(),
            server: self.session.description(),
            node: self.programs.version.clone(),
            outstanding_per_process: self.options.outstanding,
            warmup_seconds: self.options.warmup,
            measured_seconds: self.options.duration.as_secs_f64(),
            cores: cores(),
        }
    }

    /// Prepares, runs, checks.
    fn with(&self, processes: usize) -> BenchResult<NodeRun> {
        let subject = |kind| Subject::new(kind, 1);
        match self.options.workload {
            NodeWorkload::Voter => {
                subject(WorkloadKind::Voter).prepare(self.session)?;
                let before = VoteCounts::read(self.session)?;
                let said = self.load(processes)?;
                let after = VoteCounts::read(self.session)?;
                wrong(voter::compare(&before, &after, &tally(&said.said)))?;
                Ok(said.run(processes))
            }
            NodeWorkload::Read | NodeWorkload::Write => {
                let subject = subject(WorkloadKind::Kv);
                subject.prepare(self.session)?;
                let said = self.load(processes)?;
                let rows = self.session.query_number("SELECT COUNT(*) FROM store")?;
                let tally = kv::KvTally {
                    misses: said.counted(|counts| counts.misses),
                    wrong_answers: said.counted(|counts| counts.wrong),
                    ..kv::KvTally::default()
                };
                wrong(kv::findings(&tally, rows, i64::from(subject.keys()), false))?;
                Ok(said.run(processes))
            }
            NodeWorkload::Hello => {
                self.session.run_statements(HELLO_DDL)?;
                let rows = self.session.query_number("SELECT COUNT(*) FROM helloworld")?;
                let said = self.load(processes)?;
                let odd = said.counted(|counts| counts.wrong);
                if rows != HELLO_DIALECTS || odd > 0 {
                    return Err(BenchError::Wrong(vec![format!("{odd} calls of Hello did not find their row")]));
                }
                Ok(said.run(processes))
            }
        }
    }

    /// All processes at once, from a common start.
    fn load(&self, processes: usize) -> BenchResult<Loaded> {
        let mut running = Vec::new();
        for number in 1..=processes {
            running.push(Companion::start(&format!("process {number}"), &mut self.command(), None)?);
        }
        with_progress("starting Node.js", || {
            running.iter_mut().try_for_each(|process| match process.line(PATIENCE)?.as_str() {
                "ready" => Ok(()),
                other => Err(BenchError::Load(format!("a Node.js process said {other:?} and not that it is ready"))),
            })
        })?;
        running.iter_mut().try_for_each(|process| process.send("go"))?;
        std::thread::sleep(Duration::from_secs(self.options.warmup));
        let before = self.session.usage();
        let whole_seconds = self.options.duration.as_secs();
        let mut said = Vec::new();
        let mut after = None;
        for second in 1..=whole_seconds {
            let mut transactions = 0;
            for process in &mut running {
                transactions += second_of(&process.line(PATIENCE)?)?.transactions;
            }
            ferrite_io::outln!("{second:>6} s {:>11}/s", grouped(transactions));
            if second == whole_seconds {
                after = self.session.usage();
            }
        }
        for mut process in running {
            let line =
                with_progress("waiting for the last answers", || process.line(self.options.duration + PATIENCE))?;
            let result: Said = serde_json::from_str(&line)
                .map_err(|error| BenchError::Load(format!("a Node.js process said {line:?}: {error}")))?;
            process.finish()?;
            said.push(result.result);
        }
        let server_cpu = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        let loaded = Loaded { said, server_cpu };
        if loaded.said.iter().map(|said| said.transactions).sum::<u64>() == 0 {
            let why = loaded.said.iter().find_map(|said| said.first_failure.clone());
            let why = why.unwrap_or("no call was answered".to_string());
            return Err(BenchError::Load(format!("not one call succeeded in the measured time: {why}")));
        }
        Ok(loaded)
    }

    fn command(&self) -> Command {
        let options = self.options;
        let mut command = Command::new(&self.programs.node);
        command.arg(self.programs.driver.join(LOAD)).arg("--json");
        command.args(["--server", self.session.address(), "--workload", options.workload.name()]);
        for (name, value) in [
            ("--seconds", options.duration.as_secs_f64()),
            ("--warmup", options.warmup as f64),
            ("--outstanding", f64::from(options.outstanding)),
        ] {
            command.args([name, &value.to_string()]);
        }
        command
    }
}

fn second_of(line: &str) -> BenchResult<NodeSecond> {
    serde_json::from_str(line).map_err(|error| BenchError::Load(format!("a Node.js process said {line:?}: {error}")))
}

fn wrong(findings: Vec<String>) -> BenchResult<()> {
    if findings.is_empty() { Ok(()) } else { Err(BenchError::Wrong(findings)) }
}

/// What all processes said together, for the comparison with the tables.
fn tally(said: &[SaidResult]) -> Tally {
    let mut tally = Tally { accepted: vec![0; usize::from(CONTESTANTS) + 1], ..Tally::default() };
    tally.unknown = tally.accepted.clone();
    for said in said {
        tally.merge(&Tally {
            accepted: said.counts.accepted.clone(),
            unknown: said.counts.unknown.clone(),
            failed: said.counts.wrong,
            ..Tally::default()
        });
    }
    tally
}

struct Loaded {
    said: Vec<SaidResult>,
    server_cpu: Option<Duration>,
}

impl Loaded {
    fn counted(&self, count: fn(&Counts) -> u64) -> u64 {
        self.said.iter().map(|said| count(&said.counts)).sum()
    }

    fn run(self, processes: usize) -> NodeRun {
        let all = |figure: fn(&SaidResult) -> f64| self.said.iter().map(figure).collect::<Vec<f64>>();
        let rate: f64 = all(|said| said.transactions_per_second).iter().sum();
        let answered: f64 = all(|said| (said.transactions + said.failed) as f64).iter().sum();
        let length = self.said.iter().map(|said| said.seconds.len()).min().unwrap_or(0);
        let seconds = (0..length).map(|second| NodeSecond {
            transactions: self.said.iter().map(|said| said.seconds[second].transactions).sum(),
        });
        NodeRun {
            name: format!("{processes} process{}", if processes == 1 { "" } else { "es" }),
            processes,
            transactions_per_second: rate,
            transactions_per_second_per_core: rate / cores() as f64,
            transactions_per_second_per_process: rate / processes as f64,
            server_cpu_microseconds_per_transaction: self
                .server_cpu
                .map(|cpu| ratio(cpu.as_secs_f64() * 1e6, answered)),
            client_cpu_microseconds_per_transaction: ratio(all(|said| said.cpu_microseconds).iter().sum(), answered),
            latency_microseconds: NodeLatency {
                p50: median(&all(|said| said.latency_microseconds.p50)).unwrap_or(0.0),
                p99: median(&all(|said| said.latency_microseconds.p99)).unwrap_or(0.0),
                max: all(|said| said.latency_microseconds.max).into_iter().fold(0.0, f64::max),
            },
            failed: self.said.iter().map(|said| said.failed).sum(),
            seconds: seconds.collect(),
            each: self
                .said
                .iter()
                .enumerate()
                .map(|(place, said)| NodeProcess {
                    name: format!("process {}", place + 1),
                    transactions_per_second: said.transactions_per_second,
                    client_cpu_microseconds_per_transaction: said.cpu_microseconds_per_call,
                    latency_microseconds: NodeLatency {
                        p50: said.latency_microseconds.p50,
                        p99: said.latency_microseconds.p99,
                        max: said.latency_microseconds.max,
                    },
                })
                .collect(),
        }
    }
}

fn text(run: &NodeRun) -> String {
    let whole = |value: f64| grouped(value.round() as u64);
    let latency = &run.latency_microseconds;
    let server = run.server_cpu_microseconds_per_transaction.map_or(String::new(), |cpu| format!("server {cpu:.2}, "));
    let mut text = format!(
        "{}: {} transactions/s, {} per core, {} per process\n  CPU-us per transaction: {server}client {:.2}\n  \
         latency p50 {}, p99 {}, max {}; {} failed\n",
        run.name,
        whole(run.transactions_per_second),
        whole(run.transactions_per_second_per_core),
        whole(run.transactions_per_second_per_process),
        run.client_cpu_microseconds_per_transaction,
        duration_text(latency.p50),
        duration_text(latency.p99),
        duration_text(latency.max),
        grouped(run.failed),
    );
    if run.each.len() > 1 {
        let rates: Vec<String> = run.each.iter().map(|process| whole(process.transactions_per_second)).collect();
        text.push_str(&format!("  each: {}\n", rates.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rate: u64, accepted: u64) -> SaidResult {
        let text = format!(
            "{{\"result\": {{\"workload\": \"voter\", \"transactions\": {rate}, \"failed\": 0, \"measuredSeconds\": 1, \
             \"transactionsPerSecond\": {rate}, \"cpuMicroseconds\": {rate}, \"cpuMicrosecondsPerCall\": 1, \
             \"latencyMicroseconds\": {{\"p50\": 10, \"p99\": 20, \"max\": {rate}, \"mean\": 1}}, \"firstFailure\": null, \
             \"seconds\": [{{\"transactions\": {rate}}}], \
             \"counts\": {{\"accepted\": [0, {accepted}], \"unknown\": [0, 1], \"invalid\": 3, \"overLimit\": 0, \"wrong\": 2}}}}}}"
        );
        serde_json::from_str::<Said>(&text).unwrap().result
    }

    #[test]
    fn processes_add_up() {
        let loaded = Loaded { said: vec![said(100, 5), said(300, 7)], server_cpu: Some(Duration::from_micros(800)) };
        let counted = tally(&loaded.said);
        assert_eq!((counted.accepted_total(), counted.unknown[1], counted.failed), (12, 2, 4));
        let run = loaded.run(2);
        assert_eq!((run.transactions_per_second, run.transactions_per_second_per_process), (400.0, 200.0));
        assert_eq!(run.server_cpu_microseconds_per_transaction, Some(2.0));
        assert_eq!(run.client_cpu_microseconds_per_transaction, 1.0);
        assert_eq!(
            (run.latency_microseconds.max, run.seconds.as_slice()),
            (300.0, &[NodeSecond { transactions: 400 }][..])
        );
        assert!(text(&run).starts_with("2 processes: 400 transactions/s"), "{}", text(&run));
    }

    #[test]
    fn a_sweep_goes_by_the_cores() {
        let options = |sweep| NodeOptions { sweep, forks: 3, ..NodeOptions::default() };
        assert_eq!(process_counts(&options(false), 8), [3]);
        assert_eq!(process_counts(&options(true), 8), [4, 8, 12, 16]);
        assert_eq!(process_counts(&options(true), 2), [1, 2, 3, 4]);
        assert_eq!(process_counts(&options(true), 1), [1, 2]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let environment = Environment { executable: PathBuf::from("/absent/ferrite"), stop: Default::default() };
        let find = |options: NodeOptions| Programs::find(&environment, &options).err().unwrap().to_string();
        let no_node = find(NodeOptions { node: "no-such-node".to_string(), ..NodeOptions::default() });
        assert!(no_node.contains("apt-get install nodejs"), "{no_node}");
        let directory = tempfile::tempdir().unwrap();
        // Any program will do for Node.js here.
        let with = || NodeOptions {
            node: "sh".to_string(),
            driver: Some(directory.path().to_path_buf()),
            ..NodeOptions::default()
        };
        assert!(find(with()).contains("is not the Node.js driver"));
        std::fs::create_dir(directory.path().join("bench")).unwrap();
        std::fs::write(directory.path().join(LOAD), "").unwrap();
        assert!(find(with()).contains("npm ci && npm run build"));
        assert!(find_driver(&std::env::current_exe().unwrap()).is_some(), "tests run within the source tree");
    }
}

//! `ferrite bench soak`: hours of votes, with as many deleted as come in, and a look at the server
//! every ten seconds. Whatever grows where nothing should is a finding: memory, files, their bytes,
//! latency.

pub mod trend;

use crate::options::SoakOptions;
use ferrite_bench::area_codes::area_codes;
use ferrite_bench::calls::Calls;
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use ferrite_bench::load::{Progress, run_load};
use ferrite_bench::measurement::Measurement;
use ferrite_bench::report::grouped;
use ferrite_bench::results::keep;
use ferrite_bench::run::load_plan;
use ferrite_bench::session::{Environment, Session};
use ferrite_bench::voter;
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trend::Trend;

const CONTESTANTS: u16 = 6;
const PHONES_PER_AREA: u64 = 10_000_000;
/// Seconds of one sample.
const SAMPLE_SECONDS: usize = 10;
/// This part of the samples, at the beginning, is for filling up and is not judged.
const SETTLING_PART: usize = 4;
/// Growth that is more than chance explains, in standard deviations.
const SIGNIFICANCE_MAX: f64 = 3.0;

const DDL: &str = "
CREATE INDEX soak_votes_phone ON votes (phone_number);
CREATE PROCEDURE soak_withdraw PARTITION ON TABLE votes COLUMN phone_number PARAMETER 0 AS
  DELETE FROM votes WHERE phone_number = ?;
";

/// What is judged: its column, and by which part of its median it may grow from the first sample
/// judged to the last.
const JUDGED: [(&str, f64); 6] = [
    ("resident_mb", 0.05),
    ("open_files", 0.05),
    ("files", 0.20),
    ("files_mb", 0.25),
    ("p50_us", 0.25),
    ("p99_us", 0.25),
];

/// One line of the table.
#[derive(Clone, Debug, Default)]
struct Sample {
    seconds: usize,
    /// In the order of [`JUDGED`].
    judged: [f64; JUDGED.len()],
    calls_per_second: f64,
    p99_9: u64,
    max: u64,
    failed: u64,
}

/// What is kept of a run: see [`Trend`].
#[derive(Debug, Default, Serialize)]
struct SoakReport {
    calls_per_second: f64,
    votes: u64,
    withdrawn: u64,
    left: i64,
    trends: Vec<TrendReport>,
}

#[derive(Debug, Serialize)]
struct TrendReport {
    name: &'static str,
    median: f64,
    relative_growth: f64,
    significance: f64,
    samples: Vec<f64>,
}

impl Sample {
    fn heading() -> String {
        let judged: Vec<&str> = JUDGED.iter().map(|(name, _)| *name).collect();
        format!("seconds,{},calls_per_second,p99_9_us,max_us,failed", judged.join(","))
    }

    fn line(&self) -> String {
        let judged: Vec<String> = self.judged.iter().map(|value| format!("{value:.1}")).collect();
        format!(
            "{},{},{:.0},{},{},{}",
            self.seconds,
            judged.join(","),
            self.calls_per_second,
            self.p99_9,
            self.max,
            self.failed
        )
    }
}

impl SoakReport {
    /// Of a load in which nothing was wrong.
    fn print(&self) {
        ferrite_bench::outln!(
            "{} votes, {} of them withdrawn, {} left, as in the view; {} calls per second; nothing grows",
            grouped(self.votes),
            grouped(self.withdrawn),
            grouped(self.left as u64),
            grouped(self.calls_per_second as u64),
        );
    }

    /// Whether anything grew from one of these samples to the next; what did is a finding.
    fn judge(&mut self, settled: &[Sample], findings: &mut Vec<String>) {
        for (place, (name, growth_max)) in JUDGED.iter().enumerate() {
            let series: Vec<f64> = settled.iter().map(|sample| sample.judged[place]).collect();
            let Some(trend) = Trend::of(&series) else { continue };
            let text = format!(
                "{name}: median {:.1}, {:+.1} % over the last {} samples, {:.1} standard deviations",
                trend.median,
                trend.relative_growth() * 100.0,
                series.len(),
                trend.significance
            );
            ferrite_bench::outln!("{text}");
            self.trends.push(TrendReport {
                name,
                median: trend.median,
                relative_growth: trend.relative_growth(),
                significance: trend.significance,
                samples: series,
            });
            if trend.significance > SIGNIFICANCE_MAX && trend.relative_growth() > *growth_max {
                findings.push(format!("it grows: {text}"));
            }
        }
    }
}

/// Runs the load to its end. Fails when a call did, or when something grew.
pub fn run_soak(environment: &Environment, options: &SoakOptions) -> BenchResult<()> {
    let session = Session::open(environment, &options.target)?;
    voter::prepare(&session, CONTESTANTS, false)?;
    session.run_statements(DDL)?;
    let directory = options
        .target
        .dir
        .clone()
        .or_else(|| session.process().and_then(|process| process.temporary_directory()).map(Path::to_path_buf));
    let mut table = options.csv.as_ref().map(fs::File::create).transpose().doing("making the table of samples")?;
    let mut line = |text: &str| -> BenchResult<()> {
        ferrite_bench::outln!("{text}");
        match &mut table {
            Some(file) => writeln!(file, "{text}").doing("writing the table of samples"),
            None => Ok(()),
        }
    };
    line(&Sample::heading())?;
    let mut samples: Vec<Sample> = Vec::new();
    let mut trouble = None;
    let mut gathered = Measurement::default();
    let mut seconds = 0;
    let plan = load_plan(environment, &session, &options.load);
    let load = SoakLoad::new(options.rows);
    let mut load = Some(load);
    let result = run_load(
        &plan,
        |_| load.take().expect("one thread makes the load"),
        |progress| {
            let Progress::Second(second, measurement) = progress else { return };
            gathered.merge(measurement);
            seconds += 1;
            if seconds == SAMPLE_SECONDS {
                let measured = std::mem::take(&mut gathered);
                seconds = 0;
                let sample = sample(&session, directory.as_deref(), second, &measured);
                if let Err(error) = line(&sample.line()) {
                    trouble.get_or_insert(error);
                }
                samples.push(sample);
            }
        },
    )?;
    if let Some(error) = trouble {
        return Err(error);
    }
    let load = &result.workloads[0];
    let rows = session.query_number("SELECT COUNT(*) FROM votes")?;
    let by_phone = session.query_number("SELECT SUM(num_votes) FROM v_votes_by_phone_number")?;
    session.close()?;
    let mut findings = load.findings(rows, by_phone);
    if let Some(failure) = &result.first_failure {
        findings.push(format!("{} calls failed; the first one: {failure}", result.total.failed + result.total.aborted));
    }
    let mut report = SoakReport {
        calls_per_second: result.total.answered() as f64 / result.measured.as_secs_f64(),
        votes: load.voted,
        withdrawn: load.withdrawn,
        left: rows,
        trends: Vec::new(),
    };
    report.judge(&samples[samples.len() / SETTLING_PART..], &mut findings);
    // What grew is as worth keeping as what did not.
    keep(options.load.json.as_deref(), "soak", &report)?;
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    report.print();
    Ok(())
}

fn sample(session: &Session, directory: Option<&Path>, second: i64, measured: &Measurement) -> Sample {
    let latency = measured.latency();
    let process = session.process().map(|process| process.id());
    let open_files =
        process.and_then(|id| fs::read_dir(format!("/proc/{id}/fd")).ok()).map_or(0, |files| files.count());
    let resident = session.usage().map_or(0, |usage| usage.resident_bytes);
    let mut files = (0u64, 0u64);
    if let Some(directory) = directory {
        count_files(directory, &mut files);
    }
    Sample {
        seconds: (second + 1) as usize,
        judged: [
            resident as f64 / 1e6,
            open_files as f64,
            files.0 as f64,
            files.1 as f64 / 1e6,
            latency.p50 as f64,
            latency.p99 as f64,
        ],
        calls_per_second: measured.answered() as f64 / SAMPLE_SECONDS as f64,
        p99_9: latency.p99_9,
        max: latency.max,
        failed: measured.failed + measured.aborted + measured.lost,
    }
}

/// Files below a directory, and the bytes they say they have. What goes away meanwhile does not
/// count.
fn count_files(directory: &Path, sums: &mut (u64, u64)) {
    let entries: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    for path in entries {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => count_files(&path, sums),
            Ok(metadata) => *sums = (sums.0 + 1, sums.1 + metadata.len()),
            Err(_) => {}
        }
    }
}

/// Votes by phones in order; once there are enough, each is followed by the withdrawal of the
/// oldest.
struct SoakLoad {
    vote: Prepared,
    withdraw: Prepared,
    areas: Arc<[u64]>,
    rows: u64,
    sent_votes: u64,
    sent_withdrawals: u64,
    voted: u64,
    withdrawn: u64,
    wrong: u64,
}

#[derive(Clone, Copy)]
enum Call {
    Vote,
    Withdraw,
}

impl SoakLoad {
    fn new(rows: u64) -> SoakLoad {
        SoakLoad {
            vote: Prepared::new("Vote").expect("a short name"),
            withdraw: Prepared::new("soak_withdraw").expect("a short name"),
            areas: area_codes().iter().map(|area| u64::from(area.code)).collect(),
            rows,
            sent_votes: 0,
            sent_withdrawals: 0,
            voted: 0,
            withdrawn: 0,
            wrong: 0,
        }
    }

    fn phone(&self, number: u64) -> i64 {
        let areas = self.areas.len() as u64;
        (self.areas[(number % areas) as usize] * PHONES_PER_AREA + number / areas % PHONES_PER_AREA) as i64
    }

    fn findings(&self, rows: i64, by_phone: i64) -> Vec<String> {
        let expected = (self.voted - self.withdrawn) as i64;
        let mut findings = Vec::new();
        if rows != expected || by_phone != expected {
            findings.push(format!("{rows} votes are there, {by_phone} in the view; {expected} should be"));
        }
        if self.wrong > 0 {
            findings.push(format!("{} answers were not what the model says", self.wrong));
        }
        findings
    }
}

impl Workload for SoakLoad {
    type Note = Call;

    fn call(&mut self, calls: &mut Calls<'_, Call>, call: Intended) {
        let written = if self.sent_votes - self.sent_withdrawals > self.rows {
            let phone = self.phone(self.sent_withdrawals);
            self.sent_withdrawals += 1;
            calls.call(&self.withdraw, &(phone,), call.with(Call::Withdraw))
        } else {
            let phone = self.phone(self.sent_votes);
            self.sent_votes += 1;
            let contestant = 1 + (phone % i64::from(CONTESTANTS)) as i32;
            calls.call(&self.vote, &(phone, contestant, 2i32), call.with(Call::Vote))
        };
        debug_assert!(written.is_ok(), "the parameters are few and small");
    }

    fn completed(&mut self, call: Call, response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            return failure_outcome(response);
        }
        let (count, right) = match call {
            Call::Vote => (&mut self.voted, 0),
            Call::Withdraw => (&mut self.withdrawn, 1),
        };
        *count += 1;
        self.wrong += u64::from(response.scalar() != Some(right));
        LoadOutcome::Succeeded { payload_bytes: 0 }
    }

    fn lost(&mut self, _: Call) {
        self.wrong += 1;
    }
}

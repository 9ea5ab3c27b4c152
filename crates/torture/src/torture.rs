//! `ferrite bench torture`: kills a server again and again under load, and compares what clients
//! were told with what is there.
//!
//! | room | what is in it |
//! |---|---|
//! | [`plan`] | what happens in a round, from a seed |
//! | [`round`] | loads run, the server dies and comes back, the check |
//! | [`drive`] | one load's calls and their ends, and the kill in the moment of a success |
//! | [`lane`] | histories, and what of them may be found after a crash |
//! | [`votes`], [`values`], [`bank`], [`lists`], [`schema`], [`snapshots`] | the loads with their models |
//! | [`scan`] | all rows, for their checks |
//! | [`cluster`] | the same loads against several nodes |
//!
//! What is promised, and so checked: with `sync` durability nothing acknowledged is ever lost. A
//! kill of the process loses nothing in the other modes either, since what was written is the
//! operating system's. With `--power-loss`, where what was not fsynced dies with the process,
//! `interval=MS` may lose what was acknowledged in the last MS milliseconds and the time of an
//! fsync, and `none` anything; but what is left is always a prefix of the history, over all
//! partitions and loads.

pub mod bank;
pub mod cluster;
pub mod drive;
pub mod lane;
pub mod lists;
pub mod plan;
pub mod round;
pub mod scan;
pub mod schema;
pub mod snapshots;
pub mod values;
pub mod votes;

use crate::options::TortureOptions;
use drive::Load;
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::process::{ServerProcess, message_of};
use ferrite_bench::random::FastRandom;
use ferrite_bench::random::seed_or_random;
use ferrite_bench::report::grouped;
use ferrite_bench::results::keep;
use ferrite_bench::session::{Environment, Session};
use lane::Cut;
use plan::{Moment, Plan};
use round::{Counts, Site};
use scan::GroupLayout;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What an fsync may take beyond the interval before an answer counts as lost against the promise.
/// Disks stall, and so do busy machines; a log that forgets to fsync loses more than that.
const FSYNC_SLACK: Duration = Duration::from_millis(1_000);

/// Runs the rounds asked for. The error names what was found, and where the database is kept then.
pub fn run_torture(environment: &Environment, options: &TortureOptions) -> BenchResult<()> {
    if let Some(nodes) = options.nodes {
        return cluster::run_cluster(environment, options, nodes);
    }
    let place = DatabaseDirectory::new(options)?;
    let mut journal = Journal::new(options)?;
    let seed = seed_or_random(options.seed);
    journal.line(&format!(
        "torture: seed {seed}, {} partitions, durability {}, {}",
        options.partitions,
        options.durability,
        if options.power_loss {
            "kills are power losses: what was not fsynced is lost"
        } else {
            "kills of the process"
        }
    ))?;
    let mut run = Run::begin(environment, options, &place, seed)?;
    let result = run.all_rounds(environment, options, seed, &mut journal);
    match result {
        Ok(()) => {
            keep(options.json.as_deref(), "torture", &run.report(options, seed))?;
            journal.line(&run.summary())
        }
        Err(error) => {
            journal.line(&format!("stopped: {error}"))?;
            let kept = place.keep();
            journal.line(&format!("the database and what its servers said are kept in {}", kept.display()))?;
            Err(error)
        }
    }
}

/// What is kept of a run that found nothing wrong.
#[derive(Debug, Serialize)]
struct TortureReport {
    settings: TortureSettings,
    kills: u32,
    kills_while_recovering: usize,
    orderly_ends: u32,
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    /// Acknowledged and gone, as the durability asked for allows.
    lost: u64,
    longest_recovery_microseconds: u64,
}

#[derive(Debug, Serialize)]
struct TortureSettings {
    seed: u64,
    partitions: u32,
    durability: String,
    power_loss: bool,
}

/// Where the database is.
enum DatabaseDirectory {
    Given(PathBuf),
    Temporary(TempDir),
}

impl DatabaseDirectory {
    fn new(options: &TortureOptions) -> BenchResult<DatabaseDirectory> {
        match &options.dir {
            Some(path) => {
                fs::create_dir_all(path).doing("making the directory")?;
                if fs::read_dir(path).doing("looking into the directory")?.next().is_some() {
                    return Err(BenchError::Load(format!(
                        "{} is not empty; torture begins with nothing",
                        path.display()
                    )));
                }
                Ok(DatabaseDirectory::Given(path.clone()))
            }
            None => {
                let directory = tempfile::Builder::new().prefix("ferrite-torture-").tempdir();
                Ok(DatabaseDirectory::Temporary(directory.doing("making a temporary directory")?))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            DatabaseDirectory::Given(path) => path,
            DatabaseDirectory::Temporary(directory) => directory.path(),
        }
    }

    fn keep(self) -> PathBuf {
        match self {
            DatabaseDirectory::Given(path) => path,
            DatabaseDirectory::Temporary(directory) => directory.keep(),
        }
    }
}

/// The lines that a run leaves behind.
struct Journal {
    file: Option<fs::File>,
}

impl Journal {
    fn new(options: &TortureOptions) -> BenchResult<Journal> {
        let file = options.log.as_ref().map(fs::File::create).transpose().doing("making the log file")?;
        Ok(Journal { file })
    }

    fn line(&mut self, text: &str) -> BenchResult<()> {
        ferrite_bench::outln!("{text}");
        match &mut self.file {
            Some(file) => writeln!(file, "{text}").doing("writing the log file"),
            None => Ok(()),
        }
    }
}

/// A run with its server and models.
struct Run {
    site: Site,
    process: Option<ServerProcess>,
    loads: Vec<Box<dyn Load>>,
    epoch: Instant,
    /// See [`Cut::judge`].
    loss_max_nanos: Option<u64>,
    last_recovery: Duration,
    longest_recovery: Duration,
    kills: u32,
    stops: u32,
    recovery_kills: usize,
    total: Counts,
    lost: u64,
}

impl Run {
    fn begin(
        environment: &Environment,
        options: &TortureOptions,
        place: &DatabaseDirectory,
        seed: u64,
    ) -> BenchResult<Run> {
        let mut arguments = ["server", "--listen", "127.0.0.1:0", "--dir"].map(Into::into).to_vec();
        arguments.push(place.path().join("data").into());
        // Also behind the first start, which may be killed before there is anything.
        arguments.push("--new".into());
        arguments.extend(["--partitions".into(), options.partitions.to_string().into()]);
        arguments.extend(["--durability".into(), options.durability.clone().into()]);
        // So small that the server takes snapshots by itself in most rounds, and cuts the log.
        arguments.extend(["--snapshot-log", "8", "--snapshot-interval", "2"].map(Into::into));
        arguments.extend(options.server_options.iter().map(Into::into));
        let mut site = Site {
            executable: environment.executable.clone(),
            arguments,
            power_loss: options.power_loss.then(|| FastRandom::new(seed)),
            messages: place.path().join("messages"),
        };
        let (process, last_recovery, _) = site.start()?;
        let session = Session::to(process.address())?;
        let loads: Vec<Box<dyn Load>> = vec![
            Box::new(votes::Votes::new(&session)?),
            Box::new(values::Values::new(&session, GroupLayout::OneGroup)?),
            Box::new(bank::Bank::new(&session, GroupLayout::OneGroup)?),
            Box::new(schema::Schema::new(&session, GroupLayout::OneGroup)?),
            Box::new(snapshots::Snapshots::new(false)),
        ];
        session.close()?;
        let mut run = Run {
            site,
            process: Some(process),
            loads,
            epoch: Instant::now(),
            loss_max_nanos: loss_max(options)?,
            last_recovery,
            longest_recovery: Duration::ZERO,
            kills: 0,
            stops: 0,
            recovery_kills: 0,
            total: Counts::default(),
            lost: 0,
        };
        run.make_durable()?;
        Ok(run)
    }

    fn all_rounds(
        &mut self,
        environment: &Environment,
        options: &TortureOptions,
        seed: u64,
        journal: &mut Journal,
    ) -> BenchResult<()> {
        let mut round = 0;
        while self.kills < options.kills
            && options.duration.is_none_or(|duration| self.epoch.elapsed() < duration)
            && !environment.stop.load(Ordering::Relaxed)
        {
            round += 1;
            self.round(round, &Plan::new(seed, round), journal)?;
        }
        // Once more what all is, after an orderly end.
        let mut cut = Cut::default();
        self.process.take().expect("a round leaves a server").stop()?;
        let (process, ..) = self.site.start()?;
        round::check(&process, &mut self.loads, &mut cut)?;
        process.stop()?;
        self.judge(&mut cut, u64::MAX).map(drop)
    }

    fn round(&mut self, number: u32, plan: &Plan, journal: &mut Journal) -> BenchResult<()> {
        let mut cut = Cut::default();
        let process = self.process.take().expect("a round leaves a server");
        let (died_at, counts) = round::run_until_death(process, &mut self.loads, plan, self.epoch, &mut cut)?;
        let recovery_kills = round::kill_recoveries(&mut self.site, plan, self.last_recovery)?;
        let (process, recovery, said) = self.site.start()?;
        round::check(&process, &mut self.loads, &mut cut)?;
        self.process = Some(process);
        let age = self.judge(&mut cut, if matches!(plan.moment, Moment::Stop(_)) { u64::MAX } else { died_at })?;

        self.last_recovery = recovery;
        self.longest_recovery = self.longest_recovery.max(recovery);
        if matches!(plan.moment, Moment::Stop(_)) {
            self.stops += 1;
        } else {
            self.kills += 1;
        }
        self.recovery_kills += recovery_kills;
        self.total.acknowledged += counts.acknowledged;
        self.total.refused += counts.refused;
        self.total.unknown += counts.unknown;
        self.lost += cut.lost;
        let mut line = format!(
            "{number:4}  {plan}: {} acknowledged, {} refused, {} unknown",
            counts.acknowledged, counts.refused, counts.unknown
        );
        if let Some(age) = age {
            line.push_str(&format!(", {} lost of the last {:.1} ms", cut.lost, age as f64 / 1e6));
        }
        if recovery_kills > 0 {
            line.push_str(&format!("; {recovery_kills} more while recovering"));
        }
        line.push_str(&format!("; back in {:.2} s", recovery.as_secs_f64()));
        for text in said.lines().filter_map(in_short) {
            line.push_str("; ");
            line.push_str(text);
        }
        journal.line(&line)?;
        if cut.changed {
            self.make_durable()?;
        }
        Ok(())
    }

    /// The findings, as an error; or how old the first loss was, where losses are allowed.
    fn judge(&self, cut: &mut Cut, died_at: u64) -> BenchResult<Option<u64>> {
        // An orderly end loses nothing, whatever the durability.
        let loss_max = if died_at == u64::MAX { Some(0) } else { self.loss_max_nanos };
        let age = cut.judge(died_at, loss_max);
        if cut.findings.is_empty() { Ok(age) } else { Err(BenchError::Wrong(std::mem::take(&mut cut.findings))) }
    }

    /// What was done outside of rounds must not be lost: models take it for granted. Where
    /// acknowledged is not durable, an orderly end makes it so.
    fn make_durable(&mut self) -> BenchResult<()> {
        if self.loss_max_nanos != Some(0) {
            self.process.take().expect("a round leaves a server").stop()?;
            self.process = Some(self.site.start()?.0);
        }
        Ok(())
    }

    fn report(&self, options: &TortureOptions, seed: u64) -> TortureReport {
        TortureReport {
            settings: TortureSettings {
                seed,
                partitions: options.partitions,
                durability: options.durability.clone(),
                power_loss: options.power_loss,
            },
            kills: self.kills,
            kills_while_recovering: self.recovery_kills,
            orderly_ends: self.stops,
            acknowledged: self.total.acknowledged,
            refused: self.total.refused,
            unknown: self.total.unknown,
            lost: self.lost,
            longest_recovery_microseconds: self.longest_recovery.as_micros() as u64,
        }
    }

    fn summary(&self) -> String {
        let lost = match self.loss_max_nanos {
            Some(0) => "none lost".to_string(),
            _ => format!("{} lost, always the last ones", grouped(self.lost)),
        };
        format!(
            "no difference after {} kills, {} more while recovering, {} orderly ends: {} calls acknowledged ({lost}), {} refused, \
             {} unknown; longest recovery {:.2} s",
            self.kills,
            self.recovery_kills,
            self.stops,
            grouped(self.total.acknowledged),
            grouped(self.total.refused),
            grouped(self.total.unknown),
            self.longest_recovery.as_secs_f64(),
        )
    }
}

/// What of a server's message belongs into the line of its round.
fn in_short(message: &str) -> Option<&str> {
    let text = message_of(message)?;
    let until = |end: &str| text.find(end).map_or(text, |at| &text[..at]);
    if text.starts_with("recovered ") {
        Some(until(" of log"))
    } else if text.starts_with("snapshot ") {
        Some(until(" ("))
    } else if text.starts_with("cut off ") {
        Some(until(" of writes"))
    } else {
        None
    }
}

/// For how long before a crash acknowledged calls may be lost, by the durability's promise.
fn loss_max(options: &TortureOptions) -> BenchResult<Option<u64>> {
    if options.durability == "memory" {
        // A kill leads back to the newest snapshot.
        return Ok(None);
    }
    if !options.power_loss || options.durability == "sync" {
        return Ok(Some(0));
    }
    if options.durability == "none" {
        return Ok(None);
    }
    let interval = options.durability.strip_prefix("interval=").and_then(|text| text.parse().ok());
    let interval = interval.map(Duration::from_millis).ok_or_else(|| {
        BenchError::Load(format!("durability is sync, interval=MS, none or memory, not {}", options.durability))
    })?;
    Ok(Some((interval + FSYNC_SLACK).as_nanos() as u64))
}

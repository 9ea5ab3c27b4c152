//! One round: loads run, the server dies as planned and comes back, and what is there is compared
//! with what clients were told.

use crate::torture::drive::{Control, Load, drive};
use crate::torture::lane::Cut;
use crate::torture::plan::{Moment, Pause, Plan};
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::process::{Launched, ServerProcess, Signal};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// A moment that does not come by itself is over after this.
const MOMENT_MAX: Duration = Duration::from_millis(2_500);
/// How often the killer looks.
const LOOK_AFTER: Duration = Duration::from_micros(100);

/// How servers are started, and where what they say is kept.
#[derive(Debug)]
pub struct Site {
    pub executable: PathBuf,
    pub arguments: Vec<OsString>,
    /// Under power loss each server gets a seed of its own for what survives.
    pub power_loss: Option<FastRandom>,
    /// What servers say on standard error.
    pub messages: PathBuf,
}

impl Site {
    pub fn launch(&mut self) -> BenchResult<Launched> {
        let mut arguments = self.arguments.clone();
        if let Some(random) = &mut self.power_loss {
            arguments.extend(["--unsynced-writes-are-lost".into(), (random.next_u64() >> 1).to_string().into()]);
        }
        let messages = fs::File::options().create(true).append(true).open(&self.messages);
        ServerProcess::launch(&self.executable, &arguments, None, Some(messages.doing("opening the messages")?))
    }

    /// Bytes that servers have said.
    fn said(&self) -> u64 {
        fs::metadata(&self.messages).map_or(0, |metadata| metadata.len())
    }

    /// What was said since.
    pub fn said_since(&self, position: u64) -> String {
        let mut text = Vec::new();
        let read = fs::File::open(&self.messages).and_then(|mut file| {
            file.seek(SeekFrom::Start(position))?;
            file.read_to_end(&mut text)
        });
        read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&text).trim_end().to_string())
    }

    /// A server that is ready, how long that took, and what it said meanwhile.
    pub fn start(&mut self) -> BenchResult<(ServerProcess, Duration, String)> {
        let position = self.said();
        let began = Instant::now();
        match self.launch()?.until_ready() {
            Ok(process) => Ok((process, began.elapsed(), self.said_since(position))),
            Err(error) => Err(BenchError::Server(format!("{error}: {}", self.said_since(position)))),
        }
    }
}

/// Counts of one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
}

/// Runs the loads until the server has died as planned. Returns when that was, by `epoch`.
pub fn run_until_death(
    mut process: ServerProcess,
    loads: &mut [Box<dyn Load>],
    plan: &Plan,
    epoch: Instant,
    cut: &mut Cut,
) -> BenchResult<(u64, Counts)> {
    let control = Arc::new(Control::new(epoch, process.id(), matches!(plan.moment, Moment::Burst(_))));
    let mut seeds = FastRandom::new(plan.seed);
    for load in loads.iter_mut() {
        load.begin(FastRandom::new(seeds.next_u64()));
    }
    let address = process.address().to_string();
    let ended = thread::scope(|scope| {
        let running: Vec<_> = loads
            .iter_mut()
            .map(|load| {
                let control = Arc::clone(&control);
                let address = address.as_str();
                scope.spawn(move || {
                    let mut cut = Cut::default();
                    let result = drive(load.as_mut(), address, &control, &mut cut);
                    (result, cut)
                })
            })
            .collect();
        let ended = bring_death(&mut process, plan, &control);
        // Whatever happened: nobody waits for answers of a server that is not killed.
        control.stop.store(true, Ordering::SeqCst);
        if ended.is_err() {
            control.kill();
        }
        for thread in running {
            match thread.join() {
                Ok((Ok(()), of_load)) => of_load.findings.into_iter().for_each(|finding| cut.finding(finding)),
                Ok((Err(error), _)) => cut.finding(error.to_string()),
                Err(_) => cut.finding("a load's thread panicked".to_string()),
            }
        }
        ended
    });
    let died_at = ended?;
    let counts = Counts {
        acknowledged: control.acknowledged.load(Ordering::Relaxed),
        refused: control.refused.load(Ordering::Relaxed),
        unknown: control.unknown.load(Ordering::Relaxed),
    };
    Ok((died_at, counts))
}

fn bring_death(process: &mut ServerProcess, plan: &Plan, control: &Control) -> BenchResult<u64> {
    let began = Instant::now();
    let mut pause = plan.pause;
    match plan.moment {
        Moment::Time(after) => wait(process, control, &mut pause, began, |_| began.elapsed() >= after)?,
        Moment::Success(after, nth) => {
            wait(process, control, &mut pause, began, |_| began.elapsed() >= after)?;
            control.kill_at_success(nth);
            wait(process, control, &mut pause, began, Control::was_killed)?;
        }
        Moment::Burst(nth) => {
            control.kill_at_burst(nth);
            wait(process, control, &mut pause, began, Control::was_killed)?;
        }
        Moment::SchemaChange(after, into) => {
            wait(process, control, &mut pause, began, |_| began.elapsed() >= after)?;
            let in_flight = |control: &Control| control.schema_changes_in_flight.load(Ordering::SeqCst) > 0;
            wait(process, control, &mut pause, began, in_flight)?;
            let now = Instant::now();
            wait(process, control, &mut pause, began, |_| now.elapsed() >= into)?;
        }
        Moment::Snapshot(after, into) => {
            wait(process, control, &mut pause, began, |_| began.elapsed() >= after)?;
            let in_flight = |control: &Control| control.snapshots_in_flight.load(Ordering::SeqCst) > 0;
            wait(process, control, &mut pause, began, in_flight)?;
            let now = Instant::now();
            wait(process, control, &mut pause, began, |_| now.elapsed() >= into)?;
        }
        Moment::Stop(after) => {
            wait(process, control, &mut pause, began, |_| began.elapsed() >= after)?;
            control.expect_end();
            let died_at = control.now();
            process.end()?;
            return Ok(died_at);
        }
    }
    control.kill();
    process.await_kill()?;
    Ok(control.killed_at())
}

/// Waits until `over`, or until that is no more to be expected, and pauses the server on the way.
fn wait(
    process: &mut ServerProcess,
    control: &Control,
    pause: &mut Option<Pause>,
    began: Instant,
    over: impl Fn(&Control) -> bool,
) -> BenchResult<()> {
    while !over(control) && began.elapsed() < MOMENT_MAX {
        if let Some(due) = pause.take_if(|pause| began.elapsed() >= pause.after) {
            process.signal(Signal::STOP);
            thread::sleep(due.length);
            process.signal(Signal::CONT);
        }
        thread::sleep(LOOK_AFTER);
        if process.has_ended()? && !control.was_killed() {
            return Err(BenchError::Server("the server ended by itself".to_string()));
        }
    }
    Ok(())
}

/// Starts servers and kills them while they recover. Returns how many.
pub fn kill_recoveries(site: &mut Site, plan: &Plan, last_recovery: Duration) -> BenchResult<usize> {
    for percent in &plan.recovery_kills {
        let launched = site.launch()?;
        thread::sleep(last_recovery * *percent / 100);
        launched.process.kill()?;
    }
    Ok(plan.recovery_kills.len())
}

/// Compares all models with what is there.
pub fn check(process: &ServerProcess, loads: &mut [Box<dyn Load>], cut: &mut Cut) -> BenchResult<()> {
    let session = Session::to(process.address())?;
    for load in loads {
        load.check(&session, cut).map_err(|error| BenchError::Server(format!("{}: {error}", load.name())))?;
    }
    session.close()
}

//! Load generators, their reports, and the demo: the library behind `ferrite bench` and `ferrite demo`.
//!
//! | room | what is in it |
//! |---|---|
//! | [`options`] | the command line |
//! | [`generator`], [`load`] | one thread of load; all threads and what they measure |
//! | [`measurement`], [`report`] | seconds, latencies; text and JSON |
//! | [`voter_load`], [`voter`] | the Voter application: its calls; schema, run, validation |
//! | [`kv`] | values by key |
//! | [`adhoc`], [`multi`] | statements as text; transactions over several partitions |
//! | [`soak`] | hours of load, and whether anything grows |
//! | [`torture`] | kills of the server under load, and what is there afterwards |
//! | [`limit`], [`limit_server`] | the yardstick: a bare loop that does Voter's work |
//! | [`pauses`] | how long the machine stops its cores by itself |
//! | [`against`] | Voter and the yardstick in turn |
//! | [`demo`], [`scoreboard`] | a live scoreboard on a server of its own |
//! | [`session`], [`process`], [`statements`] | the server under test, as a client and as a process; SQL files |
//!
//! Knows the server only through its command line, its ready line and the client protocol.

pub mod adhoc;
pub mod against;
pub mod area_codes;
pub mod beside;
pub mod demo;
pub mod error;
pub mod generator;
pub mod kv;
pub mod limit;
pub mod limit_server;
pub mod load;
pub mod measurement;
pub mod multi;
pub mod options;
pub mod pauses;
pub mod process;
pub mod random;
pub mod report;
pub mod run;
pub mod scoreboard;
pub mod session;
pub mod soak;
pub mod statements;
pub mod torture;
pub mod voter;
pub mod voter_load;

pub use error::{BenchError, BenchResult};
pub use options::{BenchCommand, DemoOptions};
pub use session::Environment;

/// Runs one load to its end. An error means that it could not be run, or that its result was wrong.
pub fn run_bench(command: &BenchCommand) -> BenchResult<()> {
    if let BenchCommand::LimitServer(options) = command {
        return limit::run_limit_server(options);
    }
    if let BenchCommand::Pauses(options) = command {
        return pauses::run_pauses(options).map(drop);
    }
    let environment = Environment::of_this_process()?;
    match command {
        BenchCommand::Voter(options) if options.against_limit => {
            against::run_against_limit(&environment, options).map(drop)
        }
        BenchCommand::Voter(options) => voter::run_voter(&environment, options).map(drop),
        BenchCommand::Kv(options) => kv::run_kv(&environment, options).map(drop),
        BenchCommand::AdHoc(options) => adhoc::run_adhoc(&environment, options).map(drop),
        BenchCommand::Multi(options) => multi::run_multi(&environment, options).map(drop),
        BenchCommand::Soak(options) => soak::run_soak(&environment, options),
        BenchCommand::Torture(options) => torture::run_torture(&environment, options),
        BenchCommand::Limit(options) => limit::run_limit(&environment, options).map(drop),
        BenchCommand::LimitServer(_) | BenchCommand::Pauses(_) => unreachable!("answered above"),
    }
}

/// Runs the demo to its end.
pub fn run_demo(options: &DemoOptions) -> BenchResult<()> {
    demo::run_demo(&Environment::of_this_process()?, options)
}

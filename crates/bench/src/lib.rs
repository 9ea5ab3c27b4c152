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
//! | [`crossing`] | empty procedures, in Java and in SQL |
//! | [`workloads`] | Voter and values by key, as experiments run them many times |
//! | [`curve`] | throughput against latency |
//! | [`node`], [`companion`] | Node.js processes as clients; other programs as child processes |
//! | [`compare`] | the same workloads on other databases |
//! | [`scale`] | the Universal Scalability Law |
//! | [`soak`] | hours of load, and whether anything grows |
//! | [`torture`] | kills of the server under load, and what is there afterwards |
//! | [`limit`], [`limit_client`], [`limit_server`] | the yardstick: bare loops that do Voter's work and its client's |
//! | [`pauses`] | how long the machine stops its cores by itself |
//! | [`against`] | Voter and the yardstick in turn |
//! | [`regress`] | this build and another in turn |
//! | [`demo`], [`scoreboard`] | a live scoreboard on a server of its own |
//! | [`results`], [`diff`] | runs kept as JSON; two of them compared |
//! | [`progress`] | a line of progress while anything takes long |
//! | [`session`], [`process`], [`statements`] | the server under test, as a client and as a process; SQL files |
//!
//! Knows the server only through its command line, its ready line and the client protocol.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod adhoc;
pub mod against;
pub mod area_codes;
pub mod beside;
pub mod companion;
pub mod compare;
pub mod crossing;
pub mod curve;
pub mod demo;
pub mod diff;
pub mod error;
pub mod generator;
pub mod kv;
pub mod limit;
pub mod limit_client;
pub mod limit_server;
pub mod load;
pub mod measurement;
pub mod multi;
pub mod node;
pub mod options;
pub mod pauses;
pub mod process;
pub mod progress;
pub mod random;
pub mod regress;
pub mod report;
pub mod results;
pub mod run;
pub mod scale;
pub mod scoreboard;
pub mod session;
pub mod soak;
pub mod statements;
pub mod torture;
pub mod voter;
pub mod voter_load;
pub mod workloads;

pub use error::{BenchError, BenchResult};
pub use options::{BenchCommand, DemoOptions};
pub use session::Environment;

/// Runs one load to its end. An error means that it could not be run, or that its result was wrong.
pub fn run_bench(command: &BenchCommand) -> BenchResult<()> {
    if let Some(file) = command.json() {
        results::check_writable(file)?;
    }
    if let BenchCommand::Diff(options) = command {
        return diff::run_diff(options);
    }
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
        BenchCommand::Crossing(options) => crossing::run_crossing(&environment, options),
        BenchCommand::Soak(options) => soak::run_soak(&environment, options),
        BenchCommand::Torture(options) => torture::run_torture(&environment, options),
        BenchCommand::Curve(options) => curve::run_curve(&environment, options).map(drop),
        BenchCommand::Node(options) => node::run_node(&environment, options),
        BenchCommand::Compare(options) => compare::run_compare(&environment, options),
        BenchCommand::Scale(options) => scale::run_scale(&environment, options),
        BenchCommand::Regress(options) => regress::run_regress(&environment, options),
        BenchCommand::Limit(options) => limit::run_limit(&environment, options).map(drop),
        BenchCommand::LimitServer(_) | BenchCommand::Pauses(_) | BenchCommand::Diff(_) => {
            unreachable!("answered above")
        }
    }
}

/// Runs the demo to its end.
pub fn run_demo(options: &DemoOptions) -> BenchResult<()> {
    demo::run_demo(&Environment::of_this_process()?, options)
}

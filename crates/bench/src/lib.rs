//! Load generators, their reports, and the demo: the library behind `ferrite bench` and
//! `ferrite demo`.
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
//! | [`scale`] | the Universal Scalability Law |
//! | [`limit`], [`limit_client`], [`limit_server`] | the yardstick: bare loops that do Voter's work and its client's |
//! | [`pauses`] | how long the machine stops its cores by itself |
//! | [`against`] | Voter and the yardstick in turn |
//! | [`regress`] | this build and another in turn |
//! | [`demo`], [`scoreboard`] | a live scoreboard on a server of its own |
//! | [`results`], [`diff`] | runs kept as JSON; two of them compared |
//! | [`progress`] | a line of progress while anything takes long |
//! | [`failover`], [`writes`] | how long a cluster is without a leader; the writes that show it |
//! | [`cluster`], [`network`], [`cluster_process`] | a cluster under test, as processes; a network whose packets can be lost; a cluster that a load runs on |
//! | [`session`], [`process`], [`statements`] | the server under test, as a client and as a process; SQL files |
//!
//! Knows the server only through its command line, its ready line and the client protocol.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod adhoc;
pub mod against;
pub mod area_codes;
pub mod beside;
pub mod calls;
pub mod cluster;
pub mod cluster_process;
pub mod companion;
pub mod crossing;
pub mod curve;
pub mod demo;
pub mod diff;
pub mod error;
pub mod failover;
pub mod generator;
pub mod kv;
pub mod limit;
pub mod limit_client;
pub mod limit_server;
pub mod load;
pub mod measurement;
pub mod multi;
pub mod network;
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
pub mod statements;
pub mod voter;
pub mod voter_load;
pub mod workloads;
pub mod writes;

pub use error::{BenchError, BenchResult};
pub use ferrite_io::{errln, out, outln};
pub use options::DemoOptions;
pub use session::Environment;

use std::process::ExitCode;

/// The end of a program that ran one of these.
pub fn report(result: BenchResult<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ferrite_io::errln!("ferrite: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs the demo to its end.
pub fn run_demo(options: &DemoOptions) -> BenchResult<()> {
    demo::run_demo(&Environment::of_this_process()?, options)
}

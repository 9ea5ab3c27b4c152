//! The `ferrite` program: server, benchmarks, demonstration.

mod server;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// FerriteDB: an in-memory, distributed, ACID SQL database for transaction processing.
#[derive(Parser)]
#[command(name = "ferrite", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a database server.
    Server(server::Options),
    /// Measure a server, or the machine's limit for this kind of work.
    #[command(subcommand)]
    Bench(ferrite_bench::BenchCommand),
    /// See it run: a server, the Voter application and a live scoreboard.
    Demo(ferrite_bench::DemoOptions),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(options) => server::run(options),
        Command::Bench(command) => report(ferrite_bench::run_bench(&command)),
        Command::Demo(options) => report(ferrite_bench::run_demo(&options)),
    }
}

fn report(result: ferrite_bench::BenchResult<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferrite: {error}");
            ExitCode::FAILURE
        }
    }
}

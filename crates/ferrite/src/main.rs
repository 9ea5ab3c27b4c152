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
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Server(options) => server::run(options),
    }
}

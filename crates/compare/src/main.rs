//! `ferrite-compare`, which `ferrite bench compare` starts with its own command line and, in the
//! environment, its own path: that is the server that is compared. Whatever is wrong with the
//! options `ferrite` has said by then.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

use clap::{Parser, Subcommand};
use ferrite_bench::options::CompareOptions;
use ferrite_bench::{Environment, report};
use ferrite_compare::run_compare;
use std::process::ExitCode;

/// The server's own, so that the client's part of a call costs what it costs in the other benches.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares FerriteDB with other databases. Start it with `ferrite bench compare`.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// As in `ferrite bench`
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// The same workloads on PostgreSQL, Redis and SQLite, with equal durability
    Compare(CompareOptions),
}

fn main() -> ExitCode {
    let Command::Bench(Bench::Compare(options)) = Arguments::parse().command;
    report(Environment::of_companion_program().and_then(|environment| run_compare(&environment, &options)))
}

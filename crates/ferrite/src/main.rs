//! The `ferrite` program: server, shell, loader, dump, benchmarks, demonstration.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod address;
mod admin;
mod allocator;
mod anew;
mod bench;
mod check;
mod cluster_options;
mod init_procedure;
mod server;
mod witness;

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;

/// FerriteDB: an in-memory, distributed, ACID SQL database for transaction processing.
#[derive(Parser)]
#[command(name = "ferrite", version, long_version = ferrite_member::release::versions(), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a database server.
    Server(Box<server::Options>),
    /// Run a witness: a node that votes but keeps no data, so that a cluster of two nodes with data
    /// survives the loss of either.
    Witness(witness::Options),
    /// Talk to a server: statements and commands, typed or from files.
    Sql(ferrite_shell::SqlOptions),
    /// Load a file into a table.
    Load(ferrite_shell::LoadOptions),
    /// Write schema and data as a script.
    Dump(ferrite_shell::DumpOptions),
    /// Check a schema and its Java classes without a server: report everything that would be
    /// refused or only partly supported.
    Check(check::Options),
    /// Create a Maven project with a Java procedure and its test, as a starting point.
    InitProcedure(init_procedure::Options),
    /// Measure a server, or the machine's limit for this kind of work.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Administer a server or a cluster: status, leadership, pauses, snapshots, backups, and
    /// recovery from losses.
    #[command(subcommand)]
    Admin(admin::Command),
    /// See it run: a server, the Voter application and a live scoreboard.
    Demo(ferrite_bench::DemoOptions),
}

fn main() -> ExitCode {
    let code = run(Arguments::parse().command);
    match ferrite_io::stdio::OUT.failure() {
        // `ferrite ... | head`: whatever reads has enough.
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            ferrite_io::errln!("ferrite: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Server(options) => server::run(*options),
        Command::Witness(options) => witness::run(options),
        Command::Sql(options) => ferrite_shell::run_sql(&options),
        Command::Load(options) => ferrite_shell::run_load(&options),
        Command::Dump(options) => ferrite_shell::run_dump(&options),
        Command::Check(options) => check::run(&options),
        Command::InitProcedure(options) => init_procedure::run(&options),
        Command::Bench(command) => ferrite_bench::report(bench::run(&command)),
        Command::Admin(command) => admin::run(command),
        Command::Demo(options) => ferrite_bench::report(ferrite_bench::run_demo(&options)),
    }
}

//! `ferrite witness`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use crate::address;
use clap::Args;
use ferrite_io::{RealDisk, stdio};
use ferrite_node::{ClusterOptions, Witness, WitnessOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether a signal has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Args)]
pub struct Options {
    /// Directory of this node; created if missing.
    #[arg(long, value_name = "DATA")]
    dir: PathBuf,
    /// All nodes of the cluster, as for `ferrite server`; needed at the first start only.
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Copies of all data beside the first, as for `ferrite server`.
    #[arg(long, value_name = "K", default_value_t = 0, requires = "cluster", value_parser = clap::value_parser!(u32).range(0..=6))]
    kfactor: u32,
    /// Where the other nodes reach this one [default: at its place in --cluster].
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address::listen)]
    cluster_listen: Option<SocketAddr>,
}

pub fn run(options: Options) -> ExitCode {
    if let Err(error) = stdio::start() {
        return fail(&format!("cannot start a thread: {error}"));
    }
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        if let Err(error) = flag::register(signal, Arc::clone(&ends)) {
            return fail(&format!("cannot watch for signals: {error}"));
        }
    }
    ferrite_io::ignore_harmless_signals();
    let cluster = ClusterOptions {
        hosts: options.cluster,
        kfactor: options.kfactor,
        listen: options.cluster_listen,
        ends: Arc::clone(&ends),
        ..ClusterOptions::default()
    };
    let witness = match Witness::start(WitnessOptions { dir: options.dir, disk: Arc::new(RealDisk), cluster }) {
        Ok(witness) => witness,
        Err(error) => return fail(&error.to_string()),
    };
    ferrite_io::outln!("ferrite witness ready (node {})", witness.node());
    let must_end = loop {
        if let Some(reason) = witness.ends_within(LOOK_EVERY) {
            break Some(reason);
        }
        if ends.load(Ordering::Acquire) {
            break None;
        }
    };
    witness.stop();
    stdio::flush(stdio::LAST_LINES_TIME);
    if must_end.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn fail(message: &str) -> ExitCode {
    ferrite_io::errln!("ferrite: {message}");
    stdio::flush(stdio::LAST_LINES_TIME);
    ExitCode::FAILURE
}

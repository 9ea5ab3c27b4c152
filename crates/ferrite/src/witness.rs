//! `ferrite witness`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use crate::cluster_options::MemberOptions;
use clap::Args;
use ferrite_io::{RealDisk, stdio};
use ferrite_node::{ServerError, Witness, WitnessOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
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
    #[command(flatten)]
    member: MemberOptions,
}

pub fn run(options: Options) -> ExitCode {
    if let Err(error) = stdio::start() {
        return fail(&format!("cannot start a thread: {error}"));
    }
    let ends = Arc::new(AtomicBool::new(false));
    // As a server does: whoever has the end of a terminal session ignored (nohup) wants it to live.
    let hangup = (!crate::server::is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGTERM, SIGINT].into_iter().chain(hangup) {
        if let Err(error) = flag::register(signal, Arc::clone(&ends)) {
            return fail(&format!("cannot watch for signals: {error}"));
        }
    }
    ferrite_io::ignore_harmless_signals();
    let cluster = options.member.cluster(&ends);
    let witness = match Witness::start(WitnessOptions { dir: options.dir, disk: Arc::new(RealDisk), cluster }) {
        Ok(witness) => witness,
        Err(ended @ ServerError::Ended) => {
            ferrite_io::errln!("ferrite: {ended}");
            stdio::flush(stdio::LAST_LINES_TIME);
            return ExitCode::SUCCESS;
        }
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

//! `ferrite witness`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use crate::cluster_options::MemberOptions;
use clap::Args;
use ferrite_io::{RealDisk, notices, stdio};
use ferrite_member::{MemberError, Witness, WitnessOptions};
use ferrite_notice::Notice;
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
    notices::set_format(options.member.log_format());
    if let Err(error) = stdio::start() {
        return fail(format!("cannot start a thread: {error}"));
    }
    let ends = Arc::new(AtomicBool::new(false));
    // As a server does: with the end of a terminal session ignored (nohup) it lives on.
    let hangup = (!crate::server::is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGTERM, SIGINT].into_iter().chain(hangup) {
        if let Err(error) = flag::register(signal, Arc::clone(&ends)) {
            return fail(format!("cannot watch for signals: {error}"));
        }
    }
    ferrite_io::ignore_harmless_signals();
    let cluster = options.member.cluster(&ends);
    let witness = match Witness::start(WitnessOptions { dir: options.dir, disk: Arc::new(RealDisk), cluster }) {
        Ok(witness) => witness,
        Err(MemberError::Ended) => {
            ferrite_io::notify(Notice::StartInterrupted);
            stdio::flush(stdio::LAST_LINES_TIME);
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(error.to_string()),
    };
    ferrite_io::announce(Notice::WitnessReady { node: witness.node() });
    let must_end = loop {
        if let Some(reason) = witness.ends_within(LOOK_EVERY) {
            break Some(reason);
        }
        if ends.load(Ordering::Acquire) {
            break None;
        }
    };
    ferrite_io::notify(Notice::Stops);
    witness.stop();
    ferrite_io::notify(Notice::Stopped);
    stdio::flush(stdio::LAST_LINES_TIME);
    if must_end.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn fail(reason: String) -> ExitCode {
    ferrite_io::notify(Notice::StartFailed { reason });
    stdio::flush(stdio::LAST_LINES_TIME);
    ExitCode::FAILURE
}

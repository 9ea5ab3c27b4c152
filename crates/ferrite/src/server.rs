//! `ferrite server`: from its options to the process's exit code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod assemble;
mod options;
mod process;
mod report;
mod stop;

use crate::anew;
use ferrite_member::MemberError;
use ferrite_node::{Server, ServerError};
use ferrite_notice::Notice;
pub use options::Options;
pub use process::is_ignored;
use report::Report;
use signal_hook::consts::SIGTERM;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub fn run(options: Options) -> ExitCode {
    ferrite_io::notices::set_format(options.member.log_format());
    // Until the last line is on its way.
    let (_last_lines, begun) = process::begin();
    begun
        .and_then(|()| plant_fault())
        .and_then(|()| start_and_wait(options))
        .unwrap_or_else(|reason| fail(Notice::StartFailed { reason }))
}

/// # Errors
/// What the operator is told of a server that did not start.
fn start_and_wait(options: Options) -> Result<ExitCode, String> {
    let ends = Arc::new(AtomicBool::new(false));
    let signalled = process::watch_signals(&ends)?;
    process::set_up()?;
    let report = Report::of(&options);
    let server = match Server::start(assemble::server_options(options, &ends)?) {
        Ok(server) => server,
        // What has ended it was said.
        Err(ServerError::Member(MemberError::CopyGivenUp(_))) => return Ok(anew::begin()),
        Err(ServerError::Member(MemberError::Ended)) => {
            ferrite_io::notify(Notice::StartInterrupted);
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.to_string()),
    };
    // @Shutdown ends the process the same way.
    server.on_shutdown(|| {
        let _ = signal_hook::low_level::raise(SIGTERM);
    });
    report.print(&server);
    process::is_ready();
    Ok(stop::at_a_signal(server, signalled))
}

/// The fault that crash tests ask for (docs/torture.md).
#[cfg(debug_assertions)]
fn plant_fault() -> Result<(), String> {
    use ferrite_base::planted_fault::{PlantedFault, plant_everywhere};
    let Ok(name) = std::env::var("FERRITE_PLANTED_FAULT") else { return Ok(()) };
    let fault = PlantedFault::from_name(&name).ok_or_else(|| format!("FERRITE_PLANTED_FAULT: unknown fault {name}"))?;
    plant_everywhere(fault);
    ferrite_io::notify(Notice::FaultPlanted { fault: format!("{fault:?}"), breaks: fault.breaks().to_owned() });
    Ok(())
}

/// Other builds have none.
#[cfg(not(debug_assertions))]
fn plant_fault() -> Result<(), String> {
    Ok(())
}

fn fail(failure: Notice) -> ExitCode {
    ferrite_io::notify(failure);
    ExitCode::FAILURE
}

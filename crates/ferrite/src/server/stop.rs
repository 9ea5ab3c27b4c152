//! A server that runs until a signal, and how its process ends then.

use super::{fail, process};
use crate::anew;
use ferrite_io::stdio;
use ferrite_node::{Server, Stopped};
use ferrite_notice::Notice;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Waits for the first signal; each one after that insists.
pub(super) fn at_a_signal(server: Server, signalled: Receiver<()>) -> ExitCode {
    let _ = signalled.recv();
    ferrite_io::notify(Notice::Stops);
    let insist = server.insist();
    let insisted = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&insisted);
    let listening = std::thread::Builder::new().name("insistence".to_owned()).spawn(move || {
        signalled.iter().for_each(|()| {
            heard.store(true, Ordering::SeqCst);
            insist.insist();
        });
    });
    if let Err(error) = listening {
        ferrite_io::notify(Notice::SecondSignalIgnored { reason: error.to_string() });
    }
    let must_end = server.must_end();
    let begins_anew = server.begins_anew();
    let stopped = server.stop();
    if stopped.is_ok() {
        ferrite_io::notify(Notice::Stopped);
    }
    match stopped {
        // A signal may want its end as well.
        Ok(_) if begins_anew && !insisted.load(Ordering::SeqCst) => anew::begin(),
        Ok(Stopped::Wholly) if must_end.is_some() || process::java_has_ended_it() => ExitCode::FAILURE,
        Ok(Stopped::Wholly) => ExitCode::SUCCESS,
        // Not by way of main: what is done there at the end (the JVM's, too) would meet threads
        // that still run.
        Ok(Stopped::LeavingThreads) => {
            stdio::flush(stdio::LAST_LINES_TIME);
            signal_hook::low_level::exit(i32::from(process::java_has_ended_it()))
        }
        // The loss was reported.
        Ok(Stopped::Unsaved) => {
            stdio::flush(stdio::LAST_LINES_TIME);
            signal_hook::low_level::exit(1)
        }
        Err(failure) => fail(Notice::LogNotClosed { reason: failure.to_string() }),
    }
}

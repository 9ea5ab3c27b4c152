//! `cargo run -p ferrite-sim -- --seeds N [--seed S] [--trace] [--threads T]`: runs N seeds from S on, and says what was violated.

use ferrite_sim::{Counts, Report, run};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const USAGE: &str = "usage: ferrite-sim [--seeds COUNT] [--seed FIRST] [--threads COUNT] [--trace]";

struct Options {
    seeds: u64,
    first: u64,
    threads: u64,
    trace: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seeds: 1, first: 1, threads: 1, trace: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            text.parse().map_err(|_| format!("{argument} needs a number, not {text}"))
        };
        match argument.as_str() {
            "--seeds" => options.seeds = number()?,
            "--seed" => options.first = number()?,
            "--threads" => options.threads = number()?,
            "--trace" => options.trace = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (next, totals) = (AtomicU64::new(0), Mutex::new((Counts::default(), 0u64)));
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let offset = next.fetch_add(1, Ordering::Relaxed);
                    if offset >= options.seeds {
                        return;
                    }
                    let report = run(options.first + offset, options.trace);
                    show(&report, options.seeds <= 20);
                    let mut totals = totals.lock().expect("nobody panics with the totals");
                    totals.0.add(&report.counts);
                    totals.1 += u64::from(report.violation.is_some());
                }
            });
        }
    });
    let (counts, failed) = totals.into_inner().expect("nobody panics with the totals");
    println!("{} seeds, {failed} failed: {counts:?}", options.seeds);
    ExitCode::from(u8::from(failed > 0))
}

fn show(report: &Report, all: bool) {
    match &report.violation {
        Some(violation) => println!("seed {} FAILED: {violation}", report.seed),
        None if all => println!("seed {} trace {:016x} {:?}", report.seed, report.trace, report.counts),
        None => {}
    }
}

//! `cargo run -p ferrite-sim --example histories -- --seeds N [--seed S] [--trace] [--threads T]`:
//! runs N seeds from S on, and says what was violated. With `--poison ROUNDS` each seed's files are
//! changed and opened that often instead; with `--planted FAULT` the seeds run with that fault.

use clap::Parser;
use ferrite_base::fault::Planted;
use ferrite_base::planted_fault::PlantedFault;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_sim::planted::{must_find, run_planted};
use ferrite_sim::poison::{Change, Opened, Sample};
use ferrite_sim::{Counts, SeedReport, run};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs made-up histories of a node, each decided by its seed, and says what they violate.
#[derive(Parser)]
struct Options {
    /// How many seeds
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    seeds: u64,
    /// The first seed
    #[arg(long = "seed", value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// How many seeds at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    threads: u64,
    /// Print what happens
    #[arg(long)]
    trace: bool,
    /// Change each seed's files this many times and open them, instead
    #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
    poison: u64,
    /// Run the seeds with this fault planted (all: one fault after the other), and print which find
    /// it, as rows of docs/simulator.md
    #[arg(long, value_name = "FAULT")]
    planted: Vec<String>,
}

/// Seeds ask for panics, which a healthy run survives: a line each, so that nobody takes them for
/// what is wrong.
fn report_planted_panics_briefly() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match panic.payload().downcast_ref::<Planted>() {
        Some(Planted(point)) => eprintln!("a panic that the seed asks for, at {point:?}"),
        None => usual(panic),
    }));
}

fn main() -> ExitCode {
    let options = Options::parse();
    report_planted_panics_briefly();
    if options.poison > 0 {
        return poison(&options);
    }
    if !options.planted.is_empty() {
        return planted(&options);
    }
    let totals = Mutex::new((Counts::default(), 0u64));
    each_seed(&options, |seed| {
        let report = run(seed, options.trace);
        show(&report, options.seeds <= 20);
        let mut totals = totals.lock().expect("nobody panics with the totals");
        totals.0.add(&report.counts);
        totals.1 += u64::from(report.violation.is_some());
    });
    let (counts, failed) = totals.into_inner().expect("nobody panics with the totals");
    println!("{} seeds, {failed} failed: {counts:?}", options.seeds);
    ExitCode::from(u8::from(failed > 0))
}

/// Runs the seeds on as many threads as were asked for.
fn each_seed(options: &Options, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let offset = next.fetch_add(1, Ordering::Relaxed);
                    if offset >= options.seeds {
                        return;
                    }
                    run(options.first + offset);
                }
            });
        }
    });
}

fn show(report: &SeedReport, all: bool) {
    match &report.violation {
        Some(violation) => println!("seed {} FAILED: {violation}", report.seed),
        None if all => println!("seed {} trace {:016x} {:?}", report.seed, report.trace, report.counts),
        None => {}
    }
}

/// Changes files and opens them.
fn poison(options: &Options) -> ExitCode {
    let (mut refused, mut whole, mut beginnings, mut failed) = (0u64, 0u64, 0u64, 0u64);
    for seed in options.first..options.first + options.seeds {
        let sample = Sample::make(seed, seed.is_multiple_of(2));
        let mut random = SimulatedRandom::new(seed);
        for round in 1..=options.poison {
            let changes: Vec<Change> = (0..1 + random.below(4)).map(|_| Change::random(&mut random)).collect();
            match sample.check(&changes) {
                Ok(Opened::Refused) => refused += 1,
                Ok(Opened::Whole) => whole += 1,
                Ok(Opened::Beginning) => beginnings += 1,
                Err(violation) => {
                    failed += 1;
                    println!("seed {seed} round {round} FAILED: {violation}");
                }
            }
        }
    }
    println!("{failed} failed; {refused} refused, {whole} opened whole, {beginnings} opened in part");
    ExitCode::from(u8::from(failed > 0))
}

/// Runs the seeds with each of the faults; says which faults no seed finds, though a rule should.
fn planted(options: &Options) -> ExitCode {
    let mut faults = Vec::new();
    for name in &options.planted {
        match PlantedFault::from_name(name) {
            Some(fault) => faults.push(fault),
            None if name == "all" => faults.extend(PlantedFault::ALL),
            None => {
                eprintln!("unknown fault {name}; the page docs/simulator.md has their names");
                return ExitCode::from(2);
            }
        }
    }
    // What a fault makes panic is what was asked for.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = false;
    for fault in faults {
        let is_found = plant(options, fault);
        missed |= !is_found && !must_find(fault).1.is_empty();
    }
    ExitCode::from(u8::from(missed))
}

/// Prints the fault's row, and below it the rules with their seeds; whether there is any.
fn plant(options: &Options, fault: PlantedFault) -> bool {
    let found: Mutex<BTreeMap<&str, Vec<u64>>> = Mutex::default();
    each_seed(options, |seed| {
        if let Some(violation) = run_planted(fault, seed, options.trace) {
            found.lock().expect("nobody panics with it").entry(violation.invariant).or_default().push(seed);
        }
    });
    let mut found = found.into_inner().expect("nobody panics with it");
    found.values_mut().for_each(|seeds| seeds.sort_unstable());
    let count: usize = found.values().map(Vec::len).sum();
    let cell = match found.values().flatten().min() {
        Some(first) => format!("seed {first}, {count} of {}", options.seeds),
        None => format!("not in {}", options.seeds),
    };
    println!("| {} | `{fault:?}` | {cell} | {} |", fault.breaks(), must_find(fault).1.join("; "));
    for (rule, seeds) in &found {
        println!("    {rule}: {seeds:?}");
    }
    count > 0
}

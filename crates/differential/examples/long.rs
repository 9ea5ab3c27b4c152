//! The long run:
//!
//! ```sh
//! cargo run --release -p ferrite-differential --example long -- --minutes 60 --postgres \
//!   --stories DIRECTORY
//! ```

use clap::Parser;
use ferrite_differential::check::{Counts, keep_panics};
use ferrite_differential::engine::{Engine, Way};
use ferrite_differential::postgres::Postgres;
use ferrite_differential::run::scenario;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Makes random schemas, data and statements from seeds, and compares what they answer in every way
/// there is.
#[derive(Parser)]
#[command(name = "differential")]
struct Options {
    /// The first seed; a single one is run again with --from SEED --seeds 1
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// How many seeds
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    seeds: u64,
    /// As many seeds as can be run in so many minutes
    #[arg(long, value_name = "MINUTES", conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// Compare with a PostgreSQL that is started for it, too
    #[arg(long)]
    postgres: bool,
    /// Write the story of each failing seed to a file there
    #[arg(long, value_name = "DIRECTORY")]
    stories: Option<PathBuf>,
    /// For how many seconds a failing case may be made smaller
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    shrink: u64,
    /// Run a story, or any SQL with a statement on each line, and show what it answers in every way
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let time = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    if let Some(file) = &options.replay {
        return match std::fs::read_to_string(file) {
            Ok(text) => {
                replay(&text);
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {}: {error}", file.display());
                ExitCode::from(2)
            }
        };
    }
    let mut postgres = match options.postgres.then(Postgres::start).transpose() {
        Ok(postgres) => postgres,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    keep_panics();
    let began = Instant::now();
    let mut counts = Counts::default();
    let mut failed: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut seed = options.from;
    let mut told = Instant::now();
    loop {
        let goes_on = match time {
            Some(time) => began.elapsed() < time,
            None => seed - options.from < options.seeds,
        };
        if !goes_on {
            break;
        }
        if let Some(report) = scenario(seed, postgres.as_mut(), &mut counts, Duration::from_secs(options.shrink)) {
            let story = report.story();
            println!("{story}");
            if let Some(directory) = &options.stories {
                let written = std::fs::create_dir_all(directory)
                    .and_then(|()| std::fs::write(directory.join(format!("{seed}.sql")), &story));
                if let Err(error) = written {
                    eprintln!("error: {}: {error}", directory.display());
                }
            }
            failed.entry(report.finding.oracle).or_default().push(seed);
        }
        seed += 1;
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            summary(&counts, &failed, options.from, seed, began.elapsed());
        }
    }
    for (title, refused) in [("ours", &counts.refused), ("PostgreSQL", &counts.refused_by_them)] {
        let mut by_count: Vec<_> = refused.iter().collect();
        by_count.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (message, (count, example)) in by_count.into_iter().take(40) {
            let example: String = example.chars().take(400).collect();
            println!("refused by {title}, {count} times: {message}\n    {example}");
        }
    }
    summary(&counts, &failed, options.from, seed, began.elapsed());
    ExitCode::from(u8::from(!failed.is_empty()))
}

/// Shows the first way's answer, and those of the others that differ from it.
fn replay(text: &str) {
    const WAYS: [(u32, Way); 6] = [
        (1, Way::Plain),
        (7, Way::Plain),
        (7, Way::AsRouted),
        (7, Way::OnSnapshot),
        (7, Way::Parameterized),
        (7, Way::WithStatistics(1)),
    ];
    let mut engines = WAYS.map(|(partitions, way)| (Engine::new(partitions), partitions, way));
    let statements = text.lines().map(|line| line.trim().trim_end_matches(';'));
    for statement in statements.filter(|line| !line.is_empty() && !line.starts_with("--")) {
        println!("{statement}");
        let defines = ["CREATE", "PARTITION", "DROP", "ALTER"].iter().any(|word| statement.starts_with(word));
        let mut first = String::new();
        for (engine, partitions, way) in &mut engines {
            let outcome = match defines {
                true => engine.define(statement).map(|()| String::new()),
                false => engine.run(statement, *way).map(|mut answer| {
                    if !statement.contains("ORDER BY") {
                        answer.rows.sort();
                    }
                    answer.to_string()
                }),
            };
            let shown = outcome.unwrap_or_else(|failure| failure.to_string());
            if first.is_empty() {
                println!("  {shown}");
                first = format!("{shown} ");
            } else if first.trim_end() != shown {
                println!("  on {partitions} partitions, {way:?}: {shown}");
            }
        }
    }
}

fn summary(counts: &Counts, failed: &BTreeMap<String, Vec<u64>>, from: u64, next: u64, time: Duration) {
    let refused: u64 = counts.refused.values().map(|(count, _)| count).sum();
    let refused_by_them: u64 = counts.refused_by_them.values().map(|(count, _)| count).sum();
    println!(
        "seeds {from} to {}, {} s: {} schemas, {} changes, {} queries in {} runs, {} compared with PostgreSQL; {} with parameters \
         anywhere, {} whose types nothing says; {} errors in all, {} tolerated, \
         {refused} refused by ours, {refused_by_them} by PostgreSQL; {} seeds failed",
        next - 1,
        time.as_secs(),
        counts.schemas,
        counts.changes,
        counts.queries,
        counts.runs,
        counts.compared_with_theirs,
        counts.with_parameters,
        counts.undecided,
        counts.errors_in_all,
        counts.tolerated,
        failed.values().map(Vec::len).sum::<usize>(),
    );
    for (oracle, seeds) in failed {
        println!("  failed: {oracle}: seeds {seeds:?}");
    }
}

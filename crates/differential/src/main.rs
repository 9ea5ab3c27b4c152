//! The long run: `cargo run --release -p ferrite-differential -- --minutes 60 --postgres --stories DIRECTORY`.

use ferrite_differential::check::{Counts, keep_panics};
use ferrite_differential::engine::{Engine, Way};
use ferrite_differential::postgres::Postgres;
use ferrite_differential::run::scenario;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: differential [--from SEED] [--seeds COUNT | --minutes MINUTES] [--postgres] [--stories DIRECTORY] [--shrink SECONDS]
  --from SEED        the first seed (1); a single seed is run again with --from SEED --seeds 1
  --seeds COUNT      how many seeds (100)
  --minutes MINUTES  as many seeds as can be run in that time
  --postgres         compare with a PostgreSQL that is started for it, too
  --stories DIR      write the story of each failing seed to a file there
  --shrink SECONDS   how long a failing case may be made smaller (20)
  --replay FILE      run a story, or any SQL with a statement on each line, and show what it answers in every way";

struct Options {
    from: u64,
    seeds: u64,
    time: Option<Duration>,
    postgres: bool,
    stories: Option<PathBuf>,
    shrink: Duration,
    replay: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        from: 1,
        seeds: 100,
        time: None,
        postgres: false,
        stories: None,
        shrink: Duration::from_secs(20),
        replay: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--from" => options.from = number(value()?)?,
            "--seeds" => options.seeds = number(value()?)?,
            "--minutes" => options.time = Some(Duration::from_secs(60 * number(value()?)?)),
            "--postgres" => options.postgres = true,
            "--stories" => options.stories = Some(PathBuf::from(value()?)),
            "--shrink" => options.shrink = Duration::from_secs(number(value()?)?),
            "--replay" => options.replay = Some(PathBuf::from(value()?)),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
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
        let goes_on = match options.time {
            Some(time) => began.elapsed() < time,
            None => seed < options.from + options.seeds,
        };
        if !goes_on {
            break;
        }
        if let Some(report) = scenario(seed, postgres.as_mut(), &mut counts, options.shrink) {
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
        (7, Way::Lifted),
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
        "seeds {from} to {}, {} s: {} schemas, {} changes, {} queries in {} runs, {} compared with PostgreSQL; {} errors in all, {} tolerated, \
         {refused} refused by ours, {refused_by_them} by PostgreSQL; {} seeds failed",
        next - 1,
        time.as_secs(),
        counts.schemas,
        counts.changes,
        counts.queries,
        counts.runs,
        counts.compared_with_theirs,
        counts.errors_in_all,
        counts.tolerated,
        failed.values().map(Vec::len).sum::<usize>(),
    );
    for (oracle, seeds) in failed {
        println!("  failed: {oracle}: seeds {seeds:?}");
    }
}

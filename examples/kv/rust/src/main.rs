//! The key-value application in Rust: reads and writes values by key for as long as it is told, and
//! checks what comes back.

mod store;
mod values;

use clap::{ArgAction, Parser};
use ferrite_client::{Client, Prepared};
use ferrite_example_support::{Random, Settings, run};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use store::Store;
use values::Values;

/// Reads and writes values by key
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    settings: Settings,
    /// Keys
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    poolsize: u64,
    /// Number of the first key
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Write every key once before the warm-up
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_value_t = true, default_missing_value = "true")]
    preload: bool,
    /// Share of the calls on the table that every partition has
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    multisingleratio: f64,
    /// Share of the calls that read
    #[arg(long, default_value_t = 0.9, value_parser = share)]
    getputratio: f64,
    /// Bytes of a key
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=250))]
    keysize: u64,
    /// Bytes of the smallest value
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    minvaluesize: u64,
    /// Bytes of the largest value
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    maxvaluesize: u64,
    /// How many different bytes values have
    #[arg(long, default_value_t = 127, value_parser = clap::value_parser!(u16).range(1..=256))]
    entropy: u16,
    /// Compress values in this program
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    usecompression: bool,
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a number from 0 to 1 is wanted".to_string())
}

fn main() -> ExitCode {
    match read_and_write(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read_and_write(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let settings = &options.settings;
    if options.minvaluesize > options.maxvaluesize {
        return Err("--minvaluesize is at most --maxvaluesize".into());
    }
    let last = options.offset.saturating_add(options.poolsize - 1).to_string();
    if last.len() as u64 >= options.keysize {
        return Err(format!("the number {last} does not fit into a key of {} bytes", options.keysize).into());
    }
    let sizes = options.minvaluesize as usize..=options.maxvaluesize as usize;
    let values = Values::new(options.keysize as usize, sizes, options.entropy, options.usecompression);
    let store = Store::new(values, options.offset, options.poolsize, options.getputratio, options.multisingleratio);
    let store = Arc::new(store);
    let client = settings.connect()?;
    if options.preload {
        preload(&client, &store, "STORE.upsert")?;
        if options.multisingleratio > 0.0 {
            preload(&client, &store, "STORER.upsert")?;
        }
    }
    let began = Instant::now();
    let times = (settings.warmup.unwrap_or(5), settings.duration.unwrap_or(120));
    run(&store, &client, settings, times, settings.threads.unwrap_or(8))?;

    let gigabits = |bytes: u64| bytes as f64 * 8.0 / 1e9 / began.elapsed().as_secs_f64();
    let (read, written) = (store.gets.bytes.load(Relaxed), store.puts.bytes.load(Relaxed));
    println!("GET: {}, {:.3} Gbps", store.gets, gigabits(read));
    println!("PUT: {}, {:.3} Gbps", store.puts, gigabits(written));
    println!("Together: {:.3} Gbps, warm-up included", gigabits(read + written));
    let missed = options.preload && store.gets.misses.load(Relaxed) > 0;
    if missed {
        println!("wrong: keys were missed, though each was written");
    }
    let wrong = store.wrong.load(Relaxed);
    if wrong > 0 {
        println!("wrong: {wrong} answers were not what was asked for");
    }
    if !missed && wrong == 0 {
        println!("right: what was read are values as they were written");
    }
    Ok(!missed && wrong == 0 && store.gets.failed.load(Relaxed) + store.puts.failed.load(Relaxed) == 0)
}

/// Writes every key once, without waiting for answers in between.
fn preload(client: &Client, store: &Arc<Store>, procedure: &str) -> Result<(), Box<dyn std::error::Error>> {
    let upsert = Prepared::new(procedure)?;
    let mut random = Random::begin();
    let refused = Arc::new(AtomicU64::new(0));
    for number in store.first_key..store.first_key + store.keys {
        let (value, _) = store.values.value(&mut random);
        let refused = Arc::clone(&refused);
        client.call_with_callback(&upsert, (store.values.key(number), value), move |result| {
            if result.is_err() {
                refused.fetch_add(1, Relaxed);
            }
        })?;
    }
    client.drain();
    match refused.load(Relaxed) {
        0 => {
            println!("{} keys written with {procedure}", store.keys);
            Ok(())
        }
        refused => Err(format!("{refused} keys could not be written before the start").into()),
    }
}

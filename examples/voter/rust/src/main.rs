//! Voter's client in Rust: fills the small tables, votes for as long as it is told, and compares
//! what it was told with what is there.

mod votes;

use clap::Parser;
use ferrite_client::{Client, ClientError, OwnedValue};
use ferrite_example_support::settings::Mode;
use ferrite_example_support::{Settings, run};
use std::process::ExitCode;
use std::sync::Arc;
use votes::Votes;

/// Twelve names; a run uses the first ones.
const NAMES: &str = "Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka,\
Greta Solberg,Hamid Rahimi,Ines Duarte,Jonas Keller,Keiko Arai,Liam Brennan";

/// Votes for contestants, as fast as the server takes it
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    settings: Settings,
    /// Contestants, 1 to 12
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(i32).range(1..=12))]
    contestants: i32,
    /// Votes that each phone number has
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..))]
    maxvotes: i32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match vote(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn vote(options: &Options) -> Result<bool, Box<dyn std::error::Error>> {
    let settings = &options.settings;
    let client = settings.connect()?;
    let contestants = client.call_blocking("Initialize", (options.contestants, NAMES))?.scalar().unwrap_or_default();
    let votes = Arc::new(Votes::new(area_codes(&client)?, contestants, options.maxvotes));
    let before = number(&client, "SELECT COUNT(*) FROM votes")?;
    let way = if settings.mode == Mode::Sync { "waiting for each answer" } else { "waiting for none" };
    println!("{contestants} contestants, {} votes a phone number, {way}", options.maxvotes);
    let times = (settings.warmup.unwrap_or(2), settings.duration.unwrap_or(20));
    run(&votes, &client, settings, times, settings.threads.unwrap_or(40))?;

    let told = votes.told();
    println!("{told}");
    for row in &client.call_blocking("Results", ())?.tables[0].rows {
        if let [OwnedValue::Text(name), _, OwnedValue::Integer(total)] = row.as_slice() {
            println!("{:<20}{total:>14}", name);
        }
    }
    let added = number(&client, "SELECT COUNT(*) FROM votes")? - before;
    let in_view = number(&client, "SELECT SUM(num_votes) FROM v_votes_by_phone_number")? - before;
    let possible = told.accepted..=told.accepted + told.unknown;
    if !possible.contains(&added) || in_view != added {
        println!(
            "wrong: {added} votes are there, {in_view} in the view; {} were accepted, {} are unknown",
            told.accepted, told.unknown
        );
        return Ok(false);
    }
    println!("right: each of {added} votes that are there was accepted, in table and view");
    Ok(told.failed == 0)
}

/// The one number of a query; 0 for NULL.
fn number(client: &Client, sql: &str) -> Result<i64, ClientError> {
    Ok(client.call_blocking("@AdHoc", (sql,))?.scalar().unwrap_or_default())
}

/// The area codes, as the database has them.
fn area_codes(client: &Client) -> Result<Vec<i64>, ClientError> {
    let response = client.call_blocking("@AdHoc", ("SELECT area_code FROM area_code_state ORDER BY area_code",))?;
    let number = |row: &Vec<OwnedValue>| match row.as_slice() {
        [OwnedValue::Integer(code)] => Some(*code),
        _ => None,
    };
    Ok(response.tables[0].rows.iter().filter_map(number).collect())
}

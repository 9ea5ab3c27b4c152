//! `ferrite bench voter`: creates the application, runs the load, and compares what the clients
//! were told with what is there afterwards.

use crate::area_codes::{AreaCode, VOTER_DDL, area_codes};
use crate::beside;
use crate::error::{BenchError, BenchResult};
use crate::options::{LoadOptions, VoteProcedure, VoterOptions};
use crate::random::seed_or_random;
use crate::report::{LoadReport, MemoryReport, grouped};
use crate::results::keep;
use crate::run::measure;
use crate::session::{Environment, Session};
use crate::voter_load::{Tally, VoterLoad};
use ferrite_value::OwnedValue;
use std::collections::BTreeMap;
use std::path::Path;

/// Twelve names; a run uses the first ones.
pub const CONTESTANT_NAMES: &str = "Ada Lindqvist,Bruno Valdez,Carmen Okafor,Dmitri Hale,Esther Moreau,Felix Tanaka,\
Greta Solberg,Hamid Rahimi,Ines Duarte,Jonas Keller,Keiko Arai,Liam Brennan";

/// Runs Voter once, prints its seconds and the report, and checks the result to the vote.
pub fn run_voter(environment: &Environment, options: &VoterOptions) -> BenchResult<LoadReport> {
    let report = measure_voter(environment, options, &options.load)?;
    ferrite_io::out!("{}", report.text());
    keep(options.load.json.as_deref(), "voter", &report)?;
    Ok(report)
}

pub(crate) fn measure_voter(
    environment: &Environment,
    options: &VoterOptions,
    load: &LoadOptions,
) -> BenchResult<LoadReport> {
    let session = Session::open(environment, &options.target)?;
    prepare(&session, options.contestants, options.keep)?;
    if let (VoteProcedure::Java, Some(jar)) = (options.procedure, &options.jar) {
        load_java(&session, jar)?;
    }
    let before = VoteCounts::read(&session)?;
    let memory_before = (session.usage(), session.accounted_bytes());
    let seed = seed_or_random(options.seed);
    let make = |thread: usize| {
        let seed = seed.wrapping_add(thread as u64);
        VoterLoad::new(options.procedure, options.contestants, options.max_votes, seed)
    };
    let name = match options.procedure {
        VoteProcedure::Psm => "voter",
        VoteProcedure::Statements => "voter, four statements",
        VoteProcedure::Java => "voter, Java",
    };
    let ((result, mut report), beside) = beside::with_query_beside(&session, options.report_query.as_deref(), || {
        measure(name, environment, &session, load, make)
    })?;
    let memory_after = (session.usage(), session.accounted_bytes());
    let after = VoteCounts::read(&session)?;
    report.memory = MemoryReport::new(
        (before.rows, after.rows),
        (memory_before.0.map(|usage| usage.resident_bytes), memory_after.0.map(|usage| usage.resident_bytes)),
        (memory_before.1, memory_after.1),
    );
    let tally = Tally::of(&result.workloads);
    report.details = vec![
        ("votes accepted".to_string(), tally.accepted_total()),
        ("rejected, contestant".to_string(), tally.invalid_contestant),
        ("rejected, limit".to_string(), tally.over_limit),
    ];
    report.details.extend(beside::details(&beside));
    session.close()?;
    let findings = compare(&before, &after, &tally);
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    if report.transactions == 0 {
        let why = report.first_failure.as_deref().unwrap_or("no call was answered");
        return Err(BenchError::Load(format!("not one vote succeeded in the measured time: {why}")));
    }
    report.validated.push(format!(
        "{} votes accepted, on top of {}, are {} rows, and as many in both views, by contestant too",
        grouped(tally.accepted_total()),
        grouped(before.rows as u64),
        grouped(after.rows as u64),
    ));
    Ok(report)
}

/// Creates the tables, views and procedures, unless they are there and to be kept, and fills the
/// small tables.
pub fn prepare(session: &Session, contestants: u16, keep: bool) -> BenchResult<()> {
    if !keep || session.sum_partitions("SELECT COUNT(*) FROM votes").is_err() {
        session.run_statements(VOTER_DDL)?;
    }
    if !session.may_have_several_groups() {
        // Does nothing where it was done before.
        session.call("Initialize", (i32::from(contestants), CONTESTANT_NAMES))?;
        return Ok(());
    }
    // It decides by what it has read, which several groups of partitions cannot do together.
    let names = CONTESTANT_NAMES.split(',').take(usize::from(contestants)).zip(1..);
    let names = names.map(|(name, number): (&str, u16)| format!("({number}, '{name}')")).collect::<Vec<_>>();
    let codes = area_codes();
    let state = |area: &AreaCode| format!("({}, '{}')", area.code, area.state_name());
    session.run_statements(&format!("UPSERT INTO contestants VALUES {};", names.join(", ")))?;
    let codes: Vec<String> = codes.iter().map(state).collect();
    session.run_statements(&format!("UPSERT INTO area_code_state VALUES {};", codes.join(", ")))
}

/// Puts the Java class in the place of the SQL/PSM procedure: same name, same parameters, same
/// answers.
fn load_java(session: &Session, jar: &Path) -> BenchResult<()> {
    let bytes =
        std::fs::read(jar).map_err(|error| BenchError::Load(format!("cannot read {}: {error}", jar.display())))?;
    session.call("@UpdateClasses", (bytes, None::<&str>))?;
    session.run_statements(
        "DROP PROCEDURE Vote IF EXISTS;\n\
         CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM CLASS voter.Vote;",
    )
}

/// The votes as the server has them, counted in each place where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteCounts {
    pub rows: i64,
    pub by_phone_view: i64,
    pub rows_by_contestant: BTreeMap<i64, i64>,
    pub view_by_contestant: BTreeMap<i64, i64>,
}

impl VoteCounts {
    pub fn read(session: &Session) -> BenchResult<VoteCounts> {
        let by_contestant = |sql: &str| -> BenchResult<BTreeMap<i64, i64>> {
            let mut numbers = BTreeMap::new();
            for row in session.query_partitions(sql)?.iter().flat_map(|table| &table.rows) {
                let [OwnedValue::Integer(contestant), OwnedValue::Integer(votes)] = row.as_slice() else {
                    return Err(BenchError::Server(format!("rows of two numbers are expected from: {sql}")));
                };
                *numbers.entry(*contestant).or_insert(0) += *votes;
            }
            Ok(numbers)
        };
        Ok(VoteCounts {
            rows: session.sum_partitions("SELECT COUNT(*) FROM votes")?,
            by_phone_view: session.sum_partitions("SELECT SUM(num_votes) FROM v_votes_by_phone_number")?,
            rows_by_contestant: by_contestant(
                "SELECT contestant_number, COUNT(*) FROM votes GROUP BY contestant_number",
            )?,
            view_by_contestant: by_contestant(
                "SELECT contestant_number, SUM(num_votes) FROM v_votes_by_contestant_number_state \
                 GROUP BY contestant_number",
            )?,
        })
    }
}

/// Everything in which the data differ from what the clients were told. Empty when all is well. A
/// vote without an answer may have counted or not.
pub(crate) fn compare(before: &VoteCounts, after: &VoteCounts, tally: &Tally) -> Vec<String> {
    let mut findings = Vec::new();
    let mut expect = |what: &str, added: i64, accepted: u64, unknown: u64| {
        let range = accepted as i64..=(accepted + unknown) as i64;
        if !range.contains(&added) {
            findings.push(format!("{what}: {added} came, but {accepted} were accepted and {unknown} are unknown"));
        }
    };
    let unknown_total = tally.unknown.iter().sum();
    expect("votes", after.rows - before.rows, tally.accepted_total(), unknown_total);
    let by_phone = after.by_phone_view - before.by_phone_view;
    expect("votes in the view by phone number", by_phone, tally.accepted_total(), unknown_total);
    for (contestant, (accepted, unknown)) in tally.accepted.iter().zip(&tally.unknown).enumerate().skip(1) {
        let added = |after: &BTreeMap<i64, i64>, before: &BTreeMap<i64, i64>| {
            let votes = |counts: &BTreeMap<i64, i64>| counts.get(&(contestant as i64)).copied().unwrap_or(0);
            votes(after) - votes(before)
        };
        let rows = added(&after.rows_by_contestant, &before.rows_by_contestant);
        expect(&format!("votes for contestant {contestant}"), rows, *accepted, *unknown);
        let view = added(&after.view_by_contestant, &before.view_by_contestant);
        expect(&format!("votes for contestant {contestant} in the view by state"), view, *accepted, *unknown);
    }
    // Whatever is unknown: table and views agree among themselves.
    if after.by_phone_view != after.rows {
        findings.push(format!("{} votes, but {} in the view by phone number", after.rows, after.by_phone_view));
    }
    if after.view_by_contestant != after.rows_by_contestant {
        findings.push(format!(
            "votes by contestant are {:?}, but {:?} in the view by state",
            after.rows_by_contestant, after.view_by_contestant
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(one: i64, two: i64) -> VoteCounts {
        let by_contestant = BTreeMap::from([(1, one), (2, two)]);
        VoteCounts {
            rows: one + two,
            by_phone_view: one + two,
            rows_by_contestant: by_contestant.clone(),
            view_by_contestant: by_contestant,
        }
    }

    fn tally(accepted: [u64; 2], unknown: [u64; 2]) -> Tally {
        let with_zero = |by_contestant: [u64; 2]| vec![0, by_contestant[0], by_contestant[1]];
        Tally { accepted: with_zero(accepted), unknown: with_zero(unknown), ..Tally::default() }
    }

    #[test]
    fn what_was_told_is_there() {
        assert_eq!(compare(&counts(10, 0), &counts(13, 4), &tally([3, 4], [0, 0])), [""; 0]);
        for unknown_came in 0..=2 {
            assert_eq!(compare(&counts(0, 0), &counts(3 + unknown_came, 4), &tally([3, 4], [2, 0])), [""; 0]);
        }
    }

    #[test]
    fn each_difference_is_found() {
        for (after, tally) in [
            (counts(2, 4), tally([3, 4], [0, 0])),
            (counts(4, 4), tally([3, 4], [0, 0])),
            (counts(4, 3), tally([3, 4], [0, 0])),
            (counts(6, 4), tally([3, 4], [2, 0])),
            (VoteCounts { by_phone_view: 6, ..counts(3, 4) }, tally([3, 4], [0, 0])),
            (VoteCounts { view_by_contestant: counts(4, 3).view_by_contestant, ..counts(3, 4) }, tally([3, 4], [0, 0])),
            (VoteCounts { view_by_contestant: counts(3, 5).view_by_contestant, ..counts(3, 4) }, tally([3, 4], [0, 1])),
        ] {
            assert!(!compare(&counts(0, 0), &after, &tally).is_empty(), "{after:?} {tally:?}");
        }
    }

    #[test]
    fn twelve_names_that_fit() {
        assert_eq!(CONTESTANT_NAMES.split(',').filter(|name| !name.is_empty() && name.len() <= 50).count(), 12);
    }
}

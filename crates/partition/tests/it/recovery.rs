//! What stands in the log and cannot be: each gets an error that says what it is and where, and
//! nothing is made of it.

use ferrite_base::{Epoch, GroupMap, Incarnation, PartitionId, Sequence, SqlLimits, UserResult, limits};
use ferrite_catalog::{Catalog, DecimalScale};
use ferrite_group::{FIRST_GROUP, FIRST_NODE, GroupAppender, GroupPlace};
use ferrite_io::{RealDisk, SystemClock, SystemRandom};
use ferrite_log::{BlockPlace, Durability, LogOptions};
use ferrite_partition::ReplayError;
use ferrite_partition::commit::{self, DatabaseLog};
use ferrite_partition::compiled::Compiled;
use ferrite_partition::record::{self, BatchWriter, Genesis, Part};
use ferrite_partition::recovery::{self, Recovered, StartError};
use ferrite_partition::schema::{self, Planned};
use ferrite_replica::group::Member;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

const PARTITIONS: u32 = 2;

fn genesis(partitions: u32) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_genesis(
        &mut out,
        &Genesis { groups: GroupMap::single(partitions), created_ms: 1, database_id: [5; 16] },
    );
    out
}

/// A batch of that many transactions that change nothing.
fn batch(partition: u32, first: u64, count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = BatchWriter::begin(&mut out, PartitionId(partition), Epoch(1), Sequence(first));
    (0..count).for_each(|_| writer.transaction(&mut out, |_| {}));
    writer.finish(&mut out);
    out
}

fn multi(places: &[(u32, u64)]) -> Vec<u8> {
    let part = |&(partition, sequence): &(u32, u64)| Part {
        partition: PartitionId(partition),
        epoch: Epoch(1),
        sequence: Sequence(sequence),
        changes: &[],
    };
    let mut out = Vec::new();
    record::write_multi(&mut out, 1, &places.iter().map(part).collect::<Vec<_>>());
    out
}

fn schema(version: u64, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_schema(&mut out, version, 0, text);
    out
}

/// Writes a log that holds these payloads, each in an append of its own.
fn write(dir: &Path, payloads: &[Vec<u8>]) {
    let options = LogOptions { segment_bytes: 1 << 20, block_bytes_max: 1 << 16, ..LogOptions::default() };
    let visit = |_: BlockPlace<'_>, _: &[u8]| Ok::<(), Infallible>(());
    let (log, _) =
        DatabaseLog::open(Arc::new(RealDisk), Arc::new(SystemClock), dir, options, visit).expect("a new log");
    let leader = Member { node: FIRST_NODE, incarnation: Incarnation(1) };
    let place = GroupPlace::before_the_first(Epoch(0), leader);
    let group = GroupAppender::alone(FIRST_GROUP, leader, place, log.appender(), Arc::new(SystemClock));
    for payload in payloads {
        commit::wait(&log, |completion| group.append_own(payload.clone(), completion)).expect("a healthy log takes it");
    }
    log.close().expect("a healthy log closes");
}

fn open(dir: &Path, partitions: Option<u32>) -> Result<Recovered, StartError> {
    let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
    let options = LogOptions { durability: Durability::None, ..LogOptions::default() };
    recovery::open(disk, clock, &mut SystemRandom, dir, options, partitions, 1)
}

/// Opens a log of these payloads twice: the first attempt must not make the second one better or
/// worse.
fn refused(payloads: &[Vec<u8>]) -> StartError {
    let dir = tempfile::tempdir().expect("a temporary directory");
    write(dir.path(), payloads);
    let mut errors = (0..2).map(|_| match open(dir.path(), None) {
        Err(StartError::Replay { path, position, reason }) => {
            assert!(path.starts_with(dir.path()) && position >= 4_096, "{} {position}", path.display());
            reason
        }
        Err(error) => panic!("without its place: {error}"),
        Ok(_) => panic!("a log that makes no sense was replayed"),
    });
    let (first, second) = (errors.next().expect("one"), errors.next().expect("two"));
    assert_eq!(first.to_string(), second.to_string());
    *first
}

fn refused_record(payloads: &[Vec<u8>], words: &str) {
    match refused(payloads) {
        StartError::Record(ReplayError::Record(reason)) => {
            assert!(reason.to_string().contains(words), "expected {words:?} in {reason}")
        }
        error => panic!("expected {words:?}, got {error}"),
    }
}

#[test]
fn a_log_that_makes_sense_is_replayed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let two_versions = [schema(1, "CREATE TABLE a (a BIGINT); CREATE TABLE b (b BIGINT)"), schema(2, "DROP TABLE a")];
    write(
        dir.path(),
        &[&[genesis(PARTITIONS), batch(0, 1, 3), multi(&[(0, 4), (1, 1)]), batch(1, 2, 1)], &two_versions[..]].concat(),
    );
    let recovered = open(dir.path(), Some(PARTITIONS)).expect("a log that makes sense");
    assert_eq!(recovered.sequences, [Sequence(4), Sequence(2)]);
    assert_eq!(recovered.compiled.catalog.version.0, 2);
    let summary = recovered.summary;
    assert_eq!((summary.transactions, summary.schema_changes, summary.created), (5, 2, false));
}

#[test]
fn a_gap_or_a_repetition_in_a_partitions_order() {
    let first = [genesis(PARTITIONS), batch(0, 1, 2)];
    for (next, at, found) in [
        (batch(0, 4, 1), 0, 4),
        (batch(0, 2, 1), 0, 2),
        (batch(0, 0, 1), 0, 0),
        (batch(1, 2, 1), 1, 2),
        (batch(1, u64::MAX, 2), 1, u64::MAX),
        (multi(&[(0, 3), (1, 2)]), 1, 2),
        (multi(&[(0, 3), (0, 3)]), 0, 3),
    ] {
        match refused(&[&first[..], &[next]].concat()) {
            StartError::Record(ReplayError::Sequence { partition, expected, found: what }) => {
                assert_eq!((partition, what), (PartitionId(at), Sequence(found)));
                assert_ne!(expected, what);
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn partitions_that_there_are_not() {
    refused_record(&[genesis(PARTITIONS), batch(PARTITIONS, 1, 1)], "names a partition that there is not");
    refused_record(&[genesis(PARTITIONS), batch(u32::MAX, 1, 1)], "names a partition that there is not");
    refused_record(&[genesis(PARTITIONS), multi(&[(1, 1), (2, 1)])], "names a partition that there is not");
    for partitions in [0, limits::PARTITIONS_MAX as u32 + 1, u32::MAX] {
        refused_record(&[genesis(partitions)], "number of partitions is out of range");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    write(dir.path(), &[genesis(PARTITIONS)]);
    for asked in [1, 3] {
        let error = open(dir.path(), Some(asked)).err().expect("another number is refused");
        assert!(matches!(error, StartError::Partitions { asked: a, stored: PARTITIONS } if a == asked), "{error}");
        assert!(error.to_string().contains("leave out --partitions"), "{error}");
    }
    assert_eq!(open(dir.path(), None).expect("the number in the log").genesis.partitions(), PARTITIONS);
}

#[test]
fn the_first_record_and_no_other_says_what_database_it_is() {
    refused_record(&[genesis(PARTITIONS), batch(0, 1, 1), genesis(PARTITIONS)], "a second record says");
    refused_record(&[batch(0, 1, 1)], "does not say what database this is");
    refused_record(&[schema(1, "CREATE TABLE a (a BIGINT)")], "does not say what database this is");
    let mut later = genesis(PARTITIONS);
    later[5] += 2;
    refused_record(&[later], "record format that this version does not know");
}

#[test]
fn records_that_are_not_whole() {
    let counted = |by: i32| {
        let mut record = batch(0, 1, 2);
        let count = 5 + 4 + 8 + 8;
        record[count] = (2 + by) as u8;
        record
    };
    refused_record(&[genesis(PARTITIONS), counted(1)], "as many transactions as it says");
    refused_record(&[genesis(PARTITIONS), counted(-1)], "as many transactions as it says");
    let record = batch(0, 1, 2);
    refused_record(&[genesis(PARTITIONS), record[..record.len() - 1].to_vec()], "ends early");
    refused_record(&[genesis(PARTITIONS), [&record[..], &[0]].concat()], "ends early");
    refused_record(&[genesis(PARTITIONS), vec![77, 0, 0, 0, 0]], "of kind 77");
    let mut more = multi(&[(0, 1)]);
    more.push(0);
    more[1] += 1;
    refused_record(&[genesis(PARTITIONS), more], "left over");
    let mut many = multi(&[(0, 1)]);
    many[5 + 8..5 + 12].fill(0xff);
    refused_record(&[genesis(PARTITIONS), many], "ends early");
}

#[test]
fn schema_changes_that_cannot_be_repeated() {
    let first = [genesis(PARTITIONS), schema(1, "CREATE TABLE a (a BIGINT)")];
    for version in [1, 3] {
        refused_record(
            &[&first[..], &[schema(version, "CREATE TABLE b (b BIGINT)")]].concat(),
            "schema change is missing",
        );
    }
    for text in ["CREATE TABLE a (a BIGINT)", "DROP TABLE nothing", "CREATE CHAOS"] {
        match refused(&[&first[..], &[schema(2, text)]].concat()) {
            StartError::Record(ReplayError::Schema { version, error }) => {
                assert!(version == 2 && !error.message().is_empty())
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn changes_that_cannot_be_applied() {
    for changes in [&[0u8][..], &[0xff; 40], b"no changes at all"] {
        let mut record = Vec::new();
        let mut writer = BatchWriter::begin(&mut record, PartitionId(1), Epoch(1), Sequence(1));
        writer.transaction(&mut record, |out| out.extend_from_slice(changes));
        writer.finish(&mut record);
        match refused(&[genesis(PARTITIONS), record]) {
            StartError::Record(ReplayError::Changes {
                partition: PartitionId(1),
                sequence: Sequence(1),
                reason,
                ..
            }) => {
                assert!(!reason.is_empty())
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_log_that_does_not_say_what_decimal_declarations_do_is_from_when_they_did_nothing() {
    let declared = |payloads: &[Vec<u8>]| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write(dir.path(), payloads);
        let recovered = open(dir.path(), None).expect("a sound log");
        let catalog = &recovered.compiled.catalog;
        let column = catalog.table_named("Q").map(|table| table.columns[0].column_type.to_string());
        (catalog.decimals, column.unwrap_or_default())
    };
    let create = "CREATE TABLE q (d DECIMAL(10,2))";
    assert_eq!(declared(&[genesis(1)]), (DecimalScale::Declared, String::new()));
    assert_eq!(declared(&[genesis(1), schema(1, create)]), (DecimalScale::Ignored, "DECIMAL".to_owned()));
    let first = schema(1, &ferrite_partition::schema::logged_text(&Catalog::default(), create));
    assert_eq!(declared(&[genesis(1), first]), (DecimalScale::Declared, "DECIMAL(10,2)".to_owned()));
}

/// A build of November 2026 made plain views of queries that are refused today. The database opens;
/// who reads them is told.
#[test]
fn views_of_what_is_refused_today_keep_no_database_shut() {
    let ddl = "CREATE TABLE ag (x INTEGER, g INTEGER);
        CREATE VIEW sums AS SELECT (SELECT SUM(a.x)) AS s FROM ag a;
        CREATE VIEW twice AS SELECT q.a FROM (SELECT x AS a, g AS a FROM ag) q;
        CREATE VIEW on_top AS SELECT s FROM sums WHERE s > 1;
        CREATE VIEW fine AS SELECT x FROM ag WHERE g = 1;";
    let limits = SqlLimits::CEILING;
    let empty = Catalog::before_history();
    let refused = |error: UserResult<Planned>| error.err().expect("it is refused").to_string();
    assert!(refused(schema::plan_within(&empty, ddl, &limits)).contains("outer query"));
    let planned = schema::plan(&empty, &schema::logged_text(&empty, ddl)).expect("it was accepted before");
    assert_eq!(planned.catalog.plain_views.len(), 4);
    Compiled::new(Arc::clone(&planned.catalog), &Default::default()).expect("no procedure reads them");
    let read = |view: &str| {
        let statements = ferrite_sql::parse_batch(&format!("SELECT * FROM {view}")).expect("a query");
        ferrite_sql::compile_adhoc(&planned.catalog, &statements, 0).map(drop).map_err(|error| error.to_string())
    };
    assert!(read("sums").unwrap_err().contains("outer query"));
    assert!(read("on_top").unwrap_err().contains("outer query"));
    assert!(read("twice").unwrap_err().contains("ambiguous"));
    read("fine").expect("a view of today");
    // The schema may change beside them, and they may go.
    for change in ["CREATE TABLE other (x INTEGER)", "DROP VIEW on_top; DROP VIEW sums; DROP VIEW twice"] {
        let next = schema::plan_within(&planned.catalog, change, &limits).expect("it concerns none of them");
        ferrite_sql::check_views(&planned.catalog, &next.catalog).expect("they are as they were");
    }
}

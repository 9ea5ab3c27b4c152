//! Copies: what a leader's entries make of them is what the leader has, with row ids, whatever the
//! order in which the parties get their turns; and one of them goes on as the leader.
//!
//! `COPY_SEEDS=200` runs more seeds; `COPY_SEED=17` runs one.

use crate::stepped::{Bytes, Database, Outside, entries, rows};
use crate::work::{CHANGES, SCHEMA};
use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::{ErrorKind, PartitionId, Position, UserError, UserResult, limits};
use ferrite_catalog::base64;
use ferrite_group::{Entry, EntryBuffer, FIRST_GROUP};
use ferrite_io::SteadyClock;
use ferrite_io::simulated::{SimulatedClock, SimulatedRandom};
use ferrite_partition::record::BatchWriter;
use ferrite_partition::{CopyFault, Delivery, Event, ReplayError};
use ferrite_plan::Parameter;
use ferrite_plan::external::{Body, Description, Host, RoutineBody};
use ferrite_replica::group::Header;
use ferrite_value::{ColumnType, SqlType, Value};
use ferrite_wire::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The work of clients.
struct Work {
    random: SimulatedRandom,
    /// How often each row of [`CHANGES`] was used.
    changes: [usize; CHANGES.len()],
    failed: usize,
}

impl Work {
    fn new(seed: u64) -> Work {
        Work { random: SimulatedRandom::new(seed ^ 0x77), changes: [0; CHANGES.len()], failed: 0 }
    }

    fn round(&mut self, database: &mut Database) {
        for _ in 0..12 {
            match self.random.below(12) {
                0 => self.change_schema(database),
                _ => self.statement(database),
            }
        }
    }

    fn change_schema(&mut self, database: &mut Database) {
        let row = self.random.below(CHANGES.len() as u64) as usize;
        let text = CHANGES[row][self.changes[row] % 2].trim_end_matches("; INSERT");
        let (status, told) = database.change_schema(text);
        assert_eq!(status, Status::Success.code(), "{text}: {told}");
        self.changes[row] += 1;
    }

    fn statement(&mut self, database: &mut Database) {
        let kinds = if self.changes[4].is_multiple_of(2) { "kinds" } else { "sorts" };
        let text = crate::work::statement(&mut self.random, kinds);
        let (status, told) = database.call(&text);
        if status != Status::Success.code() {
            // Keys that are there, and columns that are gone.
            assert!(status == Status::GracefulFailure.code(), "{text}: {told}");
            self.failed += 1;
        }
    }
}

/// What a leader had, and where.
struct Seen {
    at: Position,
    contents: Vec<String>,
}

fn work(database: &mut Database, work: &mut Work, rounds: usize) -> Vec<Seen> {
    (0..rounds)
        .map(|_| {
            work.round(database);
            let contents = database.contents();
            Seen { at: database.end(), contents }
        })
        .collect()
}

/// Feeds what the leader has said, and looks wherever the leader was looked at.
fn follow(copy: &mut Database, said: &[(Position, Bytes)], seen: &[Seen], note: &str) {
    let mut begin = copy.applied();
    let from = begin;
    for Seen { at, contents } in seen.iter().filter(|seen| seen.at > from) {
        let some: Vec<_> = said.iter().filter(|(position, _)| *position > begin && position <= at).cloned().collect();
        copy.feed(&some);
        let found = copy.contents();
        assert_eq!(copy.fault.lock().expect("no panic").as_ref().map(CopyFault::to_string), None, "{note}");
        assert_eq!(copy.applied(), *at, "{note}");
        let differ = found.iter().zip(contents).find(|(found, expected)| found != expected);
        assert!(found == *contents, "{note} at {at}: {differ:?}, {} and {} lines", found.len(), contents.len());
        begin = *at;
    }
}

fn run(seed: u64) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = |name: &str| home.path().join(name);
    let partitions = 1 + (seed % 3) as u32;
    let mut leader = Database::leader(&dir("leader"), partitions, seed);
    assert_eq!(leader.change_schema(SCHEMA).0, Status::Success.code());
    let mut clients = Work::new(seed);
    let mut seen = work(&mut leader, &mut clients, 2);
    if seed.is_multiple_of(2) {
        leader.save();
    }
    crate::stepped::copy_files(&leader.dir, &dir("second"));
    seen.extend(work(&mut leader, &mut clients, 3));
    let said = entries(&leader.dir);
    let mut first = Database::empty_copy(&dir("first"), partitions, seed + 1);
    let mut second = Database::copy(&dir("second"), partitions, seed + 2);
    follow(&mut first, &said, &seen, "the first copy");
    follow(&mut second, &said, &seen, "the second copy");
    refuses(&mut second);

    // The second leads, and the old leader is a copy like the first.
    leader.step_down();
    second.promote();
    let seen = work(&mut second, &mut clients, 3);
    let said = entries(&second.dir);
    follow(&mut first, &said, &seen, "the first copy, of the second leader");
    follow(&mut leader, &said, &seen, "the leader that was");
    refuses(&mut leader);
    let last = second.contents();
    let dir = second.close();
    // As a copy: a leader might begin to move rows.
    let again = Database::copy(&dir, partitions, seed).contents();
    assert!(again == last, "what the second has logged is what it had");
}

/// A copy executes nothing that it is called for.
fn refuses(copy: &mut Database) {
    let before = copy.contents();
    for text in ["INSERT INTO events (id) VALUES (100000)", "DELETE FROM events", "SELECT * FROM events WHERE id = 3"] {
        let (status, told) = copy.call(text);
        assert_eq!((status, told.contains("not the leader")), (Status::ServerUnavailable.code(), true), "{told}");
    }
    let (status, told) = copy.change_schema("DROP VIEW totals");
    assert_eq!((status, told.contains("not the leader")), (Status::ServerUnavailable.code(), true), "{told}");
    assert!(copy.contents() == before);
}

#[test]
fn copies_have_what_the_leader_has_and_go_on_as_leaders() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("COPY_SEED") {
        Some(seed) => run(seed),
        None => (1..=number("COPY_SEEDS").unwrap_or(6)).for_each(|seed| {
            catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
                eprintln!("with COPY_SEED={seed}");
                std::panic::resume_unwind(panic)
            });
        }),
    }
}

/// A leader's entries, and an empty copy.
fn leader_and_copy(home: &Path, seed: u64) -> (Database, Vec<(Position, Bytes)>, Database) {
    let mut leader = Database::leader(&home.join("leader"), 2, seed);
    assert_eq!(leader.change_schema(SCHEMA).0, Status::Success.code());
    for id in 0..40 {
        let text = format!("INSERT INTO events (id, grp) VALUES ({id}, {})", id % 5);
        assert_eq!(leader.call(&text).0, Status::Success.code());
    }
    leader.settle();
    let said = entries(&leader.dir);
    let copy = Database::empty_copy(&home.join("copy"), 2, seed);
    (leader, said, copy)
}

fn fault(copy: &mut Database) -> CopyFault {
    copy.settle();
    copy.fault.lock().expect("no panic").clone().expect("it was found")
}

#[test]
fn an_entry_that_comes_twice_or_not_at_all_ends_the_copy() {
    for skip in [true, false] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let (_leader, said, mut copy) = leader_and_copy(home.path(), 5);
        let (before, after) = said.split_at(20);
        copy.feed(before);
        copy.feed(if skip { &after[1..] } else { &before[19..] });
        let fault = fault(&mut copy);
        let words = if skip { "entries are missing" } else { "takes the place of one that was committed" };
        assert!(fault.to_string().contains(words), "{fault}");
        assert_eq!(copy.applied(), Position(20));
        // It takes nothing more, and leads nothing.
        let (to, promoted) = unbounded();
        let _ = copy.intake().entries(after[0].1.clone());
        copy.intake().send(Delivery::Promote(to));
        copy.settle();
        assert!(promoted.try_recv().is_err());
        assert_eq!(copy.applied(), Position(20));
    }
}

/// Between applier and partitions.
fn with_a_relay(home: &Path) -> (Vec<(Position, Bytes)>, Database, Vec<Receiver<Event>>) {
    let (_leader, said, mut copy) = leader_and_copy(home, 7);
    let (inboxes, relays): (Vec<_>, Vec<_>) = (0..2).map(|_| unbounded()).unzip();
    copy.follow_empty(inboxes);
    (said, copy, relays)
}

#[test]
fn a_parcel_that_is_lost_ends_the_copy() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (said, mut copy, relays) = with_a_relay(home.path());
    let mut lost = 0;
    for (position, bytes) in said {
        let _ = copy.intake().entries(bytes);
        for _ in 0..4 {
            copy.settle();
            for (partition, relay) in (0..).zip(&relays) {
                for event in relay.try_iter() {
                    let is_parcel = matches!(event, Event::Apply(_));
                    if is_parcel && partition == 1 && position.0 > 12 && lost == 0 {
                        lost = position.0;
                        continue;
                    }
                    copy.send(PartitionId(partition), event);
                }
            }
        }
    }
    let fault = fault(&mut copy);
    assert!(fault.entry > Position(lost) && lost > 0, "{fault}");
    assert!(matches!(fault.reason, ReplayError::Sequence { partition: PartitionId(1), .. }), "{fault}");
    assert!(copy.applied() < Position(lost), "an entry that was not applied does not count");
}

/// Rows that are not where the leader has them are a fault that names partition, table and entry.
#[test]
fn changes_that_do_not_fit_end_the_copy_and_say_where() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (_leader, said, mut copy) = leader_and_copy(home.path(), 9);
    copy.feed(&said);
    let before = copy.contents();
    let (to, promoted) = unbounded();
    let from = copy.applied();
    copy.intake().send(Delivery::Snapshot { from, to });
    copy.settle();
    let snapshot = promoted.try_recv().expect("nothing is in the way");
    assert!(rows(&snapshot.stores.iter().collect::<Vec<_>>()) == before);
    let events = snapshot.catalog.table_named("EVENTS").expect("it is there").id;
    let (last, _) = said.last().expect("there are some");
    assert_eq!(snapshot.place.end.position, *last);
    let mut buffer = EntryBuffer::default();
    let sequence = ferrite_base::Sequence(snapshot.sequences[1].0 + 1);
    let mut writer = BatchWriter::begin(buffer.records(), PartitionId(1), ferrite_base::Epoch(1), sequence);
    // An insertion where a row is, of the kind 3: a deletion of a row that is not there.
    writer.transaction(buffer.records(), |out| out.extend_from_slice(&[3, events.0 as u8, 0x7f]));
    writer.finish(buffer.records());
    let end = snapshot.place.end;
    let header =
        Header::after(FIRST_GROUP, end, end.epoch, false, buffer.checksum(), buffer.len().try_into().expect("small"));
    let bytes = buffer.seal(FIRST_GROUP, &header, end.position, 0);
    assert!(Entry::decode(bytes[0], &bytes[5..]).expect("an entry").follows(end));
    drop(snapshot);
    copy.feed(&[(header.mark.position, bytes)]);
    let fault = fault(&mut copy);
    assert_eq!(fault.entry, header.mark.position);
    match &fault.reason {
        ReplayError::Changes { partition: PartitionId(1), table: Some(table), .. } => assert_eq!(table, "EVENTS"),
        other => panic!("{other}"),
    }
    assert_eq!(copy.applied(), *last);
    assert!(copy.contents() == before, "nothing wrong is in the tables");
}

#[test]
fn a_copy_that_moves_rows_by_itself_is_found() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut leader = Database::leader(&home.path().join("leader"), 1, 3);
    assert_eq!(leader.change_schema(SCHEMA).0, Status::Success.code());
    let fill = "INSERT INTO events (id, grp) SELECT n, 1 FROM GENERATE_SERIES(1, 3000) AS s (n)";
    for text in [fill, "DELETE FROM events WHERE MOD(id, 9) <> 1", "INSERT INTO events (id) VALUES (5)"] {
        assert_eq!(leader.call(text).0, Status::Success.code());
    }
    let contents = leader.contents();
    let said = entries(&leader.dir);
    assert!(said.len() > 6, "the leader has moved rows: {} entries", said.len());
    let mut copy = Database::empty_copy(&home.path().join("copy"), 1, 3);
    follow(&mut copy, &said, &[Seen { at: leader.end(), contents }], "it does as the leader");
    let mut copy = Database::empty_copy(&home.path().join("other"), 1, 3);
    copy.settle();
    let ((to, loans), (back, way)) = (unbounded(), unbounded());
    copy.send(PartitionId(0), Event::Lend { to, back: way });
    copy.settle();
    let mut loan = loans.try_recv().expect("it was lent");
    loan.store.keep_rows(false);
    assert!(back.send(loan).is_ok());
    let found = catch_unwind(AssertUnwindSafe(|| {
        // Up to the deletions, and not the moves that the leader has made behind them.
        copy.feed(&said[..4]);
        copy.settle();
    }));
    assert!(found.is_err(), "it moved rows that the leader's entries name");
}

/// Ends with the number of its transaction as the error's text.
fn number(class: &str) -> UserResult<Description> {
    let key = Parameter { name: None, column_type: ColumnType::unbounded(SqlType::Bigint), array: false, table: false };
    Ok(Description {
        parameters: vec![key],
        statements: Vec::new(),
        partition_info: (class == "a.Here").then(|| "events.id : 0".to_owned()),
        texts: false,
        body: RoutineBody::Transaction(Arc::new(Numbers)),
    })
}

#[derive(Debug)]
struct Numbers;

impl Body for Numbers {
    fn call(&self, host: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        Err(UserError::new(ErrorKind::UserAbort, "45000", format!("<{}>", host.unique_id())))
    }
}

/// Numbers of transactions are not given twice, though clocks differ: by a copy that leads, and by
/// the same node after a restart.
#[test]
fn unique_ids_go_on_above_those_in_the_entries() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = |name: &str| home.path().join(name);
    let classes = base64::encode(&crate::jar::jar(&["a/Here.class", "a/Everywhere.class"]));
    let procedures = "CREATE PROCEDURE FROM CLASS a.Here; CREATE PROCEDURE FROM CLASS a.Everywhere";
    let at = |hours: u64| {
        let clock = SimulatedClock::default();
        clock.advance(Duration::from_secs(hours * 3_600));
        Outside { clock: Arc::new(clock), runtime: crate::in_rust::runtime(number), ..Outside::default() }
    };
    let numbers = |database: &mut Database| {
        ["Here", "Everywhere"].map(|name| {
            let (_, text) = database.call_procedure(name, 3);
            let inside = text.split_once('<').and_then(|(_, behind)| behind.split_once('>'));
            inside.expect("it has said its number").0.parse::<i64>().expect("a number")
        })
    };
    let mut leader = Database::leader_with(&dir("leader"), 2, 1, at(9));
    let (status, text) = leader.change_schema(&format!("{SCHEMA}; LOAD CLASSES '{classes}'; {procedures}"));
    assert_eq!(status, Status::Success.code(), "{text}");
    leader.settle();
    crate::stepped::copy_files(&leader.dir, &dir("copy"));
    let mut given = [0; 2];
    // More than there are in a millisecond, while the clock stands still.
    for _ in 0..600 {
        given = numbers(&mut leader);
    }
    for text in ["INSERT INTO events (id) VALUES (3)", "INSERT INTO kinds VALUES (3, 'three')"] {
        assert_eq!(leader.call(text).0, Status::Success.code());
    }
    leader.settle();
    let said = entries(&leader.dir);
    let dir = leader.close();
    let above = |later: [i64; 2]| later.iter().zip(&given).all(|(later, given)| later > given);
    let mut copy = Database::copy_with(&home.path().join("copy"), 2, 1, at(2));
    let begin = copy.applied();
    copy.feed(&said.into_iter().filter(|(position, _)| *position > begin).collect::<Vec<_>>());
    copy.promote();
    assert!(above(numbers(&mut copy)), "the copy's clock is seven hours behind");
    let mut again = Database::leader_with(&dir, 2, 1, at(5));
    assert!(above(numbers(&mut again)), "the clock was set back by four hours");
}

/// Times of transactions do not go back either, where clocks differ by seconds: by a copy that
/// leads, and by the same node after a restart.
#[test]
fn now_goes_on_from_what_is_in_the_entries() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let at = |seconds: u64| {
        let clock = SimulatedClock::default();
        clock.advance(Duration::from_secs(seconds));
        Outside { clock: Arc::new(SteadyClock::new(clock)), ..Outside::default() }
    };
    let times = "CREATE TABLE times (id BIGINT NOT NULL, at TIMESTAMP DEFAULT NOW);
        CREATE TABLE shared_times (id BIGINT NOT NULL, at TIMESTAMP DEFAULT NOW); PARTITION TABLE times ON COLUMN id";
    // One partition, and all.
    let tables = ["times", "shared_times"];
    let insert = |database: &mut Database, id: u32| {
        for table in tables {
            let (status, text) = database.call(&format!("INSERT INTO {table} (id) VALUES ({id})"));
            assert_eq!(status, Status::Success.code(), "{text}");
        }
        database.settle();
    };
    let went_on = |database: &Database| {
        tables.map(|name| {
            database.with_stores(|stores| {
                let data = stores.iter().flat_map(|store| store.tables());
                let mut times: Vec<(i64, i64)> = data
                    .filter(|table| table.definition().name.eq_ignore_ascii_case(name))
                    .flat_map(|table| table.scan().map(|id| (table.row(id).column(0), table.row(id).column(1))))
                    .map(|row| match row {
                        (Value::Integer(id), Value::Timestamp(at)) => (id, at),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                times.sort_unstable();
                times.len() >= 2 && times.is_sorted_by_key(|(_, at)| *at)
            })
        })
    };
    let mut leader = Database::leader_with(&home.path().join("leader"), 2, 1, at(100));
    let (status, text) = leader.change_schema(&format!("{SCHEMA}; {times}"));
    assert_eq!(status, Status::Success.code(), "{text}");
    leader.settle();
    crate::stepped::copy_files(&leader.dir, &home.path().join("copy"));
    insert(&mut leader, 1);
    let said = entries(&leader.dir);
    let dir = leader.close();
    let mut copy = Database::copy_with(&home.path().join("copy"), 2, 1, at(70));
    let begin = copy.applied();
    copy.feed(&said.into_iter().filter(|(position, _)| *position > begin).collect::<Vec<_>>());
    copy.promote();
    insert(&mut copy, 2);
    assert_eq!(went_on(&copy), [true; 2], "the copy's clock is half a minute behind");
    let mut again = Database::leader_with(&dir, 2, 1, at(60));
    insert(&mut again, 2);
    assert_eq!(went_on(&again), [true; 2], "the clock was set back");
}

#[test]
fn as_many_entries_wait_as_may_and_no_more() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut copy = Database::empty_copy(&home.path().join("copy"), 1, 1);
    let intake = copy.intake();
    let half = vec![0; limits::COPY_ENTRIES_BYTES_MAX / 2];
    assert!(intake.entries(half.clone()).is_ok());
    assert!(intake.entries(half.clone()).is_ok());
    assert_eq!(intake.entries(vec![9]), Err(vec![9]));
    // They are no entries; with the copy's end they are gone.
    assert!(fault(&mut copy).to_string().contains("an entry"), "it says why");
    drop(copy);
    // One arrival may be larger, where nothing else waits.
    let mut copy = Database::empty_copy(&home.path().join("next"), 1, 1);
    assert!(copy.intake().entries(vec![0; limits::COPY_ENTRIES_BYTES_MAX + 1]).is_ok());
    assert_eq!(copy.intake().entries(vec![9]), Err(vec![9]));
    fault(&mut copy);
}

/// A leader's entries, of which a copy is given some, and reads the others in the log.
#[test]
fn what_a_copy_is_not_given_it_reads_in_the_log_before_it_leads() {
    for seed in 1..=20 {
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut leader = Database::leader(&home.path().join("leader"), 3, seed);
        assert_eq!(leader.change_schema(SCHEMA).0, Status::Success.code());
        let mut clients = Work::new(seed);
        let mut copy = Database::empty_copy(&home.path().join("copy"), 3, seed + 1_000);
        copy.reads_log_of(&leader);
        let (intake, mut random) = (copy.intake(), SimulatedRandom::new(seed));
        let (mut given, mut refused) = (0, 0);
        for _ in 0..4 {
            clients.round(&mut leader);
            leader.settle();
            let said = entries(&leader.dir);
            let new = &said[given..];
            given = said.len();
            for (position, bytes) in new {
                // As where there is no room: what comes behind must not overtake it.
                match random.below(4) {
                    0 => intake.up_to(*position),
                    _ => {
                        if intake.entries(bytes.clone()).is_err() {
                            refused += 1;
                            intake.up_to(*position);
                        }
                    }
                }
                for _ in 0..random.below(6) {
                    copy.step();
                }
            }
            copy.settle();
            assert_eq!(copy.applied(), leader.end(), "seed {seed}");
            assert!(copy.contents() == leader.contents(), "seed {seed}");
        }
        assert!(refused > 0, "some wait for those that are read");
        // What is committed, and not in the log yet, is waited for.
        let last = Position(leader.end().0 + 1);
        intake.up_to(last);
        copy.settle();
        assert!(copy.applied() < last);
        clients.statement(&mut leader);
        while leader.end() < last {
            clients.statement(&mut leader);
        }
        // Rows may move until it is at rest.
        leader.settle();
        let (end, (to, promoted)) = (leader.end(), unbounded());
        intake.up_to(end);
        intake.send(Delivery::Promote(to));
        copy.settle();
        assert_eq!(promoted.try_recv().expect("nothing is in the way").place.end.position, end, "seed {seed}");
        assert!(copy.contents() == leader.contents(), "seed {seed}");
    }
}

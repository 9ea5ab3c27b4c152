//! Two tables that are filled by restores only, and the backups that these come from.
//!
//! Nobody else writes rows there, so they hold all rows of the backup or none, at every moment and
//! after every crash.

use crate::clients::Clients;
use crate::history::{Action, Answer, Told, body_text};
use crate::internal_client::InternalClient;
use crate::node::{self, Node};
use crate::plan::Plan;
use crate::state::Item;
use crate::trace::Trace;
use ferrite_backup::request::{Choice, Format, Save};
use ferrite_backup::{Server, save};
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::DatabaseId;
use ferrite_value::{SqlType, Value};
use ferrite_wire::table::{TableHeader, TableWriter};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Where the backups are that restores begin with.
pub const DIRECTORY: &str = "/source";
/// Its rows fit.
pub const GOOD: &str = "good";
/// One of its rows breaks a constraint of the database that it is restored into.
pub const BAD: &str = "bad";

const TABLES: &str = "
CREATE TABLE restored (id BIGINT NOT NULL, v BIGINT, name VARCHAR(40), body VARCHAR(200000 BYTES), PRIMARY KEY (id));
PARTITION TABLE restored ON COLUMN id;
CREATE TABLE codes (code BIGINT NOT NULL, words VARCHAR(60), PRIMARY KEY (code));
";
/// What refuses rows of the bad backup.
const LIMIT: i64 = 1_000;

/// The rows of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    pub restored: BTreeMap<i64, Item>,
    pub codes: BTreeMap<i64, Option<String>>,
}

impl Rows {
    pub fn new(random: &mut SimulatedRandom) -> Rows {
        let mut rows = Rows::default();
        for _ in 0..1 + random.below(40) {
            let id = random.below(1_000) as i64;
            let value = (!random.percent(20)).then(|| random.below(8) as i64);
            let name = (!random.percent(20)).then(|| format!("name {}", random.below(50)));
            let body = match random.below(12) {
                0 => Some(body_text(id as usize, random.below(30_000) as usize)),
                1 => None,
                _ => Some(body_text(id as usize, random.below(200) as usize)),
            };
            rows.restored.insert(id, (value, name, body));
        }
        for code in 0..1 + random.below(6) as i64 {
            rows.codes.insert(code, (!random.percent(20)).then(|| format!("word {}", random.below(3))));
        }
        rows
    }

    fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.codes.is_empty()
    }
}

/// What is known of the two tables.
#[derive(Clone, Debug)]
pub struct RestoreHistory {
    /// What a restore brings.
    pub rows: Rows,
    /// Full or empty, after each change that is known to have been made.
    pub full: Vec<bool>,
    /// A change whose outcome is not known.
    pub outstanding: Option<Change>,
}

#[derive(Clone, Debug)]
pub struct Change {
    /// Of the operation.
    pub number: usize,
    /// What it makes of the tables.
    pub full: bool,
    /// Somebody was shown that it took place.
    pub seen: bool,
}

impl Default for RestoreHistory {
    fn default() -> RestoreHistory {
        RestoreHistory { rows: Rows::default(), full: vec![false], outstanding: None }
    }
}

impl RestoreHistory {
    pub fn is_full(&self) -> bool {
        *self.full.last().expect("the first state is known")
    }

    /// Takes an operation's answer for what it says of the two tables.
    pub fn told(&mut self, number: usize, action: &Action, told: &Told) -> Result<(), String> {
        match (action, told) {
            (Action::Peek { since }, Told::Done(Answer::Peeked(counts))) => {
                return self.shown(*since, *counts).map_err(|what| format!("operation {number} saw {what}"));
            }
            (Action::Restore { .. }, Told::Done(_)) if self.is_full() => {
                return Err(format!("operation {number} restored into tables that had rows"));
            }
            (Action::Restore { backup: BAD }, Told::Done(_)) => {
                return Err(format!("operation {number} restored a row that breaks a constraint"));
            }
            _ => {}
        }
        let Some(change) = self.outstanding.take_if(|change| change.number == number && *told != Told::Unknown) else {
            return Ok(());
        };
        match told {
            Told::Done(_) => self.full.push(change.full),
            _ if change.seen => return Err(format!("operation {number} has failed, and somebody saw it done")),
            _ => {}
        }
        Ok(())
    }

    /// What a reader was shown that was sent when `since` changes were known: rows and rows of
    /// views, of both tables.
    fn shown(&mut self, since: usize, counts: [i64; 4]) -> Result<(), String> {
        let (restored, codes) = (self.rows.restored.len() as i64, self.rows.codes.len() as i64);
        let full = match counts {
            [0, 0, 0, 0] => false,
            all if all == [restored, restored, codes, codes] => true,
            _ => return Err(format!("{counts:?} rows, which is a part of a restore of {restored} and {codes}")),
        };
        if self.full[since - 1..].contains(&full) {
            return Ok(());
        }
        match &mut self.outstanding {
            Some(change) if change.full == full => {
                change.seen = true;
                Ok(())
            }
            _ => Err(format!("{counts:?} rows, though nobody had made it so")),
        }
    }
}

/// The statements for the database that is restored into.
pub fn schema() -> String {
    format!(
        "{TABLES}
ALTER TABLE restored ADD CONSTRAINT restored_limit CHECK (v < {LIMIT});
CREATE INDEX restored_v ON restored (v);
CREATE VIEW restored_by_v AS SELECT v, COUNT(*) AS entries, SUM(id) AS total, MAX(name) AS last_name FROM restored GROUP BY v;
CREATE VIEW codes_by_words AS SELECT words, COUNT(*) AS entries FROM codes GROUP BY words;
CREATE PROCEDURE Peek AS BEGIN
  RETURN TABLE (SELECT COUNT(*) FROM restored), TABLE (SELECT v, entries FROM restored_by_v),
    TABLE (SELECT COUNT(*) FROM codes), TABLE (SELECT words, entries FROM codes_by_words);
END;
CREATE PROCEDURE Discard AS BEGIN
  DELETE FROM restored; DELETE FROM codes;
  RETURN (SELECT COUNT(*) FROM restored);
END;
"
    )
}

/// Makes the backups' files, in a healthy database of any number of partitions.
pub fn backups(plan: &Plan, rows: &Rows, random: &mut SimulatedRandom) -> Vec<(PathBuf, Vec<u8>)> {
    let clock = SimulatedClock::default();
    let disk = SimulatedDisk::new(random.number(), clock.clone());
    let mut plan = plan.clone();
    plan.partitions = 1 + random.below(5) as u32;
    plan.log.database = Some(DatabaseId::random(random));
    let fine = "nothing is wrong in a life without faults";
    let recovered = node::recover(&disk, &clock, random, &plan.log, plan.partitions, TABLES).expect(fine);
    let clients = Clients::quiet(random.fork(), &plan, Arc::clone(&recovered.compiled.catalog), Trace::new(false));
    let node = Node::new(recovered, &disk, &clock, Arc::new(Mutex::new(clients)), random.fork(), plan.turns);
    let client = InternalClient::new(&node, 1 << 20);
    fill(&client, rows);
    write(&client, &disk, GOOD, random);
    let mut more = Rows::default();
    more.restored.insert(1_000, (Some(LIMIT), None, None));
    fill(&client, &more);
    write(&client, &disk, BAD, random);
    let files = disk.files().into_iter().filter(|path| path.starts_with(DIRECTORY));
    files.map(|path| (path.clone(), disk.bytes_of(&path).unwrap_or_default())).collect()
}

fn write(client: &InternalClient<'_>, disk: &SimulatedDisk, nonce: &str, random: &mut SimulatedRandom) {
    let request = native(Path::new(DIRECTORY), nonce);
    let begun = save::begin(client, Arc::new(disk.clone()), request);
    let written = begun.and_then(|begun| begun.write(random));
    written.unwrap_or_else(|error| panic!("a backup on a healthy disk: {error}"));
}

/// A whole backup in the native form.
pub fn native(dir: &Path, nonce: &str) -> Save {
    Save {
        dir: dir.to_path_buf(),
        nonce: nonce.to_owned(),
        block: true,
        format: Format::Native,
        tables: Choice::default(),
    }
}

/// Brings the rows into the two tables.
fn fill(server: &dyn Server, rows: &Rows) {
    assert!(!rows.is_empty());
    let header = TableHeader::new([
        ("ID", SqlType::Bigint),
        ("V", SqlType::Bigint),
        ("NAME", SqlType::Varchar),
        ("BODY", SqlType::Varchar),
    ]);
    for (id, (value, name, body)) in &rows.restored {
        let key = Value::Integer(*id);
        let row = [
            Value::Integer(*id),
            value.map_or(Value::Null, Value::Integer),
            name.as_deref().map_or(Value::Null, Value::Text),
            body.as_deref().map_or(Value::Null, Value::Text),
        ];
        let partition = server.partition_of(&key).expect("keys are integers");
        server.load("RESTORED", Some(partition), table(&header, &row)).expect("a healthy database takes rows");
    }
    let header = TableHeader::new([("CODE", SqlType::Bigint), ("WORDS", SqlType::Varchar)]);
    for (code, words) in &rows.codes {
        let row = [Value::Integer(*code), words.as_deref().map_or(Value::Null, Value::Text)];
        server.load("CODES", None, table(&header, &row)).expect("a healthy database takes rows");
    }
    server.wait_for_loads().expect("a healthy database takes rows");
}

/// A table of one row as a load takes it: without its length.
fn table(header: &TableHeader, row: &[Value<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TableWriter::begin(&mut bytes, header);
    writer.row(row).expect("the row fits");
    writer.finish();
    bytes.split_off(size_of::<i32>())
}

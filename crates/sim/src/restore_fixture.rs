//! The backups that fill the two tables of `restore_history.rs`.

use crate::clients::Clients;
use crate::internal_client::InternalClient;
use crate::node::{self, Node};
use crate::plan::Plan;
use crate::restore_history::{BAD, GOOD, Rows};
use crate::schema::{RESTORED_LIMIT, RESTORED_TABLES};
use crate::trace::Trace;
use ferrite_backup::request::{Choice, Format, Save};
use ferrite_backup::{Server, save};
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::DatabaseId;
use ferrite_value::{SqlType, Value};
use ferrite_wire::table::{TableHeader, TableWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Where the backups are that restores begin with.
pub const DIRECTORY: &str = "/source";
/// Makes the backups' files, in a healthy database of any number of partitions.
pub fn backups(plan: &Plan, rows: &Rows, random: &mut SimulatedRandom) -> Vec<(PathBuf, Vec<u8>)> {
    let clock = SimulatedClock::default();
    let disk = SimulatedDisk::new(random.number(), clock.clone());
    let mut plan = plan.clone();
    plan.partitions = 1 + random.below(5) as u32;
    plan.log.database = Some(DatabaseId::random(random));
    let fine = "nothing is wrong in a life without faults";
    let recovered = node::recover(&disk, &clock, random, &plan.log, plan.partitions, RESTORED_TABLES).expect(fine);
    let clients = Clients::quiet(random.fork(), &plan, Arc::clone(&recovered.compiled.catalog), Trace::new(false));
    let node = Node::new(recovered, &disk, &clock, Arc::new(Mutex::new(clients)), random.fork(), plan.turns);
    let client = InternalClient::new(&node, 1 << 20);
    fill(&client, rows);
    write(&client, &disk, GOOD, random);
    let mut more = Rows::default();
    more.restored.insert(1_000, (Some(RESTORED_LIMIT), None, None));
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

//! Values by key under torture: each key has one writer, which puts, replaces and deletes; readers
//! read any key meanwhile.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::{Cut, Lane};
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{OwnedTable, Prepared};
use ferrite_value::OwnedValue;

const DDL: &str = "
CREATE TABLE torture_value (id BIGINT NOT NULL, version BIGINT NOT NULL, content VARBINARY(1048576) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE torture_value ON COLUMN id;
CREATE VIEW torture_value_versions (n, versions) AS SELECT COUNT(*), SUM(version) FROM torture_value;
CREATE PROCEDURE torture_put PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  UPSERT INTO torture_value (id, version, content) VALUES (?, ?, ?);
CREATE PROCEDURE torture_remove PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  DELETE FROM torture_value WHERE id = ?;
CREATE PROCEDURE torture_get PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  SELECT version, content FROM torture_value WHERE id = ?;
";

const KEYS: u32 = 3_000;
/// Of a hundred calls this many read, and of a hundred writes this many delete.
const READS_PERCENT: u32 = 40;
const DELETES_PERCENT: u32 = 15;
const CALLS_MAX: u32 = 24_000;

pub struct Values {
    put: Prepared,
    remove: Prepared,
    get: Prepared,
    random: FastRandom,
    keys: Vec<Key>,
    reads: Vec<Read>,
    next_version: i64,
    calls_left: u32,
}

struct Key {
    /// The version that is there, if one is.
    lane: Lane<Option<i64>>,
    writing: bool,
    /// Steps that are acknowledged.
    acknowledged: usize,
}

/// A read on its way or ended.
struct Read {
    key: usize,
    /// Steps of the key that were acknowledged when the read was sent: it must see them.
    acknowledged: usize,
    /// What it saw, and when that was known.
    seen: Option<(Option<i64>, u64)>,
}

/// The lowest bit of a token says that it is a read's, and the others count reads; those of writes
/// are keys.
const IS_READ: u64 = 1;

impl Values {
    pub fn new(session: &Session) -> BenchResult<Values> {
        session.run_statements(DDL)?;
        let prepared = |name| Prepared::new(name).expect("a short name");
        let key = || Key { lane: Lane::new(None), writing: false, acknowledged: 0 };
        Ok(Values {
            put: prepared("torture_put"),
            remove: prepared("torture_remove"),
            get: prepared("torture_get"),
            random: FastRandom::new(0),
            keys: (0..KEYS).map(|_| key()).collect(),
            reads: Vec::new(),
            next_version: 0,
            calls_left: 0,
        })
    }

    /// A key that nobody writes now.
    fn idle_key(&mut self) -> Option<usize> {
        (0..4).map(|_| self.random.below(KEYS) as usize).find(|key| !self.keys[*key].writing)
    }
}

/// The bytes that belong to a version of a key. Most are short; some do not fit a page, some not a
/// sector.
fn content(key: usize, version: i64) -> Vec<u8> {
    let mut random = FastRandom::new((key as u64) << 40 ^ version as u64);
    let bytes = match random.below(200) {
        0 => 100_000 + random.below(200_000),
        1..=6 => 4_000 + random.below(40_000),
        _ => random.below(600),
    };
    let mut content = vec![0; bytes as usize];
    random.fill(&mut content);
    content
}

/// The version in an answer, once its content is found to be right.
fn version_in(key: usize, table: &OwnedTable) -> Result<Option<i64>, String> {
    match table.rows.as_slice() {
        [] => Ok(None),
        [row] => match row.as_slice() {
            [OwnedValue::Integer(version), OwnedValue::Bytes(bytes)] if **bytes == content(key, *version) => {
                Ok(Some(*version))
            }
            [OwnedValue::Integer(version), _] => Err(format!("key {key}: version {version} has another one's content")),
            _ => Err(format!("key {key}: no version and content in {row:?}")),
        },
        rows => Err(format!("key {key} is there {} times", rows.len())),
    }
}

impl Load for Values {
    fn name(&self) -> &'static str {
        "values"
    }

    fn outstanding_max(&self) -> usize {
        400
    }

    fn begin(&mut self, random: FastRandom) {
        self.random = random;
        self.calls_left = CALLS_MAX;
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        if self.random.below(100) < READS_PERCENT {
            let key = self.random.below(KEYS) as usize;
            calls.call(&self.get, (key as i64,), (self.reads.len() as u64) << 1 | IS_READ);
            self.reads.push(Read { key, acknowledged: self.keys[key].acknowledged, seen: None });
            return true;
        }
        let Some(key) = self.idle_key() else { return true };
        let token = (key as u64) << 1;
        let (after, sent) = if self.random.below(100) < DELETES_PERCENT {
            (None, calls.call(&self.remove, (key as i64,), token))
        } else {
            self.next_version += 1;
            let version = self.next_version;
            (Some(version), calls.call(&self.put, (key as i64, version, content(key, version)), token))
        };
        self.keys[key].lane.sent(after, sent);
        self.keys[key].writing = true;
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        if ended.token & IS_READ != 0 {
            let read = &mut self.reads[(ended.token >> 1) as usize];
            match ended.fate {
                Fate::Acknowledged(response) => {
                    match response
                        .tables
                        .first()
                        .map_or(Err("no table".to_string()), |table| version_in(read.key, table))
                    {
                        Ok(version) => {
                            read.seen = Some((version, ended.at));
                            let lane = &self.keys[read.key].lane;
                            if !(read.acknowledged..=lane.steps.len()).any(|steps| *lane.state(steps) == version) {
                                cut.finding(format!(
                                    "values: key {} was read as {version:?}, neither what was acknowledged before nor newer",
                                    read.key
                                ));
                            }
                        }
                        Err(text) => cut.finding(format!("values: a read: {text}")),
                    }
                }
                Fate::Refused(text) => cut.finding(format!("values: a read was refused: {text}")),
                Fate::NotSent | Fate::Unknown => {}
            }
            return;
        }
        let key = &mut self.keys[(ended.token >> 1) as usize];
        // What became of it is not known, and so not what the next change would find: in a cluster,
        // where calls go on, nobody writes the key before the check.
        key.writing = matches!(ended.fate, Fate::Unknown);
        match ended.fate {
            Fate::Acknowledged(response) => {
                let steps = key.lane.steps.len();
                // How many rows a statement has changed is told too.
                let changes = i64::from(key.lane.last().is_some() || key.lane.state(steps - 1).is_some());
                if response.scalar() != Some(changes) {
                    cut.finding(format!(
                        "values: {changes} rows were to change, {:?} did; {:?}",
                        response.scalar(),
                        key.lane
                    ));
                }
                key.lane.acknowledged(ended.at);
                key.acknowledged = steps;
            }
            Fate::Refused(text) => {
                key.lane.refused();
                cut.finding(format!("values: a write was refused: {text}"));
            }
            Fate::NotSent => key.lane.refused(),
            Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CALLS_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let mut there: Vec<Option<i64>> = vec![None; self.keys.len()];
        let table = session.query("SELECT id, version, content FROM torture_value")?;
        let (mut rows, mut versions) = (0, 0);
        for row in &table.rows {
            let [OwnedValue::Integer(id), OwnedValue::Integer(version), OwnedValue::Bytes(bytes)] = row.as_slice()
            else {
                return Err(BenchError::Server("a value is not what was asked for".to_string()));
            };
            let Some(place) = usize::try_from(*id).ok().and_then(|key| there.get_mut(key)) else {
                cut.finding(format!("values: nobody wrote key {id}"));
                continue;
            };
            if place.replace(*version).is_some() {
                cut.finding(format!("values: key {id} is there twice"));
            }
            if **bytes != content(*id as usize, *version) {
                cut.finding(format!("values: version {version} of key {id} has not its content"));
            }
            rows += 1;
            versions += version;
        }
        let view = session.query("SELECT n, versions FROM torture_value_versions")?;
        let expected =
            [OwnedValue::Integer(rows), if rows == 0 { OwnedValue::Null } else { OwnedValue::Integer(versions) }];
        if view.rows.first().map(Vec::as_slice) != Some(&expected[..]) {
            cut.finding(format!("values: the view says {:?}, a scan {expected:?}", view.rows));
        }
        for read in self.reads.drain(..) {
            let Some((seen, at)) = read.seen else { continue };
            let lane = &self.keys[read.key].lane;
            let fits = |state: Option<i64>| (0..=lane.steps.len()).filter(move |steps| *lane.state(*steps) == state);
            // What was seen must not be newer than what is there, whichever of several equal states
            // that is.
            if let (Some(first_seen), Some(last_there)) = (fits(seen).next(), fits(there[read.key]).next_back())
                && first_seen > last_there
            {
                cut.lost(at, || {
                    format!("values: key {} was read as {seen:?}, {:?} is there", read.key, there[read.key])
                });
            }
        }
        for (number, key) in self.keys.iter_mut().enumerate() {
            key.lane.settle(&there[number], cut, || format!("value of key {number}"));
            key.acknowledged = 0;
            key.writing = false;
        }
        Ok(())
    }
}

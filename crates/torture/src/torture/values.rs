//! Values by key under torture: each key has one writer, which puts, replaces and deletes; readers
//! read any key meanwhile, or several at once.
//!
//! A read must see what was acknowledged before it was sent, and what another read had seen whose
//! answer was there before. In a cluster some reads and writes ask a certain node, whatever has
//! become of it: one that leads no more must not answer from what it has.

use crate::torture::drive::{Calls, Ended, Fate, Load, WAITING_AT_NODE_MAX};
use crate::torture::lane::{Cut, Lane};
use crate::torture::scan::{self, GroupLayout};
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{OwnedTable, Prepared};
use ferrite_value::OwnedValue;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;

const DDL: &str = "
CREATE TABLE torture_value (id BIGINT NOT NULL, version BIGINT NOT NULL, content VARBINARY(1048576) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE torture_value ON COLUMN id;
CREATE PROCEDURE torture_put PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  UPSERT INTO torture_value (id, version, content) VALUES (?, ?, ?);
CREATE PROCEDURE torture_remove PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  DELETE FROM torture_value WHERE id = ?;
CREATE PROCEDURE torture_get PARTITION ON TABLE torture_value COLUMN id PARAMETER 0 AS
  SELECT version, content FROM torture_value WHERE id = ?;
";
/// What several groups cannot do.
const OF_ONE_GROUP: &str = "
CREATE VIEW torture_value_versions (n, versions) AS SELECT COUNT(*), SUM(version) FROM torture_value;
CREATE PROCEDURE torture_get_some AS
  SELECT id, version FROM torture_value WHERE id >= ? AND id < ?;
";
const ALL: &str = "SELECT id, version, content FROM torture_value";

const KEYS: u32 = 3_000;
/// Of a hundred calls this many read, and of a hundred writes this many delete.
const READS_PERCENT: u32 = 40;
const DELETES_PERCENT: u32 = 15;
const CALLS_MAX: u32 = 24_000;
/// Of a hundred reads this many are of several keys, which may be in different partitions.
const SEVERAL_PERCENT: u32 = 10;
const SEVERAL_KEYS: u32 = 12;
/// Of a hundred reads this many are of keys that were changed just before: where something stale is
/// most likely to be seen.
const RECENT_PERCENT: u32 = 50;
const RECENT_MAX: usize = 50;
/// Of a hundred calls to a cluster this many are for a certain node.
const AT_NODE_PERCENT: u32 = 40;

pub struct Values {
    layout: GroupLayout,
    put: Prepared,
    remove: Prepared,
    get: Prepared,
    get_some: Prepared,
    random: FastRandom,
    keys: Vec<Key>,
    /// The last ones of which a change was acknowledged.
    recent: VecDeque<usize>,
    reads: Vec<Read>,
    /// Calls that wait for each node.
    waiting_at: Vec<usize>,
    next_version: i64,
    calls_left: u32,
}

struct Key {
    /// The version that is there, if one is.
    lane: Lane<Option<i64>>,
    writing: bool,
    /// Steps that whoever reads from now on must see: they are acknowledged, or were read.
    floor: usize,
}

/// A read on its way or ended.
struct Read {
    /// Of each key the floor when the read was sent.
    floors: Vec<usize>,
    keys: Range<usize>,
    /// What it saw of each, and when that was known.
    seen: Option<(Vec<Option<i64>>, u64)>,
}

impl Key {
    /// Judges what a read saw that was sent when `floor` was the floor; later reads must see it.
    fn read(&mut self, floor: usize, seen: Option<i64>) -> Result<(), String> {
        let lane = &self.lane;
        let steps = (floor..=lane.steps.len()).find(|steps| *lane.state(*steps) == seen);
        let steps = steps.ok_or_else(|| {
            let older = (0..floor.min(lane.steps.len())).any(|steps| *lane.state(steps) == seen);
            let what = if older { "which is older than what was known before" } else { "which it never was" };
            format!("was read as {seen:?}, {what}; after {floor} of: it was {:?}, then {:?}", lane.before, lane.steps)
        })?;
        // Where a state comes again, the first of them is certain.
        self.floor = self.floor.max(steps);
        Ok(())
    }

    /// The last change was not carried out, as the server says, or was never sent.
    fn refused(&mut self) -> Result<(), String> {
        self.lane.refused();
        if self.floor > self.lane.steps.len() {
            return Err(format!("was changed by a call that was refused: a read saw it; now it is {:?}", self.lane));
        }
        Ok(())
    }
}

/// The lowest bit of a token says that it is a read's, and the others count reads; those of writes
/// are keys.
const IS_READ: u64 = 1;

impl Values {
    pub fn new(session: &Session, layout: GroupLayout) -> BenchResult<Values> {
        session.run_statements(DDL)?;
        if layout == GroupLayout::OneGroup {
            session.run_statements(OF_ONE_GROUP)?;
        }
        let prepared = |name| Prepared::new(name).expect("a short name");
        let key = || Key { lane: Lane::new(None), writing: false, floor: 0 };
        Ok(Values {
            layout,
            put: prepared("torture_put"),
            remove: prepared("torture_remove"),
            get: prepared("torture_get"),
            get_some: prepared("torture_get_some"),
            random: FastRandom::new(0),
            keys: (0..KEYS).map(|_| key()).collect(),
            recent: VecDeque::new(),
            reads: Vec::new(),
            waiting_at: Vec::new(),
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

/// The versions of these keys in an answer, once the content of one that was read alone is found to
/// be right.
fn versions_in(keys: Range<usize>, table: &OwnedTable) -> Result<Vec<Option<i64>>, String> {
    if keys.len() == 1 {
        return Ok(vec![version_in(keys.start, table)?]);
    }
    let mut versions = vec![None; keys.len()];
    for row in &table.rows {
        let [OwnedValue::Integer(id), OwnedValue::Integer(version)] = row.as_slice() else {
            return Err(format!("no key and version in {row:?}"));
        };
        let place = usize::try_from(*id).ok().filter(|key| keys.contains(key)).map(|key| key - keys.start);
        let place = place.ok_or_else(|| format!("key {id} is none of {keys:?}"))?;
        if versions[place].replace(*version).is_some() {
            return Err(format!("key {id} is there twice"));
        }
    }
    Ok(versions)
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

impl Values {
    /// A certain node to be asked, or none.
    fn node(&mut self, calls: &Calls, but: Option<usize>) -> Option<usize> {
        self.waiting_at.resize(calls.nodes(), 0);
        if calls.nodes() == 0 || self.random.below(100) >= AT_NODE_PERCENT {
            return None;
        }
        let node = self.random.below(calls.nodes() as u32) as usize;
        (self.waiting_at[node] < WAITING_AT_NODE_MAX && but != Some(node)).then(|| {
            self.waiting_at[node] += 1;
            node
        })
    }

    fn read(&mut self, calls: &mut Calls) {
        let first = match self.recent.len() {
            1.. if self.random.below(100) < RECENT_PERCENT => {
                self.recent[self.random.below(self.recent.len() as u32) as usize]
            }
            _ => self.random.below(KEYS) as usize,
        };
        let several = self.random.below(100) < SEVERAL_PERCENT && self.layout == GroupLayout::OneGroup;
        let count = if several { 2 + self.random.below(SEVERAL_KEYS - 1) as usize } else { 1 };
        let keys = first..(first + count).min(KEYS as usize);
        let token = (self.reads.len() as u64) << 1 | IS_READ;
        let node = self.node(calls, None);
        if keys.len() == 1 {
            calls.call_at(node, &self.get, (first as i64,), token);
        } else {
            calls.call_at(node, &self.get_some, (keys.start as i64, keys.end as i64), token);
        }
        let floors = self.keys[keys.clone()].iter().map(|key| key.floor).collect();
        self.reads.push(Read { floors, keys, seen: None });
    }

    fn read_ended(&mut self, ended: Ended, cut: &mut Cut) {
        let read = &mut self.reads[(ended.token >> 1) as usize];
        let asked = ended.node.map_or_else(String::new, |node| format!(" at node {}", node + 1));
        let response = match ended.fate {
            Fate::Acknowledged(response) => response,
            Fate::Refused(text) => return cut.finding(format!("values: a read{asked} was refused: {text}")),
            Fate::NotSent | Fate::Unknown => return,
        };
        let table = response.tables.first().ok_or_else(|| "no table".to_string());
        match table.and_then(|table| versions_in(read.keys.clone(), table)) {
            Ok(versions) => {
                for ((number, floor), version) in read.keys.clone().zip(&read.floors).zip(&versions) {
                    if let Err(what) = self.keys[number].read(*floor, *version) {
                        cut.finding(format!("values: key {number}{asked} {what}"));
                    }
                }
                read.seen = Some((versions, ended.at));
            }
            Err(text) => cut.finding(format!("values: a read{asked}: {text}")),
        }
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
        self.recent.clear();
        self.waiting_at.clear();
    }

    fn asks_each_node(&self) -> bool {
        true
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        if self.random.below(100) < READS_PERCENT || calls.control().only_reads.load(Ordering::Relaxed) {
            self.read(calls);
            return true;
        }
        let Some(key) = self.idle_key() else { return true };
        let token = (key as u64) << 1;
        let node = self.node(calls, calls.control().only_read_from);
        let (after, sent) = if self.random.below(100) < DELETES_PERCENT {
            (None, calls.call_at(node, &self.remove, (key as i64,), token))
        } else {
            self.next_version += 1;
            let version = self.next_version;
            (Some(version), calls.call_at(node, &self.put, (key as i64, version, content(key, version)), token))
        };
        self.keys[key].lane.sent(after, sent);
        self.keys[key].writing = true;
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        if let Some(node) = ended.node {
            self.waiting_at[node] -= 1;
        }
        if ended.token & IS_READ != 0 {
            return self.read_ended(ended, cut);
        }
        let number = (ended.token >> 1) as usize;
        let key = &mut self.keys[number];
        // What became of it is not known, and so not what the next change would find: in a cluster,
        // where calls go on, nobody writes the key before the check.
        key.writing = matches!(ended.fate, Fate::Unknown);
        let refused = match ended.fate {
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
                key.floor = steps;
                self.recent.truncate(RECENT_MAX - 1);
                self.recent.push_front(number);
                Ok(())
            }
            Fate::Refused(text) => {
                cut.finding(format!("values: a write was refused: {text}"));
                key.refused()
            }
            Fate::NotSent => key.refused(),
            Fate::Unknown => Ok(()),
        };
        if let Err(what) = refused {
            cut.finding(format!("values: key {number} {what}"));
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CALLS_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let mut there: Vec<Option<i64>> = vec![None; self.keys.len()];
        let found = scan::rows(session, self.layout, ALL)?;
        let mut rows = 0;
        let mut versions = 0;
        for row in &found {
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
        if self.layout == GroupLayout::OneGroup {
            let view = session.query("SELECT n, versions FROM torture_value_versions")?;
            let expected =
                [OwnedValue::Integer(rows), if rows == 0 { OwnedValue::Null } else { OwnedValue::Integer(versions) }];
            if view.rows.first().map(Vec::as_slice) != Some(&expected[..]) {
                cut.finding(format!("values: the view says {:?}, a scan {expected:?}", view.rows));
            }
        }
        for read in self.reads.drain(..) {
            let Some((seen, at)) = read.seen else { continue };
            for (number, seen) in read.keys.zip(seen) {
                let lane = &self.keys[number].lane;
                let fits =
                    |state: Option<i64>| (0..=lane.steps.len()).filter(move |steps| *lane.state(*steps) == state);
                // What was seen must not be newer than what is there, whichever of several equal
                // states that is.
                if let (Some(first_seen), Some(last_there)) = (fits(seen).next(), fits(there[number]).next_back())
                    && first_seen > last_there
                {
                    cut.lost(at, || format!("values: key {number} was read as {seen:?}, {:?} is there", there[number]));
                }
            }
        }
        for (number, key) in self.keys.iter_mut().enumerate() {
            key.lane.settle(&there[number], cut, || format!("value of key {number}"));
            key.floor = 0;
            key.writing = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key at version 1 whose changes to 2, 3 and 4 are sent, the first two of them acknowledged.
    fn key() -> Key {
        let mut key = Key { lane: Lane::new(Some(1)), writing: true, floor: 0 };
        for (sent, version) in [(10, 2), (20, 3), (30, 4)] {
            key.lane.sent(Some(version), sent);
            if version < 4 {
                key.lane.acknowledged(sent + 5);
                key.floor = key.lane.steps.len();
            }
        }
        key
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it_or_what_came_later() {
        for (floor, seen, is_right) in
            [(2, 3, true), (2, 4, true), (2, 2, false), (2, 1, false), (1, 2, true), (0, 1, true), (0, 9, false)]
        {
            assert_eq!(key().read(floor, Some(seen)).is_ok(), is_right, "{seen} after {floor} steps");
        }
        assert!(key().read(2, Some(2)).unwrap_err().contains("older"));
        assert!(key().read(0, None).unwrap_err().contains("never was"));
    }

    #[test]
    fn what_one_read_has_seen_all_later_ones_see() {
        let mut key = key();
        key.read(2, Some(4)).unwrap();
        // Sent when the first had its answer: 4 is there, though nobody has acknowledged it.
        assert_eq!(key.floor, 3);
        assert!(key.read(key.floor, Some(3)).is_err());
        // Sent before that.
        assert!(key.read(2, Some(3)).is_ok());
    }

    #[test]
    fn nobody_sees_what_was_refused() {
        let mut unseen = key();
        assert!(unseen.refused().is_ok());
        let mut seen = key();
        seen.read(2, Some(4)).unwrap();
        assert!(seen.refused().is_err());
    }

    #[test]
    fn keys_that_are_read_together_are_each_there_once_or_not_at_all() {
        let table = |rows: &[(i64, i64)]| OwnedTable {
            status: 0,
            columns: Vec::new(),
            rows: rows.iter().map(|(id, v)| vec![OwnedValue::Integer(*id), OwnedValue::Integer(*v)]).collect(),
        };
        assert_eq!(versions_in(4..7, &table(&[(6, 9), (4, 8)])), Ok(vec![Some(8), None, Some(9)]));
        assert!(versions_in(4..7, &table(&[(6, 9), (6, 8)])).is_err());
        assert!(versions_in(4..7, &table(&[(7, 9)])).is_err());
    }
}

//! Snapshots under torture: asked for again and again, on top of those that the server takes by
//! itself, so that crashes fall into their writing, their reading back, the moment in which they
//! count, and the cutting of the log.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::Cut;
use ferrite_bench::error::BenchResult;
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::{OwnedTable, Prepared};
use ferrite_value::OwnedValue;
use std::sync::atomic::Ordering;

/// Snapshots of one round, at most.
const SNAPSHOTS_MAX: u32 = 6;
/// What a node says whose leadership has ended before what its snapshot shows was committed, and of
/// groups of other nodes, which it has asked, what callers are told whose call a change of leader
/// has met.
const DEPOSED: [&str; 3] = ["no longer leads", "change in mastership", "never started"];

pub struct Snapshots {
    save: Prepared,
    left: u32,
    /// A node of a cluster that is deposed, or that stops, has no snapshot to show, and says so.
    in_cluster: bool,
    /// Those that the server has said to be whole.
    pub saved: u64,
}

impl Snapshots {
    pub fn new(in_cluster: bool) -> Snapshots {
        Snapshots { save: Prepared::new("@SnapshotSave").expect("a short name"), left: 0, in_cluster, saved: 0 }
    }

    /// None: it is whole.
    fn failure(&self, table: Option<&OwnedTable>) -> Option<Failure> {
        let Some(table) = table.filter(|table| !table.rows.is_empty()) else {
            return Some(Failure::Unfair("there is no row".to_string()));
        };
        let says = |row: &[OwnedValue], column: &str, what: &dyn Fn(&str) -> bool| {
            let value = table.column_index(column).and_then(|at| row.get(at));
            matches!(value, Some(OwnedValue::Text(text)) if what(text))
        };
        let failed = |row: &&Vec<OwnedValue>| !says(row, "RESULT", &|result| result == "SUCCESS");
        let is_of_change = |why: &str| DEPOSED.iter().any(|words| why.contains(words));
        let is_fair = |row: &Vec<OwnedValue>| self.in_cluster && says(row, "ERR_MSG", &is_of_change);
        let mut failures = table.rows.iter().filter(failed).peekable();
        failures.peek()?;
        let unfair = failures.find(|row| !is_fair(row));
        Some(unfair.map_or(Failure::Fair, |row| Failure::Unfair(format!("{row:?}"))))
    }
}

/// Of a snapshot.
enum Failure {
    /// The node has been deposed.
    Fair,
    Unfair(String),
}

impl Load for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn outstanding_max(&self) -> usize {
        1
    }

    fn begin(&mut self, mut random: FastRandom) {
        self.left = random.below(SNAPSHOTS_MAX + 1);
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.left == 0 {
            calls.control().snapshots_in_flight.store(0, Ordering::SeqCst);
            return false;
        }
        self.left -= 1;
        calls.control().snapshots_in_flight.store(1, Ordering::SeqCst);
        calls.call(&self.save, (), 0);
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        match ended.fate {
            Fate::Acknowledged(response) => match self.failure(response.tables.first()) {
                None => self.saved += 1,
                Some(Failure::Fair) => {}
                Some(Failure::Unfair(row)) => cut.finding(format!("snapshots: one failed: {row}")),
            },
            Fate::Refused(text) => cut.finding(format!("snapshots: one was refused: {text}")),
            Fate::NotSent | Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        SNAPSHOTS_MAX
    }

    /// What is there after a start from a snapshot is what the other loads check.
    fn check(&mut self, _: &Session, _: &mut Cut) -> BenchResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::SqlType;

    #[test]
    fn only_a_deposed_node_may_have_no_snapshot() {
        let table = |result: &str, why: &str| OwnedTable {
            status: 0,
            columns: vec![("RESULT".to_string(), SqlType::Varchar), ("ERR_MSG".to_string(), SqlType::Varchar)],
            rows: vec![vec![OwnedValue::Text(result.into()), OwnedValue::Text(why.into())]],
        };
        let (alone, one_of_many) = (Snapshots::new(false), Snapshots::new(true));
        let deposed = table("FAILURE", "this node no longer leads the partitions");
        assert!(matches!(one_of_many.failure(Some(&deposed)), Some(Failure::Fair)));
        assert!(matches!(alone.failure(Some(&deposed)), Some(Failure::Unfair(_))));
        let met = table("FAILURE", "group 3: Transaction dropped due to change in mastership: the connection was lost");
        assert!(matches!(one_of_many.failure(Some(&met)), Some(Failure::Fair)));
        assert!(matches!(one_of_many.failure(Some(&table("FAILURE", "no room"))), Some(Failure::Unfair(_))));
        assert!(matches!(one_of_many.failure(None), Some(Failure::Unfair(_))));
        assert!(one_of_many.failure(Some(&table("SUCCESS", ""))).is_none());
    }
}

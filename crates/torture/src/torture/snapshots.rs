//! Snapshots under torture: asked for again and again, on top of those that the server takes by
//! itself, so that crashes fall into their writing, their reading back, the moment in which they
//! count, and the cutting of the log.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::Cut;
use ferrite_bench::error::BenchResult;
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::Prepared;
use ferrite_value::OwnedValue;
use std::sync::atomic::Ordering;

/// Snapshots of one round, at most.
const SNAPSHOTS_MAX: u32 = 6;

pub struct Snapshots {
    save: Prepared,
    left: u32,
    /// Those that the server has said to be whole.
    pub saved: u64,
}

impl Snapshots {
    pub fn new() -> Snapshots {
        Snapshots { save: Prepared::new("@SnapshotSave").expect("a short name"), left: 0, saved: 0 }
    }
}

impl Default for Snapshots {
    fn default() -> Self {
        Self::new()
    }
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
            Fate::Acknowledged(response) => {
                let table = response.tables.first();
                let result = table.and_then(|table| Some((table, table.column_index("RESULT")?)));
                let whole = result.is_some_and(|(table, result)| {
                    !table.rows.is_empty()
                        && table
                            .rows
                            .iter()
                            .all(|row| matches!(&row[result], OwnedValue::Text(text) if &**text == "SUCCESS"))
                });
                if !whole {
                    cut.finding(format!("snapshots: one failed: {:?}", table.map(|table| &table.rows)));
                }
                self.saved += 1;
            }
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

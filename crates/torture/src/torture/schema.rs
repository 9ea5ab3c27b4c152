//! Schema changes under torture, one after the other, on the tables that the other loads change
//! meanwhile.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::{Cut, Lane};
use crate::torture::scan::{self, GroupLayout};
use ferrite_bench::error::BenchResult;
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_client::Prepared;
use ferrite_value::OwnedValue;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Changes of one round, at most.
const CHANGES_MAX: u32 = 40;

/// What is created and dropped. A state is the generation that is there, if one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Object {
    /// On a table with values long and short.
    Index,
    /// An index and a view, in one text and so in one transaction.
    IndexAndView,
    /// A column with a default, on a table that transfers are inserted into.
    Column,
    /// A procedure that answers its generation; replaced, never dropped.
    Procedure,
    Table,
}

const OBJECTS: [Object; 5] = [Object::Index, Object::IndexAndView, Object::Column, Object::Procedure, Object::Table];

type State = Option<i64>;

impl Object {
    /// The statements that lead from one state to another.
    fn change(self, layout: GroupLayout, from: State, to: State) -> String {
        match (self, from, to) {
            (Object::Index, _, Some(g)) => format!("CREATE INDEX torture_index_{g} ON torture_value (version)"),
            (Object::Index, Some(g), None) => format!("DROP INDEX torture_index_{g}"),
            (Object::IndexAndView, _, Some(g)) => format!(
                "CREATE INDEX torture_amount_{g} ON torture_transfer (amount);
                 CREATE VIEW torture_amounts_{g} (amount, n) AS
                   SELECT amount, COUNT(*) FROM torture_transfer GROUP BY amount"
            ),
            (Object::IndexAndView, Some(g), None) => {
                format!("DROP VIEW torture_amounts_{g}; DROP INDEX torture_amount_{g}")
            }
            (Object::Column, _, Some(g)) => {
                format!("ALTER TABLE torture_transfer ADD COLUMN torture_mark_{g} BIGINT DEFAULT {g}")
            }
            (Object::Column, Some(g), None) => {
                format!("ALTER TABLE torture_transfer DROP COLUMN torture_mark_{g}")
            }
            (Object::Procedure, _, Some(g)) => {
                // No partition of several groups runs it by itself.
                let partition = match layout {
                    GroupLayout::OneGroup => "",
                    GroupLayout::SeveralGroups => "PARTITION ON TABLE torture_transfer COLUMN branch ",
                };
                format!("CREATE OR REPLACE PROCEDURE torture_generation (x BIGINT) {partition}AS BEGIN RETURN {g}; END")
            }
            (Object::Table, _, Some(g)) => format!(
                "CREATE TABLE torture_table_{g} (id BIGINT NOT NULL, PRIMARY KEY (id));
                 PARTITION TABLE torture_table_{g} ON COLUMN id"
            ),
            (Object::Table, Some(g), None) => format!("DROP TABLE torture_table_{g}"),
            (_, None, None) | (Object::Procedure, _, None) => unreachable!("nothing leads there"),
        }
    }

    /// The next state in its life.
    fn next(self, now: State, generation: i64) -> State {
        match (self, now) {
            (Object::Procedure, _) | (_, None) => Some(generation),
            (_, Some(_)) => None,
        }
    }
}

pub struct Schema {
    layout: GroupLayout,
    adhoc: Prepared,
    random: FastRandom,
    lanes: Vec<Lane<State>>,
    next_generation: i64,
    changes_left: u32,
}

impl Schema {
    pub fn new(session: &Session, layout: GroupLayout) -> BenchResult<Schema> {
        session.run_statements(&Object::Procedure.change(layout, None, Some(0)))?;
        let before = |object: &Object| if *object == Object::Procedure { Some(0) } else { None };
        Ok(Schema {
            layout,
            adhoc: Prepared::new("@AdHoc").expect("a short name"),
            random: FastRandom::new(0),
            lanes: OBJECTS.iter().map(|object| Lane::new(before(object))).collect(),
            next_generation: 1,
            changes_left: 0,
        })
    }
}

impl Schema {
    /// Of all partitions.
    fn count(&self, session: &Session, sql: &str) -> BenchResult<i64> {
        Ok(scan::numbers(session, self.layout, sql)?.iter().map(|row| row[0]).sum())
    }
}

impl Load for Schema {
    fn name(&self) -> &'static str {
        "schema"
    }

    fn outstanding_max(&self) -> usize {
        1
    }

    fn begin(&mut self, random: FastRandom) {
        self.random = random;
        self.changes_left = self.random.below(CHANGES_MAX + 1);
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.changes_left == 0 {
            return false;
        }
        self.changes_left -= 1;
        let number = self.random.below(OBJECTS.len() as u32) as usize;
        let object = OBJECTS[number];
        let lane = &mut self.lanes[number];
        // What became of its last change is not known: what follows depends on it.
        if lane.steps.last().is_some_and(|step| step.acknowledged.is_none()) {
            return true;
        }
        let generation = self.next_generation;
        self.next_generation += 1;
        let from = *lane.last();
        let to = object.next(from, generation);
        calls.control().schema_changes_in_flight.fetch_add(1, Ordering::SeqCst);
        let sent = calls.call(&self.adhoc, (object.change(self.layout, from, to),), number as u64);
        lane.sent(to, sent);
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        let number = ended.token as usize;
        let lane = &mut self.lanes[number];
        match ended.fate {
            Fate::Acknowledged(_) => lane.acknowledged(ended.at),
            Fate::Refused(text) => {
                // An orderly end waits for no change: it says that nothing of it was carried out,
                // which is checked like any refusal.
                if !text.contains("the server is stopping") {
                    cut.finding(format!("schema: {:?} to {:?} was refused: {text}", OBJECTS[number], lane.last()));
                }
                lane.refused();
            }
            Fate::NotSent => lane.refused(),
            Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CHANGES_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let tables = names(session, "TABLES", "TABLE_NAME")?;
        let columns = names(session, "COLUMNS", "COLUMN_NAME")?;
        let indexes = names(session, "INDEXINFO", "INDEX_NAME")?;
        let index = only(&indexes, "TORTURE_INDEX_", cut);
        let amount = only(&indexes, "TORTURE_AMOUNT_", cut);
        let amounts = only(&tables, "TORTURE_AMOUNTS_", cut);
        let mark = only(&columns, "TORTURE_MARK_", cut);
        let table = only(&tables, "TORTURE_TABLE_", cut);
        if amount != amounts {
            cut.finding(format!("schema: of one transaction index {amount:?} is there and view {amounts:?}"));
        }
        let generation = session.call("torture_generation", (0i64,))?.first().and_then(|table| table.scalar());
        for (number, found) in [index, amount, mark, generation, table].into_iter().enumerate() {
            let object = OBJECTS[number];
            self.lanes[number].settle(&found, cut, || format!("schema: {object:?}"));
        }
        if let Some(g) = mark {
            let others = format!(
                "SELECT COUNT(*) FROM torture_transfer WHERE torture_mark_{g} IS NULL OR torture_mark_{g} <> {g}"
            );
            let others = self.count(session, &others)?;
            if others != 0 {
                cut.finding(format!(
                    "schema: {others} rows have another value than the default {g} of their new column"
                ));
            }
        }
        if let Some(g) = amounts {
            // By partition, where there are several groups.
            let view = format!("SELECT amount, n FROM torture_amounts_{g} ORDER BY amount");
            let view = scan::rows(session, self.layout, &view)?;
            let scan = "SELECT amount, COUNT(*) FROM torture_transfer GROUP BY amount ORDER BY amount";
            let scan = scan::rows(session, self.layout, scan)?;
            if view != scan {
                cut.finding(format!("schema: view torture_amounts_{g} has {} rows, a scan {}", view.len(), scan.len()));
            }
            // Through the index, which is there if the view is.
            let by_index = self.count(session, "SELECT COUNT(*) FROM torture_transfer WHERE amount >= 0")?;
            let all = self.count(session, "SELECT COUNT(*) FROM torture_transfer")?;
            if by_index != all {
                cut.finding(format!("schema: the index over amounts finds {by_index} rows of {all}"));
            }
        }
        if let Some(g) = index {
            let by_index = self.count(session, "SELECT COUNT(*) FROM torture_value WHERE version >= 0")?;
            let all = self.count(session, "SELECT COUNT(*) FROM torture_value")?;
            if by_index != all {
                cut.finding(format!("schema: index torture_index_{g} finds {by_index} rows of {all}"));
            }
        }
        Ok(())
    }
}

/// The names in one column of the system catalog.
fn names(session: &Session, what: &str, column: &str) -> BenchResult<BTreeSet<String>> {
    let tables = session.call("@SystemCatalog", (what,))?;
    let Some(table) = tables.first() else { return Ok(BTreeSet::new()) };
    let Some(at) = table.column_index(column) else { return Ok(BTreeSet::new()) };
    let text = |row: &Vec<OwnedValue>| match &row[at] {
        OwnedValue::Text(text) => Some(text.to_ascii_uppercase()),
        _ => None,
    };
    Ok(table.rows.iter().filter_map(text).collect())
}

/// The generation of the one object whose name begins so.
fn only(names: &BTreeSet<String>, prefix: &str, cut: &mut Cut) -> State {
    let mut found = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse::<i64>().ok());
    let first = found.next();
    if let Some(second) = found.next() {
        cut.finding(format!("schema: generations {first:?} and {second} of {prefix} are both there"));
    }
    first
}

//! What a database holds, read from its stores row by row.

use crate::operation::{Item, RATES};
use crate::restore_history::Rows;
use ferrite_base::PartitionId;
use ferrite_table::Store;
use ferrite_value::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    pub version: u64,
    pub schema_text: String,
    /// Each home's counter.
    pub heads: BTreeMap<i64, i64>,
    /// By home: step and operation.
    pub marks: BTreeMap<i64, BTreeMap<i64, usize>>,
    pub items: BTreeMap<(i64, i64), Item>,
    /// What columns that were added hold, by their names: all values found.
    pub added: BTreeMap<String, BTreeSet<Option<i64>>>,
    pub balances: BTreeMap<i64, i64>,
    pub scratch: BTreeSet<(i64, i64)>,
    pub sessions: BTreeSet<(i64, usize)>,
    pub rates: BTreeMap<i64, i64>,
    pub restored: Rows,
    /// Over partition, table, row id and content of every row (FNV-1a).
    pub rows_hash: u64,
    /// Replicated tables whose copies differ.
    pub unequal: Vec<String>,
    /// What the stores' own consistency check says.
    pub faults: Vec<String>,
}

impl State {
    pub fn read(stores: &[&Store]) -> State {
        State::read_named(stores, true)
    }

    /// Of several groups, whose copies of replicated tables may have their rows in other places.
    pub fn read_groups(stores: &[&Store]) -> State {
        let mut state = State::read_named(stores, false);
        // What changes it here is no operation of the history.
        state.rates.clear();
        state
    }

    /// `by_id`: equal rows of copies have equal ids.
    fn read_named(stores: &[&Store], by_id: bool) -> State {
        let catalog = stores[0].catalog();
        let mut state = State {
            version: catalog.version.0,
            schema_text: ferrite_catalog::schema_text(catalog),
            rows_hash: 0xcbf2_9ce4_8422_2325,
            ..State::default()
        };
        for store in stores {
            if let Err(fault) = store.verify() {
                state.faults.push(format!("partition {}: {fault}", store.partition()));
            }
        }
        for table in catalog.tables.values() {
            let mut copies: BTreeMap<PartitionId, Vec<String>> = BTreeMap::new();
            let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            for (number, store) in stores.iter().enumerate() {
                let data = store.table(table.id);
                for id in data.scan() {
                    let row = data.row(id);
                    let values: Vec<Value<'_>> = (0..columns.len() as u16).map(|column| row.column(column)).collect();
                    let text = format!("{values:?}");
                    state.hash(&format!("{number} {} {id} {text}", table.name));
                    if table.view.is_none() && (table.is_partitioned() || number == 0) {
                        state.row(&table.name, &columns, &values);
                    }
                    if !table.is_partitioned() && table.view.is_none() {
                        let named = if by_id { format!("{id} {text}") } else { text };
                        copies.entry(store.partition()).or_default().push(named);
                    }
                }
            }
            copies.values_mut().for_each(|rows| rows.sort());
            let mut copies = stores.iter().map(|store| copies.get(&store.partition()));
            let first = copies.next().flatten();
            if !table.is_partitioned() && table.view.is_none() && copies.any(|copy| copy != first) {
                state.unequal.push(table.name.clone());
            }
        }
        state
    }

    fn hash(&mut self, text: &str) {
        for byte in text.bytes() {
            self.rows_hash = (self.rows_hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn row(&mut self, table: &str, columns: &[&str], values: &[Value<'_>]) {
        let number = |column: usize| integer(&values[column]).expect("NOT NULL");
        match table {
            "HEADS" => drop(self.heads.insert(number(0), number(1))),
            "MARKS" => drop(self.marks.entry(number(0)).or_default().insert(number(1), number(2) as usize)),
            "RATE_HEAD" => drop(self.heads.insert(RATES, number(1))),
            "RATE_MARKS" => drop(self.marks.entry(RATES).or_default().insert(number(0), number(1) as usize)),
            "RATES" => drop(self.rates.insert(number(0), number(1))),
            "ACCOUNTS" => drop(self.balances.insert(number(0), number(1))),
            "SCRATCH" => drop(self.scratch.insert((number(0), number(1)))),
            "RESTORED" => drop(
                self.restored.restored.insert(number(0), (integer(&values[1]), text(&values[2]), text(&values[3]))),
            ),
            "CODES" => drop(self.restored.codes.insert(number(0), text(&values[1]))),
            "SESSIONS" => drop(self.sessions.insert((number(0), number(1) as usize))),
            "ITEMS" => {
                self.items.insert((number(0), number(1)), (integer(&values[2]), text(&values[3]), text(&values[4])));
                for (column, value) in columns.iter().zip(values).skip(5) {
                    self.added.entry((*column).to_owned()).or_default().insert(integer(value));
                }
            }
            _ => {}
        }
    }
}

fn integer(value: &Value<'_>) -> Option<i64> {
    if let Value::Integer(value) = value { Some(*value) } else { None }
}

fn text(value: &Value<'_>) -> Option<String> {
    if let Value::Text(text) = value { Some((*text).to_owned()) } else { None }
}

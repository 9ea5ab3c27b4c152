//! The consistency check: indexes and views against what the rows themselves say. For tests and the
//! simulator.

use crate::long_values::LongValues;
use crate::row::SourceRow;
use crate::store::Store;
use crate::table::TableData;
use crate::undo::Freed;
use crate::view_plan::ViewPlan;
use bumpalo::Bump;
use ferrite_base::RowId;
use ferrite_value::{Value, compare};

impl Store {
    /// Err says what is wrong. To be called between transactions. Takes time and memory in
    /// proportion to all rows.
    pub fn verify(&self) -> Result<(), String> {
        for data in self.tables.iter().flatten() {
            self.verify_table(data).map_err(|problem| format!("table {}: {problem}", data.definition().name))?;
            if let Some(plan) = &self.plans[data.id().index()] {
                self.verify_view(data, plan)
                    .map_err(|problem| format!("view {}: {problem}", data.definition().name))?;
            }
        }
        Ok(())
    }

    fn verify_table(&self, data: &TableData) -> Result<(), String> {
        let arena = Bump::new();
        let rows = &data.contents.rows;
        let ids: Vec<RowId> = data.scan().collect();
        expect(ids.len() as u64 == data.row_count(), || format!("{} rows, {} counted", ids.len(), data.row_count()))?;
        expect(ids.iter().all(|id| data.is_live(*id)), || "a scanned row is not live".to_owned())?;
        let mut long_values = 0;
        for id in &ids {
            let row = rows.row(*id);
            for column in &rows.layout.long_columns {
                let handle = rows.layout.columns[*column as usize].handle(row.bytes);
                long_values += LongValues::is_stored_apart(handle) as usize;
            }
        }
        // Those that a transaction deleted which may still be undone.
        let is_here = |freed: &&Freed| freed.table == data.id() && freed.generation == data.contents.generation;
        let kept = self.undo.freed_and_kept().filter(is_here);
        long_values += kept.filter(|freed| LongValues::is_stored_apart(freed.handle)).count();
        expect(long_values == rows.longs.live(), || {
            format!("{long_values} long values in rows, {} stored", rows.longs.live())
        })?;
        for index in &data.contents.indexes {
            let name = &index.definition.name;
            let mut entries = 0;
            for id in &ids {
                let row = SourceRow::Stored(rows.row(*id));
                let key = index.key_of_row(row, &arena).map_err(|error| format!("index {name}: {error}"))?;
                entries += (key != crate::index::EncodedKey::NotIndexed) as usize;
                expect(index.contains(&key, *id), || format!("index {name} lacks row {id}"))?;
                if index.is_unique() {
                    let other = index.conflict(&key, row, Some(*id), rows);
                    expect(other.is_none(), || format!("index {name} has one key for rows {id} and {other:?}"))?;
                }
            }
            expect(index.is_in_step(), || format!("index {name} has other rows by hash than in order"))?;
            expect(entries == index.len(), || format!("index {name} has {} entries for {entries} rows", index.len()))?;
        }
        Ok(())
    }

    /// Against a view that is filled afresh.
    fn verify_view(&self, data: &TableData, plan: &ViewPlan) -> Result<(), String> {
        if plan.tables.iter().any(|table| self.table(*table).is_stream()) {
            return Ok(());
        }
        let view = data.definition().view.as_ref().expect("it has a plan");
        let mut fresh_plan = ViewPlan::compile(data.definition(), view, &self.catalog).map_err(|e| e.to_string())?;
        let mut fresh = TableData::new(data.definition().clone(), &fresh_plan.columns, &self.pins);
        self.fill_view(&mut fresh_plan, &mut fresh).map_err(|error| error.to_string())?;
        expect(fresh.row_count() == data.row_count(), || {
            format!("{} groups where there should be {}", data.row_count(), fresh.row_count())
        })?;
        for id in fresh.scan() {
            let wanted = fresh.row(id);
            let key: Vec<Value<'_>> = plan.groups.iter().map(|group| wanted.column(group.column)).collect();
            let found = match plan.group_index {
                Some(index) => data.contents.indexes[index].find_group(&data.contents.rows, |part| key[part]),
                None => data.scan().next(),
            };
            let Some(found) = found else { return Err(format!("group {key:?} is missing")) };
            for column in 0..plan.columns_without_rests().len() as u16 {
                let is = data.row(found).column(column);
                let should = wanted.column(column);
                let rest = plan.aggregates.iter().find(|aggregate| aggregate.column == column).and_then(|sum| sum.rest);
                let lost = rest.map(|rest| [data.row(found).column(rest + 1), wanted.column(rest + 1)]);
                expect(alike(&is, &should, lost), || {
                    format!("group {key:?} column {column} is {is:?}, should be {should:?}")
                })?;
            }
        }
        Ok(())
    }
}

/// Equal, but for what sums of FLOAT in another order have lost, as they say.
fn alike(left: &Value<'_>, right: &Value<'_>, lost: Option<[Value<'_>; 2]>) -> bool {
    match (left, right) {
        (Value::Float(a), Value::Float(b)) => {
            let lost = match lost {
                Some([Value::Float(left), Value::Float(right)]) => left + right,
                _ => 0.0,
            };
            (a - b).abs() <= 4.0 * f64::EPSILON * a.abs().max(b.abs()) + lost
        }
        _ => compare::equal_grouping(left, right),
    }
}

fn expect(holds: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(problem()) }
}

//! All rows of stores, as texts that are equal where the stores are.
#![allow(dead_code, reason = "not every user of the room compares rows")]

use ferrite_table::Store;
use ferrite_value::Value;

pub fn rows(stores: &[&Store]) -> Vec<String> {
    let mut out = vec![format!("{:?}", stores[0].catalog())];
    for store in stores {
        for table in store.tables() {
            let definition = table.definition();
            out.push(format!("{} {}: {}", store.partition(), definition.name, table.row_count()));
            let row = |id| -> Vec<Value<'_>> {
                (0..definition.columns.len() as u16).map(|column| table.row(id).column(column)).collect()
            };
            let is_view = definition.view.is_some();
            let named = |id| if is_view { format!("{:?}", row(id)) } else { format!("{id} {:?}", row(id)) };
            let mut rows: Vec<String> = table.scan().map(named).collect();
            rows.sort();
            out.append(&mut rows);
        }
    }
    out
}

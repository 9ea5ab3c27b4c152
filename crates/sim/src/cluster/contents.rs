//! Everything that can be seen of a node's tables, as lines.

use ferrite_table::Store;
use ferrite_value::Value;

/// Problems of the stores themselves; else the schema with its ids, and each row with its id. Rows
/// of views lie where each copy has put them.
pub fn contents(stores: &[&Store]) -> Result<Vec<String>, String> {
    let mut lines = vec![format!("{:?}", stores[0].catalog())];
    for store in stores {
        store.verify().map_err(|problem| format!("partition {}: {problem}", store.partition()))?;
        for table in store.tables() {
            let definition = table.definition();
            lines.push(format!("{} {}: {}", store.partition(), definition.name, table.row_count()));
            let row = |id| -> Vec<Value<'_>> {
                (0..definition.columns.len() as u16).map(|column| table.row(id).column(column)).collect()
            };
            let is_view = definition.view.is_some();
            let named = |id| if is_view { format!("{:?}", row(id)) } else { format!("{id} {:?}", row(id)) };
            let mut rows: Vec<String> = table.scan().map(named).collect();
            rows.sort();
            lines.append(&mut rows);
        }
    }
    Ok(lines)
}

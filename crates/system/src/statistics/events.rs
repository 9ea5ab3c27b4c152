//! EVENTS: what this node has reported to its operator lately, as its lines on standard error do.

use super::{BASE, base, empty};
use crate::result::{Columns, SystemTable, cells};
use crate::sources::Sources;
use ferrite_io::notices;
use ferrite_value::OwnedValue;
use ferrite_value::SqlType::{Timestamp, Varchar};

/// Oldest first. TIME is when it was reported; TIMESTAMP, as everywhere, when this is answered.
pub fn table(sources: &Sources<'_>) -> SystemTable {
    const COLUMNS: &Columns =
        &[("TIME", Timestamp), ("LEVEL", Varchar), ("CODE", Varchar), ("MESSAGE", Varchar), ("FIELDS", Varchar)];
    let mut table = empty(&[BASE, COLUMNS]);
    for kept in notices::recent() {
        let time = OwnedValue::Timestamp(kept.micros);
        let row = cells![time, kept.level.name(), kept.code, &kept.message, &kept.fields];
        table.row(base(sources).into_iter().chain(row));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_notice::Notice;

    #[test]
    fn what_was_reported_is_in_the_table_in_its_order() {
        for text in ["first", "two\nlines"] {
            ferrite_io::notify(Notice::Note { text: text.to_owned() });
        }
        let node = testing::node(1);
        let rows = &testing::tables_of(&Ok(vec![table(&node.sources())]))[0].rows;
        let text = |row: &[OwnedValue], column: usize| match &row[column] {
            OwnedValue::Text(text) => text.to_string(),
            other => panic!("not a text: {other:?}"),
        };
        let notes: Vec<_> = rows.iter().filter(|row| text(row, 5) == "note").collect();
        let messages: Vec<String> = notes.iter().map(|row| text(row, 6)).collect();
        assert_eq!(messages, ["note: first", "note: two\\nlines"]);
        assert_eq!((&*text(notes[0], 4), &*text(notes[0], 7)), ("INFO", r#"{"text":"first"}"#));
        let times: Vec<_> = notes.iter().map(|row| &row[3]).collect();
        assert!(
            matches!(times[..], [OwnedValue::Timestamp(one), OwnedValue::Timestamp(two)] if one <= two),
            "{times:?}"
        );
    }
}

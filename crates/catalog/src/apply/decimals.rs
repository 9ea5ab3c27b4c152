//! SET DECIMAL_SCALE: what DECIMAL(p, s) means from now on.

use super::{Draft, depended_on};
use crate::objects::{DecimalScale, TableKind};
use ferrite_base::UserResult;

impl Draft {
    /// Refused where what is stored, or derived from it, would be other than its declaration says:
    /// columns that round already, and views, indexes and checks whose text has a DECIMAL(p, s).
    /// Procedures are compiled anew, and follow.
    pub(super) fn set_decimal_scale(&mut self, to: DecimalScale) -> UserResult<()> {
        if self.catalog.decimals == to {
            return Ok(());
        }
        let mut dependents = Vec::new();
        for table in self.catalog.tables.values() {
            for column in &table.columns {
                if column.column_type.precision_and_scale().is_some() {
                    dependents.push(format!("column {}.{}", table.name, column.name));
                }
            }
            if let (TableKind::View, Some(view)) = (table.kind, &table.view)
                && has_declaration(&view.text)
            {
                dependents.push(format!("view {}", table.name));
            }
            for index in &table.indexes {
                if index.text.keys.iter().chain(&index.text.predicate).any(|text| has_declaration(text)) {
                    dependents.push(format!("index {}", index.name));
                }
            }
            let checks = table.checks.iter().filter(|check| has_declaration(&check.text));
            dependents.extend(checks.map(|check| format!("constraint {}", check.name)));
        }
        for procedure in self.catalog.procedures.values() {
            let declared = procedure.parameters.iter().flatten();
            if declared.into_iter().any(|(_, column_type)| column_type.precision_and_scale().is_some()) {
                dependents.push(format!("procedure {}", procedure.name));
            }
        }
        if !dependents.is_empty() {
            return Err(depended_on(format!(
                "SET DECIMAL_SCALE {} would change what these mean: {}",
                to.name(),
                dependents.join(", ")
            ))
            .with_hint("drop them first, or set it in a new database and load a dump of this one"));
        }
        self.catalog.decimals = to;
        Ok(())
    }
}

/// Whether a type DECIMAL( may stand in the text. A text constant that looks like one counts too.
fn has_declaration(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    ["DECIMAL", "NUMERIC", "DEC"]
        .iter()
        .any(|word| text.match_indices(word).any(|(at, _)| text[at + word.len()..].trim_start().starts_with('(')))
}

#[cfg(test)]
mod tests {
    use super::has_declaration;

    #[test]
    fn declarations_in_texts() {
        for text in ["CAST(x AS decimal (10, 2))", "x::NUMERIC(5)", "CAST(x AS DEC(3,1))"] {
            assert!(has_declaration(text), "{text}");
        }
        for text in ["CAST(x AS DECIMAL)", "decimals > (3)", "DECODE(a, 1, 2)"] {
            assert!(!has_declaration(text), "{text}");
        }
    }
}

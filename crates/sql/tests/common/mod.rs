//! A catalog, and everything that can be done with a text.
#![allow(dead_code, reason = "each test file uses its part of this room")]

use ferrite_catalog::Catalog;
use ferrite_sql::{bind_ddl, compile_adhoc, compile_procedure, explain, parse_batch};

pub fn catalog_of(schema: &str) -> Catalog {
    let mut catalog = Catalog::default();
    for statement in parse_batch(schema).expect("the schema parses") {
        let (change, _) = bind_ddl(&catalog, &statement).expect("the schema binds");
        catalog = catalog.apply(&change).expect("the schema applies").0;
    }
    catalog
}

/// Whether it worked.
pub fn run(catalog: &Catalog, text: &str) -> Result<(), String> {
    let statements = parse_batch(text).map_err(|error| error.to_string())?;
    if !statements.iter().any(|statement| statement.is_ddl()) {
        let given = statements.iter().map(|statement| statement.parameters()).sum();
        let program = compile_adhoc(catalog, &statements, given).map_err(|error| error.to_string())?;
        explain(&program, catalog);
        return Ok(());
    }
    for statement in &statements {
        let (change, _) = bind_ddl(catalog, statement).map_err(|error| error.to_string())?;
        let changed = catalog.apply(&change).map_err(|error| error.to_string())?.0;
        for procedure in changed.procedures.values() {
            let program = compile_procedure(&changed, procedure).map_err(|error| error.to_string())?;
            explain(&program, &changed);
        }
    }
    Ok(())
}

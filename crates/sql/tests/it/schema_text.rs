//! The schema printed back as statements makes the same schema again.

use ferrite_catalog::{Catalog, schema_text, schema_text_without_classes};

fn applied(text: &str) -> Catalog {
    let mut catalog = Catalog::default();
    for statement in ferrite_sql::parse_batch(text).unwrap_or_else(|error| panic!("{text}: {error}")) {
        let changed = ferrite_sql::bind_ddl(&catalog, &statement).and_then(|(change, _)| catalog.apply(&change));
        catalog = changed.unwrap_or_else(|error| panic!("{}: {error}", statement.text())).0;
    }
    catalog
}

/// What the schema is made of, but for ids and versions, which depend on how it came about.
fn facts(catalog: &Catalog) -> Vec<String> {
    let table = |table: &ferrite_catalog::Table| {
        let indexes: Vec<_> = table
            .indexes
            .iter()
            .map(|index| (&index.name, &index.keys, index.unique, index.assume_unique, index.kind, &index.predicate))
            .collect();
        let view = table.view.as_ref().map(|view| (&view.filter, &view.group_by, &view.aggregates, &view.outputs));
        format!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            table.name,
            table.kind,
            table.columns,
            table.partition_column,
            indexes,
            table.checks,
            (table.time_to_live, &table.export),
            view
        )
    };
    let procedures = catalog.procedures.values().map(|procedure| {
        let parameter = procedure.partitioning.as_ref().map(|partitioning| partitioning.parameter);
        format!(
            "{} {:?} {parameter:?} {} {:?}",
            procedure.name, procedure.parameters, procedure.body, procedure.allow_roles
        )
    });
    let roles = catalog.roles.iter().map(|role| format!("{role:?}"));
    catalog.tables.values().map(|found| table(found)).chain(procedures).chain(roles).collect()
}

#[track_caller]
fn round_trip(text: &str) {
    let catalog = applied(text);
    let printed = schema_text(&catalog);
    let again = applied(&printed);
    assert_eq!(facts(&catalog), facts(&again), "{printed}");
    assert_eq!(printed, schema_text(&again));
}

#[test]
fn the_voter_example() {
    round_trip(include_str!("../../../../examples/voter/ddl.sql"));
}

#[test]
fn published_forms() {
    for text in [
        include_str!("../schemas/kv.sql"),
        include_str!("../schemas/tpcc.sql"),
        include_str!("../schemas/tatp.sql"),
        include_str!("../schemas/nbbo.sql"),
        include_str!("../schemas/adperformance.sql"),
        include_str!("../schemas/metrocard.sql"),
        include_str!("../schemas/bank_offers.sql"),
        include_str!("../schemas/odd.sql"),
    ] {
        round_trip(text);
    }
}

#[test]
fn an_empty_schema_says_only_what_decimals_are() {
    assert_eq!(schema_text(&Catalog::default()), "SET DECIMAL_SCALE DECLARED;\n");
    assert_eq!(schema_text_without_classes(&Catalog::default()), "");
    assert_eq!(schema_text_without_classes(&Catalog::before_history()), "SET DECIMAL_SCALE IGNORED;\n");
}

//! Calls with parameters of many combinations of types: variants of their program come and go, and
//! each answer has the columns of its own.

use ferrite_base::PartitionId;
use ferrite_base::limits::STATEMENT_VARIANTS_MAX;
use ferrite_catalog::Catalog;
use ferrite_partition::counters::CallOutcome;
use ferrite_partition::execute::{Executor, Request};
use ferrite_partition::{Compiled, schema};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value};
use ferrite_wire::{Response, frame, parameters};
use std::sync::Arc;
use std::time::Duration;

const PARAMETERS: usize = 7;

fn parameter_set(values: &[Value<'_>]) -> Vec<u8> {
    let mut out = (values.len() as i16).to_be_bytes().to_vec();
    values.iter().for_each(|value| parameters::write_value(&mut out, value).expect("a number"));
    out
}

#[test]
fn each_combination_of_types_has_its_own_columns() {
    let factors = ["a * ?"; PARAMETERS].join(", ");
    let text = format!("CREATE TABLE wd (a INTEGER); CREATE PROCEDURE Many AS SELECT {factors} FROM wd");
    let planned = schema::plan(&Catalog::default(), &text).unwrap();
    let compiled = Compiled::new(Arc::clone(&planned.catalog), &Default::default()).unwrap();
    let mut stores = vec![Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))];
    schema::apply(&mut stores, &planned, 0).unwrap();
    stores[0].commit();
    let program = compiled.program(compiled.require("Many").unwrap());
    let mut executor = Executor::new(Duration::from_secs(600));
    const { assert!(1 << PARAMETERS > STATEMENT_VARIANTS_MAX + 1) };
    let combinations = 0..1 << PARAMETERS;
    for number in combinations.clone().chain(combinations.clone().rev()).chain(combinations) {
        let is_float = |place: usize| number >> place & 1 == 1;
        let value = |place| if is_float(place) { Value::Float(1.5) } else { Value::Integer(1) };
        let parameters = parameter_set(&(0..PARAMETERS).map(value).collect::<Vec<_>>());
        let request =
            Request { program, parameters: &parameters, drop_first_parameter: false, handle: 1, transaction_time: 1 };
        let mut out = Vec::new();
        assert_eq!(executor.call(&mut stores, &request, &mut out), CallOutcome::Committed);
        let (_, body) = frame::split(&out).unwrap().unwrap();
        let response = Response::parse(body).unwrap().to_owned_response().unwrap();
        let types: Vec<SqlType> = response.tables[0].columns.iter().map(|(_, sql_type)| *sql_type).collect();
        let expected = |place| if is_float(place) { SqlType::Float } else { SqlType::Bigint };
        assert_eq!(types, (0..PARAMETERS).map(expected).collect::<Vec<_>>(), "combination {number}");
    }
}

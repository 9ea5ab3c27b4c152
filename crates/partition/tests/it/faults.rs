//! Panics in calls, planted: the call is rolled back and answered, the stores are as before, and
//! the next call runs. In the midst of a change of a row and its indexes a panic is not held up.
#![cfg(debug_assertions)]

use ferrite_base::PartitionId;
use ferrite_base::fault::{self, Planted, Point};
use ferrite_catalog::Catalog;
use ferrite_partition::counters::CallOutcome;
use ferrite_partition::execute::{Executor, Request};
use ferrite_partition::worker_pool::Helpers;
use ferrite_partition::{Compiled, schema};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, Status, frame};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const SCHEMA: &str = "
    CREATE TABLE t (id BIGINT NOT NULL, g INTEGER NOT NULL, s VARCHAR(15) NOT NULL, PRIMARY KEY (id));
    CREATE INDEX t_s ON t (s, g);
    CREATE TABLE groups (g INTEGER NOT NULL PRIMARY KEY, name VARCHAR(10) NOT NULL);
    CREATE VIEW by_g AS SELECT g, COUNT(*) AS n FROM t GROUP BY g;
    CREATE VIEW by_name AS SELECT name, COUNT(*) AS n, MIN(id) AS low, MAX(s) AS last FROM t JOIN groups ON t.g = groups.g GROUP BY name;
    CREATE TABLE p (id BIGINT NOT NULL, g INTEGER);
    PARTITION TABLE p ON COLUMN id;
    CREATE PROCEDURE fill AS BEGIN
      INSERT INTO groups VALUES (1, 'one'), (2, 'two');
      INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c');
    END;
    CREATE PROCEDURE work (x BIGINT) AS BEGIN
      INSERT INTO t VALUES (x, 2, 'later');
      UPDATE t SET s = 'changed' WHERE id = 1;
      UPDATE groups SET name = 'uno' WHERE g = 1;
      DELETE FROM t WHERE id = 2;
      RETURN TABLE (SELECT * FROM t ORDER BY id), TABLE (SELECT * FROM by_name ORDER BY name);
    END;";

struct Node {
    stores: Vec<Store>,
    compiled: Compiled,
    executor: Executor,
    /// The last call has not come to what was planted.
    left: bool,
}

impl Node {
    fn new(partitions: u32) -> Node {
        let planned = schema::plan(&Catalog::default(), SCHEMA).unwrap();
        let compiled = Compiled::new(Arc::clone(&planned.catalog), &Default::default()).unwrap();
        let ring = Arc::new(Ring::new_default(partitions));
        let mut stores: Vec<Store> = (0..partitions).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect();
        schema::apply(&mut stores, &planned, 0).unwrap();
        stores.iter_mut().for_each(Store::commit);
        let mut node = Node { stores, compiled, executor: Executor::new(Duration::from_secs(10)), left: false };
        assert_eq!(node.call("fill", Vec::new()).0, CallOutcome::Committed);
        node
    }

    fn call(&mut self, name: &str, values: Vec<i64>) -> (CallOutcome, String) {
        let program = self.compiled.program(self.compiled.require(name).unwrap());
        let (mut parameters, mut out) = (Vec::new(), Vec::new());
        values.write_set(&mut parameters).unwrap();
        let request = Request {
            program,
            parameters: &parameters,
            drop_first_parameter: false,
            handle: 7,
            transaction_time: 1_700_000_000_000_000,
        };
        let outcome = self.executor.call(&mut self.stores, &request, &mut out);
        // What was not reached must not come when the stores are verified.
        self.left = fault::uproot().is_some();
        let (length, body) = frame::split(&out).unwrap().unwrap();
        assert_eq!(length, out.len(), "one answer");
        let response = Response::parse(body).unwrap();
        assert_eq!(response.handle, 7);
        let failed = outcome == CallOutcome::RolledBack;
        assert_eq!(response.status() == Some(Status::UnexpectedFailure), failed, "{response:?}");
        assert!(!failed || self.stores.iter().all(|store| store.redo().is_empty()));
        let told = format!("{:?}", response.to_owned_response().unwrap());
        for store in &mut self.stores {
            store.discard_redo();
            store.commit();
            store.verify().unwrap();
        }
        (outcome, told)
    }

    fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in self.stores.iter().flat_map(Store::tables) {
            let columns = table.definition().columns.len() as u16;
            for id in table.scan() {
                let row: Vec<_> = (0..columns).map(|column| table.row(id).column(column)).collect();
                rows.push(format!("{} {id} {row:?}", table.definition().name));
            }
        }
        rows
    }
}

#[test]
fn a_call_with_a_fault_leaves_no_trace_and_the_next_one_runs() {
    let before = fault::contained_here();
    let mut came = 0;
    for partitions in [1, 3] {
        for point in [Point::Statement, Point::View, Point::Answer] {
            for times in 1.. {
                let mut node = Node::new(partitions);
                let rows = node.rows();
                fault::plant(point, times);
                let (outcome, told) = node.call("work", vec![10]);
                if node.left {
                    // It was not reached so often: all its places have been tried.
                    assert!(outcome == CallOutcome::Committed && times > 1, "{point:?}");
                    break;
                }
                assert_eq!(outcome, CallOutcome::RolledBack);
                assert!(told.contains("internal error in work; the call was rolled back"), "{told}");
                assert_eq!(node.rows(), rows, "{point:?} {times}");
                came += 1;
                let (outcome, told) = node.call("work", vec![10]);
                assert_eq!(outcome, CallOutcome::Committed, "{told}");
                let mut other = Node::new(partitions);
                other.call("work", vec![10]);
                assert_eq!(node.rows(), other.rows(), "{point:?} {times}");
            }
        }
    }
    assert!(came > 20, "{came}");
    assert_eq!(fault::contained_here() - before, came);
}

#[test]
fn in_the_midst_of_a_row_it_is_not_held_up() {
    for times in 1..4 {
        let mut node = Node::new(1);
        fault::plant(Point::Structure, times);
        let panic = catch_unwind(AssertUnwindSafe(|| node.call("work", vec![10]))).expect_err("it goes on");
        assert_eq!(panic.downcast_ref::<Planted>(), Some(&Planted(Point::Structure)));
    }
}

#[test]
fn a_fault_in_a_part_of_a_query_ends_the_query() {
    let mut node = Node::new(3);
    node.executor = Executor::new(Duration::from_secs(60)).with_helpers(Arc::new(Helpers::new(2, 1 << 21)));
    let query = "SELECT g, COUNT(*) FROM p GROUP BY g";
    let run = |node: &mut Node, text: &str| {
        let statements = ferrite_sql::parse_batch(text).unwrap();
        let program = ferrite_sql::compile_adhoc(&node.compiled.catalog, &statements, 0).unwrap();
        let mut out = Vec::new();
        let (program, parameters) = (&Arc::new(program), &[0, 0][..]);
        let request = Request { program, parameters, drop_first_parameter: false, handle: 1, transaction_time: 0 };
        let outcome = node.executor.call(&mut node.stores, &request, &mut out);
        node.executor.catalog_changed();
        node.stores.iter_mut().for_each(|store| {
            store.discard_redo();
            store.commit();
        });
        outcome
    };
    let fill = "INSERT INTO p SELECT n, MOD(n, 10) FROM GENERATE_SERIES(1, 60000) AS s (n)";
    assert_eq!(run(&mut node, fill), CallOutcome::Committed);
    assert_eq!(run(&mut node, query), CallOutcome::Committed);
    // Whoever does the first part: this thread or one that helps.
    fault::plant_anywhere(Point::Part);
    assert_eq!(run(&mut node, query), CallOutcome::RolledBack);
    assert_eq!(run(&mut node, query), CallOutcome::Committed);
}

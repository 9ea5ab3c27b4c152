//! Ad hoc statements through the plan cache: texts of one shape share a plan, and nobody can tell
//! but by the time it takes.

use crate::common::{Db, connect, integers, options, start, text_of};
use ferrite_base::limits;
use ferrite_client::{CallFuture, ClientError, OwnedResponse};
use ferrite_node::Server;
use ferrite_value::OwnedValue;
use ferrite_wire::Status;

const SCHEMA: &str = "
    CREATE TABLE item (id BIGINT NOT NULL, small TINYINT, price DECIMAL, weight FLOAT, name VARCHAR(20), made TIMESTAMP,
        code VARBINARY(8), PRIMARY KEY (id));
    PARTITION TABLE item ON COLUMN id;
    CREATE INDEX by_price ON item (price);
    CREATE TABLE kind (id INTEGER NOT NULL, name VARCHAR(20) NOT NULL, PRIMARY KEY (id))";

struct Node {
    _dir: tempfile::TempDir,
    server: Server,
    db: Db,
}

fn node(partitions: u32) -> Node {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), partitions));
    let db = connect(&server);
    db.sql(SCHEMA);
    Node { _dir: dir, server, db }
}

impl Node {
    /// What the text answers when it is compiled as it is written: with a comment that no text had
    /// before.
    fn as_written(&self, text: &str, number: usize) -> Result<String, String> {
        self.answer(&format!("{text} /* {number} */"))
    }

    fn answer(&self, text: &str) -> Result<String, String> {
        match self.db.0.call_blocking("@AdHoc", (text,)) {
            Ok(response) => Ok(format!("{:?}", response.tables)),
            Err(ClientError::Failed(response)) => Err(text_of(&response).to_owned()),
            Err(other) => panic!("{text}: {other}"),
        }
    }

    fn hits(&self) -> u64 {
        self.server.plan_cache().hits
    }

    /// Sends `texts` of one shape; all must answer what they answer alone, and all but the first
    /// two without compiling.
    #[track_caller]
    fn check_hits(&self, texts: &[&str]) {
        let expected: Vec<_> = texts.iter().enumerate().map(|(number, text)| self.as_written(text, number)).collect();
        for text in texts.iter().chain(texts) {
            let _ = self.answer(text);
        }
        for (text, expected) in texts.iter().zip(expected) {
            let before = self.hits();
            assert_eq!(self.answer(text), expected, "{text}");
            assert_eq!(self.hits(), before + 1, "{text} should not have been compiled again");
        }
    }

    /// As [`Node::check_hits`], whether or not they are compiled.
    #[track_caller]
    fn check_same(&self, texts: &[&str]) {
        let expected: Vec<_> = texts.iter().enumerate().map(|(number, text)| self.as_written(text, number)).collect();
        for _ in 0..3 {
            for (text, expected) in texts.iter().zip(&expected) {
                let as_if_written = self.answer(text).map_err(|error| error.replace(text, "TEXT"));
                let expected = expected.clone().map_err(|error| {
                    let number = texts.iter().position(|other| other == text).expect("it is one of them");
                    error.replace(&format!("{text} /* {number} */"), "TEXT").replace(text, "TEXT")
                });
                assert_eq!(as_if_written, expected, "{text}");
            }
        }
    }
}

fn filled(partitions: u32) -> Node {
    let node = node(partitions);
    for id in -3..20 {
        let (price, weight) = (format!("{id}.25"), format!("{id}.5E0"));
        node.db.sql(&format!(
            "INSERT INTO item VALUES ({id}, {id}, {price}, {weight}, 'it''s {id}', '2024-01-{:02} 10:00:00', X'0{}')",
            (id + 4).min(28),
            (id + 3) % 10,
        ));
        node.db.sql(&format!("INSERT INTO kind VALUES ({id}, 'kind {id}')"));
    }
    node.db.sql("INSERT INTO item VALUES (100, NULL, NULL, NULL, NULL, NULL, NULL)");
    node
}

#[test]
fn literals_of_every_kind_share_a_plan() {
    for partitions in [1, 3] {
        let node = filled(partitions);
        node.check_hits(&[
            "SELECT * FROM item WHERE id = 3",
            "SELECT * FROM item WHERE id = 19",
            "SELECT * FROM item WHERE id = -2",
        ]);
        node.check_hits(&["SELECT id FROM item WHERE price = 3.25", "SELECT id FROM item WHERE price = -1.25"]);
        node.check_hits(&[
            "SELECT id FROM item WHERE price > 3 ORDER BY id",
            "SELECT id FROM item WHERE price > -7 ORDER BY id",
        ]);
        node.check_hits(&["SELECT id FROM item WHERE weight = 3.5E0", "SELECT id FROM item WHERE weight = -35e-1"]);
        node.check_hits(&["SELECT id FROM item WHERE name = 'it''s 4'", "SELECT id FROM item WHERE name = ''"]);
        node.check_hits(&["SELECT id FROM item WHERE code = X'03'", "SELECT id FROM item WHERE code = x'0405'"]);
        node.check_hits(&[
            "SELECT id FROM item WHERE made >= '2024-01-10 10:00:00' ORDER BY id",
            "SELECT id FROM item WHERE made >= '2024-01-12' ORDER BY id",
        ]);
        node.check_hits(&[
            "SELECT id FROM item WHERE id BETWEEN -2 AND 5 AND small <> 3 ORDER BY id LIMIT 3",
            "SELECT id FROM item WHERE id BETWEEN 0 AND 9 AND small <> 7 ORDER BY id LIMIT 3",
        ]);
        node.check_hits(&[
            "SELECT name FROM kind WHERE id IN (1, 2, 3) ORDER BY 1",
            "SELECT name FROM kind WHERE id IN (7, -1, 9) ORDER BY 1",
        ]);
        node.check_hits(&[
            "SELECT name FROM kind WHERE id = 5; SELECT price FROM item WHERE id = 5",
            "SELECT name FROM kind WHERE id = 6; SELECT price FROM item WHERE id = 7",
        ]);
    }
}

#[test]
fn what_depends_on_values_depends_on_them_still() {
    for partitions in [1, 3] {
        let node = filled(partitions);
        // Types, ordinals, limits, folding, select lists that match GROUP BY, conditions that are
        // always or never true.
        node.check_same(&[
            "SELECT 1 FROM kind WHERE id = 1",
            "SELECT 3000000000 FROM kind WHERE id = 1",
            "SELECT 1.5 FROM kind WHERE id = 1",
        ]);
        node.check_same(&[
            "SELECT id, name FROM kind ORDER BY 1",
            "SELECT id, name FROM kind ORDER BY 2",
            "SELECT id, name FROM kind ORDER BY 3",
        ]);
        node.check_same(&[
            "SELECT id FROM kind ORDER BY id LIMIT 1",
            "SELECT id FROM kind ORDER BY id LIMIT 5 OFFSET 2",
        ]);
        node.check_same(&[
            "SELECT id + 1 FROM kind GROUP BY id + 1 ORDER BY 1",
            "SELECT id + 1 FROM kind GROUP BY id + 2 ORDER BY 1",
        ]);
        node.check_same(&["SELECT COUNT(*) FROM kind WHERE 1 = 1", "SELECT COUNT(*) FROM kind WHERE 1 = 2"]);
        node.check_same(&[
            "SELECT id FROM item WHERE id = 5.0",
            "SELECT id FROM item WHERE id = 5.5",
            "SELECT id FROM item WHERE id = 7.0",
        ]);
        node.check_same(&[
            "SELECT id FROM kind WHERE id = '5'",
            "SELECT id FROM kind WHERE id = '5.0'",
            "SELECT id FROM kind WHERE id = 'five'",
        ]);
        node.check_same(&[
            "SELECT id FROM item WHERE name = 'NULL'",
            "SELECT id FROM item WHERE name = NULL",
            "SELECT id FROM item WHERE name = '\\N'",
        ]);
        node.check_same(&[
            "SELECT id FROM kind WHERE id = 2147483647",
            "SELECT id FROM kind WHERE id = 2147483648",
            "SELECT id FROM kind WHERE id = 99999999999999999999",
        ]);
        node.check_same(&["SELECT id FROM item WHERE made = '2024-01-10'", "SELECT id FROM item WHERE made = 'soon'"]);
        node.check_same(&[
            "SELECT name FROM kind WHERE name LIKE 'kind 1%' ORDER BY id",
            "SELECT name FROM kind WHERE name LIKE '%9' ORDER BY id",
        ]);
        node.check_same(&[
            "SELECT id - 1 FROM kind WHERE id = 3",
            "SELECT id -1 FROM kind WHERE id = 4",
            "SELECT - 1 FROM kind WHERE id = 3",
        ]);
        node.check_same(&[
            "SELECT SUBSTRING(name, 1, 4) FROM kind WHERE id = 1",
            "SELECT SUBSTRING(name, 2, 3) FROM kind WHERE id = 1",
        ]);
        node.check_same(&[
            "SELECT CAST(5 AS VARCHAR(1)) FROM kind WHERE id = 1",
            "SELECT CAST(50 AS VARCHAR(1)) FROM kind WHERE id = 1",
        ]);
        node.check_same(&[
            "SELECT 5 / 2 FROM kind WHERE id = 1",
            "SELECT 5 / 0 FROM kind WHERE id = 1",
            "SELECT id / 0 FROM kind WHERE id = 1",
        ]);
        node.check_same(&[
            "SELECT id FROM kind WHERE id = 1 SELECT",
            "SELECT id FROM kind WHERE idd = 1",
            "SELECT id FROM kind WHERE id = 1e",
        ]);
        node.check_same(&[
            "SELECT CASE WHEN id > 3 THEN 1 ELSE 0 END FROM kind WHERE id = 3",
            "SELECT CASE WHEN id > 2 THEN 10 ELSE 20 END FROM kind WHERE id = 3",
        ]);
    }
}

#[test]
fn inserts_fail_in_the_words_of_their_text() {
    for partitions in [1, 3] {
        let node = filled(partitions);
        for id in 1_000..1_010 {
            node.db.sql(&format!("INSERT INTO item VALUES ({id}, 1, 1.5, 1, 'x', '2024-01-01', X'00')"));
        }
        let before = node.hits();
        node.db.sql("INSERT INTO item VALUES (2000, 100, -0.5, -7, 'it''s', '1999-12-31 23:59:59.999999', X'ff')");
        assert_eq!(node.hits(), before + 1);
        assert_eq!(node.db.scalar("SELECT small FROM item WHERE id = 2000"), 100);
        // The key is taken; too large for the column; too long; not a date: each as if it was
        // compiled for itself.
        let number_of_rows = node.db.scalar("SELECT COUNT(*) FROM item");
        for (number, values) in [
            "1005, 1, 1.5, 1, 'x', '2024-01-01', X'00'",
            "3000, 1000, 1.5, 1, 'x', '2024-01-01', X'00'",
            "3000, 1, 1.5, 1, 'a text that is longer than the column', '2024-01-01', X'00'",
            "3000, 1, 1.5, 1, 'x', 'soon', X'00'",
            "3000, 1, 1.5, 1, 'x', '2024-01-01', X'000102030405060708'",
            "NULL, 1, 1.5, 1, 'x', '2024-01-01', X'00'",
        ]
        .iter()
        .enumerate()
        {
            let text = format!("INSERT INTO item VALUES ({values})");
            let alone =
                node.as_written(&text, number).expect_err("it must fail").replace(&format!(" /* {number} */"), "");
            assert_eq!(node.answer(&text), Err(alone));
        }
        assert_eq!(node.db.scalar("SELECT COUNT(*) FROM item"), number_of_rows);
    }
}

#[test]
fn parameters_beside_literals() {
    let node = filled(3);
    let text = |price: i64| format!("SELECT id FROM item WHERE id >= ? AND price > {price} AND name <> ? ORDER BY id");
    for price in [1, 2, 3] {
        node.db.call("@AdHoc", (text(price), 0i64, "x"));
    }
    let before = node.hits();
    let response = node.db.call("@AdHoc", (text(15), 17i64, "it's 18"));
    assert_eq!(node.hits(), before + 1);
    assert_eq!(crate::common::integers(&response), [17, 19]);
    for _ in 0..3 {
        let response = node.db.fail("@AdHoc", (text(15), 17i64));
        assert!(text_of(&response).contains("expected 2, passed 1"), "{}", text_of(&response));
        let response = node.db.fail("@AdHoc", (text(15), "seventeen", "x"));
        assert!(text_of(&response).contains("seventeen"), "{}", text_of(&response));
    }
}

#[test]
fn a_plan_is_for_one_schema() {
    let node = node(2);
    for id in 0..10 {
        node.db.sql(&format!("INSERT INTO kind VALUES ({id}, 'old')"));
    }
    let text = "SELECT * FROM kind WHERE id = 3";
    (0..3).for_each(|_| drop(node.db.sql(text)));
    assert!(node.hits() > 0);
    for round in 0..3 {
        node.db.sql("DROP TABLE kind; CREATE TABLE kind (name VARCHAR(20), id INTEGER NOT NULL, more INTEGER)");
        assert_eq!(node.server.plan_cache().entries, 0);
        for _ in 0..4 {
            assert_eq!(node.db.sql(text).tables[0].columns.len(), 3, "round {round}");
        }
        node.db.sql("DROP TABLE kind; CREATE TABLE kind (id INTEGER NOT NULL)");
        node.db.sql("INSERT INTO kind VALUES (3)");
        for _ in 0..4 {
            assert_eq!(node.db.sql(text).tables[0].rows, [[OwnedValue::Integer(3)]], "round {round}");
        }
    }
    node.db.sql("DROP TABLE kind");
    assert!(text_of(&node.db.fail("@AdHoc", (text,))).contains("KIND"));
}

/// Statements on their way while the schema changes are answered by one of the schemas, and none is
/// lost.
#[test]
fn a_schema_change_amid_pipelined_statements() {
    let node = node(2);
    node.db.sql("INSERT INTO kind VALUES (3, 'a')");
    for round in 0..10 {
        let calls: Vec<CallFuture> =
            (0..500).map(|id| node.db.0.call("@AdHoc", (format!("SELECT * FROM kind WHERE id = {id}"),))).collect();
        node.db.sql(&format!("CREATE TABLE other{round} (id INTEGER)"));
        let rows: usize = calls.into_iter().map(|call| call.wait().expect("answered").tables[0].rows.len()).sum();
        assert_eq!(rows, 1);
    }
}

/// A ? has its neighbour's type until a value of another comes, whether its text is compiled or its
/// plan is at hand.
#[test]
fn parameters_of_other_types_than_their_neighbours() {
    for partitions in [1, 3] {
        let node = filled(partitions);
        let rows = |response: OwnedResponse| response.tables[0].rows.clone();
        for _ in 0..4 {
            let product =
                |by: OwnedValue| rows(node.db.call("@AdHoc", ("SELECT small * ? FROM item WHERE id = ?", by, 4)));
            assert_eq!(product(OwnedValue::Integer(2)), [[OwnedValue::Integer(8)]]);
            assert_eq!(product(OwnedValue::Float(2.5)), [[OwnedValue::Float(10.0)]]);
            assert_eq!(product(OwnedValue::Float(2.0)), [[OwnedValue::Float(8.0)]]);
            let of_key = |key: f64| rows(node.db.call("@AdHoc", ("SELECT id FROM item WHERE id = ?", key)));
            assert_eq!(of_key(7.0), [[OwnedValue::Integer(7)]]);
            assert_eq!(of_key(7.5), [[OwnedValue::Null; 0]; 0]);
            let below = node.db.call("@AdHoc", ("SELECT id FROM item WHERE id < ? AND small > -9 ORDER BY id", -1.5));
            assert_eq!(integers(&below), [-3, -2]);
            let gone = node.db.call("@AdHoc", ("DELETE FROM item WHERE id = ?", 7.5));
            assert_eq!(gone.scalar(), Some(0));
        }
        node.db.call("@AdHoc", ("UPDATE item SET weight = small * ? WHERE id = ?", 15.5, 2.0));
        assert_eq!(rows(node.db.sql("SELECT weight FROM item WHERE id = 2")), [[OwnedValue::Float(31.0)]]);
        let refused = ("INSERT INTO item (id, small) VALUES (?, ?)", 50, 1.5);
        node.db.fails("@AdHoc", refused, Status::GracefulFailure, "unable to convert FLOAT 1.5");
        node.db.call("@AdHoc", ("INSERT INTO item (id, small) VALUES (?, ?)", 50.0, 1.0));
        assert_eq!(node.db.scalar("SELECT small FROM item WHERE id = 50"), 1);
    }
}

#[test]
fn the_cache_is_bounded() {
    let node = node(1);
    let pipelined = |texts: &mut dyn Iterator<Item = String>| {
        let calls: Vec<CallFuture> = texts.map(|text| node.db.0.call("@AdHoc", (text,))).collect();
        calls.into_iter().for_each(|call| drop(call.wait().expect("a right statement")));
    };
    pipelined(&mut (0..limits::PLAN_CACHE_ENTRIES_MAX).map(|number| format!("SELECT id AS a{number} FROM kind")));
    let statistics = node.server.plan_cache();
    assert_eq!((statistics.entries, statistics.evictions), (limits::PLAN_CACHE_ENTRIES_MAX as u64, 0));
    pipelined(&mut (0..10).map(|number| format!("SELECT id AS b{number} FROM kind")));
    let statistics = node.server.plan_cache();
    assert_eq!((statistics.entries, statistics.evictions), (limits::PLAN_CACHE_ENTRIES_MAX as u64, 10));
    // New ones still get their plans.
    let before = node.hits();
    (0..4).for_each(|_| drop(node.db.sql("SELECT id AS b9 FROM kind")));
    assert!(node.hits() >= before + 2);
}

#[test]
fn constants_that_fail_where_they_are_not_evaluated_share_a_plan_with_none_that_it_is_not_right_for() {
    let node = filled(2);
    // The types that integers have by their values must not come from a text whose constants fail.
    for template in [
        "SELECT CASE WHEN id = 77 THEN {} ELSE 1 END FROM item WHERE id = 5",
        "SELECT CASE WHEN id = 5 THEN {} ELSE 1 END FROM item WHERE id = 5",
        "SELECT CASE WHEN id = 77 THEN -({}) + 1 ELSE 1 END FROM item WHERE id = 5",
        "SELECT id FROM item WHERE CASE WHEN id = 77 THEN {} ELSE 3 END = id",
        "SELECT COALESCE(NULL, small, {}) FROM item WHERE id = 5",
        "SELECT COALESCE(7, {}) FROM item WHERE id = 5",
        "SELECT DECODE(id, 77, {}, 4) FROM item WHERE id = 5",
        "SELECT COUNT(*) FROM item WHERE 1 = 0 AND {} = 1",
        "SELECT COUNT(*) FROM item WHERE 0 = 0 OR {} = 1",
        "SELECT COUNT(*) FROM item WHERE id = 5 AND {} = 1",
        "SELECT 1 IN (1, {}) FROM item WHERE id = 5",
        "SELECT COUNT(*) FROM kind WHERE EXISTS (SELECT {} FROM item)",
    ] {
        let constants = ["1/0", "6/2", "6/6", "4000000000/0", "4000000000/2", "1.5/0", "1.5/2", "7/0"];
        let texts = constants.map(|constant| template.replace("{}", constant));
        node.check_same(&texts.each_ref().map(String::as_str));
        // The blank makes it another shape, of which the last is the first.
        let turned: Vec<String> = texts.iter().rev().map(|text| format!("{text} ")).collect();
        node.check_same(&turned.iter().map(String::as_str).collect::<Vec<&str>>());
    }
}

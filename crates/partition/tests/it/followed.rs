//! A schema change that another group of the database has made.

use crate::stepped::Database;
use ferrite_partition::is_same_schema;

const CHANGES: [&str; 3] = [
    "CREATE TABLE t (a INTEGER NOT NULL, v INTEGER, PRIMARY KEY (a)); PARTITION TABLE t ON COLUMN a",
    "CREATE INDEX i ON t (v); CREATE PROCEDURE p PARTITION ON TABLE t COLUMN a AS SELECT v FROM t WHERE a = ?",
    "DROP INDEX i",
];

#[test]
fn a_change_is_made_where_it_is_the_next_one_and_elsewhere_the_version_is_answered() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let mut first = Database::leader(one.path(), 2, 1);
    let mut second = Database::leader(other.path(), 3, 2);
    for text in CHANGES {
        assert_eq!(first.change_schema(text).0, 1, "{text}");
    }
    assert_eq!(first.made_change(4), None, "there is none");
    let logged: Vec<String> = (1..=3).map(|version| first.made_change(version).expect("it was made")).collect();
    assert_eq!(second.follow_schema(2, &logged[1]), -1, "it has version 0");
    for (version, text) in (1..).zip(&logged) {
        assert_eq!(second.follow_schema(version, text), 0);
        assert_eq!(second.follow_schema(version, text), -1 - version as i64, "it has it");
        assert_eq!(second.made_change(version).as_ref(), Some(text), "another group can follow it");
    }
    assert!(is_same_schema(&first.compiled(), &second.compiled()));
    drop(second);
    let second = Database::leader(other.path(), 3, 3);
    assert!(is_same_schema(&first.compiled(), &second.compiled()), "it is in its log");
    first.change_schema("CREATE INDEX i ON t (v)");
    assert!(!is_same_schema(&first.compiled(), &second.compiled()));
}

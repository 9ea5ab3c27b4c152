//! Work that does not end by itself, for tests of what ends it.

use crate::common::{Db, VOTER, connect, options, start};
use ferrite_node::{Server, ServerOptions};

pub const ACCOUNTS: i64 = 300;
pub const ENDLESS: &str = "SELECT COUNT(*) FROM account a, account b, account c, account d
    WHERE a.balance + b.balance + c.balance < d.balance";
/// Its rows are computed one after the other; it is no long read, as it reads no table.
pub const RECURSION: &str = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000)
    SELECT COUNT(*) FROM r a, r b, r c, r d WHERE a.n + b.n + c.n + d.n < 0";
const PROCEDURES: &str = "
    CREATE PROCEDURE Spin (key BIGINT) PARTITION ON TABLE account COLUMN id AS BEGIN
        DECLARE done BIGINT DEFAULT 0;
        UPDATE account SET balance = balance + 1 WHERE id = key;
        WHILE done >= 0 DO SET done = done + 1; END WHILE;
    END;
    CREATE DIRECTED PROCEDURE SpinHere (wanted BIGINT) AS BEGIN
        DECLARE done BIGINT DEFAULT 0;
        WHILE done >= 0 DO SET done = done + 1; END WHILE;
    END;
    CREATE PROCEDURE SpinEverywhere AS BEGIN
        DECLARE done BIGINT DEFAULT 0;
        UPDATE account SET balance = balance + 1;
        WHILE done >= 0 DO SET done = done + 1; END WHILE;
    END;
    CREATE PROCEDURE Report AS SELECT COUNT(*) FROM account a, account b, account c, account d
        WHERE a.balance + b.balance + c.balance < d.balance;";

/// A server with accounts of 1 000 each, and with the procedures.
pub fn accounts(partitions: u32, change: impl FnOnce(&mut ServerOptions)) -> (tempfile::TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), partitions);
    change(&mut options);
    let server = start(options);
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(PROCEDURES);
    (0..ACCOUNTS).for_each(|id| drop(db.0.call("ACCOUNT.insert", (id, 1_000i64))));
    db.0.drain();
    (dir, server, db)
}

//! The simulated database: its first schema, and changes to it as time goes on.
//!
//! Rows belong to *homes*. Each home has a counter that every write to it moves on by one, and a
//! table of marks that says which operation made which step. So the database itself tells which
//! operations it holds, in which order.

use ferrite_io::simulated::SimulatedRandom;

/// All statements that make the database.
pub fn first() -> String {
    format!("{FIRST}{}", restored())
}

/// Two tables that only restores fill.
pub const RESTORED_TABLES: &str = "
CREATE TABLE restored (id BIGINT NOT NULL, v BIGINT, name VARCHAR(40), body VARCHAR(200000 BYTES), PRIMARY KEY (id));
PARTITION TABLE restored ON COLUMN id;
CREATE TABLE codes (code BIGINT NOT NULL, words VARCHAR(60), PRIMARY KEY (code));
";
/// What refuses rows of the bad backup.
pub const RESTORED_LIMIT: i64 = 1_000;

/// The statements for the database that is restored into.
fn restored() -> String {
    format!(
        "{RESTORED_TABLES}
ALTER TABLE restored ADD CONSTRAINT restored_limit CHECK (v < {RESTORED_LIMIT});
CREATE INDEX restored_v ON restored (v);
CREATE VIEW restored_by_v AS SELECT v, COUNT(*) AS entries, SUM(id) AS total, MAX(name) AS last_name FROM restored GROUP BY v;
CREATE VIEW codes_by_words AS SELECT words, COUNT(*) AS entries FROM codes GROUP BY words;
CREATE PROCEDURE Peek AS BEGIN
  RETURN TABLE (SELECT COUNT(*) FROM restored), TABLE (SELECT v, entries FROM restored_by_v),
    TABLE (SELECT COUNT(*) FROM codes), TABLE (SELECT words, entries FROM codes_by_words);
END;
CREATE PROCEDURE Discard AS BEGIN
  DELETE FROM restored; DELETE FROM codes;
  RETURN (SELECT COUNT(*) FROM restored);
END;
"
    )
}

const FIRST: &str = "
CREATE TABLE heads (home BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (home));
PARTITION TABLE heads ON COLUMN home;
CREATE TABLE marks (home BIGINT NOT NULL, n BIGINT NOT NULL, operation BIGINT NOT NULL,
  PRIMARY KEY (home, n), UNIQUE (home, operation));
PARTITION TABLE marks ON COLUMN home;
CREATE TABLE items (home BIGINT NOT NULL, id BIGINT NOT NULL, v BIGINT, name VARCHAR(40), body VARCHAR(200000 BYTES),
  PRIMARY KEY (home, id), UNIQUE (home, name));
PARTITION TABLE items ON COLUMN home;
CREATE INDEX items_v ON items (v);
CREATE INDEX items_name ON items USING HASH (name);
CREATE VIEW items_by_home AS SELECT home, COUNT(*) AS entries, COUNT(v) AS filled, SUM(v) AS total, MIN(v) AS lowest,
  MAX(v) AS highest FROM items GROUP BY home;
CREATE VIEW items_by_v AS SELECT v, COUNT(*) AS entries, MIN(id) AS lowest, MAX(name) AS last_name FROM items GROUP BY v;
CREATE TABLE accounts (home BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (home), CHECK (balance >= 0));
PARTITION TABLE accounts ON COLUMN home;
CREATE TABLE scratch (home BIGINT NOT NULL, id BIGINT NOT NULL, PRIMARY KEY (home, id));
PARTITION TABLE scratch ON COLUMN home;
CREATE TABLE sessions (home BIGINT NOT NULL, id BIGINT NOT NULL, seen TIMESTAMP NOT NULL, PRIMARY KEY (home, id))
  USING TTL 1 SECONDS ON COLUMN seen BATCH_SIZE 3;
PARTITION TABLE sessions ON COLUMN home;
CREATE INDEX sessions_seen ON sessions (seen);
CREATE TABLE rate_head (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));
CREATE TABLE rate_marks (n BIGINT NOT NULL, operation BIGINT NOT NULL, PRIMARY KEY (n), UNIQUE (operation));
CREATE TABLE rates (id BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (id));
CREATE VIEW rates_by_v AS SELECT v, COUNT(*) AS entries FROM rates GROUP BY v;
CREATE VIEW items_of_heads AS SELECT h.home, COUNT(*) AS entries, MIN(i.id) AS lowest, MAX(h.n) AS steps, MIN(i.v) AS least
  FROM heads h JOIN items i ON h.home = i.home GROUP BY h.home;
CREATE VIEW items_rated AS SELECT r.id, COUNT(*) AS entries, MIN(r.v) AS rate, MAX(i.home) AS last_home
  FROM items i JOIN rates r ON i.v = r.id GROUP BY r.id;

CREATE PROCEDURE Put (h BIGINT, o BIGINT, item BIGINT, val BIGINT, nm VARCHAR(40), bd VARCHAR(200000 BYTES))
PARTITION ON TABLE heads COLUMN home AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = h) THEN
    INSERT INTO heads VALUES (h, 0); INSERT INTO accounts VALUES (h, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = h;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = h;
  UPSERT INTO items (home, id, v, name, body) VALUES (h, item, val, nm, bd);
  RETURN (SELECT n FROM heads WHERE home = h);
END;
CREATE PROCEDURE Remove (h BIGINT, o BIGINT, item BIGINT) PARTITION ON TABLE heads COLUMN home AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = h) THEN
    INSERT INTO heads VALUES (h, 0); INSERT INTO accounts VALUES (h, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = h;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = h;
  DELETE FROM items WHERE home = h AND id = item;
  RETURN (SELECT n FROM heads WHERE home = h);
END;
CREATE PROCEDURE Bump (h BIGINT, o BIGINT, delta BIGINT) PARTITION ON TABLE heads COLUMN home AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = h) THEN
    INSERT INTO heads VALUES (h, 0); INSERT INTO accounts VALUES (h, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = h;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = h;
  UPDATE items SET v = v + delta WHERE home = h;
  INSERT INTO scratch VALUES (h, o);
  RETURN (SELECT n FROM heads WHERE home = h);
END;
CREATE PROCEDURE Touch (h BIGINT, o BIGINT) PARTITION ON TABLE heads COLUMN home AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = h) THEN
    INSERT INTO heads VALUES (h, 0); INSERT INTO accounts VALUES (h, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = h;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = h;
  INSERT INTO sessions VALUES (h, o, NOW);
  RETURN (SELECT n FROM heads WHERE home = h);
END;
CREATE PROCEDURE Spoil (h BIGINT, o BIGINT, item BIGINT, overdraw BIGINT) PARTITION ON TABLE heads COLUMN home AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = h) THEN
    INSERT INTO heads VALUES (h, 0); INSERT INTO accounts VALUES (h, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = h;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = h;
  DELETE FROM items WHERE home = h AND id <> item;
  UPDATE items SET v = 7, body = 'spoiled', name = 'spoiled' WHERE home = h;
  DELETE FROM scratch WHERE home = h;
  IF overdraw = 1 THEN
    UPDATE accounts SET balance = balance - 1000000 WHERE home = h;
  END IF;
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'spoiled';
END;
CREATE PROCEDURE Look (h BIGINT, item BIGINT) PARTITION ON TABLE heads COLUMN home AS BEGIN
  RETURN TABLE (SELECT n FROM heads WHERE home = h),
    TABLE (SELECT v, name, body FROM items WHERE home = h AND id = item),
    TABLE (SELECT entries, total, lowest, highest FROM items_by_home WHERE home = h),
    TABLE (SELECT balance FROM accounts WHERE home = h);
END;
CREATE PROCEDURE Transfer (a BIGINT, b BIGINT, o BIGINT, amount BIGINT) AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = a) THEN
    INSERT INTO heads (home, n) VALUES (a, 0); INSERT INTO accounts (home, balance) VALUES (a, 1000);
  END IF;
  IF NOT EXISTS (SELECT 1 FROM heads WHERE home = b) THEN
    INSERT INTO heads (home, n) VALUES (b, 0); INSERT INTO accounts (home, balance) VALUES (b, 1000);
  END IF;
  UPDATE heads SET n = n + 1 WHERE home = a;
  UPDATE heads SET n = n + 1 WHERE home = b;
  INSERT INTO marks (home, n, operation) VALUES (a, (SELECT n FROM heads WHERE home = a), o);
  INSERT INTO marks (home, n, operation) VALUES (b, (SELECT n FROM heads WHERE home = b), o);
  UPDATE accounts SET balance = balance + amount WHERE home = b;
  UPDATE accounts SET balance = balance - amount WHERE home = a;
  RETURN TABLE (SELECT home, n FROM heads WHERE home = a), TABLE (SELECT home, n FROM heads WHERE home = b);
END;
CREATE PROCEDURE Clear (o BIGINT) AS BEGIN
  UPDATE heads SET n = n + 1;
  INSERT INTO marks SELECT home, n, o FROM heads;
  TRUNCATE TABLE scratch;
  RETURN TABLE (SELECT home, n FROM heads);
END;
CREATE PROCEDURE Rate (o BIGINT, item BIGINT, val BIGINT) AS BEGIN
  IF NOT EXISTS (SELECT 1 FROM rate_head) THEN INSERT INTO rate_head VALUES (0, 0); END IF;
  UPDATE rate_head SET n = n + 1;
  INSERT INTO rate_marks SELECT n, o FROM rate_head;
  UPSERT INTO rates VALUES (item, val);
  RETURN (SELECT n FROM rate_head);
END;
CREATE PROCEDURE Cut AS BEGIN
  RETURN TABLE (SELECT home, n FROM heads), TABLE (SELECT home, balance FROM accounts), TABLE (SELECT n FROM rate_head),
    TABLE (SELECT v, entries FROM items_by_v), TABLE (SELECT home, id, v FROM items);
END;
";

/// Procedures that are lists of statements, of which each concerns one home: several groups run
/// them together. All homes are there before.
pub const OVER_GROUPS: &str = "
CREATE PROCEDURE Move (a BIGINT, b BIGINT, o BIGINT, amount BIGINT) AS BEGIN
  UPDATE heads SET n = n + 1 WHERE home = a;
  UPDATE heads SET n = n + 1 WHERE home = b;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = a;
  INSERT INTO marks SELECT home, n, o FROM heads WHERE home = b;
  UPDATE accounts SET balance = balance + amount WHERE home = b;
  UPDATE accounts SET balance = balance - amount WHERE home = a;
  SELECT home, n FROM heads WHERE home = a;
  SELECT home, n FROM heads WHERE home = b;
END;
CREATE PROCEDURE Both (a BIGINT, b BIGINT) AS BEGIN
  SELECT home, n FROM heads WHERE home = a;
  SELECT home, n FROM heads WHERE home = b;
  SELECT balance FROM accounts WHERE home = a;
  SELECT balance FROM accounts WHERE home = b;
END;
";

/// A column that was added to `items`, whose default all rows have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    pub column: String,
    pub default: i64,
}

/// What schema changes have made of the first schema.
#[derive(Clone, Default, Debug)]
pub struct Variant {
    pub added: Vec<Added>,
    indexes: Vec<String>,
    tables: Vec<String>,
    views: Vec<String>,
    next: u32,
}

impl Variant {
    /// Statements of one change, and what it leaves. Some changes must fail, and leave nothing.
    pub fn change(&self, random: &mut SimulatedRandom) -> (String, Variant) {
        let mut next = self.clone();
        let mut statements = Vec::new();
        for _ in 0..1 + random.below(2) {
            statements.push(next.one(random));
        }
        if random.percent(15) {
            statements.push("CREATE TABLE heads (a BIGINT)".to_owned());
        }
        (statements.join(";\n"), next)
    }

    fn one(&mut self, random: &mut SimulatedRandom) -> String {
        self.next += 1;
        let number = self.next;
        match random.below(8) {
            0 if self.added.len() < 4 => {
                let column = format!("c{number}");
                let default = random.below(1_000) as i64;
                let text = format!("ALTER TABLE items ADD COLUMN {column} BIGINT DEFAULT {default} NOT NULL");
                self.added.push(Added { column, default });
                text
            }
            1 if !self.added.is_empty() => {
                let Added { column, .. } = self.added.remove(0);
                format!("ALTER TABLE items DROP COLUMN {column}")
            }
            2 if self.indexes.len() < 4 => {
                let name = format!("i{number}");
                let keys = *random.pick(&["v, id", "body", "name, v", "ABS(v)"]);
                let kind = *random.pick(&["", " USING HASH"]);
                self.indexes.push(name.clone());
                format!("CREATE INDEX {name} ON items{kind} ({keys})")
            }
            3 if !self.indexes.is_empty() => format!("DROP INDEX {}", self.indexes.remove(0)),
            4 if self.views.len() < 3 => {
                let name = format!("w{number}");
                let key = *random.pick(&["id", "v", "name"]);
                self.views.push(name.clone());
                if random.percent(30) {
                    // Computed when it is read: in the log and in snapshots by its text alone.
                    let query = *random.pick(&[
                        "SELECT DISTINCT v FROM items",
                        "SELECT home, id FROM items ORDER BY home, id LIMIT 3",
                        "SELECT h.*, r.lowest FROM heads h LEFT JOIN items_by_home r ON r.home = h.home",
                    ]);
                    return format!("CREATE VIEW {name} AS {query}");
                }
                format!(
                    "CREATE VIEW {name} AS SELECT {key}, COUNT(*) AS entries, SUM(v) AS total FROM items GROUP BY {key}"
                )
            }
            5 if !self.views.is_empty() => format!("DROP VIEW {}", self.views.remove(0)),
            6 if !self.tables.is_empty() => format!("DROP TABLE {}", self.tables.remove(0)),
            _ => {
                let name = format!("t{number}");
                self.tables.push(name.clone());
                format!("CREATE TABLE {name} (a BIGINT NOT NULL, b VARCHAR(20), PRIMARY KEY (a))")
            }
        }
    }
}

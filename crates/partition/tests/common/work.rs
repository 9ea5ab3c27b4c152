//! What clients ask for: tables, changes of the schema, and statements.

use ferrite_io::simulated::SimulatedRandom;

pub const SCHEMA: &str = "
    CREATE TABLE events (id BIGINT NOT NULL, grp INTEGER, note VARCHAR(20), body VARCHAR(5000), amount DECIMAL, ratio FLOAT,
        PRIMARY KEY (id));
    PARTITION TABLE events ON COLUMN id;
    CREATE INDEX by_group ON events (grp, note);
    CREATE UNIQUE INDEX by_id_hash ON events USING HASH (id, grp);
    CREATE INDEX some ON events (amount) WHERE grp > 2;
    CREATE TABLE kinds (k INTEGER NOT NULL PRIMARY KEY, label VARCHAR(100) NOT NULL);
    CREATE TABLE sessions (id BIGINT NOT NULL, at TIMESTAMP NOT NULL) USING TTL 5 MINUTES ON COLUMN at;
    PARTITION TABLE sessions ON COLUMN id;
    CREATE STREAM visits PARTITION ON COLUMN who (who BIGINT NOT NULL, page INTEGER);
    CREATE VIEW visits_by_page AS SELECT page, COUNT(*) AS n FROM visits GROUP BY page;
    CREATE VIEW visits_of AS SELECT who, COUNT(*) AS n FROM visits GROUP BY who;
    CREATE VIEW totals AS SELECT grp, COUNT(*) AS n, SUM(amount) AS s, MIN(note) AS low FROM events GROUP BY grp;
    CREATE VIEW everything AS SELECT COUNT(*) AS n FROM events;
    CREATE VIEW joined AS SELECT label, COUNT(*) AS n FROM events JOIN kinds ON grp = k GROUP BY label;
    CREATE PROCEDURE one PARTITION ON TABLE events COLUMN id AS SELECT * FROM events WHERE id = ?;";

/// Each is said when the one before it in its row was said last; the first after the last.
pub const CHANGES: [[&str; 2]; 6] = [
    ["ALTER TABLE events ADD COLUMN extra VARCHAR(200) DEFAULT 'none'", "ALTER TABLE events DROP COLUMN extra"],
    [
        "DROP INDEX by_group; CREATE INDEX by_group ON events (note, id)",
        "DROP INDEX by_group; CREATE INDEX by_group ON events (grp)",
    ],
    [
        "CREATE TABLE other (a INTEGER NOT NULL, b VARCHAR(900)); PARTITION TABLE other ON COLUMN a; INSERT",
        "DROP TABLE other",
    ],
    ["CREATE VIEW late AS SELECT note, COUNT(*) AS n, MAX(ratio) AS m FROM events GROUP BY note", "DROP VIEW late"],
    [
        "DROP VIEW joined; ALTER TABLE kinds RENAME TO sorts; CREATE VIEW joined AS SELECT label, COUNT(*) AS n FROM events JOIN sorts ON grp = k GROUP BY label",
        "DROP VIEW joined; ALTER TABLE sorts RENAME TO kinds; CREATE VIEW joined AS SELECT label, COUNT(*) AS n FROM events JOIN kinds ON grp = k GROUP BY label",
    ],
    ["CREATE PROCEDURE two AS SELECT COUNT(*) FROM events", "DROP PROCEDURE two"],
];

/// Some statements of one transaction. `kinds`: what that table is called at the time.
pub fn statement(random: &mut SimulatedRandom, kinds: &str) -> String {
    let (id, group, other) = (random.below(300), random.below(9), random.below(300));
    let length = random.below(4_000) as usize;
    let body = "böd".repeat(length / 3);
    let row = format!("({id}, {group}, 'n{other}', '{body}', {other}.25, {id}.5)");
    let columns = "(id, grp, note, body, amount, ratio)";
    match random.below(20) {
        0..4 => format!("INSERT INTO events {columns} VALUES {row}"),
        4..7 => format!("UPSERT INTO events {columns} VALUES {row}"),
        7 => format!("UPDATE events SET body = '{body}', grp = {group} WHERE id = {id}"),
        8 => format!("UPDATE events SET amount = amount + 1, note = NULL WHERE grp = {group}"),
        9 => format!("DELETE FROM events WHERE id = {id}"),
        10 => format!("DELETE FROM events WHERE grp = {group}; INSERT INTO events {columns} VALUES {row}"),
        11 => format!(
            "INSERT INTO events {columns} SELECT n, MOD(n, 9), 'bulk', '{}', 1, 2 FROM \
             GENERATE_SERIES({from}, {to}) AS s (n)",
            &body[..body.len().min(32)],
            from = 1_000 + 1_000 * id,
            to = 1_700 + 1_000 * id
        ),
        12 => "DELETE FROM events WHERE id > 999 AND MOD(id, 7) <> 3".to_owned(),
        13 => format!("UPSERT INTO {kinds} VALUES ({group}, 'label {other}')"),
        14 => format!("DELETE FROM {kinds} WHERE k = {group}; INSERT INTO visits VALUES ({}, {group})", id / 20),
        15 => format!("INSERT INTO visits VALUES ({}, {group})", id / 20),
        16 => format!("UPDATE visits_of SET n = n + 2 WHERE who = {group}"),
        17 => format!("DELETE FROM visits_of WHERE who < {group}"),
        // What expiry does.
        18 => format!(
            "INSERT INTO sessions VALUES ({id}, TIMESTAMP '2026-01-0{} 00:00:00'); \
             DELETE FROM sessions WHERE at < TIMESTAMP '2026-01-05 00:00:00'",
            1 + group
        ),
        _ if id < 20 => "TRUNCATE TABLE events".to_owned(),
        _ => format!("DELETE FROM sessions WHERE id < {id}"),
    }
}

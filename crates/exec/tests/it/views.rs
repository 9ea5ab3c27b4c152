//! Random views over one to three tables, random changes of every table that a view reads: after
//! each statement the view shows what its definition shows when it is computed. On one partition
//! and on three.

use crate::support::{Database, Lending};
use ferrite_base::UserResult;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    fn pick<'s>(&mut self, from: &[&'s str]) -> &'s str {
        from[self.below(from.len())]
    }
}

const TYPES: [&str; 8] =
    ["INTEGER", "BIGINT", "TINYINT", "DECIMAL", "FLOAT", "VARCHAR(8)", "VARCHAR(100)", "TIMESTAMP"];

struct Column {
    name: String,
    sql_type: &'static str,
    not_null: bool,
}

impl Column {
    fn is_number(&self) -> bool {
        !self.sql_type.starts_with('V') && self.sql_type != "TIMESTAMP"
    }

    fn value(&self, random: &mut Random) -> String {
        if !self.not_null && random.percent(25) {
            return "NULL".into();
        }
        let small = random.below(5);
        match self.sql_type {
            "DECIMAL" | "FLOAT" => format!("{small}.25"),
            "VARCHAR(8)" => format!("'{}'", random.pick(&["", "a", "b", "bb"])),
            // Some do not fit into the row.
            "VARCHAR(100)" => format!("'{}'", random.pick(&["a", "bb", "c"]).repeat([1, 20, 33][random.below(3)])),
            "TIMESTAMP" => format!("'2026-01-0{} 00:00:00'", small + 1),
            _ => (small as i64 - 1).to_string(),
        }
    }
}

struct Table {
    name: String,
    partitioned: bool,
    /// Behind ID and K, which are the primary key; K is what joins are on, and the partitioning
    /// column.
    columns: Vec<Column>,
    /// A table like it without views, to trade rows with.
    has_twin: bool,
}

impl Table {
    fn random(random: &mut Random, number: usize) -> Table {
        let column = |random: &mut Random, name: char| Column {
            name: format!("{name}{number}"),
            sql_type: TYPES[random.below(TYPES.len())],
            not_null: random.percent(60),
        };
        let columns = ['g', 'x', 'y'].map(|name| column(random, name)).into();
        Table { name: format!("t{number}"), partitioned: random.percent(50), columns, has_twin: random.percent(30) }
    }

    fn create(&self, database: &mut Database, random: &mut Random) {
        let mut names = vec![self.name.clone()];
        if self.has_twin {
            names.push(format!("{}_twin", self.name));
        }
        let index = random.percent(50);
        for name in names {
            let mut text = format!("CREATE TABLE {name} (id INTEGER NOT NULL, k INTEGER NOT NULL");
            for column in &self.columns {
                let not_null = if column.not_null { " NOT NULL" } else { "" };
                text += &format!(", {} {}{not_null}", column.name, column.sql_type);
            }
            text += ", PRIMARY KEY (id, k));";
            if self.partitioned {
                text += &format!("PARTITION TABLE {name} ON COLUMN k;");
            }
            if index {
                text +=
                    &format!("CREATE INDEX {name}_g ON {name} ({}, {});", self.columns[0].name, self.columns[1].name);
            }
            database.run(&text).expect("a table");
        }
    }

    fn values(&self, random: &mut Random) -> String {
        let mut text = format!("{}, {}", random.below(6), random.below(4));
        for column in &self.columns {
            text += &format!(", {}", column.value(random));
        }
        text
    }

    fn change(&self, random: &mut Random) -> String {
        let name = &self.name;
        let condition = |random: &mut Random| match random.below(5) {
            0 => format!("id = {}", random.below(6)),
            1 => format!("k = {}", random.below(4)),
            2 => format!("k = {} AND id < {}", random.below(4), random.below(6)),
            3 => {
                let column = &self.columns[random.below(self.columns.len())];
                let value = column.value(random);
                if value == "NULL" { format!("{} IS NULL", column.name) } else { format!("{} = {value}", column.name) }
            }
            _ => format!("MOD(id, 2) = {}", random.below(2)),
        };
        match random.below(20) {
            0..7 => format!("INSERT INTO {name} VALUES ({})", self.values(random)),
            7 => format!("INSERT INTO {name} VALUES ({}), ({})", self.values(random), self.values(random)),
            8 => format!("INSERT INTO {name} SELECT * FROM {name} WHERE id < 0"),
            9..11 => format!("UPSERT INTO {name} VALUES ({})", self.values(random)),
            11..15 => {
                let column = &self.columns[random.below(self.columns.len())];
                let mut set = format!("{} = {}", column.name, column.value(random));
                if !self.partitioned && random.percent(40) {
                    set += &format!(", k = {}", random.below(4));
                }
                format!("UPDATE {name} SET {set} WHERE {}", condition(random))
            }
            18 if random.percent(20) => format!("TRUNCATE TABLE {name}"),
            18 if random.percent(20) => format!("DELETE FROM {name}"),
            19 if self.has_twin && random.percent(50) => format!("SWAP TABLES {name} {name}_twin"),
            19 if self.has_twin => format!("INSERT INTO {name}_twin VALUES ({})", self.values(random)),
            _ => format!("DELETE FROM {name} WHERE {}", condition(random)),
        }
    }
}

/// The definition of a view, which may be one that cannot be kept up.
fn definition(random: &mut Random, tables: &[Table]) -> String {
    let mut read: Vec<&Table> = tables.iter().collect();
    while read.len() > 1 && random.percent(30) {
        read.remove(random.below(read.len()));
    }
    if random.percent(50) {
        read.reverse();
    }
    let columns: Vec<&Column> = read.iter().flat_map(|table| &table.columns).collect();
    let mut from = read[0].name.clone();
    for (number, table) in read.iter().enumerate().skip(1) {
        let other = &read[random.below(number)].name;
        let name = &table.name;
        let on = match random.below(6) {
            0 if !table.partitioned => format!("{other}.k = {name}.id"),
            1 if !table.partitioned => format!("{other}.id < {name}.id"),
            2 => format!("{other}.k = {name}.k AND {other}.id <> {name}.id"),
            _ => format!("{other}.k = {name}.k"),
        };
        from += &format!(" JOIN {name} ON {on}");
    }
    let mut groups: Vec<String> = Vec::new();
    for _ in 0..random.below(3) {
        let group = match random.below(5) {
            0..2 => format!("{}.k", read[random.below(read.len())].name),
            2 => format!("MOD({}.id, 3)", read[random.below(read.len())].name),
            _ => columns[random.below(columns.len())].name.clone(),
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let mut items = groups.clone();
    items.push("COUNT(*)".into());
    for _ in 0..1 + random.below(4) {
        let column = columns[random.below(columns.len())];
        let function = if column.is_number() {
            random.pick(&["MIN", "MAX", "SUM", "COUNT", "MIN", "MAX"])
        } else {
            random.pick(&["MIN", "MAX", "COUNT"])
        };
        let argument = match random.below(6) {
            0 if column.is_number() => format!("{} + 1", column.name),
            1 => format!("{}.id", read[random.below(read.len())].name),
            _ => column.name.clone(),
        };
        items.push(format!("{function}({argument})"));
    }
    let mut text = format!("SELECT {} FROM {from}", items.join(", "));
    if random.percent(35) {
        text += &format!(" WHERE {}.id < {}", read[random.below(read.len())].name, 3 + random.below(3));
    }
    if !groups.is_empty() {
        text += &format!(" GROUP BY {}", groups.join(", "));
    }
    text
}

/// Names for its columns.
fn named(definition: &str) -> String {
    let list = definition.split_once(" FROM ").expect("a query").0;
    let depth_zero_commas = |text: &str| {
        let mut depth = 0;
        text.chars()
            .filter(|c| {
                depth += (*c == '(') as i32 - (*c == ')') as i32;
                *c == ',' && depth == 0
            })
            .count()
    };
    (0..=depth_zero_commas(list)).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ")
}

fn sorted(database: &mut Database, query: &str) -> UserResult<Vec<Vec<String>>> {
    let mut rows = database.run(query)?.rows;
    rows.sort();
    Ok(rows)
}

/// How many views there were, and how many statements changed something.
fn run(seed: u64, partitions: u32, lending: Lending) -> (usize, usize) {
    let mut random = Random(seed);
    let mut database = Database::new(partitions, lending);
    let tables: Vec<Table> = (0..1 + random.below(3)).map(|number| Table::random(&mut random, number)).collect();
    tables.iter().for_each(|table| table.create(&mut database, &mut random));
    let mut views: Vec<(String, String)> = Vec::new();
    let mut changed = 0;
    let mut story = Vec::new();
    for step in 0..60 {
        // Views come over empty tables and over filled ones, and some go again.
        if views.len() < 3 && (step == 0 || random.percent(15)) {
            let definition = definition(&mut random, &tables);
            let name = format!("v{step}");
            let text = format!("CREATE VIEW {name} ({}) AS {definition}", named(&definition));
            if database.run(&text).is_ok() {
                story.push(text);
                views.push((name, definition));
            }
        } else if random.percent(3) && !views.is_empty() {
            let text = format!("DROP VIEW {}", views.remove(0).0);
            database.run(&text).expect("a view goes");
            story.push(text);
        }
        let table = &tables[random.below(tables.len())];
        let text = table.change(&mut random);
        story.push(text.clone());
        let told = || format!("seed {seed}, {partitions} partitions, {lending:?}:\n{}", story.join(";\n"));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.run(&text)));
        changed += done.unwrap_or_else(|_| panic!("a panic; {}", told())).is_ok() as usize;
        for (name, definition) in &views {
            let shown = sorted(&mut database, &format!("SELECT * FROM {name}")).expect("a view");
            let computed = sorted(&mut database, definition).expect("a query");
            assert_eq!(shown, computed, "view {name}; {}", told());
        }
        if step % 8 == 0 {
            database.verify();
        }
    }
    database.verify();
    (views.len(), changed)
}

#[test]
fn views_show_what_their_queries_show() {
    let (mut views, mut changed) = (0, 0);
    for seed in 0..150 {
        for (partitions, lending) in [(1, Lending::All), (3, Lending::AsRouted)] {
            let counts = run(seed, partitions, lending);
            views += counts.0;
            changed += counts.1;
        }
    }
    assert!(views > 300 && changed > 6_000, "{views} views, {changed} changes: too few to tell");
}

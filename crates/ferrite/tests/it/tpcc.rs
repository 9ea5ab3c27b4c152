//! TPC-C with one warehouse: a full load, the mix of five transactions as SQL procedures, and the
//! specification's consistency conditions 1 to 4 (clause 3.3.2), before and after the server was
//! killed.

use crate::common::{Db, Server};
use ferrite_client::{Client, ClientOptions, Prepared};
use ferrite_value::{Decimal, OwnedValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SCHEMA: &str = include_str!("../../../../examples/tpcc/schema.sql");
const PROCEDURES: &str = include_str!("../../../../examples/tpcc/procedures.sql");

const DISTRICTS: i64 = 10;
const CUSTOMERS: i64 = 3_000;
const ITEMS: i64 = 100_000;
/// Orders from here on are not delivered yet.
const FIRST_NEW: i64 = 2_101;
const CALLS: u64 = 20_000;

/// The same numbers in each run (Steele and others, SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// Clause 2.1.6, with constants of our own.
    fn skewed(&mut self, a: i64, low: i64, high: i64) -> i64 {
        (((self.between(0, a) | self.between(low, high)) + 42) % (high - low + 1)) + low
    }

    fn cents(&mut self, low: i64, high: i64) -> OwnedValue {
        let cents = self.between(low, high);
        OwnedValue::Decimal(decimal(&format!("{}.{:02}", cents / 100, cents % 100)))
    }

    fn letters(&mut self, low: i64, high: i64) -> OwnedValue {
        let length = self.between(low, high);
        text((0..length).map(|_| (b'a' + (self.next() % 26) as u8) as char).collect::<String>())
    }
}

fn decimal(digits: &str) -> Decimal {
    Decimal::parse(digits).expect("a decimal number")
}

fn text(text: impl Into<Box<str>>) -> OwnedValue {
    OwnedValue::Text(text.into())
}

fn number(number: i64) -> OwnedValue {
    OwnedValue::Integer(number)
}

/// Clause 4.3.2.3.
fn last_name(number: i64) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Calls without waiting for each; a failure fails the test.
struct Pipeline {
    client: Client,
    failed: Arc<AtomicU64>,
}

impl Pipeline {
    fn new(server: &Server) -> Pipeline {
        let mut options = ClientOptions::new([&server.address]);
        options.outstanding_max = 3_000;
        let client = Client::connect(options).expect("the server takes connections");
        Pipeline { client, failed: Arc::default() }
    }

    fn insert(&self, procedure: &Prepared, row: Vec<OwnedValue>) {
        let failed = Arc::clone(&self.failed);
        let sent = self.client.call_with_callback(procedure, row, move |result| {
            if let Err(error) = result {
                eprintln!("{error}");
                failed.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(sent.is_ok());
    }

    fn finish(self) {
        self.client.drain();
        assert_eq!(self.failed.load(Ordering::Relaxed), 0);
    }
}

fn address(random: &mut Random) -> [OwnedValue; 5] {
    [random.letters(10, 20), random.letters(10, 20), random.letters(10, 20), text("CA"), text("123411111")]
}

/// Clause 4.3.3.
fn load(server: &Server, random: &mut Random) {
    let pipeline = Pipeline::new(server);
    let insert = |table: &str| Prepared::new(&format!("{table}.insert")).expect("a short name");
    let now = OwnedValue::Timestamp(1_700_000_000_000_000);
    let [warehouse, district, customer, history] = ["WAREHOUSE", "DISTRICT", "CUSTOMER", "HISTORY"].map(insert);
    let [item, stock, orders, order_line, new_order] =
        ["ITEM", "STOCK", "ORDERS", "ORDER_LINE", "NEW_ORDER"].map(insert);
    let tax = |random: &mut Random| OwnedValue::Decimal(decimal(&format!("0.{:04}", random.between(0, 2_000))));
    let money = |digits: &str| OwnedValue::Decimal(decimal(digits));

    for id in 1..=ITEMS {
        let row =
            vec![number(id), number(random.between(1, 10_000)), random.letters(14, 24), random.cents(100, 10_000)];
        pipeline.insert(&item, [row, vec![random.letters(26, 50)]].concat());
        let row = [number(1), number(id), number(random.between(10, 100)), random.letters(24, 24)];
        let counts = [number(0), number(0), number(0), random.letters(26, 50)];
        pipeline.insert(&stock, [row, counts].concat());
    }
    let row = [vec![number(1), random.letters(6, 10)], address(random).to_vec(), vec![tax(random), money("300000.00")]];
    pipeline.insert(&warehouse, row.concat());
    for district_id in 1..=DISTRICTS {
        let start = vec![number(1), number(district_id), random.letters(6, 10)];
        let end = vec![tax(random), money("30000.00"), number(CUSTOMERS + 1)];
        pipeline.insert(&district, [start, address(random).to_vec(), end].concat());
        // Every customer has one order, in an order of their own.
        let mut buyers: Vec<i64> = (1..=CUSTOMERS).collect();
        for i in (1..buyers.len()).rev() {
            buyers.swap(i, random.between(0, i as i64) as usize);
        }
        for id in 1..=CUSTOMERS {
            let name = last_name(if id <= 1_000 { id - 1 } else { random.skewed(255, 0, 999) });
            let credit = if random.between(1, 10) == 1 { "BC" } else { "GC" };
            let start = vec![number(1), number(district_id), number(id), random.letters(8, 16), text("OE"), text(name)];
            let middle = vec![text("0123456789012345"), now.clone(), text(credit), money("50000.00")];
            let discount = OwnedValue::Decimal(decimal(&format!("0.{:04}", random.between(0, 5_000))));
            let end = vec![discount, money("-10.00"), money("10.00"), number(1), number(0), random.letters(300, 500)];
            pipeline.insert(&customer, [start, address(random).to_vec(), middle, end].concat());
            let row = [number(id), number(district_id), number(1), number(district_id), number(1), now.clone()];
            pipeline.insert(&history, [row.to_vec(), vec![money("10.00"), random.letters(12, 24)]].concat());
            let lines = random.between(5, 15);
            let delivered = id < FIRST_NEW;
            let carrier = if delivered { number(random.between(1, 10)) } else { OwnedValue::Null };
            let buyer = buyers[id as usize - 1];
            let row = [
                number(1),
                number(district_id),
                number(id),
                number(buyer),
                now.clone(),
                carrier,
                number(lines),
                number(1),
            ];
            pipeline.insert(&orders, row.to_vec());
            if !delivered {
                pipeline.insert(&new_order, vec![number(1), number(district_id), number(id)]);
            }
            for line in 1..=lines {
                let when = if delivered { now.clone() } else { OwnedValue::Null };
                let amount = if delivered { money("0.00") } else { random.cents(1, 999_999) };
                let row = [number(1), number(district_id), number(id), number(line), number(random.between(1, ITEMS))];
                let rest = [number(1), when, number(5), amount, random.letters(24, 24)];
                pipeline.insert(&order_line, [row, rest].concat());
            }
        }
    }
    pipeline.finish();
}

/// How often each transaction was acknowledged: new orders, those that aborted, payments, order
/// statuses, deliveries, stock levels.
#[derive(Default)]
struct Told {
    new_orders: AtomicU64,
    aborted: AtomicU64,
    others: AtomicU64,
    wrong: AtomicU64,
}

/// The mix of clause 5.2.3; one new order in a hundred asks for an item that is not there (clause
/// 2.4.1.4).
fn run(server: &Server, random: &mut Random) -> Arc<Told> {
    let pipeline = Pipeline::new(server);
    let told = Arc::new(Told::default());
    let names = ["NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel"];
    let procedures = names.map(|name| Prepared::new(name).expect("a short name"));
    for _ in 0..CALLS {
        let district = number(random.between(1, DISTRICTS));
        let mut customer = number(random.skewed(1_023, 1, CUSTOMERS));
        let mut name = OwnedValue::Null;
        if random.between(1, 100) <= 60 {
            name = text(last_name(random.skewed(255, 0, 999)));
            customer = OwnedValue::Null;
        }
        let (procedure, parameters) = match random.between(1, 100) {
            1..=45 => {
                let lines = random.between(5, 15);
                let mut items: Vec<i64> = (0..lines).map(|_| random.skewed(8_191, 1, ITEMS)).collect();
                if random.between(1, 100) == 1 {
                    items[lines as usize - 1] = ITEMS + 1;
                }
                let quantities: Vec<i64> = (0..lines).map(|_| random.between(1, 10)).collect();
                let customer = number(random.skewed(1_023, 1, CUSTOMERS));
                let lines = [text(format!("{items:?}")), text(format!("{quantities:?}"))];
                (0, [vec![number(1), district, customer], lines.to_vec()].concat())
            }
            46..=88 => (1, vec![number(1), district, customer, name, random.cents(100, 500_000)]),
            89..=92 => (2, vec![number(1), district, customer, name]),
            93..=96 => (3, vec![number(1), number(random.between(1, 10))]),
            _ => (4, vec![number(1), district, number(random.between(10, 20))]),
        };
        let told = Arc::clone(&told);
        let sent = pipeline.client.call_with_callback(&procedures[procedure], parameters, move |result| {
            let counter = match result {
                Ok(_) if procedure == 0 => &told.new_orders,
                Ok(_) => &told.others,
                Err(error) if error.to_string().contains("item number is not valid") => &told.aborted,
                Err(error) => {
                    eprintln!("{}: {error}", names[procedure]);
                    &told.wrong
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert!(sent.is_ok());
    }
    pipeline.finish();
    told
}

/// Clause 3.3.2.1 to 3.3.2.4: each query answers the violations.
fn check(db: &Db) {
    let conditions = [
        "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)",
        "SELECT COUNT(*) FROM district WHERE
            d_next_o_id - 1 <> (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
            OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)",
        "SELECT COUNT(*) FROM (SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id
            HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) AS gaps",
        "SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS lines FROM orders GROUP BY o_w_id, o_d_id) AS o
            JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id) AS l
            ON o_w_id = ol_w_id AND o_d_id = ol_d_id WHERE o.lines <> l.lines",
    ];
    for (number, violations) in conditions.iter().enumerate() {
        assert_eq!(db.scalar(violations), 0, "condition {}", number + 1);
    }
}

#[test]
fn the_mix_keeps_the_consistency_conditions_also_after_a_kill() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--partitions", "2"]);
    let db = server.connect();
    db.sql(SCHEMA);
    db.sql(PROCEDURES);
    let mut random = Random(20_261_121);
    load(&server, &mut random);
    check(&db);
    let orders = db.scalar("SELECT COUNT(*) FROM orders");
    assert_eq!(orders, DISTRICTS * CUSTOMERS);

    let told = run(&server, &mut random);
    assert_eq!(told.wrong.load(Ordering::Relaxed), 0);
    let (new_orders, aborted) = (told.new_orders.load(Ordering::Relaxed), told.aborted.load(Ordering::Relaxed));
    assert!(new_orders > CALLS / 3 && aborted > 0, "{new_orders} new orders, {aborted} aborted");
    assert_eq!(new_orders + aborted + told.others.load(Ordering::Relaxed), CALLS);
    check(&db);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM orders"), orders + new_orders as i64);

    server.kill();
    let server = Server::start(&data, &["--partitions", "2"]);
    let db = server.connect();
    check(&db);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM orders"), orders + new_orders as i64);
    server.stop();
}

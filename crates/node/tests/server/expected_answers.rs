//! Calls that wait long, of many connections: the answers that they may have one day take nobody's
//! place.

use crate::common::raw::{Raw, call};
use crate::common::{connect, options, start};
use ferrite_base::limits::CONNECTION_FIRST_CALLS_MAX;
use ferrite_client::Status;
use ferrite_node::Stopped;
use ferrite_value::OwnedValue;
use std::thread;
use std::time::Duration;

#[test]
fn whoever_comes_is_read_however_many_wait_for_a_partition_that_does_not_end() {
    const CONNECTIONS: i64 = 20;
    const CALLS: i64 = CONNECTION_FIRST_CALLS_MAX as i64;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 2);
    options.query_time_max = Duration::from_secs(3_600);
    options.settings.stop_seconds = 3_600;
    // A machine with other things to do takes its time to interrupt a call.
    options.settings.stop_grace = Duration::from_secs(60);
    let server = start(options);
    let db = connect(&server);
    db.sql(
        "CREATE TABLE t (id BIGINT NOT NULL, n BIGINT); PARTITION TABLE t ON COLUMN id;
            CREATE PROCEDURE Put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?, ?);
            CREATE PROCEDURE Spin (key BIGINT) PARTITION ON TABLE t COLUMN id AS BEGIN
                DECLARE done BIGINT DEFAULT 0;
                WHILE done >= 0 DO SET done = done + 1; END WHILE;
            END;",
    );
    let response = db.call("@GetPartitionKeys", ("INTEGER",));
    let [busy, free] = [0, 1].map(|row| match response.tables[0].rows[row][1] {
        OwnedValue::Integer(key) => key,
        ref other => panic!("not a key: {other:?}"),
    });
    drop(db);
    let waiting: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| {
            let mut calls = call("Spin", 0, &(busy,));
            (1..CALLS - 1).for_each(|number| calls.extend(call("Put", number, &(busy, number))));
            calls.extend(call("@Ping", -1, &()));
            let mut raw = Raw::connect(server.address());
            raw.send(&calls);
            // The server has taken all of them when it answers the last.
            assert_eq!(raw.answer().map(|(number, status, _)| (number, status)), Some((-1, 1)));
            raw
        })
        .collect();
    let mut new = Raw::connect(server.address());
    let mut calls = call("Put", 1, &(busy, 1i64));
    calls.extend(call("Put", 2, &(free, 1i64)));
    new.send(&calls);
    assert_eq!(new.answer().map(|(number, status, _)| (number, status)), Some((2, 1)), "the other partition is free");

    // The end: what waits is answered, too.
    let insist = server.insist();
    let ending = thread::spawn(move || server.stop());
    insist.insist();
    for mut raw in waiting {
        let answers: Vec<_> = std::iter::from_fn(|| raw.answer()).collect();
        assert_eq!(answers.len() as i64, CALLS - 1, "each call has its answer");
        assert!(answers.iter().all(|(_, status, _)| *status == Status::ServerUnavailable as i8), "{answers:?}");
    }
    assert_eq!(ending.join().expect("it ends").expect("the log is closed"), Stopped::Wholly);
}

//! Calls with wrong parameters among good ones, many in one piece, so that they run as one batch:
//! each is answered on its own, and the good ones as if the others were not there.

use crate::common::raw::{Raw, call};
use crate::common::{CONTESTANTS, VOTER, connect, options, start, votes};
use ferrite_client::Status;
use ferrite_value::{Decimal, Value};
use std::collections::BTreeMap;

const SCHEMA: &str = "
    CREATE TABLE pair (one BIGINT NOT NULL, two VARCHAR(20) NOT NULL, PRIMARY KEY USING HASH (one, two));
    PARTITION TABLE pair ON COLUMN one;
    CREATE TABLE word (word VARCHAR(20) NOT NULL, n TINYINT, PRIMARY KEY USING HASH (word));
    PARTITION TABLE word ON COLUMN word;";

/// Every sort of value where a number or a word is expected.
fn values() -> Vec<Value<'static>> {
    let long: &'static str = Box::leak("x".repeat(5_000).into_boxed_str());
    vec![
        Value::Null,
        Value::Integer(0),
        Value::Integer(-1),
        Value::Integer(i64::MAX),
        Value::Text(""),
        Value::Text("5551234567"),
        Value::Text("no number"),
        Value::Text(long),
        Value::Bytes(&[]),
        Value::Bytes(&[0xff; 9]),
        Value::Float(1.5),
        Value::Float(f64::NAN),
        Value::Float(1e300),
        Value::Timestamp(0),
        Value::Decimal(Decimal::from_i64(7)),
        Value::Array(&[Value::Integer(1), Value::Integer(2)]),
    ]
}

#[test]
fn wrong_parameters_in_a_batch_harm_their_own_call_only() {
    for partitions in [1, 3] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let server = start(options(dir.path(), partitions));
        let db = connect(&server);
        db.sql(VOTER);
        db.sql(CONTESTANTS);
        db.sql(SCHEMA);
        let mut bytes = Vec::new();
        let mut good = Vec::new();
        let mut sent = 0i64;
        let values = values();
        for first in &values {
            for second in &values {
                for procedure in ["Vote", "PAIR.insert", "PAIR.select", "WORD.upsert", "WORD.delete", "ACCOUNT.update"]
                {
                    bytes.extend_from_slice(&call(procedure, sent, &(*first,)));
                    bytes.extend_from_slice(&call(procedure, sent + 1, &(*first, *second)));
                    bytes.extend_from_slice(&call(procedure, sent + 2, &(*first, *second, *first)));
                    sent += 3;
                }
                bytes.extend_from_slice(&call("Vote", sent, &(5_550_000_000 + sent, 1i32, 1i64)));
                good.push(sent);
                sent += 1;
            }
        }
        let mut raw = Raw::connect(server.address());
        let mut reading = Raw(raw.0.try_clone().expect("a socket has a second handle"));
        let answers: BTreeMap<i64, (i8, String)> = std::thread::scope(|scope| {
            scope.spawn(|| raw.send(&bytes));
            (0..sent)
                .map(|_| {
                    let (handle, status, text) = reading.answer().expect("every call is answered");
                    (handle, (status, text))
                })
                .collect()
        });
        assert_eq!(answers.len() as i64, sent, "once each");
        for handle in &good {
            assert_eq!(answers[handle].0, Status::Success.code(), "{:?}", answers[handle]);
        }
        for (status, text) in answers.values() {
            // A user abort where the partitioning column would change.
            let failures = [Status::GracefulFailure.code(), Status::UserAbort.code()];
            let failed = failures.contains(status) && !text.is_empty();
            assert!(failed || *status == Status::Success.code(), "{status}: {text}");
        }
        assert!(votes(&db)[0] >= good.len() as i64);
        assert_eq!([votes(&db)[0]; 3], votes(&db));
        server.stop().expect("the log is closed");
    }
}

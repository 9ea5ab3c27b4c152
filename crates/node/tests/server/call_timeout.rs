//! Calls that say how long they may execute: in whichever way they run, they end by their own time,
//! and leave no trace.

use crate::common::Db;
use crate::common::raw::Raw;
use crate::endless::{self, ACCOUNTS, ENDLESS, RECURSION};
use ferrite_client::Status;
use ferrite_node::Server;
use ferrite_wire::{Extensions, ParameterSet, invocation};
use std::net::SocketAddr;
use std::time::Duration;

fn accounts(partitions: u32, query_time_max: Duration) -> (tempfile::TempDir, Server, Db) {
    endless::accounts(partitions, |options| {
        options.query_time_max = query_time_max;
        options.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    })
}

fn call_within(raw: &mut Raw, timeout_ms: i32, more: Extensions, procedure: &str, parameters: &impl ParameterSet) {
    let mut bytes = Vec::new();
    let extensions = Extensions { batch_timeout_ms: Some(timeout_ms), ..more };
    invocation::write_call_with(&mut bytes, procedure, 7, &extensions, parameters).expect("it fits a frame");
    raw.send(&bytes);
}

/// The layout that has nothing but the timeout.
fn call_by_layout_1(raw: &mut Raw, timeout_ms: i32, procedure: &str, parameters: &impl ParameterSet) {
    let mut body = vec![1, 1];
    body.extend_from_slice(&timeout_ms.to_be_bytes());
    body.extend_from_slice(&(procedure.len() as i32).to_be_bytes());
    body.extend_from_slice(procedure.as_bytes());
    body.extend_from_slice(&7i64.to_be_bytes());
    parameters.write_set(&mut body).expect("they can be encoded");
    raw.send(&(body.len() as u32).to_be_bytes());
    raw.send(&body);
}

fn interrupted(raw: &mut Raw, by: &str) {
    let (handle, status, text) = raw.answer().expect("an answer");
    assert_eq!((handle, status), (7, Status::GracefulFailure.code()), "{text}");
    assert!(text.contains("Transaction Interrupted") && text.contains(by), "expected {by:?} in {text:?}");
}

#[test]
fn a_call_ends_by_its_own_time_however_it_runs() {
    // No other limit would end them within the test's time.
    for partitions in [1, 3] {
        let (_dir, server, db) = accounts(partitions, Duration::from_secs(3_600));
        let mut raw = Raw::connect(server.address());
        let own = "longer than the 20 ms that the call was given";
        let none = Extensions::default();
        let by_key = format!("{ENDLESS} AND a.id = 7 AND b.id = 7 AND c.id + d.id < ?");
        for round in 0..2 {
            // The second time its plan is at hand.
            call_within(&mut raw, 20, none, "@AdHoc", &(format!("{ENDLESS} AND a.id <> {round}"),));
            interrupted(&mut raw, own);
            call_within(&mut raw, 20, none, "@AdHoc", &(by_key.as_str(), 1_000_000i64));
            let (_, status, text) = raw.answer().expect("an answer");
            assert!(status == Status::Success.code() || text.contains(own), "{text}");
            call_within(&mut raw, 20, none, "@AdHoc", &(RECURSION,));
            interrupted(&mut raw, own);
            call_by_layout_1(&mut raw, 20, "@AdHoc", &(ENDLESS,));
            interrupted(&mut raw, own);
            call_within(&mut raw, 20, none, "@AdHocSpForTest", &(ENDLESS, 1i64));
            interrupted(&mut raw, own);
            call_within(&mut raw, 20, none, "Report", &());
            interrupted(&mut raw, own);
            call_by_layout_1(&mut raw, 20, "Spin", &(5i64,));
            interrupted(&mut raw, own);
            call_within(&mut raw, 20, none, "SpinEverywhere", &());
            interrupted(&mut raw, own);
            let there = Extensions { destination: Some(0), all_partition: true, ..none };
            call_within(&mut raw, 20, there, "SpinHere", &(0i64, 1i64));
            interrupted(&mut raw, own);
        }
        // What was sent before goes before; what does not take long is answered, and refused in the
        // usual words.
        raw.call("ACCOUNT.delete", 1, &(5i64,));
        call_within(&mut raw, 3_000_000, none, "ACCOUNT.insert", &(5i64, 1_000i64));
        assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((1, Status::Success.code())));
        assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((7, Status::Success.code())));
        call_within(&mut raw, 20, none, "ACCOUNT.insert", &(5i64,));
        assert!(raw.answer().expect("an answer").2.contains("EXPECTS 2 PARAMS, BUT RECEIVED 1"));
        call_within(&mut raw, 20, none, "Nowhere", &(5i64,));
        assert!(raw.answer().expect("an answer").2.contains("Nowhere was not found"));
        assert_eq!(db.scalar("SELECT SUM(balance) FROM account"), 1_000 * ACCOUNTS, "nothing is left of them");
        server.stop().expect("the log is closed");
    }
}

#[test]
fn only_an_administrator_may_take_longer_than_the_server_has_it() {
    // Compiling is timed too, on a machine that may be busy.
    let (_dir, server, _db) = accounts(2, Duration::from_millis(150));
    let none = Extensions::default();
    let mut raw = Raw::connect(server.address());
    for timeout_ms in [300, 3_600_000, 0, -1, i32::MIN] {
        for procedure in ["Report", "SpinEverywhere"] {
            call_within(&mut raw, timeout_ms, none, procedure, &());
            interrupted(&mut raw, "--query-timeout");
        }
        call_within(&mut raw, timeout_ms, none, "@AdHoc", &(ENDLESS,));
        interrupted(&mut raw, "--query-timeout");
    }
    let mut admin = Raw::connect(server.admin_address().expect("there is one"));
    call_within(&mut admin, 200, none, "Report", &());
    interrupted(&mut admin, "the 200 ms that the call was given");
    call_within(&mut admin, 210, none, "@AdHoc", &(ENDLESS,));
    interrupted(&mut admin, "the 210 ms that the call was given");
    call_within(&mut admin, 0, none, "@AdHoc", &(ENDLESS,));
    interrupted(&mut admin, "--query-timeout");
    server.stop().expect("the log is closed");
}

//! A leader that clients reach and no other node does: here all others stand still, and so does
//! their answer to anything.

use super::{Cluster, PATIENCE, TABLE};
use ferrite_client::{Client, ClientError, ClientOptions, Status};

/// The status of an answer.
fn status(outcome: Result<(), ClientError>) -> Option<Status> {
    match outcome {
        Ok(()) => Some(Status::Success),
        Err(ClientError::Failed(response)) => response.status(),
        Err(error) => panic!("the connection is up, and is answered: {error}"),
    }
}

/// Of an answer to a call that failed: its status, and the words by which applications that were
/// written for VoltDB know what has happened.
fn failure(outcome: Result<(), ClientError>) -> (Option<Status>, Option<&'static str>) {
    let Err(ClientError::Failed(response)) = outcome else { panic!("it is up, and refuses: {outcome:?}") };
    let text = response.status_text.clone().unwrap_or_default();
    (response.status(), [DROPPED, NEVER_STARTED].into_iter().find(|words| text.starts_with(words)))
}

const DROPPED: &str = "Transaction dropped due to change in mastership. It is possible the transaction was committed";
const NEVER_STARTED: &str = "VoltDB failed to create the transaction internally: it should be safe to resend the work, \
     as the work was never started";
const NOT_KNOWN: (Option<Status>, Option<&str>) = (Some(Status::ResponseUnknown), Some(DROPPED));
const REFUSED: (Option<Status>, Option<&str>) = (Some(Status::ServerUnavailable), Some(NEVER_STARTED));

/// A cluster with a second copy and so many rows, and a client of its leader alone.
fn led_by_the_first(options: &[&str], rows: i64) -> (Cluster, Client) {
    let mut cluster = Cluster::start_with(3, 1, options);
    cluster.statement(TABLE);
    cluster.write(rows);
    let first = cluster.nodes[0].as_ref().expect("it runs");
    first.lines.wait("is kept by 2 nodes");
    assert_eq!(cluster.leader(), 0);
    let client = client_of_the_first(&cluster);
    (cluster, client)
}

fn client_of_the_first(cluster: &Cluster) -> Client {
    let address = cluster.nodes[0].as_ref().expect("it runs").server.address.clone();
    // Calls wait as long as they must, and a connection whose pings are answered is not given up.
    let options =
        ClientOptions { affinity: false, discover: false, call_timeout: PATIENCE, ..ClientOptions::new([address]) };
    Client::connect(options).expect("it is up")
}

#[test]
fn a_leader_that_is_cut_off_answers_and_leads_no_more() {
    let (mut cluster, client) = led_by_the_first(&[], 20);
    let said = cluster.nodes[0].as_ref().expect("it runs").lines.clone();
    let write = |id: i64| status(client.call_blocking("T.upsert", (id, 3 * id)).map(drop));
    let read = || status(client.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t",)).map(drop));
    assert_eq!((write(100), read()), (Some(Status::Success), Some(Status::Success)));
    let others = || cluster.running().filter(|(place, _)| *place != 0).map(|(_, node)| &node.server);
    others().for_each(|server| server.signal("STOP"));
    let call = |procedure: &str, id: i64| failure(client.call_blocking(procedure, (id, 3 * id)).map(drop));
    assert_eq!(call("T.upsert", 101), NOT_KNOWN, "nobody can know whether it will be there");
    said.wait("it gives up leadership of group 0");
    // What is under way while it steps back is unknown. Who has refused a call refuses all.
    let query = || failure(client.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t",)).map(drop));
    for first in [call("T.upsert", 102), query()] {
        assert!(first == REFUSED || first == NOT_KNOWN, "nothing is acknowledged: {first:?}");
    }
    assert_eq!((call("T.upsert", 102), query()), (REFUSED, REFUSED), "nothing is executed");
    cluster.await_words(
        0,
        &["group 0: no node is known to lead (epoch ", "no majority of the voters can be reached from here"],
    );
    others().for_each(|server| server.signal("CONT"));
    cluster.write(20);
    cluster.check();
}

/// Longer than any test waits.
const QUERY_SECONDS: &str = "1800";

#[test]
fn what_a_leader_executes_when_it_is_cut_off_holds_up_nobody() {
    let (mut cluster, client) = led_by_the_first(&["--query-timeout", QUERY_SECONDS], 400);
    // With all partitions, and for days.
    let text = "UPDATE t SET v = v + (SELECT COUNT(*) * 0 FROM t a, t b, t c, t d WHERE a.v * b.v + c.v <> d.v)";
    let running = client.call("@AdHoc", (text,));
    let others = || cluster.running().filter(|(place, _)| *place != 0).map(|(_, node)| &node.server);
    others().for_each(|server| server.signal("STOP"));
    let answer = status(running.wait().map(drop));
    assert!(matches!(answer, Some(Status::ResponseUnknown | Status::ServerUnavailable)), "{answer:?}");
    others().for_each(|server| server.signal("CONT"));
    cluster.write(20);
    cluster.check();
}

#[test]
fn the_only_copy_answers_nothing_once_others_could_go_on_without_it() {
    let mut cluster = Cluster::start_with(3, 0, &[]);
    cluster.statement(TABLE);
    cluster.write(20);
    assert_eq!(cluster.leader(), 0);
    let client = client_of_the_first(&cluster);
    let said = cluster.nodes[0].as_ref().expect("it runs").lines.clone();
    let write = |id: i64| status(client.call_blocking("T.upsert", (id, 3 * id)).map(drop));
    let read = || status(client.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t",)).map(drop));
    let others = || cluster.running().filter(|(place, _)| *place != 0).map(|(_, node)| &node.server);
    others().for_each(|server| server.signal("STOP"));
    // It needs nobody's disk. It is refused as soon as it cannot know whether it still leads.
    let mut last = write(100);
    while last == Some(Status::Success) {
        last = write(100);
    }
    assert!(matches!(last, Some(Status::ResponseUnknown | Status::ServerUnavailable)), "{last:?}");
    said.wait("which could let another node lead: it gives up leadership of group 0");
    // What comes while it steps back is unknown.
    for first in [write(101), read()] {
        assert!(matches!(first, Some(Status::ResponseUnknown | Status::ServerUnavailable)), "{first:?}");
    }
    let refused = Some(Status::ServerUnavailable);
    assert_eq!((write(102), read()), (refused, refused), "nothing is executed");
    others().for_each(|server| server.signal("CONT"));
    cluster.write(20);
    cluster.check();
}

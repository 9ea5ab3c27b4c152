//! A node on which procedures cannot run: it keeps the data and says what it lacks, and leads only
//! where no other node can (docs/decisions/0102-nodes-without-java.md).

use super::groups::spread_with;
use super::{Cluster, Lines, PATIENCE, TABLE};
use crate::common::{Db, Server};
use crate::java;
use ferrite_client::OwnedValue;
use std::time::Instant;

const TRIPLE: &str = "import org.voltdb.*;
public class Triple extends VoltProcedure {
    public final SQLStmt put = new SQLStmt(\"UPSERT INTO t VALUES (?, ?)\");
    public long run(long id) {
        voltQueueSQL(put, id, 3 * id);
        voltExecuteSQL(true);
        return 3 * id;
    }
}";
/// With which no JVM begins, as without a JDK.
const WITHOUT_JVM: [&str; 2] = ["--java-options", "-XX:NoSuchOption"];
const LACKS: &str = "java: procedures cannot run, see the node's events";

impl Cluster {
    fn lines(&self, place: usize) -> &Lines {
        &self.nodes[place].as_ref().expect("it runs").lines
    }

    fn start_again_without_jvm(&mut self, place: usize) {
        let server = Server::start(&self.dir(place), &WITHOUT_JVM);
        self.runs(place, server);
        self.lines(place).wait("procedure Triple cannot run on this node: the JVM cannot be used");
        self.await_whole(2);
    }

    /// What a node's status says, as soon as it has these words.
    fn status_with(&self, place: usize, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, said) = self.admin(place, &["status"]);
            if said.contains(words) {
                return said;
            }
            assert!(Instant::now() < deadline, "in vain for '{words}': {said}");
        }
    }

    /// An operator cannot make that node lead, for this reason. The process that it was before may
    /// count as the member until its leader notices: then it has no complete copy for a moment.
    fn is_refused(&self, to: &str, reason: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (done, said) = self.transfer_through(0, &["--to", to]);
            assert!(!done, "{said}");
            if said.contains(reason) {
                return;
            }
            assert!(said.contains("has no complete copy at the moment") && Instant::now() < deadline, "{said}");
        }
    }

    /// The procedure runs where the cluster is led.
    fn triples(&self, id: i64) {
        let (_, response) = self.on_any("the procedure", |db| db.0.call_blocking("Triple", (id,)).ok());
        assert_eq!(response.tables[0].rows[0][0], OwnedValue::Integer(3 * id));
    }
}

#[test]
fn a_node_on_which_procedures_cannot_run_leads_only_where_no_other_can() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = java::procedure(folder.path(), "Triple", TRIPLE) else { return };
    let mut cluster = Cluster::start(3, 2);
    cluster.statement(TABLE);
    let jar = OwnedValue::Bytes(jar.into());
    cluster.on_any("the classes", |db| db.0.call_blocking("@UpdateClasses", (jar.clone(), OwnedValue::Null)).ok());
    cluster.statement("CREATE PROCEDURE FROM CLASS Triple");
    cluster.triples(1);
    cluster.await_whole(2);
    assert_eq!(cluster.leader(), 0);
    cluster.kill(1);
    cluster.start_again_without_jvm(1);
    let said = cluster.status_with(0, LACKS);
    assert!(said.contains(&format!("node 2 lacks {LACKS}")) && said.contains("state: degraded"), "{said}");
    let (_, json) = cluster.admin(2, &["status", "--json"]);
    assert!(json.contains(&format!("\"lacks\": \"{LACKS}\"")), "{json}");
    // An operator cannot make it lead, and another is chosen where none is named.
    cluster.is_refused("2", "node 2 cannot run all procedures of the database, and another member can");
    let (done, said) = cluster.transfer_through(0, &[]);
    assert!(done && said.contains("node 3 leads"), "{said}");
    cluster.triples(2);
    // Nor does it follow a leader that is killed.
    cluster.await_whole(2);
    cluster.kill(2);
    cluster.triples(3);
    assert_eq!(cluster.leader(), 0);
    // Where the only one that can ends, it leads: data are read and written.
    cluster.start_again_without_jvm(2);
    cluster.nodes[0].take().expect("it runs").server.stop();
    cluster.write(5);
    assert_ne!(cluster.leader(), 0);
    let (_, refused) = cluster.on_any("a refusal", |db| {
        let error = db.0.call_blocking("Triple", (4,)).err()?.to_string();
        error.contains("JVM").then_some(error)
    });
    assert!(refused.contains("the JVM cannot be used"), "{refused}");
    // And no longer than until that one is back.
    let leader = cluster.leader();
    cluster.start_again(0);
    cluster
        .lines(leader)
        .wait("procedures cannot run on this node: handing leadership over to node 1, which can run them");
    cluster.triples(5);
    cluster.lines(leader).wait("this node has handed group 0 over to node 1");
    cluster.write(5);
    cluster.check();
}

#[test]
fn all_nodes_have_to_be_able_to_run_a_procedure_where_each_leads() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = java::procedure(folder.path(), "Triple", TRIPLE) else { return };
    let mut cluster = spread_with(TABLE, &[]);
    cluster.await_places(0);
    cluster.kill(2);
    let server = Server::start(&cluster.dir(2), &WITHOUT_JVM);
    cluster.runs(2, server);
    cluster.await_places(0);
    let jar = OwnedValue::Bytes(jar.into());
    let load = |db: &Db| db.0.call_blocking("@UpdateClasses", (jar.clone(), OwnedValue::Null));
    cluster.on(0, "the classes", |db| load(db).ok());
    let create = "CREATE PROCEDURE PARTITION ON TABLE t COLUMN id FROM CLASS Triple";
    let refused = cluster.on(0, "a refusal", |db| {
        let error = db.0.call_blocking("@AdHoc", (create,)).expect_err("one node cannot run it").to_string();
        error.contains("JVM").then_some(error)
    });
    let words = "(node 3) cannot make the change: procedure Triple: the JVM cannot be used";
    assert!(refused.contains(words), "{refused}");
    // Nobody has made it, and the next one is made.
    cluster.on(1, "no procedure", |db| db.0.call_blocking("Triple", (1,)).err());
    cluster.on(1, "another change", |db| db.0.call_blocking("@AdHoc", ("CREATE TABLE other (a INTEGER)",)).ok());
    cluster.kill(2);
    cluster.start_again(2);
    cluster.await_places(0);
    cluster.on(0, "the procedure", |db| db.0.call_blocking("@AdHoc", (create,)).ok());
    for id in 0..12 {
        let answer = cluster.on(2, "a call", |db| db.0.call_blocking("Triple", (id,)).ok());
        assert_eq!(answer.scalar(), Some(3 * id));
    }
}

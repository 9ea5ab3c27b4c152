package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;

/**
 * Procedures that are no transactions and whose calls are futures, loaded and called by the
 * published client.
 */
class NonTransactionalTest {
    private static final String SCHEMA = "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));"
            + "PARTITION TABLE accounts ON COLUMN id;"
            + "CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id));";
    private static final String PROCEDURES = "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Open;"
            + "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Deposit;"
            + "CREATE DIRECTED PROCEDURE Richer AS SELECT COUNT(*) FROM accounts WHERE balance > ?;"
            + "CREATE PROCEDURE Everywhere AS SELECT COUNT(*) FROM accounts;"
            + "CREATE COMPOUND PROCEDURE FROM CLASS app.Stages;"
            + "CREATE PROCEDURE FROM CLASS app.NonTransactional;"
            + "CREATE PROCEDURE FROM CLASS app.Raise;"
            + "CREATE PROCEDURE FROM CLASS app.EachPartition;"
            + "CREATE PROCEDURE FROM CLASS app.Waits;"
            + "CREATE PROCEDURE FROM CLASS app.Futures;"
            + "CREATE PROCEDURE FROM CLASS app.Slow;";
    private static Database db;

    @BeforeAll
    static void start() throws Exception {
        db = new Database(Server.withVoter(3)).with(SCHEMA, PROCEDURES);
    }

    @AfterAll
    static void stop() throws Exception {
        if (db != null) {
            db.close();
        }
    }

    @Test
    void callsAreChained() throws Exception {
        db.call("Open", 700, 25);
        assertEquals(50, db.number("Raise", 700));
        assertEquals(100, db.number("Raise", 700));
        ClientResponse none = db.call("Raise", 701);
        assertEquals(4, none.getAppStatus());
        assertEquals("there is no account 701", none.getAppStatusString());
        assertEquals(0, none.getResults()[0].getRowCount());
        db.refused(ClientResponse.GRACEFUL_FAILURE, "EXPECTS 1 PARAMS, BUT RECEIVED 0", "Raise");

        assertEquals(7, db.number("NonTransactional"));
        assertEquals(5, db.number("Futures", "number"));
        assertEquals(0, db.call("Futures", "no result").getResults().length);
        assertEquals(11, db.number("Futures", "chain"));
        assertEquals(2, db.call("Futures", "tables").getResults().length);
        assertEquals(8, db.number("Futures", "answer"));
        assertEquals(49 * 50 / 2, db.number("Futures", "many"));
        assertEquals(3, db.number("Futures", "any"));
        assertEquals(9, db.number("Futures", "asynchronous"));
        assertEquals(7, db.number("Futures", "from another thread"));
        assertEquals(1, db.number("Futures", "cancelled"));
        ClientResponse status = db.call("Futures", "status");
        assertEquals(11, status.getAppStatus());
        assertEquals("eleven", status.getAppStatusString());
        // Its answer tells that all that it has called is done, whoever has waited for it.
        assertEquals(1, db.number("Futures", "nobody waits"));
        assertEquals(7, db.number("@AdHoc", "SELECT balance FROM accounts WHERE id = 901"));
    }

    @Test
    void answersAreWaitedFor() throws Exception {
        assertEquals(5, db.number("Waits", "get"));
        assertEquals(6, db.number("Waits", "timed"));
        assertEquals(190, db.number("Waits", "one after the other"));
        assertEquals(300, db.number("Waits", "all"));
        assertEquals(6, db.number("Waits", "in what depends"));
        assertEquals(45, db.number("Waits", "derived"));
        assertEquals(-1, db.number("Waits", "a failure"));
    }

    @Test
    void eachPartitionIsCalled() throws Exception {
        VoltTable ten = new VoltTable(new VoltTable.ColumnInfo("P", VoltType.BIGINT));
        ten.addRow(10);
        VoltTable empty = new VoltTable(new VoltTable.ColumnInfo("P", VoltType.BIGINT));
        for (long id = 1; id <= 30; id++) {
            db.call("Open", id, id);
        }
        VoltTable directed = db.call("EachPartition", "Richer", ten).getResults()[0];
        assertEquals(3, directed.getRowCount());
        long sum = 0;
        for (int i = 0; directed.advanceRow(); i++) {
            assertEquals(i, directed.getLong("PARTITION"));
            assertEquals(1, directed.getLong("STATUS"));
            sum += directed.getLong("NUMBER");
        }
        assertEquals(db.number("@AdHoc", "SELECT COUNT(*) FROM accounts WHERE balance > 10"), sum);
        // The key is the parameter that it is partitioned by; the accounts with these numbers may
        // be there.
        VoltTable selected = db.call("EachPartition", "ACCOUNTS.delete", empty).getResults()[0];
        assertEquals(3, selected.getRowCount());
        while (selected.advanceRow()) {
            assertEquals(1, selected.getLong("STATUS"));
            assertEquals(0, db.number("@AdHoc", "SELECT COUNT(*) FROM accounts WHERE id = " + selected.getLong("KEY")));
        }
        VoltTable refused = db.call("EachPartition", "Everywhere", empty).getResults()[0];
        while (refused.advanceRow()) {
            assertEquals(-2, refused.getLong("STATUS"));
        }
    }

    @Test
    void faultsAreToldWithTheirStack() throws Exception {
        String[][] cases = {
            {"throws", "run failed\n    at app.Futures.run(Futures.java:"}, {"fails", "java.io.IOException: it was told to"},
            {"what depends throws", "java.lang.ArithmeticException: / by zero\n    at app.Futures.divide(Futures.java:"},
            {"overflows", "StackOverflowError"}, {"null", "returned null in the place of a future"},
            {"a wrong value", "an object of type java.lang.String"}, {"a wrong parameter", "java.lang.Object"},
            {"no name", "null for a procedure's name"}, {"failed answer", "Procedure Nothing was not found"},
        };
        for (String[] one : cases) {
            db.refused(ClientResponse.UNEXPECTED_FAILURE, one[1], "Futures", one[0]);
        }
        db.refused(ClientResponse.USER_ABORT, "as it wished", "Futures", "aborts");
        db.refused(ClientResponse.USER_ABORT, "nothing to deposit", "Futures", "aborted answer");
        db.refused(ClientResponse.GRACEFUL_FAILURE, "was called by a procedure that does", "Futures", "compound");
        db.refused(ClientResponse.GRACEFUL_FAILURE, "was called by a procedure that does", "Futures", "itself");
        db.refused(ClientResponse.UNEXPECTED_FAILURE, "after a call\n    at app.Waits.run(Waits.java:", "Waits", "throws");
        assertEquals(1, db.number("@AdHoc", "SELECT COUNT(*) FROM accounts WHERE id = 902"), "what was called stays");
        assertEquals(5, db.number("Futures", "number"));
    }

    @Test
    void statementsSayWhatDoesNotFit() throws Exception {
        String[][] cases = {
            {"CREATE COMPOUND PROCEDURE again FROM CLASS app.Waits", "does not extend org.voltdb.VoltCompoundProcedure"},
            {"CREATE PROCEDURE again PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Raise", "it cannot be PARTITION ON"},
            {"CREATE DIRECTED PROCEDURE again FROM CLASS app.Raise", "it cannot be DIRECTED"},
            {"CREATE PROCEDURE FROM CLASS app.FutureOfText", "returns a future of String"},
        };
        for (String[] one : cases) {
            db.refused(ClientResponse.GRACEFUL_FAILURE, one[1], "@AdHoc", one[0]);
        }
    }

    @Test
    void manyMayWait() throws Exception {
        AtomicLong calls = new AtomicLong();
        AtomicReference<String> failure = new AtomicReference<>();
        String[] ways = {"one after the other", "all", "in what depends"};
        for (int i = 0; i < 600; i++) {
            db.client.callProcedure((ClientResponse response) -> {
                calls.incrementAndGet();
                if (response.getStatus() != ClientResponse.SUCCESS) {
                    failure.compareAndSet(null, response.getStatusString());
                }
            }, "Waits", ways[i % ways.length]);
        }
        db.client.drain();
        assertEquals(null, failure.get());
        assertEquals(600, calls.get());
    }

    @Test
    void whoeverWaitsTooLongIsToldAndLetGo() throws Exception {
        try (Database limited = new Database(Server.withVoter(3, "--limit", "compound-seconds=2"))) {
            limited.with(SCHEMA, PROCEDURES);
            untilTold(limited, "waited in vain: the call of procedure app.Waits has ended", "for an answer that is late");
            untilTold(limited, "was ended, and its code still runs [java-code-remains]", "for ever");
        }
    }

    private static void untilTold(Database limited, String words, String how) throws IOException {
        Instant deadline = Instant.now().plus(Duration.ofSeconds(90));
        do {
            assertTrue(Instant.now().isBefore(deadline), limited.server.log());
            limited.refused(-18, "the procedure Waits took longer than 2 s", "Waits", how);
        } while (!limited.server.log().contains(words));
    }
}

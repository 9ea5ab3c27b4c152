package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ProcCallException;

/** Compound procedures, loaded and called by the published client. */
class CompoundTest {
    private static final String SCHEMA = "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));"
            + "PARTITION TABLE accounts ON COLUMN id;"
            + "CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id));";
    private static final String PROCEDURES = "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Open;"
            + "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Deposit;"
            + "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Fails;"
            + "CREATE PROCEDURE FROM CLASS app.Types;"
            + "CREATE COMPOUND PROCEDURE FROM CLASS app.Move;"
            + "CREATE COMPOUND PROCEDURE FROM CLASS app.Stages;";
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
    void stagesCallProceduresOnSeveralPartitions() throws Exception {
        for (long id = 1; id <= 20; id++) {
            db.call("Open", id, 100);
        }
        for (long id = 1; id < 20; id++) {
            ClientResponse moved = db.call("Move", id, id + 1, 10 * id);
            VoltTable balances = moved.getResults()[0];
            assertEquals(2, balances.getRowCount());
            assertTrue(balances.advanceRow() && balances.advanceRow());
            assertEquals(id + 1, balances.getLong("ID"));
            assertEquals(3, moved.getAppStatus());
            assertEquals("moved " + 10 * id, moved.getAppStatusString());
            // What the next one has to give.
            db.call("Deposit", id + 1, 10 * (id + 1));
        }
        db.refused(ClientResponse.COMPOUND_PROC_USER_ABORT, "account 1 has only 90", "Move", 1, 2, 1000);
        db.refused(ClientResponse.COMPOUND_PROC_USER_ABORT, "there is no such account", "Move", 1, 12345, 1);
        db.refused(ClientResponse.GRACEFUL_FAILURE, "EXPECTS 3 PARAMS, BUT RECEIVED 1", "Move", 1);
        db.refused(ClientResponse.GRACEFUL_FAILURE, "TYPE ERROR FOR PARAMETER 0", "Move", "one", 2, 3);
    }

    @Test
    void aCallEndsAsItsStagesSay() throws Exception {
        assertEquals(3, db.number("Stages", "usual"));
        assertEquals(3, db.number("Stages", "waits for nothing"));
        assertEquals(1, db.number("Stages", "ends early"));
        assertEquals(1, db.number("Stages", "completes twice"));
        assertEquals(12, db.number("Stages", "stages in a stage"));
        assertEquals(11, db.number("Stages", "run completes"));
        assertEquals(123_456_789, db.number("Stages", "as many as it may"));
        assertEquals(0, db.call("Stages", "no result").getResults().length);
        VoltTable[] types = db.call("Stages", "types").getResults();
        assertEquals(2, types.length);
        types[0].advanceRow();
        assertEquals("sechs", types[0].getString("TEXT"));
        assertEquals(8.25, types[0].getDecimalAsBigDecimal("DEC").doubleValue());
    }

    @Test
    void whatACalledProcedureFailsWithIsTheNextStagesBusiness() throws Exception {
        VoltTable[] answers = db.call("Stages", "failures").getResults();
        int[] statuses = new int[answers.length];
        int[] tables = new int[answers.length];
        for (int i = 0; i < answers.length; i++) {
            answers[i].advanceRow();
            statuses[i] = (int) answers[i].getLong("STATUS");
            tables[i] = (int) answers[i].getLong("TABLES");
            assertEquals(-128, answers[i].getLong("APP"));
            assertEquals(1, answers[i].getLong("TIMED"));
        }
        assertArrayEquals(new int[] {-3, -1, -2, -3, 1}, statuses);
        assertArrayEquals(new int[] {0, 0, 0, 0, 1}, tables);
        assertTrue(answers[0].getString("WORDS").contains("Nothing was not found"));
        assertTrue(answers[1].getString("WORDS").contains("EXPECT_SCALAR_MATCH"));
        VoltTable compound = db.call("Stages", "compound").getResults()[0];
        compound.advanceRow();
        assertEquals(ClientResponse.GRACEFUL_FAILURE, compound.getLong("STATUS"));
        assertTrue(compound.getString("WORDS").contains("was called by a procedure that does"), compound.getString("WORDS"));
    }

    @Test
    void faultsOfAStageAreToldWithItsStack() throws Exception {
        String[][] cases = {
            {"no stages", "has set up no stages"}, {"not built", "has set up no stages"}, {"no stage", "a stage is null"},
            {"built twice", "set up stages already"}, {"run throws", "run failed"}, {"run queues", "belongs into a stage"},
            {"throws", "app.Stages.first(Stages.java:"}, {"overflows", "StackOverflowError"},
            {"too many", "a stage may queue 10 calls"},
            {"completes and queues", "none was sent"}, {"replaces its stages, queues and completes", "stage 1 of "},
            {"another thread", "by a thread that runs no stage"},
            {"a wrong value", "java.lang.Object"}, {"no name", "null for a procedure's name"},
            {"does not complete", "has not called completeProcedure; the calls that it has queued were not sent"},
        };
        for (String[] one : cases) {
            db.refused(ClientResponse.UNEXPECTED_FAILURE, one[1], "Stages", one[0]);
        }
        db.refused(ClientResponse.COMPOUND_PROC_USER_ABORT, "not even begun", "Stages", "run aborts");
        db.refused(ClientResponse.COMPOUND_PROC_USER_ABORT, "for good", "Stages", "catches its abort");
        db.refused(ClientResponse.COMPOUND_PROC_USER_ABORT, "app.Stages ended itself", "Stages", "aborts without words");
        assertEquals(0, db.number("@AdHoc", "SELECT COUNT(*) FROM accounts WHERE id IN (770, 771)"));
        assertEquals(3, db.number("Stages", "usual"));
    }

    /** Applications compare the end of the text with the reason that they gave. */
    @Test
    void theTextOfAnAbortEndsWithItsReason() {
        String[][] cases = {{"run aborts", "not even begun"}, {"catches its abort", "for good"}};
        for (String[] one : cases) {
            ProcCallException refused = assertThrows(ProcCallException.class, () -> db.call("Stages", one[0]));
            assertTrue(refused.getMessage().endsWith(one[1]), refused.getMessage());
        }
    }

    @Test
    void statementsSayWhatDoesNotFit() throws Exception {
        String[][] cases = {
            {"CREATE COMPOUND PROCEDURE another FROM CLASS app.Deposit", "does not extend org.voltdb.VoltCompoundProcedure"},
            {"CREATE PROCEDURE Again FROM CLASS app.Stages", "say CREATE COMPOUND PROCEDURE"},
            {"CREATE COMPOUND PROCEDURE FROM CLASS app.WithStatement", "field statement of class app.WithStatement is a statement"},
            {"CREATE COMPOUND PROCEDURE FROM CLASS app.NonTransactional", "does not extend org.voltdb.VoltCompoundProcedure"},
            {"CREATE COMPOUND PROCEDURE FROM CLASS app.Absent", "has not been loaded"},
            {"CREATE COMPOUND PROCEDURE s AS SELECT id FROM one", "a compound procedure is a Java class"},
        };
        for (String[] one : cases) {
            db.refused(ClientResponse.GRACEFUL_FAILURE, one[1], "@AdHoc", one[0]);
        }
    }

    @Test
    void classesChangeUnderCompoundCalls() throws Exception {
        AtomicLong calls = new AtomicLong();
        AtomicReference<String> failure = new AtomicReference<>();
        for (int version = 0; version < 10; version++) {
            for (int i = 0; i < 50; i++) {
                db.client.callProcedure((ClientResponse response) -> {
                    calls.incrementAndGet();
                    if (response.getStatus() != ClientResponse.SUCCESS) {
                        failure.compareAndSet(null, response.getStatusString());
                    }
                }, "Stages", "as many as it may");
            }
            db.call("@UpdateClasses", Jars.application("version " + version), null);
        }
        db.client.drain();
        assertEquals(null, failure.get());
        assertEquals(500, calls.get());
    }
}

package ferrite.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

/** The interactive SQL shell, fed with scripts. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class SqlcmdTest {
    @TempDir
    Path directory;

    private Server server;

    @BeforeAll
    void startServer() throws Exception {
        server = Server.withVoter(3);
    }

    @AfterAll
    void stopServer() throws Exception {
        server.close();
    }

    private String script(String text) throws Exception {
        Tool done = Tool.sqlcmd(server, directory, text);
        assertEquals(0, done.exit(), done.output());
        return done.output();
    }

    /** Each of the lines is in the text, in this order; runs of blanks count as one. */
    private static void assertLines(String text, String... lines) {
        String squeezed = text.replaceAll("[ \t]+", " ");
        int from = 0;
        for (String line : lines) {
            int at = squeezed.indexOf(line, from);
            assertTrue(at >= 0, "'" + line + "' is missing, or out of order, in:\n" + text);
            from = at + line.length();
        }
    }

    @Test
    void schemaDataAndQueries() throws Exception {
        String output = script("""
                CREATE TABLE goods (id BIGINT NOT NULL, name VARCHAR(40), price DECIMAL, made TIMESTAMP, PRIMARY KEY (id));
                PARTITION TABLE goods ON COLUMN id;
                CREATE INDEX goods_name ON goods (name);
                CREATE PROCEDURE find_goods PARTITION ON TABLE goods COLUMN id AS
                  SELECT name, price FROM goods WHERE id = ?;
                INSERT INTO goods VALUES (1, 'bolt', 0.25, '2026-01-01 00:00:00');
                exec GOODS.insert 2, 'nut', 0.5, NULL;
                exec find_goods 2;
                UPDATE goods SET price = price * 2;
                SELECT id, name, price, made FROM goods ORDER BY id;
                DELETE FROM goods WHERE id = 1;
                SELECT COUNT(*) AS left_over FROM goods;
                """);
        assertLines(output, "CREATE TABLE goods", "Command succeeded.", "PARTITION TABLE", "Command succeeded.", "CREATE INDEX",
                "Command succeeded.", "CREATE PROCEDURE", "Command succeeded.", "(Returned 1 rows", "exec GOODS.insert", "(Returned 1 rows",
                "NAME PRICE", "nut 0.500000000000", "(Returned 2 rows", "ID NAME PRICE MADE",
                "1 bolt 0.500000000000 2026-01-01 00:00:00.000000", "2 nut 1.000000000000 NULL", "LEFT_OVER", " 1");
    }

    @Test
    void whatThereIs() throws Exception {
        String output = script("""
                show tables
                describe votes
                show procedures
                show classes
                show functions
                show tasks
                """);
        assertLines(output, "--- Tables", "AREA_CODE_STATE\n", "CONTESTANTS\n", "VOTES\n", "--- Views", "V_VOTES_BY_CONTESTANT_NUMBER_STATE",
                "COLUMN |DATATYPE", "PHONE_NUMBER |BIGINT | 8|NOT NULL |PARTITION_COLUMN", "STATE |VARCHAR | 2|NOT NULL",
                "CONTESTANT_NUMBER|INTEGER | 4|NOT NULL", "Type: TABLE", "--- User Procedures", "AREA_CODE_STATE.insert smallint, varchar",
                "Vote bigint, integer, bigint");
    }

    @Test
    void plans() throws Exception {
        String output = script("""
                explain SELECT * FROM contestants WHERE contestant_number = 1;
                explainproc Vote;
                explainview v_votes_by_phone_number;
                explainjson SELECT * FROM contestants;
                """);
        assertLines(output, "EXECUTION_PLAN", "CONTESTANTS", "STATEMENT_NAME SQL_STATEMENT EXECUTION_PLAN", "VOTES", "TASK EXECUTION_PLAN",
                "VOTES", "explainjson");
    }

    @Test
    void systemProcedures() throws Exception {
        String output = script("""
                exec @Ping;
                exec @Quiesce;
                exec @SystemInformation OVERVIEW;
                exec @SystemCatalog COLUMNS;
                exec @GetPartitionKeys INTEGER;
                exec @Statistics TABLE 0;
                exec @Statistics INDEX 0;
                exec @Statistics PROCEDURE 0;
                exec @Statistics PROCEDUREPROFILE 1;
                exec @Statistics INITIATOR 0;
                exec @Statistics LIVECLIENTS 0;
                exec @Statistics LATENCY 1;
                exec @Statistics MANAGEMENT 0;
                """);
        assertLines(output, "exec @Ping;", "STATUS", "exec @Quiesce;", "STATUS", "HOST_ID KEY VALUE", "VERSION", "TABLE_CAT",
                "PARTITION_ID PARTITION_KEY", "TUPLE_COUNT", "PersistentTable", "INDEX_TYPE", "CompactingTreeUniqueIndex",
                "TIMED_INVOCATIONS", "WEIGHTED_PERC", "CONNECTION_HOSTNAME", "OUTSTANDING_TRANSACTIONS", "P99.9", "TUPLEALLOCATED");
        assertFalse(output.contains("not yet available"), output);
    }

    @Test
    void pausedMeansReadOnly() throws Exception {
        Tool paused = Tool.sqlcmd(server, directory, """
                exec @Pause;
                SELECT COUNT(*) FROM contestants;
                INSERT INTO contestants VALUES (77, 'late');
                exec CONTESTANTS.insert 78, 'later';
                exec @Resume;
                INSERT INTO contestants VALUES (79, 'in time');
                SELECT contestant_number FROM contestants WHERE contestant_number > 70;
                """, "--stop-on-error=false");
        assertLines(paused.output(), "SELECT COUNT(*) FROM contestants;", "(Returned 1 rows", "Server is paused and is available in read-only mode",
                "Server is paused and is available in read-only mode", "exec @Resume;", "(Returned 1 rows", "CONTESTANT_NUMBER", "79",
                "(Returned 1 rows");
    }

    @Test
    void tablesAreSwapped() throws Exception {
        String output = script("""
                CREATE TABLE old_prices (id INTEGER NOT NULL, price INTEGER, PRIMARY KEY (id));
                CREATE TABLE new_prices (id INTEGER NOT NULL, price INTEGER, PRIMARY KEY (id));
                INSERT INTO old_prices VALUES (1, 10);
                INSERT INTO new_prices VALUES (1, 11);
                INSERT INTO new_prices VALUES (2, 22);
                exec @SwapTables old_prices new_prices;
                SELECT id, price FROM old_prices ORDER BY id;
                """);
        assertLines(output, "exec @SwapTables", "ID PRICE", "1 11", "2 22", "(Returned 2 rows");
    }

    @Test
    void batchesOfSchemaChanges() throws Exception {
        String output = script("""
                file -inlinebatch END_OF_BATCH
                CREATE TABLE first_of_batch (a INTEGER);
                CREATE TABLE second_of_batch (a INTEGER);
                END_OF_BATCH
                SELECT COUNT(*) FROM second_of_batch;
                """);
        assertLines(output, "Batch command succeeded.", "(Returned 1 rows");
        Tool failed = Tool.sqlcmd(server, directory, """
                file -inlinebatch END_OF_BATCH
                CREATE TABLE third_of_batch (a INTEGER);
                CREATE TABLE first_of_batch (a INTEGER);
                END_OF_BATCH
                """);
        assertLines(failed.output(), "FIRST_OF_BATCH");
        Tool after = Tool.sqlcmd(server, directory, "SELECT * FROM third_of_batch;");
        assertLines(after.output(), "THIRD_OF_BATCH");
    }

    @Test
    void oneQueryOnTheCommandLine() throws Exception {
        Tool done = Tool.sqlcmd(server, directory, "", "--query=SELECT COUNT(*) AS n FROM area_code_state");
        assertEquals(0, done.exit(), done.output());
        assertLines(done.output(), "N", "(Returned 1 rows");
    }

    @Test
    void anErrorStopsTheScript() throws Exception {
        Tool failed = Tool.sqlcmd(server, directory, "SELECT * FROM nosuch;\nCREATE TABLE unreached (a INTEGER);\n");
        assertTrue(failed.exit() != 0, failed.output());
        assertLines(failed.output(), "NOSUCH");
        assertFalse(failed.output().contains("Command succeeded."), failed.output());
    }
}

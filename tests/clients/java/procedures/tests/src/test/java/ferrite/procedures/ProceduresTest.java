package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import ferrite.support.Wait;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.Client;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ProcCallException;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * The procedures of the module beside this one: loaded as a jar and called by the published client.
 */
class ProceduresTest {
    private static final String SCHEMA = "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));"
            + "PARTITION TABLE accounts ON COLUMN id;"
            + "CREATE TABLE texts (key INTEGER NOT NULL, number INTEGER NOT NULL, words VARCHAR(100000), PRIMARY KEY (key, number));"
            + "PARTITION TABLE texts ON COLUMN key;"
            + "CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id));";
    private static final String ON_ACCOUNTS = "PARTITION ON TABLE accounts COLUMN id ";
    private static final String ON_TEXTS = "PARTITION ON TABLE texts COLUMN key ";
    private static final String PROCEDURES = "CREATE PROCEDURE " + ON_ACCOUNTS + "FROM CLASS app.Open;"
            + "CREATE PROCEDURE " + ON_ACCOUNTS + "FROM CLASS app.Deposit;"
            + "CREATE PROCEDURE FROM CLASS app.Transfer;"
            + "CREATE PROCEDURE FROM CLASS app.Types;"
            + "CREATE PROCEDURE FROM CLASS app.Arrays;"
            + "CREATE PROCEDURE FROM CLASS app.Nulls;"
            + "CREATE PROCEDURE FROM CLASS app.Boxed;"
            + "CREATE PROCEDURE FROM CLASS app.Logs;"
            + "CREATE PROCEDURE FROM CLASS app.Tables;"
            + "CREATE PROCEDURE FROM CLASS app.Context; PARTITION PROCEDURE Context ON TABLE accounts COLUMN id;"
            + "CREATE PROCEDURE FROM CLASS app.TableTexts;"
            + "CREATE PROCEDURE FROM CLASS app.Loads;"
            + "CREATE PROCEDURE FROM CLASS app.MakesUp;"
            + "CREATE PROCEDURE FROM CLASS app.Annotated;"
            + "CREATE PROCEDURE FROM CLASS app.Outer$Nested;"
            + "CREATE PROCEDURE " + ON_ACCOUNTS + "FROM CLASS app.Fails;"
            + "CREATE PROCEDURE FailsEverywhere FROM CLASS app.Fails;"
            + "CREATE PROCEDURE " + ON_TEXTS + "FROM CLASS app.Bulk;"
            + "CREATE PROCEDURE " + ON_TEXTS + "FROM CLASS app.Anywhere;";
    private static Database db;
    private static Client client;
    private static byte[] jar;
    private static ClientResponse loaded;

    @BeforeAll
    static void start() throws Exception {
        jar = Jars.application("a resource of the jar");
        db = new Database(Server.withVoter(3));
        client = db.client;
        ok(client.callProcedure("@AdHoc", SCHEMA));
        ok(client.callProcedure("@AdHoc", "INSERT INTO one VALUES (1)"));
        loaded = client.callProcedure("@UpdateClasses", jar, null);
        ok(loaded);
        ok(client.callProcedure("@AdHoc", PROCEDURES));
    }

    @AfterAll
    static void stop() throws Exception {
        if (db != null) {
            db.close();
        }
    }

    private static VoltTable[] ok(ClientResponse response) {
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), response.getStatusString());
        return response.getResults();
    }

    private static VoltTable[] call(String procedure, Object... parameters) throws IOException, ProcCallException {
        return ok(client.callProcedure(procedure, parameters));
    }

    private static long number(String procedure, Object... parameters) throws IOException, ProcCallException {
        return call(procedure, parameters)[0].asScalarLong();
    }

    private static long count(String where) throws IOException, ProcCallException {
        return number("@AdHoc", "SELECT COUNT(*) FROM " + where);
    }

    /** The published client's classes here, the server's there. */
    @Test
    void tablesDoInProceduresWhatThePublishedOnesDo() throws Exception {
        VoltTable there = call("TableTexts")[0];
        List<String> here = app.TableLines.lines();
        for (String line : here) {
            assertTrue(there.advanceRow());
            assertEquals(line, there.getString(0));
        }
        assertFalse(there.advanceRow());
    }

    private static VoltTable rows(String other, long first, int count) {
        VoltTable.ColumnInfo id = new VoltTable.ColumnInfo("ID", VoltType.BIGINT);
        VoltTable rows = other == null ? new VoltTable(id) : new VoltTable(id, new VoltTable.ColumnInfo(other, VoltType.BIGINT));
        for (int row = 0; row < count; row++) {
            rows.addRow(other == null ? new Object[] {first + row} : new Object[] {first + row, 1});
        }
        return rows;
    }

    @Test
    void proceduresLoadTables() throws Exception {
        long ones = count("one");
        assertEquals(ones, number("Loads", rows("BALANCE", 70_000, 500), rows(null, 70_000, 3)) - 3);
        assertEquals(500, count("accounts WHERE id BETWEEN 70000 AND 70499"));
        contains(refused("Loads", rows("BALANCE", 71_000, 2), rows(null, 70_002, 2)), ClientResponse.GRACEFUL_FAILURE, "UNIQUE");
        contains(refused("Loads", rows(null, 71_000, 2), rows(null, 71_000, 2)), ClientResponse.GRACEFUL_FAILURE, "2 columns of ACCOUNTS and 1 values");
        assertEquals(0, count("accounts WHERE id BETWEEN 71000 AND 71001"));
        // The client sends the room that it has made for rows.
        VoltTable roomy = rows("BALANCE", 0, 3).clone(1_000);
        assertEquals(ones + 3, number("Loads", roomy, rows(null, 0, 0)));
        // TPC-C's loader gives only the tables that it has rows for.
        assertEquals(ones + 3, number("Loads", null, null));
        call("@AdHoc", "DELETE FROM accounts WHERE id BETWEEN 70000 AND 70499; DELETE FROM one WHERE id BETWEEN 70000 AND 70002");
    }

    @Test
    void proceduresMakeStatementsUpAndCatchTheirFailures() throws Exception {
        assertEquals(1, number("MakesUp", "INSERT INTO one VALUES (?)", 80_000));
        ClientResponse constraint = client.callProcedure("MakesUp", "INSERT INTO one VALUES (?)", 80_000);
        assertTrue(constraint.getAppStatusString().startsWith("a constraint: "), constraint.getAppStatusString());
        ClientResponse sql = client.callProcedure("MakesUp", "SELECT 1 / (? - 80000) FROM one", 80_000);
        assertTrue(sql.getAppStatusString().startsWith("SQL: "), sql.getAppStatusString());
        ClientResponse nonsense = client.callProcedure("MakesUp", "SELECT FROM ?", 1);
        assertTrue(nonsense.getAppStatusString().startsWith("SQL: "), nonsense.getAppStatusString());
        assertEquals(1, number("MakesUp", "DELETE FROM one WHERE id = ?", 80_000));
    }

    private static ClientResponse refused(String procedure, Object... parameters) throws IOException {
        try {
            ClientResponse response = client.callProcedure(procedure, parameters);
            throw new AssertionError("it was not refused: " + response.getStatusString());
        } catch (ProcCallException refused) {
            return refused.getClientResponse();
        }
    }

    private static void contains(ClientResponse response, int status, String... words) {
        assertEquals(status, response.getStatus(), response.getStatusString());
        for (String word : words) {
            assertTrue(response.getStatusString().contains(word), response.getStatusString());
        }
    }

    @Test
    void tablesNumbersAndInheritedStatements() throws Exception {
        VoltTable opened = call("Open", 100, 5)[0];
        opened.advanceRow();
        assertEquals(5, opened.getLong("BALANCE"));
        call("Open", 101, VoltType.NULL_BIGINT);
        assertEquals(12, number("Deposit", 100, 7));
        assertEquals(7, number("Deposit", 101, 7));
        contains(refused("Deposit", 100, 0), ClientResponse.USER_ABORT, "nothing to deposit", "app.Deposit.run(Deposit.java:");
        contains(refused("Deposit", 999_999, 1), ClientResponse.USER_ABORT, "EXPECT_SCALAR_MATCH(1)");
        contains(refused("Deposit", 1), ClientResponse.GRACEFUL_FAILURE, "EXPECTS 2 PARAMS, BUT RECEIVED 1");
    }

    @Test
    void severalPartitionsAllOrNothing() throws Exception {
        for (long id = 200; id < 220; id++) {
            call("Open", id, 100);
        }
        long moved = 0;
        for (long id = 200; id < 219; id++) {
            assertEquals(101 + moved, number("Transfer", id, id + 1, 1 + moved, 0));
            moved++;
        }
        long before = number("@AdHoc", "SELECT SUM(balance) FROM accounts WHERE id BETWEEN 200 AND 219");
        contains(refused("Transfer", 201, 202, 5000, 0), ClientResponse.USER_ABORT, "overdrawn");
        contains(refused("Transfer", 201, 202, 1, 1), ClientResponse.UNEXPECTED_FAILURE, "failed on purpose",
                "app.Transfer.run(Transfer.java:");
        assertEquals(before, number("@AdHoc", "SELECT SUM(balance) FROM accounts WHERE id BETWEEN 200 AND 219"));
        assertEquals(2000, before);
    }

    @Test
    void allTypes() throws Exception {
        TimestampType time = new TimestampType(1_700_000_000_123_456L);
        GeographyPointValue point = new GeographyPointValue(-71.25, 42.5);
        GeographyValue polygon = new GeographyValue("POLYGON((0 0, 1 0, 1 1, 0 0))");
        java.util.Date date = new java.util.Date(1_600_000_000_123L);
        VoltTable[] results = call("Types", 1, 2, 3, 4L, 5.5, "text \u00e4\u20ac", new byte[] {1, -2}, new BigDecimal("-12345678901234567890.123"),
                time, point, polygon, date, time, 9);
        VoltTable first = results[0];
        assertTrue(first.advanceRow());
        assertEquals(1, first.getLong(0));
        assertEquals(2, first.getLong(1));
        assertEquals(3, first.getLong(2));
        assertEquals(4, first.getLong(3));
        assertEquals(5.5, first.getDouble(4));
        assertEquals("text \u00e4\u20ac", first.getString(5));
        assertArrayEquals(new byte[] {1, -2}, first.getVarbinary(6));
        assertEquals(0, new BigDecimal("-12345678901234567890.123").compareTo(first.getDecimalAsBigDecimal(7)));
        assertEquals(time, first.getTimestampAsTimestamp(8));
        assertEquals(point, first.getGeographyPointValue(9));
        assertEquals(4, first.getGeographyValue(10).getRings().get(0).size());
        VoltTable second = results[1];
        assertEquals(2, second.getRowCount());
        second.advanceRow();
        assertEquals(date.getTime() * 1000, second.getTimestampAsLong(0));
        assertEquals(time.getTime(), second.getTimestampAsLong(1));
        assertEquals(9, second.getLong(2));

        Object[] nulls = new Object[14];
        results = call("Types", nulls);
        first = results[0];
        first.advanceRow();
        for (int column = 0; column < first.getColumnCount(); column++) {
            first.get(column, first.getColumnType(column));
            assertTrue(first.wasNull(), "column " + column);
        }
        contains(refused("Types", 300, 2, 3, 4L, 5.5, "", new byte[0], BigDecimal.ONE, time, point, polygon, date, time, 9),
                ClientResponse.GRACEFUL_FAILURE, "PARAMETER 0");
    }

    @Test
    void arrays() throws Exception {
        call("Open", 300, 1);
        call("Open", 301, 1);
        VoltTable table = call("Arrays", new long[] {300, 301, 302}, new int[] {1, 2, 3}, new String[] {"a", "b"}, new double[] {1.5, 2.5},
                new BigDecimal[] {BigDecimal.ONE, BigDecimal.TEN}, new byte[][] {{1}, {1, 2}})[0];
        long[] expected = {2, 6, 2, 4, 11, 2};
        for (long value : expected) {
            table.advanceRow();
            assertEquals(value, table.getLong(1), table.getString(0));
        }
    }

    @Test
    void arraysMayBeNullAndBatchesLarge() throws Exception {
        assertEquals(14, number("Nulls", null, null, null, null, 1));
        assertEquals(10, number("Nulls", new long[0], new String[0], new VoltTable[0], new byte[0][], 1));
        assertEquals(1_000_004, number("Nulls", null, null, null, null, 100_000));
        contains(refused("Nulls", null, null, null, null, 100_001), ClientResponse.GRACEFUL_FAILURE,
                "more than 100000 statements in a batch");
    }

    /**
     * A class that needs what is not there is told of when it comes, not only when it is called.
     */
    @Test
    void whatClassesLackIsToldWhenTheyAreLoaded() throws Exception {
        assertEquals("class app.Lacks refers to org.voltdb.utils.Gone, which is not here: put a class of that name into the jar",
                loaded.getStatusString());
        ClientResponse created = client.callProcedure("@AdHoc", "CREATE PROCEDURE FROM CLASS app.Lacks");
        ok(created);
        assertEquals(loaded.getStatusString(), created.getStatusString());
        contains(refused("Lacks"), ClientResponse.UNEXPECTED_FAILURE, "NoClassDefFoundError");
        contains(refused("Lacks"), ClientResponse.UNEXPECTED_FAILURE,
                "class org.voltdb.utils.Gone is not here: load a jar with a class of that name");
    }

    @Test
    void binaryValuesMayBeObjects() throws Exception {
        assertEquals(21234, number("Boxed", new byte[] {0, 0}, new byte[][] {{1, 2}, {}, {3, 4}}));
        assertEquals(-1, number("Boxed", null, new byte[0][]));
        contains(refused("Boxed", "no", new byte[0][]), ClientResponse.GRACEFUL_FAILURE, "");
    }

    /** The original's loggers write where the server writes. */
    @Test
    void loggersWriteToTheServersLog() throws Exception {
        assertEquals(1, number("Logs", "words"));
        String last = "ERROR app.Logs: " + "*".repeat(80) + "\nwords last\n" + "*".repeat(80) + "\n";
        Wait.until(last, () -> db.server.log().contains(last));
        String log = db.server.log();
        for (String line : List.of("FATAL app.Logs: words fatal\n", "ERROR app.Logs: words error\njava.lang.IllegalStateException: why\n",
                "WARN app.Logs: words warn\n", "INFO app.Logs: %d of %s [x, words]\njava.lang.IllegalStateException: formatted\n",
                "WARN app.Logs: limited words 0\n")) {
            assertTrue(log.contains(line), line + log);
        }
        for (String line : List.of("words debug", "limited words 1", "words quiet")) {
            assertFalse(log.contains(line), line + log);
        }
    }

    @Test
    void tables() throws Exception {
        VoltTable.ColumnInfo[] columns = {new VoltTable.ColumnInfo("ID", VoltType.BIGINT), new VoltTable.ColumnInfo("BALANCE", VoltType.BIGINT)};
        VoltTable one = new VoltTable(columns);
        one.addRow(600, 1);
        one.addRow(601, 2);
        VoltTable other = new VoltTable(columns);
        other.addRow(602, 3);
        VoltTable every = new VoltTable(new VoltTable.ColumnInfo("A", VoltType.TINYINT), new VoltTable.ColumnInfo("B \"b\"", VoltType.STRING),
                new VoltTable.ColumnInfo("C", VoltType.FLOAT), new VoltTable.ColumnInfo("D", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("E", VoltType.TIMESTAMP), new VoltTable.ColumnInfo("F", VoltType.VARBINARY));
        every.addRow(1, "\u00e4 \"\\\n", 1.5, new BigDecimal("-1.25"), new TimestampType(1_700_000_000_123_456L), new byte[] {1, -2});
        every.addRow(null, null, null, null, null, null);
        VoltTable[] answer = call("Tables", one, new VoltTable[] {other, new VoltTable(columns)}, every.toJSONString());
        assertEquals(3, answer[0].getRowCount());
        assertEquals(6, number("@AdHoc", "SELECT SUM(balance) FROM accounts WHERE id BETWEEN 600 AND 602"));
        assertEquals(2, answer[1].getRowCount());
        answer[1].advanceRow();
        every.advanceRow();
        assertEquals("B \"b\"", answer[1].getColumnName(1));
        assertEquals(every.getString(1), answer[1].getString(1));
        assertEquals(1.5, answer[1].getDouble(2));
        assertEquals(every.getDecimalAsBigDecimal(3), answer[1].getDecimalAsBigDecimal(3));
        assertEquals(every.getTimestampAsLong(4), answer[1].getTimestampAsLong(4));
        assertArrayEquals(new byte[] {1, -2}, answer[1].getVarbinary(5));
        assertEquals(0, call("Tables", null, new VoltTable[0], "").length);
        contains(refused("Tables", 1, new VoltTable[0], ""), ClientResponse.GRACEFUL_FAILURE, "BIGINT given where a table is declared");
        contains(refused("Tables", one, other, ""), ClientResponse.GRACEFUL_FAILURE, "table given where an array of tables is declared");
        contains(refused("Tables", one, new VoltTable[0], "[1"), ClientResponse.GRACEFUL_FAILURE);
        contains(refused("Tables", new VoltTable(columns), new VoltTable[0], "[1"), ClientResponse.UNEXPECTED_FAILURE, "not JSON");
    }

    @Test
    void transactionsKnowThemselves() throws Exception {
        ClientResponse response = client.callProcedure("Context", 1);
        assertEquals(7, response.getAppStatus());
        assertEquals("seven", response.getAppStatusString());
        VoltTable one = response.getResults()[0];
        VoltTable other = call("Context", 1)[0];
        one.advanceRow();
        other.advanceRow();
        assertNotEquals(one.getLong("ID"), other.getLong("ID"));
        assertNotEquals(one.getLong("RANDOM"), other.getLong("RANDOM"));
        assertEquals(new java.util.Random(one.getLong("ID")).nextLong(), one.getLong("RANDOM"));
        assertEquals(one.getLong("MS"), one.getLong("SQLMS"));
        assertEquals(one.getLong("PARTITION"), other.getLong("PARTITION"));
        assertEquals("a resource of the jar", one.getString("RESOURCE"));
    }

    @Test
    void annotatedAndNestedClasses() throws Exception {
        call("Open", 400, 1);
        long answer = number("Annotated", "x", 400);
        assertEquals(1, answer / 100_000);
        assertTrue(answer % 100_000 < 3, "it ran on one partition");
        assertEquals(42, number("Nested"));
    }

    @Test
    void failuresAreContainedAndLeaveNoTrace() throws Exception {
        for (String procedure : List.of("Fails", "FailsEverywhere")) {
            contains(refused(procedure, 500, "abort"), ClientResponse.USER_ABORT, "aborted on purpose", "app.Fails.run(Fails.java:");
            ClientResponse thrown = refused(procedure, 500, "exception");
            contains(thrown, ClientResponse.UNEXPECTED_FAILURE, "IllegalArgumentException: thrown on purpose",
                    "app.Fails.deeper(Fails.java:");
            assertFalse(thrown.getStatusString().contains("org.voltdb.Runner"), thrown.getStatusString());
            contains(refused(procedure, 500, "checked"), ClientResponse.UNEXPECTED_FAILURE, "a checked exception",
                    "caused by java.lang.IllegalStateException: its cause");
            contains(refused(procedure, 500, "stack"), ClientResponse.UNEXPECTED_FAILURE, "StackOverflowError", "app.Fails.endless");
            contains(refused(procedure, 500, "memory"), ClientResponse.UNEXPECTED_FAILURE, "OutOfMemoryError");
            contains(refused(procedure, 500, "constraint"), ClientResponse.GRACEFUL_FAILURE, "CONSTRAINT VIOLATION", "app.Fails.run");
            contains(refused(procedure, 500, "expectation"), ClientResponse.USER_ABORT, "EXPECT_EMPTY was expected");
            contains(refused(procedure, 500, "thread"), ClientResponse.USER_ABORT, "another thread");
            contains(refused(procedure, 500, "foreign statement"), ClientResponse.UNEXPECTED_FAILURE, "not a field");
            assertEquals(0, count("accounts WHERE id = 500"));
        }
        assertEquals(2, number("Fails", 500, "caught"));
        assertEquals(1, count("accounts WHERE id = 500"));
        assertEquals(0, count("accounts WHERE id = 1000500"));
    }

    @Test
    void largeBatchesAndResults() throws Exception {
        for (int[] shape : new int[][] {{3, 10}, {1200, 900}, {40, 99_000}, {5, 10}}) {
            int key = shape[0] * 1000 + shape[1] % 1000;
            call("@AdHoc", "DELETE FROM texts WHERE key = " + key);
            VoltTable table = call("Bulk", key, shape[0], shape[1])[0];
            assertEquals(shape[0], table.getRowCount());
            for (int row = 0; table.advanceRow(); row++) {
                assertEquals(row, table.getLong(0));
                assertEquals(shape[1], table.getString(1).length());
            }
        }
    }

    @Test
    void jarsThatDoNotFitAreRefused() throws Exception {
        contains(refused("@AdHoc", "CREATE PROCEDURE FROM CLASS app.NoSuchClass"), ClientResponse.GRACEFUL_FAILURE, "has not been loaded");
        contains(refused("@AdHoc", "CREATE PROCEDURE FROM CLASS app.Helper"), ClientResponse.GRACEFUL_FAILURE, "does not extend");
        contains(refused("@AdHoc", "CREATE PROCEDURE FROM CLASS app.Base"), ClientResponse.GRACEFUL_FAILURE, "is abstract");
        contains(refused("@UpdateClasses", null, "app.Deposit"), ClientResponse.GRACEFUL_FAILURE, "Deposit", "not among the loaded classes");
        contains(refused("@UpdateClasses", new byte[] {1, 2, 3}, null), ClientResponse.GRACEFUL_FAILURE, "not a jar");
        contains(refused("@AdHoc", "DROP TABLE accounts"), ClientResponse.GRACEFUL_FAILURE);
        contains(refused("@AdHoc", "ALTER TABLE texts DROP COLUMN words"), ClientResponse.GRACEFUL_FAILURE, "Bulk");
        VoltTable classes = call("@SystemCatalog", "CLASSES")[0];
        boolean found = false;
        while (classes.advanceRow()) {
            found |= classes.getString(0).equals("app.Deposit") && classes.getLong("ACTIVE_PROC") == 1;
        }
        assertTrue(found);
        ok(client.callProcedure("@UpdateClasses", jar, "app.NoSuch*"));
    }
}

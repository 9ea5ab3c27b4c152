package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ProcCallException;

/** User-defined functions in Java, scalar and aggregate, wherever an expression may stand. */
class FunctionsTest {
    private static final List<String> METHODS = List.of("add", "tiny", "small", "integer", "real", "text", "reversed", "boxed", "decimal", "number", "later",
            "point", "polygon", "isNull", "calls", "intrudes", "fails", "inherited");
    private static Database db;
    private static Client client;

    @BeforeAll
    static void start() throws Exception {
        db = new Database(Server.withVoter(3));
        client = db.client;
        client.callProcedure("@UpdateClasses", Jars.application("words"), null);
        StringBuilder schema = new StringBuilder("CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT, name VARCHAR(64), PRIMARY KEY (id));"
                + "PARTITION TABLE accounts ON COLUMN id; CREATE TABLE one (id INTEGER NOT NULL);");
        for (String method : METHODS) {
            schema.append("CREATE FUNCTION f_" + method + " FROM METHOD app.Functions." + method + ";");
        }
        schema.append("CREATE AGGREGATE FUNCTION longest FROM CLASS app.Longest;"
                + "CREATE AGGREGATE FUNCTION weighted FROM CLASS app.Weighted;"
                + "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.UsesFunctions; CREATE PROCEDURE FROM CLASS app.Intruded;"
                + "CREATE PROCEDURE Named (wanted BIGINT) PARTITION ON TABLE accounts COLUMN id AS BEGIN DECLARE n VARCHAR(64);"
                + " SET n = f_text('ab', 2); UPDATE accounts SET name = n WHERE id = wanted AND f_add(balance, 0) >= 0; RETURN f_add(40, 2); END;");
        sql(schema.toString());
        sql("INSERT INTO one VALUES (1)");
        for (int id = 1; id <= 9; id++) {
            sql("INSERT INTO accounts VALUES (" + id + ", f_add(" + id + ", " + id + "), f_text('n', " + id + "))");
        }
    }

    @AfterAll
    static void stop() throws Exception {
        if (db != null) {
            db.close();
        }
    }

    private static VoltTable sql(String text) throws Exception {
        ClientResponse response = client.callProcedure("@AdHoc", text);
        assertEquals(ClientResponse.SUCCESS, response.getStatus(), response.getStatusString());
        return response.getResults()[0];
    }

    private static Object value(String expression) throws Exception {
        VoltTable table = sql("SELECT " + expression + " FROM one");
        table.advanceRow();
        Object value = table.get(0, table.getColumnType(0));
        return table.wasNull() ? null : value;
    }

    private static String refused(String text) throws Exception {
        try {
            sql(text);
        } catch (ProcCallException refused) {
            return refused.getClientResponse().getStatusString();
        }
        throw new AssertionError("it was not refused: " + text);
    }

    private static void refused(String text, String... words) throws Exception {
        String answer = refused(text);
        for (String word : words) {
            assertTrue(answer.contains(word), answer);
        }
    }

    @Test
    void everyTypeAndNull() throws Exception {
        assertEquals(42L, value("f_add(40, 2)"));
        assertNull(value("f_add(NULL, 2)"));
        assertNull(value("f_add(2, NULL)"));
        assertEquals((byte) 7, value("f_tiny(7)"));
        assertNull(value("f_tiny(NULL)"));
        assertEquals((short) -7, value("f_small(-7)"));
        assertEquals(7, value("f_integer(7)"));
        assertEquals(3.0, value("f_real(1.5)"));
        assertNull(value("f_real(NULL)"));
        refused("SELECT f_real(1.7E308) FROM one", "F_REAL", "Infinity is not a FLOAT of SQL");
        refused("SELECT weighted(1.7E308, 1000) FROM one", "WEIGHTED", "Infinity is not a FLOAT of SQL");
        assertEquals("\u00e4\u00e4\u00e4", value("f_text('\u00e4', 3)"));
        assertEquals("", value("f_text('', 3)"));
        assertArrayEquals(new byte[] {3, 2, 1}, (byte[]) value("f_reversed(x'010203')"));
        assertArrayEquals(new byte[] {1, 2, -128, -128}, (byte[]) value("f_boxed(x'0102', 2)"));
        assertArrayEquals(new byte[0], (byte[]) value("f_boxed(x'', 0)"));
        assertNull(value("f_boxed(NULL, 1)"));
        refused("SELECT f_boxed(x'01', 3) FROM one", "a Byte[] with a null in it");
        assertEquals("-1.250000000000", value("f_decimal(1.25)").toString());
        for (String tiny : new String[] {"1E-999999999", "4E-13", "0E-999999999", "0E999999999"}) {
            assertEquals("0E-12", value("f_number('" + tiny + "')").toString(), tiny);
        }
        assertEquals("1E-12", value("f_number('5E-13')").toString());
        refused("SELECT f_number('1E999999999') FROM one", "more than 26 digits");
        refused("SELECT f_number('99999999999999999999999999.9999999999999') FROM one", "more than 26 digits");
        assertEquals("2020-01-01 00:00:00.000001", value("f_later('2020-01-01 00:00:00')").toString());
        assertTrue(value("f_point(POINTFROMTEXT('POINT(1 2)'))").toString().contains("POINT"));
        assertTrue(value("f_polygon(POLYGONFROMTEXT('POLYGON((0 0, 1 0, 1 1, 0 0))'))").toString().contains("POLYGON"));
        assertEquals("NULL", value("f_isNull(NULL)"));
        assertEquals("a number", value("f_isNull(0)"));
        assertEquals("x of the base class", value("f_inherited('x')"));
        assertEquals(6L, value("f_add(f_add(1, 2), f_add(1, 2))"));
        assertTrue((long) value("f_calls()") < (long) value("f_calls() + f_calls()"));
    }

    @Test
    void whereverAnExpressionMayStand() throws Exception {
        assertEquals(1, sql("SELECT id FROM accounts WHERE f_add(id, 1) = 5").getRowCount());
        assertEquals(4, sql("SELECT f_add(id, 1) FROM accounts WHERE id < 5 ORDER BY f_add(0, -id)").getRowCount());
        assertEquals(3, sql("SELECT f_integer(CAST(MOD(id, 3) AS INTEGER)) m, COUNT(*) FROM accounts WHERE id < 10 GROUP BY"
                + " f_integer(CAST(MOD(id, 3) AS INTEGER)) HAVING f_add(COUNT(*), 0) = 3").getRowCount());
        assertEquals(9, sql("SELECT COUNT(*) FROM accounts a JOIN accounts b ON f_add(a.id, 0) = b.id WHERE a.id < 10").asScalarLong());
        assertEquals(1, sql("SELECT CASE WHEN f_isNull(balance) = 'NULL' THEN 1 ELSE 2 END FROM accounts WHERE id = 1").getRowCount());
        assertEquals(12, client.callProcedure("@AdHoc", "SELECT f_add(?, ?) FROM one", 5, 7).getResults()[0].asScalarLong());
        assertEquals(42, client.callProcedure("Named", 3).getResults()[0].asScalarLong());
        assertEquals(1, sql("SELECT id FROM accounts WHERE name = 'abab'").getRowCount());
        for (int times : new int[] {1, 60_000, 5}) {
            int id = 1000 + times;
            VoltTable table = client.callProcedure("UsesFunctions", id, times).getResults()[0];
            table.advanceRow();
            assertEquals(times, table.getString(0).length());
            assertEquals(42, table.getLong(1));
        }
        sql("DELETE FROM accounts WHERE id > 1000");
        assertTrue(sql("EXPLAIN SELECT F_ADD(id, 1) FROM accounts WHERE f_add(id, 1) = 2").toString().contains("F_ADD"));
    }

    @Test
    void aggregates() throws Exception {
        VoltTable longest = sql("SELECT longest(name) FROM accounts WHERE id BETWEEN 4 AND 8");
        longest.advanceRow();
        assertEquals("nnnnnnnn", longest.getString(0));
        longest = sql("SELECT longest(name), weighted(balance, id), COUNT(*) FROM accounts WHERE id > 100");
        longest.advanceRow();
        assertNull(longest.getString(0));
        longest.getDouble(1);
        assertTrue(longest.wasNull());
        VoltTable weighted = sql("SELECT MOD(id, 2) odd, weighted(CAST(id AS FLOAT), id), longest(name) FILTER (WHERE id < 5)"
                + " FROM accounts WHERE id < 10 GROUP BY MOD(id, 2) ORDER BY odd");
        weighted.advanceRow();
        assertEquals((4 + 16 + 36 + 64) / 20.0, weighted.getDouble(1));
        assertEquals("nnnn", weighted.getString(2));
        refused("SELECT longest(name) OVER () FROM accounts", "not supported");
        refused("SELECT longest(DISTINCT name) FROM accounts", "not supported");
        refused("SELECT id FROM accounts WHERE longest(name) = 'n'", "not allowed");
        refused("SELECT longest(name, name) FROM accounts", "takes 1 arguments, not 2", "LONGEST(VARCHAR)");
    }

    @Test
    void nobodyElseExecutesInAProcedure() throws Exception {
        for (int round = 0; round < 3; round++) {
            try {
                client.callProcedure("Intruded", "function");
                throw new AssertionError("a function has executed a statement within a statement");
            } catch (ProcCallException refused) {
                assertTrue(refused.getMessage().contains("by a function that a statement of the same procedure calls"), refused.getMessage());
            }
            ClientResponse response = client.callProcedure("Intruded", "thread");
            assertTrue(response.getAppStatusString().contains("by another thread"), response.getAppStatusString());
            assertEquals(1, response.getResults()[0].asScalarLong());
        }
    }

    @Test
    void failuresAndWhatIsRefused() throws Exception {
        refused("SELECT f_fails(1) FROM one", "function F_FAILS failed", "IllegalArgumentException: failed on purpose",
                "app.Functions.fails(Functions.java:");
        refused("SELECT f_fails(2) FROM one", "StackOverflowError");
        String message = refused("UPDATE accounts SET balance = f_fails(CASE WHEN id = 9 THEN 1 ELSE 0 END)");
        assertTrue(message.contains("failed on purpose"), message);
        assertFalse(message.contains("org.voltdb"), message);
        assertEquals(0, sql("SELECT COUNT(*) FROM accounts WHERE balance = 0").asScalarLong());
        refused("SELECT f_add(1) FROM one", "F_ADD takes 2 arguments, not 1", "F_ADD(BIGINT, BIGINT)");
        refused("SELECT f_add(x'01', POINTFROMTEXT('POINT(1 2)')) FROM one", "BIGINT");
        refused("SELECT f_tiny(300) FROM one");
        refused("CREATE INDEX i ON accounts (f_add(id, 1))", "must not use the user-defined function F_ADD");
        refused("CREATE VIEW v AS SELECT f_add(id, 1), COUNT(*) FROM accounts GROUP BY f_add(id, 1)", "must not use the user-defined function");
        refused("CREATE TABLE checked (id INTEGER CHECK (f_integer(id) > 0))", "must not use the user-defined function");
        refused("CREATE TABLE filled (id INTEGER DEFAULT f_integer(1))");
        refused("CREATE FUNCTION f_add FROM METHOD app.Functions.add", "already exists");
        refused("CREATE FUNCTION substring FROM METHOD app.Functions.text", "SQL has a function named SUBSTRING");
        refused("CREATE FUNCTION g FROM METHOD app.Functions.fixed", "is static");
        refused("CREATE FUNCTION g FROM METHOD app.Functions.none", "no public method none");
        refused("CREATE FUNCTION g FROM METHOD app.None.none", "not among the loaded classes");
        refused("CREATE FUNCTION g FROM CLASS app.Functions", "METHOD");
        refused("CREATE AGGREGATE FUNCTION g FROM CLASS app.Functions", "start");
        refused("DROP FUNCTION f_text", "UsesFunctions");
        refused("DROP FUNCTION none", "not found");
        sql("DROP FUNCTION none IF EXISTS");
        try {
            client.callProcedure("@UpdateClasses", null, "app.Longest");
            throw new AssertionError("classes that a function needs are kept");
        } catch (ProcCallException refused) {
            assertTrue(refused.getMessage().contains("LONGEST"), refused.getMessage());
        }
        assertEquals(4, value("GREATEST(3, 4)"));
        ClientResponse hiding = client.callProcedure("@AdHoc", "CREATE FUNCTION greatest FROM METHOD app.Functions.add");
        assertTrue(hiding.getStatusString().contains("function GREATEST hides SQL's function of that name"), hiding.getStatusString());
        assertEquals(7L, value("GREATEST(3, 4)"));
        sql("CREATE INDEX by_greatest ON accounts (GREATEST(id, balance))");
        sql("DROP INDEX by_greatest");
        sql("DROP FUNCTION greatest");
        assertEquals(4, value("GREATEST(3, 4)"));
        sql("CREATE FUNCTION for_a_while FROM METHOD app.Functions.integer; DROP FUNCTION for_a_while;");
        refused("SELECT for_a_while(1) FROM one", "FOR_A_WHILE");
    }

    @Test
    void theyAreListedAndFollowTheirClasses() throws Exception {
        VoltTable functions = client.callProcedure("@SystemCatalog", "FUNCTIONS").getResults()[0];
        List<String> rows = new ArrayList<>();
        while (functions.advanceRow()) {
            rows.add(Arrays.toString(new Object[] {functions.getString(0), functions.getString(1), functions.getString(2), functions.getString(3)}));
        }
        assertTrue(rows.contains("[scalar, F_ADD, app.Functions, add]"), rows.toString());
        assertTrue(rows.contains("[aggregate, LONGEST, app.Longest, null]"), rows.toString());
        for (int round = 0; round < 3; round++) {
            client.callProcedure("@UpdateClasses", Jars.application("words " + round), null);
            assertEquals(42L, value("f_add(40, 2)"));
        }
    }
}

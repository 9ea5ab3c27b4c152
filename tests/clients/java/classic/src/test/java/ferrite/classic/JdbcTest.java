package ferrite.classic;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** The JDBC driver that comes with the old API. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class JdbcTest {
    private Server server;
    private Connection connection;

    @BeforeAll
    void startServer() throws Exception {
        Class.forName("org.voltdb.jdbc.Driver");
        server = Server.withVoter(3);
    }

    @AfterAll
    void stopServer() throws Exception {
        if (server != null) {
            server.close();
        }
    }

    @BeforeEach
    void connect() throws Exception {
        connection = DriverManager.getConnection("jdbc:voltdb://" + server.host() + ":" + server.port());
    }

    @AfterEach
    void disconnect() throws Exception {
        connection.close();
    }

    @Test
    void statementsAndPreparedStatements() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE goods IF EXISTS");
            statement.execute("CREATE TABLE goods (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40), price DECIMAL)");
            statement.execute("PARTITION TABLE goods ON COLUMN id");
            assertEquals(1, statement.executeUpdate("INSERT INTO goods VALUES (1, 'bolt', 0.25)"));
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO goods (id, name, price) VALUES (?, ?, ?)")) {
            insert.setLong(1, 2);
            insert.setString(2, "nut");
            insert.setNull(3, java.sql.Types.DECIMAL);
            assertEquals(1, insert.executeUpdate());
        }
        try (PreparedStatement query = connection.prepareStatement("SELECT name, price FROM goods WHERE id >= ? ORDER BY id")) {
            query.setLong(1, 1);
            try (ResultSet rows = query.executeQuery()) {
                assertTrue(rows.next());
                assertEquals("bolt", rows.getString("NAME"));
                assertEquals(0, new BigDecimal("0.25").compareTo(rows.getBigDecimal(2)));
                assertTrue(rows.next());
                assertEquals("nut", rows.getString(1));
                assertNull(rows.getBigDecimal(2));
                assertFalse(rows.next());
            }
        }
    }

    @Test
    void procedures() throws Exception {
        try (CallableStatement initialize = connection.prepareCall("{call Initialize(?, ?)}")) {
            initialize.setInt(1, 6);
            initialize.setString(2, Server.CONTESTANTS);
            initialize.execute();
        }
        try (CallableStatement vote = connection.prepareCall("{call Vote(?, ?, ?)}")) {
            vote.setLong(1, 6175551234L);
            vote.setInt(2, 1);
            vote.setLong(3, 2);
            vote.execute();
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT COUNT(*) FROM votes WHERE phone_number = 6175551234")) {
            assertTrue(rows.next());
            assertEquals(1, rows.getLong(1));
        }
    }

    @Test
    void metadata() throws Exception {
        TreeSet<String> tables = new TreeSet<>();
        try (ResultSet rows = connection.getMetaData().getTables(null, null, "%", new String[] {"TABLE"})) {
            while (rows.next()) {
                tables.add(rows.getString("TABLE_NAME"));
            }
        }
        assertTrue(tables.containsAll(List.of("AREA_CODE_STATE", "CONTESTANTS", "VOTES")), tables.toString());
        TreeSet<String> columns = new TreeSet<>();
        try (ResultSet rows = connection.getMetaData().getColumns(null, null, "VOTES", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        assertEquals(new TreeSet<>(List.of("CONTESTANT_NUMBER INTEGER", "PHONE_NUMBER BIGINT", "STATE VARCHAR")), columns);
    }

    /** A column of every row of a metadata answer. */
    private static TreeSet<String> column(ResultSet rows, String name) throws SQLException {
        TreeSet<String> values = new TreeSet<>();
        try (rows) {
            while (rows.next()) {
                values.add(rows.getString(name));
            }
        }
        return values;
    }

    @Test
    void metadataOfKeysIndexesAndProcedures() throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        assertTrue(metadata.getDatabaseMajorVersion() >= 11, metadata.getDatabaseProductVersion());
        assertTrue(column(metadata.getTableTypes(), "TABLE_TYPE").containsAll(List.of("TABLE", "VIEW")));
        assertEquals(new TreeSet<>(List.of("V_VOTES_BY_CONTESTANT_NUMBER_STATE", "V_VOTES_BY_PHONE_NUMBER")),
                column(metadata.getTables(null, null, "%", new String[] {"VIEW"}), "TABLE_NAME"));
        try (ResultSet keys = metadata.getPrimaryKeys(null, null, "CONTESTANTS")) {
            assertTrue(keys.next());
            assertEquals("CONTESTANT_NUMBER", keys.getString("COLUMN_NAME"));
            assertEquals(1, keys.getInt("KEY_SEQ"));
            assertEquals("PK_CONTESTANTS", keys.getString("PK_NAME"));
            assertFalse(keys.next());
        }
        try (ResultSet indexes = metadata.getIndexInfo(null, null, "AREA_CODE_STATE", true, false)) {
            assertTrue(indexes.next());
            assertEquals("AREA_CODE", indexes.getString("COLUMN_NAME"));
            assertFalse(indexes.getBoolean("NON_UNIQUE"));
        }
        assertTrue(column(metadata.getProcedures(null, null, "%"), "PROCEDURE_NAME")
                .containsAll(List.of("Vote", "Initialize", "Results", "VOTES.insert", "CONTESTANTS.upsert")));
        try (ResultSet parameters = metadata.getProcedureColumns(null, null, "Vote", "%")) {
            List<String> types = new ArrayList<>();
            while (parameters.next()) {
                types.add(parameters.getInt("ORDINAL_POSITION") + " " + parameters.getString("TYPE_NAME"));
            }
            assertEquals(List.of("1 BIGINT", "2 INTEGER", "3 BIGINT"), types);
        }
        assertTrue(column(metadata.getTypeInfo(), "TYPE_NAME").containsAll(List.of("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT",
                "DECIMAL", "VARCHAR", "VARBINARY", "TIMESTAMP")));
    }

    @Test
    void batches() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE batched IF EXISTS");
            statement.execute("CREATE TABLE batched (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(10))");
            statement.execute("PARTITION TABLE batched ON COLUMN id");
            statement.addBatch("INSERT INTO batched VALUES (1, 'one')");
            statement.addBatch("INSERT INTO batched VALUES (2, 'two')");
            statement.addBatch("UPDATE batched SET name = 'both'");
            assertArrayEquals(new int[] {1, 1, 2}, statement.executeBatch());
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
            for (int id = 10; id < 60; id++) {
                insert.setInt(1, id);
                insert.setString(2, "n" + id);
                insert.addBatch();
            }
            int[] counts = insert.executeBatch();
            assertEquals(50, counts.length);
            assertEquals(50, Arrays.stream(counts).sum());
        }
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
            insert.setInt(1, 100);
            insert.setString(2, "fits");
            insert.addBatch();
            insert.setInt(1, 1);
            insert.setString(2, "is there");
            insert.addBatch();
            BatchUpdateException refused = assertThrows(BatchUpdateException.class, insert::executeBatch);
            assertEquals(1, refused.getUpdateCounts()[0]);
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT COUNT(*) FROM batched")) {
            assertTrue(rows.next());
            assertEquals(53, rows.getLong(1));
        }
    }

    @Test
    void callableStatementsReturnTables() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP PROCEDURE of_state IF EXISTS");
            statement.execute("CREATE PROCEDURE of_state AS SELECT area_code, state FROM area_code_state WHERE state = ? ORDER BY area_code");
            statement.execute("UPSERT INTO area_code_state VALUES (101, 'QQ')");
            statement.execute("UPSERT INTO area_code_state VALUES (102, 'QQ')");
        }
        try (CallableStatement call = connection.prepareCall("{call of_state(?)}")) {
            call.setString(1, "QQ");
            try (ResultSet rows = call.executeQuery()) {
                assertEquals(2, rows.getMetaData().getColumnCount());
                assertEquals("STATE", rows.getMetaData().getColumnName(2));
                assertTrue(rows.next());
                assertEquals(101, rows.getInt(1));
                assertTrue(rows.next());
                assertEquals("QQ", rows.getString("state"));
                assertFalse(rows.next());
            }
        }
    }

    @Test
    void preparedStatementsCarryEveryType() throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE kinds IF EXISTS");
            statement.execute("CREATE TABLE kinds (a TINYINT, b SMALLINT, c INTEGER, d BIGINT NOT NULL PRIMARY KEY, e FLOAT, f DECIMAL,"
                    + " g VARCHAR(20), h VARBINARY(20), i TIMESTAMP)");
            statement.execute("PARTITION TABLE kinds ON COLUMN d");
        }
        Timestamp moment = Timestamp.valueOf("2026-03-04 05:06:07.008");
        byte[] bytes = {1, -2, 3};
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
            insert.setByte(1, (byte) 1);
            insert.setShort(2, (short) 2);
            insert.setInt(3, 3);
            insert.setLong(4, 4);
            insert.setDouble(5, 5.5);
            insert.setBigDecimal(6, new BigDecimal("6.25"));
            insert.setString(7, "seven");
            insert.setBytes(8, bytes);
            insert.setTimestamp(9, moment);
            assertEquals(1, insert.executeUpdate());
        }
        try (PreparedStatement query = connection.prepareStatement("SELECT * FROM kinds WHERE d = ?")) {
            query.setLong(1, 4);
            try (ResultSet row = query.executeQuery()) {
                assertTrue(row.next());
                assertEquals(1, row.getByte("A"));
                assertEquals(2, row.getShort("B"));
                assertEquals(3, row.getInt("C"));
                assertEquals(5.5, row.getDouble("E"));
                assertEquals(0, new BigDecimal("6.25").compareTo(row.getBigDecimal("F")));
                assertEquals("seven", row.getString("G"));
                assertArrayEquals(bytes, row.getBytes("H"));
                assertEquals(moment, row.getTimestamp("I"));
            }
        }
    }

    @Test
    void errorsAreSqlExceptions() throws Exception {
        try (Statement statement = connection.createStatement()) {
            SQLException refused = assertThrows(SQLException.class, () -> statement.executeQuery("SELECT * FROM nosuch"));
            assertTrue(refused.getMessage().contains("NOSUCH"), refused.getMessage());
        }
    }
}

package ferrite.classic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.math.BigDecimal;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
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
        server = Server.withVoter(2);
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
        assertTrue(tables.containsAll(java.util.List.of("AREA_CODE_STATE", "CONTESTANTS", "VOTES")), tables.toString());
        TreeSet<String> columns = new TreeSet<>();
        try (ResultSet rows = connection.getMetaData().getColumns(null, null, "VOTES", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        assertEquals(new TreeSet<>(java.util.List.of("CONTESTANT_NUMBER INTEGER", "PHONE_NUMBER BIGINT", "STATE VARCHAR")), columns);
    }

    @Test
    void errorsAreSqlExceptions() throws Exception {
        try (Statement statement = connection.createStatement()) {
            SQLException refused = assertThrows(SQLException.class, () -> statement.executeQuery("SELECT * FROM nosuch"));
            assertTrue(refused.getMessage().contains("NOSUCH"), refused.getMessage());
        }
    }
}

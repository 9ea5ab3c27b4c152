package procedures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.ferritedb.client.CallException;
import io.ferritedb.client.Client;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The procedure on a server of its own, which the test starts and stops. */
class @NAME@Test {
    private static TestServer server;
    private static Client client;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer();
        client = Client.to(server.address()).connect();
        client.callSync("@UpdateClasses", TestServer.classes(), null);
        client.callSync("@AdHoc", TestServer.text("schema.sql"));
    }

    @AfterAll
    static void stop() throws Exception {
        if (client != null) {
            client.close();
        }
        if (server != null) {
            server.close();
        }
    }

    @Test
    void countsByName() {
        assertEquals(5, client.callSync("@NAME@", "first", 5).scalarLong());
        assertEquals(12, client.callSync("@NAME@", "first", 7).scalarLong());
        assertEquals(1, client.callSync("@NAME@", "second", 1).scalarLong());
    }

    @Test
    void refusesToGoBack() {
        assertThrows(CallException.class, () -> client.callSync("@NAME@", "third", -1));
        assertEquals(0, client.callSync("@AdHoc", "SELECT COUNT(*) FROM counters WHERE name = 'third'").scalarLong());
    }
}

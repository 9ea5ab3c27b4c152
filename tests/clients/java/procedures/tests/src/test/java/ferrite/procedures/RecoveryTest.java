package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;

/**
 * What is not determined by a call's parameters is the same after a recovery; and a procedure that
 * does not end is told of.
 */
class RecoveryTest {
    private static Client connect(Server server) throws Exception {
        Client client = ClientFactory.createClient(new ClientConfig());
        client.createConnection(server.host(), server.port());
        return client;
    }

    private static String data(Client client) throws Exception {
        ClientResponse response = client.callProcedure("@AdHoc", "SELECT * FROM chaos ORDER BY id, number");
        VoltTable table = response.getResults()[0];
        assertTrue(table.getRowCount() > 0);
        return table.toString() + client.callProcedure("@AdHoc", "SELECT * FROM chaos_by_id ORDER BY id").getResults()[0];
    }

    private static void call(Client client, int from, int to) throws Exception {
        for (int id = from; id < to; id++) {
            client.callProcedure((ClientResponse response) -> { }, id % 10 == 0 ? "ChaoticEverywhere" : "Chaotic", id);
        }
        client.drain();
    }

    @Test
    void dataIsTheSameAfterRecovery() throws Exception {
        try (Server server = Server.withVoter(3)) {
            Client client = connect(server);
            client.callProcedure("@UpdateClasses", Jars.application("words"), null);
            client.callProcedure("@AdHoc", "CREATE TABLE chaos (id BIGINT NOT NULL, number INTEGER, words VARCHAR(200), value FLOAT);"
                    + "PARTITION TABLE chaos ON COLUMN id;"
                    + "CREATE VIEW chaos_by_id AS SELECT id, COUNT(*), SUM(value), MAX(words) FROM chaos GROUP BY id;"
                    + "CREATE FUNCTION f_add FROM METHOD app.Functions.add;"
                    + "CREATE PROCEDURE PARTITION ON TABLE chaos COLUMN id FROM CLASS app.Chaotic;"
                    + "CREATE PROCEDURE ChaoticEverywhere FROM CLASS app.Chaotic;");
            call(client, 0, 300);
            String before = data(client);
            client.close();
            server.killAndRestart();
            client = connect(server);
            assertEquals(before, data(client));
            assertEquals(3, client.callProcedure("@AdHoc", "SELECT f_add(1, 2) FROM chaos LIMIT 1").getResults()[0].asScalarLong());

            client.callProcedure("@SnapshotSave");
            call(client, 300, 500);
            before = data(client);
            client.close();
            server.killAndRestart();
            client = connect(server);
            assertEquals(before, data(client));
            assertEquals(ClientResponse.SUCCESS, client.callProcedure("Chaotic", 1000).getStatus());
            client.close();
        }
    }

    @Test
    void aProcedureThatRunsTooLongIsToldOfAndEnded(@TempDir Path directory) throws Exception {
        try (Server server = Server.withVoter(1, "--query-timeout", "2")) {
            Client client = connect(server);
            client.callProcedure("@UpdateClasses", Jars.application("words"), null);
            client.callProcedure("@AdHoc", "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));"
                    + "PARTITION TABLE accounts ON COLUMN id; CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Fails;");
            Path end = directory.resolve("end");
            CompletableFuture<ClientResponse> answer = new CompletableFuture<>();
            client.callProcedure((ClientResponse response) -> answer.complete(response), "Fails", 1, "busy until " + end);
            String told = "procedure app.Fails has run for ";
            String stack = "\n    at app.Fails.busy(Fails.java:";
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            for (String log = server.log(); !log.contains(stack); log = server.log()) {
                assertTrue(System.nanoTime() < deadline, log);
                assertFalse(answer.isDone());
                Thread.onSpinWait();
            }
            assertTrue(server.log().contains("WARN  ferrite: " + told), server.log());
            assertTrue(server.log().contains(" s in thread partition-0 [java-call-long]\n    at "), server.log());
            Files.createFile(end);
            String words = answer.get(60, TimeUnit.SECONDS).getStatusString();
            assertTrue(words.contains("Transaction Interrupted") && words.contains(told) && words.contains(stack), words);
            assertEquals(-1, client.callProcedure("Fails", 1, "nothing").getResults()[0].asScalarLong());
            assertEquals(1, client.callProcedure("@AdHoc", "SELECT COUNT(*) FROM accounts").getResults()[0].asScalarLong());
            client.close();
        }
    }
}

package ferrite.procedures;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Server;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;

/**
 * A jar that changes again and again under load: no call fails, the newest classes answer, old ones
 * go.
 */
class ReloadTest {
    private static final int RELOADS = Integer.getInteger("reloads", 60);

    @Test
    void classesChangeWithoutAStop() throws Exception {
        try (Server server = Server.withVoter(3)) {
            Client client = ClientFactory.createClient(new ClientConfig());
            client.createConnection(server.host(), server.port());
            client.callProcedure("@UpdateClasses", Jars.application("version 0"), null);
            client.callProcedure("@AdHoc", "CREATE TABLE one (id BIGINT NOT NULL, PRIMARY KEY (id))");
            client.callProcedure("@AdHoc", "CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));"
                    + "PARTITION TABLE accounts ON COLUMN id");
            client.callProcedure("@AdHoc", "INSERT INTO one VALUES (1)");
            client.callProcedure("@AdHoc", "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM CLASS app.Context;"
                    + "CREATE PROCEDURE FROM CLASS app.JvmFigures;");
            AtomicReference<String> failure = new AtomicReference<>();
            AtomicLong calls = new AtomicLong();
            boolean[] stop = {false};
            Thread load = new Thread(() -> {
                try {
                    while (!stop[0]) {
                        client.callProcedure((ClientResponse response) -> {
                            if (response.getStatus() != ClientResponse.SUCCESS) {
                                failure.compareAndSet(null, response.getStatusString());
                            }
                            calls.incrementAndGet();
                        }, "Context", calls.get());
                        if (calls.get() % 64 == 0) {
                            client.drain();
                        }
                    }
                } catch (Exception e) {
                    failure.compareAndSet(null, e.toString());
                }
            }, "load");
            load.start();
            VoltTable first = null;
            for (int version = 1; version <= RELOADS; version++) {
                String words = "version " + version;
                assertEquals(ClientResponse.SUCCESS, client.callProcedure("@UpdateClasses", Jars.application(words), null).getStatus());
                VoltTable answer = client.callProcedure("Context", version).getResults()[0];
                answer.advanceRow();
                assertEquals(words, answer.getString("RESOURCE"));
                if (version == RELOADS / 3) {
                    first = client.callProcedure("JvmFigures").getResults()[0];
                }
            }
            stop[0] = true;
            load.join();
            client.drain();
            assertEquals(null, failure.get());
            VoltTable last = client.callProcedure("JvmFigures").getResults()[0];
            first.advanceRow();
            last.advanceRow();
            String figures = calls.get() + " calls, classes " + first.getLong(0) + " -> " + last.getLong(0) + ", metaspace "
                    + first.getLong(1) + " -> " + last.getLong(1) + ", unloaded " + last.getLong(2);
            System.out.println(figures);
            assertTrue(last.getLong(0) < first.getLong(0) + 200, figures);
            assertTrue(last.getLong(1) < first.getLong(1) + 4_000_000, figures);
            client.close();
        }
    }
}

package ferrite.classic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Scenario;
import ferrite.support.Server;
import ferrite.support.Wait;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.voltdb.client.Client;
import org.voltdb.client.ClientAffinityStats;
import org.voltdb.client.ClientAuthScheme;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;
import org.voltdb.client.ProcCallException;

/** The old API: {@link Client}. */
class ClassicClientTest extends Scenario {
    private Client client;

    @Override
    protected void connect(Server server) throws Exception {
        ClientConfig config = new ClientConfig();
        // Without that it knows the nodes that it is told of, and no others.
        config.setTopologyChangeAware(Server.NODES > 1);
        client = ClientFactory.createClient(config);
        client.createConnection(server.host(), server.port());
    }

    @Override
    protected void disconnect() throws Exception {
        client.close();
    }

    @Override
    protected ClientResponse call(String procedure, Object... parameters) throws Exception {
        try {
            return client.callProcedure(procedure, parameters);
        } catch (ProcCallException refused) {
            return refused.getClientResponse();
        }
    }

    @Override
    protected void callAsync(Consumer<ClientResponse> consumer, String procedure, Object... parameters) throws Exception {
        client.callProcedure(consumer::accept, procedure, parameters);
    }

    @Override
    protected ClientResponseWithPartitionKey[] callAllPartitions(String procedure, Object... parameters) throws Exception {
        return client.callAllPartitionProcedure(procedure, parameters);
    }

    @Override
    protected Map<Integer, ClientAffinityStats> affinity() {
        return client.createStatsContext().fetch().getAffinityStats();
    }

    @Test
    void aTopologyAwareClientFindsAllHosts() throws Exception {
        ClientConfig config = new ClientConfig();
        config.setTopologyChangeAware(true);
        Client aware = ClientFactory.createClient(config);
        try {
            aware.createConnection(server.host(), server.port());
            for (int caller = 0; caller < 20; caller++) {
                aware.callProcedure("Vote", 5030000000L + caller, 1, 2L);
            }
            Wait.until("a connection to each host", () -> aware.getConnectedHostList().size() == Server.NODES);
        } finally {
            aware.close();
        }
        assertEquals(20, sum("SELECT COUNT(*) FROM votes"));
    }

    @Test
    void aQueryEndsByTheTimeoutOfItsCall() {
        ProcCallException refused =
                assertThrows(ProcCallException.class, () -> client.callProcedureWithTimeout(50, "@AdHoc", ENDLESS));
        assertEquals(ClientResponse.GRACEFUL_FAILURE, refused.getClientResponse().getStatus());
        assertTrue(refused.getMessage().contains("the 50 ms that the call was given"), refused.getMessage());
    }

    @Test
    void aLoginWithTheOlderDigestWorks() throws Exception {
        Client older = ClientFactory.createClient(new ClientConfig("alice", "secret", null, ClientAuthScheme.HASH_SHA1));
        try {
            older.createConnection(server.host(), server.port());
            assertEquals(ClientResponse.SUCCESS, older.callProcedure("@Ping").getStatus());
        } finally {
            older.close();
        }
    }
}

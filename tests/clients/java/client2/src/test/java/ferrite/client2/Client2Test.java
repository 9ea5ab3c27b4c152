package ferrite.client2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ferrite.support.Scenario;
import ferrite.support.Server;
import ferrite.support.Wait;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.voltdb.client.Client2;
import org.voltdb.client.Client2CallOptions;
import org.voltdb.client.Client2Config;
import org.voltdb.client.ClientAffinityStats;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;
import org.voltdb.client.ProcCallException;

/** The new API: {@link Client2}. */
class Client2Test extends Scenario {
    private Client2 client;

    @Override
    protected void connect(Server server) throws Exception {
        client = ClientFactory.createClient(new Client2Config().clientRequestLimit(2000).outstandingTransactionLimit(1000));
        client.connectSync(server.host(), server.port());
    }

    @Override
    protected void disconnect() {
        client.close();
    }

    @Override
    protected ClientResponse call(String procedure, Object... parameters) throws Exception {
        try {
            return client.callProcedureSync(procedure, parameters);
        } catch (ProcCallException refused) {
            return refused.getClientResponse();
        }
    }

    @Override
    protected void callAsync(Consumer<ClientResponse> consumer, String procedure, Object... parameters) {
        client.callProcedureAsync(procedure, parameters).thenAccept(consumer);
    }

    @Override
    protected ClientResponseWithPartitionKey[] callAllPartitions(String procedure, Object... parameters) throws Exception {
        return client.callAllPartitionProcedureSync(null, procedure, parameters);
    }

    @Override
    protected Map<Integer, ClientAffinityStats> affinity() {
        return client.createStatsContext().fetch().getAffinityStats();
    }

    @Test
    void theTopologyArrives() throws Exception {
        assertTrue(client.waitForTopology(10, TimeUnit.SECONDS));
        // It connects to those that the topology names, which are the ones with a copy.
        Wait.until("a connection to each host with a copy", () -> client.connectedHosts().size() >= Server.COPIES);
    }

    @Test
    void callsCarryPriorityAndTimeouts() throws Exception {
        Client2CallOptions options =
                new Client2CallOptions().requestPriority(1).clientTimeout(30, TimeUnit.SECONDS).queryTimeout(10, TimeUnit.SECONDS);
        ClientResponse response = client.callProcedureSync(options, "Vote", 7025551234L, 1, 2L);
        assertEquals(0, response.getResults()[0].asScalarLong());
    }

    @Test
    void aQueryEndsByTheTimeoutOfItsCall() throws Exception {
        Client2CallOptions options = new Client2CallOptions().queryTimeout(50, TimeUnit.MILLISECONDS);
        ClientResponse response;
        try {
            response = client.callProcedureSync(options, "@AdHoc", ENDLESS);
        } catch (ProcCallException refused) {
            response = refused.getClientResponse();
        }
        assertEquals(ClientResponse.GRACEFUL_FAILURE, response.getStatus());
        assertTrue(response.getStatusString().contains("the 50 ms that the call was given"), response.getStatusString());
    }
}

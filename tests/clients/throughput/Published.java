import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;

/**
 * The published client's first interface. Arguments: host:port, warm-up seconds, seconds, calls
 * outstanding, nodes.
 */
final class Published extends Load {
    private final Client client;

    private Published(Client client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setMaxOutstandingTxns(Integer.parseInt(arguments[3]));
        // It connects to the nodes that it has not been told of only with this.
        config.setTopologyChangeAware(Integer.parseInt(arguments[4]) > 1);
        Client client = ClientFactory.createClient(config);
        client.createConnection(arguments[0]);
        new Published(client).run(Double.parseDouble(arguments[1]), Double.parseDouble(arguments[2]));
        client.close();
    }

    @Override
    void vote(long phone, int contestant) throws Exception {
        client.callProcedure(
                response -> {
                    boolean success = response.getStatus() == ClientResponse.SUCCESS;
                    answered(success, success ? response.getResults()[0].asScalarLong() : -1);
                },
                "Vote", phone, contestant, 2L);
    }

    @Override
    void drain() throws Exception {
        client.drain();
    }
}

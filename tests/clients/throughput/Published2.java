import java.util.concurrent.Semaphore;
import org.voltdb.client.Client2;
import org.voltdb.client.Client2Config;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ClientResponse;

/**
 * The published client's second interface, with futures. Arguments: host:port, warm-up seconds,
 * seconds, calls outstanding.
 */
final class Published2 extends Load {
    private final Client2 client;
    private final Semaphore room;
    private final int outstanding;

    private Published2(Client2 client, int outstanding) {
        this.client = client;
        this.outstanding = outstanding;
        room = new Semaphore(outstanding);
    }

    public static void main(String[] arguments) throws Exception {
        int outstanding = Integer.parseInt(arguments[3]);
        // It refuses calls over its limit where the others wait: the semaphore waits for it.
        Client2 client = ClientFactory.createClient(
                new Client2Config().outstandingTransactionLimit(outstanding).clientRequestLimit(outstanding + 100));
        client.connectSync(arguments[0]);
        new Published2(client, outstanding).run(Double.parseDouble(arguments[1]), Double.parseDouble(arguments[2]));
        client.close();
    }

    @Override
    void vote(long phone, int contestant) throws Exception {
        room.acquire();
        client.callProcedureAsync("Vote", phone, contestant, 2L).whenComplete((response, failure) -> {
            boolean success = failure == null && response.getStatus() == ClientResponse.SUCCESS;
            answered(success, success ? response.getResults()[0].asScalarLong() : -1);
            room.release();
        });
    }

    @Override
    void drain() throws Exception {
        room.acquire(outstanding);
        client.drain();
    }
}

import io.ferritedb.client.Client;

/** Our driver. Arguments: host:port, warm-up seconds, seconds, calls outstanding. */
final class Ours extends Load {
    private final Client client;

    private Ours(Client client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        try (Client client = Client.to(arguments[0]).maxOutstanding(Integer.parseInt(arguments[3])).connect()) {
            new Ours(client).run(Double.parseDouble(arguments[1]), Double.parseDouble(arguments[2]));
        }
    }

    @Override
    void vote(long phone, int contestant) {
        client.call("Vote", phone, contestant, 2L)
                .whenComplete((result, failure) -> answered(failure == null, failure == null ? result.scalarLong() : -1));
    }

    @Override
    void drain() {
        client.close();
    }
}

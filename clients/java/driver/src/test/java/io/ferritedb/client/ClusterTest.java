package io.ferritedb.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The driver with several nodes: where calls go, and what becomes of them when leaders change and
 * nodes die.
 */
class ClusterTest {
    private FakeCluster cluster;
    private Client client;

    @AfterEach
    void close() throws IOException {
        if (client != null) client.close(Duration.ZERO);
        if (cluster != null) cluster.close();
    }

    private static void until(String what, BooleanSupplier holds) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!holds.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadline, "in vain for " + what);
            Thread.onSpinWait();
        }
    }

    private ClientOptions options(String servers) {
        return Client.to(servers).reconnect(Duration.ofMillis(1), Duration.ofMillis(20)).timeout(Duration.ofSeconds(60));
    }

    /** The host that a call of the partition reaches; -1 if it reaches none. */
    private int reached(int partition) {
        try {
            return (int) client.callSync("One", FakeCluster.keyOf(partition), "x").scalarLong();
        } catch (CallException failed) {
            return -1;
        }
    }

    private List<Integer> allReached() {
        return IntStream.range(0, FakeCluster.PARTITIONS).mapToObj(this::reached).toList();
    }

    private int host(String procedure, Object... parameters) {
        return (int) client.callSync(procedure, parameters).scalarLong();
    }

    /** A client that has learned who leads, and its cluster. */
    private void settled(int nodes) throws IOException {
        cluster = new FakeCluster(nodes);
        client = options(cluster.addresses()).connect();
        List<Integer> leaders = IntStream.range(0, FakeCluster.PARTITIONS).mapToObj(partition -> partition % nodes).toList();
        until("the topology", () -> allReached().equals(leaders) && allReached().equals(leaders));
        // What all nodes were asked at first has arrived.
        until("the subscriptions", () -> IntStream.range(0, nodes).allMatch(host -> cluster.asked(host, "@Statistics") == 1));
        for (int partition = 0; partition < nodes; partition++) reached(partition);
        cluster.calls();
    }

    @Test
    void eachCallGoesToTheNodeThatLeadsWhatItTouches() throws Exception {
        settled(3);
        for (int round = 0; round < 5; round++) {
            assertEquals(List.of(0, 1, 2, 0), allReached());
            assertEquals(0, host("All", 7));
            assertEquals(0, host("@AdHoc", "SELECT 1"));
            // NULL is of partition 0, a text is converted as the server does.
            assertEquals(0, host("One", (Object) null));
            assertEquals(2, host("One", "" + FakeCluster.keyOf(2)));
            client.callSync("One", "not a number");
            client.callSync("One");
        }
    }

    @Test
    void aNewLeaderThatWasAnnouncedGetsTheNextCall() throws Exception {
        settled(3);
        cluster.believes(1, 2, 1, 2, 2, 1);
        cluster.pushesBeforeNextAnswer(1);
        assertEquals(1, reached(1));
        assertEquals(List.of(1, 2, 2, 1), allReached());
        assertEquals(2, host("All"));
        cluster.believes(2, 0, 0, 0, 0, 0);
        cluster.pushesBeforeNextAnswer(2);
        assertEquals(2, host("All"));
        assertEquals(List.of(0, 0, 0, 0), allReached());
    }

    @Test
    void listenersHearOfNewLeadersOnly() throws Exception {
        cluster = new FakeCluster(2);
        AtomicInteger changes = new AtomicInteger();
        client = options(cluster.addresses()).listener(new ConnectionListener() {
            @Override
            public void topologyChanged() {
                changes.incrementAndGet();
            }
        }).connect();
        until("the subscriptions", () -> cluster.asked(0, "@Statistics") == 1 && cluster.asked(1, "@Statistics") == 1);
        until("the topology", () -> allReached().equals(List.of(0, 1, 0, 1)) && allReached().equals(List.of(0, 1, 0, 1)));
        assertEquals(1, changes.get());
        cluster.pushesBeforeNextAnswer(0);
        reached(0);
        assertEquals(1, changes.get(), "nothing is new");
        cluster.believes(0, 0, 0, 0, 0, 0);
        cluster.pushesBeforeNextAnswer(0);
        reached(0);
        assertEquals(2, changes.get());
    }

    @Test
    void aLeaderThatDiesInACallLeavesItUnknownAndItsSuccessorGetsTheNext() throws Exception {
        settled(3);
        int logins = cluster.logins();
        cluster.is(1, FakeCluster.Manner.SILENT);
        List<CompletableFuture<CallResult>> calls = new ArrayList<>();
        for (int count = 0; count < 10; count++) calls.add(client.call("One", FakeCluster.keyOf(1)));
        until("the calls to arrive", () -> cluster.asked(1, "One") == 10);
        cluster.calls();
        cluster.dies(1);
        for (var call : calls) {
            CallException lost = (CallException) assertThrows(CompletionException.class, call::join).getCause();
            assertEquals(CallException.Outcome.UNKNOWN, lost.outcome());
            assertEquals(Status.CONNECTION_LOST, lost.status());
        }
        until("its end", () -> !client.statistics().connections().get(1).connected());
        // Nobody leads partition 1 as far as the client knows: others pass its calls on.
        assertNotEquals(1, reached(1));
        assertEquals(1, cluster.calls().size(), "none of the ten was sent again");
        cluster.believes(0, 0, 0, 2, 2, 0);
        cluster.pushesBeforeNextAnswer(0);
        assertEquals(0, reached(0));
        assertEquals(List.of(0, 2, 2, 0), allReached());

        // The lost node comes back, without an operator and without being asked for.
        cluster.believes(1, 0, 0, 2, 2, 0);
        cluster.is(1, FakeCluster.Manner.SERVES);
        cluster.comesBack(1);
        until("the lost node's connection", () -> cluster.logins() > logins);
        cluster.believes(2, 0, 0, 1, 2, 0);
        cluster.believes(1, 0, 0, 1, 2, 0);
        cluster.pushesBeforeNextAnswer(2);
        assertEquals(2, reached(2));
        until("the lost node's calls", () -> reached(1) == 1);
    }

    @Test
    void aFormerLeaderThatIsSilentIsGivenUpAndOneThatAnswersIsNot() throws Exception {
        settled(3);
        // Its machine has lost its power: nobody resets the connection.
        cluster.is(1, FakeCluster.Manner.STUCK);
        cluster.is(2, FakeCluster.Manner.SILENT);
        var call = client.call("One", FakeCluster.keyOf(1));
        var slow = client.call("One", FakeCluster.keyOf(2));
        until("the calls to arrive", () -> cluster.asked(1, "One") == 1 && cluster.asked(2, "One") == 1);
        cluster.believes(0, 0, 0, 0, 0, 0);
        cluster.pushesBeforeNextAnswer(0);
        assertEquals(0, reached(0));
        CallException lost = (CallException) assertThrows(CompletionException.class, call::join).getCause();
        assertEquals(Status.CONNECTION_LOST, lost.status());
        assertFalse(slow.isDone(), "it was asked whether it is there, and is");
        assertEquals(List.of(0, 0, 0, 0), allReached());
    }

    @Test
    void aNodeThatRefusesMakesTheClientAskAnotherAndFollow() throws Exception {
        settled(3);
        // It is cut off: the others have another leader, and it does not know.
        cluster.is(1, FakeCluster.Manner.REFUSES);
        cluster.believes(0, 2, 0, 2, 2, 0);
        cluster.believes(2, 2, 0, 2, 2, 0);
        CallException refused = assertThrows(CallException.class, () -> client.callSync("One", FakeCluster.keyOf(1)));
        assertEquals(CallException.Outcome.FAILED, refused.outcome());
        assertEquals(Status.SERVER_UNAVAILABLE, refused.status());
        assertEquals(List.of(new FakeCluster.Got(1, "One")), cluster.calls(), "a refused call is not sent again");
        until("the new leader", () -> reached(1) == 2);
        assertEquals(0, cluster.asked(1, "@Statistics"), "who is in doubt is not asked");
        assertEquals(List.of(0, 2, 2, 0), allReached());
        assertEquals(2, host("All"));
    }

    @Test
    void oneThatIsLeftIsAskedItself() throws Exception {
        settled(2);
        cluster.dies(0);
        until("the end of the other connection", () -> client.statistics().connections().stream().filter(each -> each.connected()).count() == 1);
        cluster.is(1, FakeCluster.Manner.REFUSES);
        cluster.believes(1, 1, 1, 1, 1, 1);
        cluster.calls();
        assertThrows(CallException.class, () -> client.callSync("All"));
        until("the question", () -> cluster.asked(1, "@Statistics") == 1);
    }

    @Test
    void ofWhatIsNotKnownCallsGoToAllInTurn() throws Exception {
        byte[] other = FakeCluster.table(new String[] {"X"}, new int[] {6}, List.<Object[]>of(new Object[] {1L}));
        for (byte[] told : List.of(FakeCluster.table(new String[0], new int[0], List.of()), other)) {
            try (FakeCluster silent = new FakeCluster(2)) {
                silent.tells(told);
                try (Client lost = options(silent.addresses()).connect()) {
                    int[] reached = new int[2];
                    for (int count = 0; count < 20; count++) reached[(int) lost.callSync("All").scalarLong()] += 1;
                    assertEquals(List.of(10, 10), List.of(reached[0], reached[1]));
                }
            }
        }
    }

    @Test
    void otherNodesAreFoundConnectedOnceAndFollowed() throws Exception {
        cluster = new FakeCluster(3);
        // The same node under another name.
        client = options(cluster.address(1).replace("127.0.0.1", "localhost")).connect();
        until("all nodes", () -> allReached().equals(List.of(0, 1, 2, 0)));
        assertEquals(List.of(1, 1, 1), IntStream.range(0, 3).mapToObj(cluster::connections).toList());
        cluster.dies(1);
        until("the end of its connection", () -> client.statistics().connections().stream().filter(each -> each.connected()).count() == 2);
        cluster.believes(0, 2, 0, 2, 2, 0);
        cluster.pushesBeforeNextAnswer(0);
        until("the new leader", () -> allReached().equals(List.of(0, 2, 2, 0)));
        cluster.comesBack(1);
        until("its return", () -> client.statistics().connections().stream().filter(each -> each.connected()).count() == 3);
        until("one connection each", () -> IntStream.range(0, 3).allMatch(host -> cluster.connections(host) == 1));
    }

    @Test
    void nodesThatWereNotNamedAreLeftAlone() throws Exception {
        cluster = new FakeCluster(2);
        client = options(cluster.address(1)).discover(false).connect();
        until("the topology", () -> cluster.asked(1, "@Statistics") == 1);
        assertEquals(List.of(1, 1, 1, 1), allReached());
        assertEquals(0, cluster.connections(0));
        assertEquals(0, cluster.asked(1, "@SystemInformation"));
    }

    @Test
    void aNodeOfAnotherClusterGetsNoCalls() throws Exception {
        cluster = new FakeCluster(2);
        cluster.belongsToAnother(1);
        AtomicInteger refused = new AtomicInteger();
        client = options(cluster.addresses()).discover(false).listener(new ConnectionListener() {
            @Override
            public void connectFailed(String address, ConnectException reason) {
                if (reason.code().equals("08004") && !reason.permanent()) refused.incrementAndGet();
            }
        }).connect();
        until("another attempt", () -> refused.get() > 1);
        // Which of the two was there first is chance.
        List<Integer> reached = IntStream.range(0, 10).mapToObj(count -> reached(0)).toList();
        assertEquals(1, reached.stream().distinct().count());
        assertFalse(reached.contains(-1));
        cluster.dies(reached.get(0));
        until("the other one", () -> reached(0) == 1 - reached.get(0));
    }

    @Test
    void whatWasNeverWrittenGoesToAnotherNode() throws Exception {
        settled(2);
        cluster.is(1, FakeCluster.Manner.STUCK);
        // One call wakes it from its reading; then it reads no more.
        client.call("One", FakeCluster.keyOf(1));
        until("the call", () -> cluster.asked(1, "One") == 1);
        cluster.calls();
        // More than the buffers of a socket hold: the writer is at it until the end.
        var large = client.call("One", FakeCluster.keyOf(1), new byte[40_000_000]);
        until("the writer", () -> cluster.unread(1));
        List<CompletableFuture<CallResult>> behind = new ArrayList<>();
        for (int count = 0; count < 50; count++) behind.add(client.call("One", FakeCluster.keyOf(1), "behind"));
        cluster.dies(1);
        for (var call : behind) assertEquals(0, call.join().scalarLong());
        CallException lost = (CallException) assertThrows(CompletionException.class, large::join).getCause();
        assertEquals(CallException.Outcome.UNKNOWN, lost.outcome());
        assertEquals(50, cluster.calls().size(), "each was sent once");
    }
}

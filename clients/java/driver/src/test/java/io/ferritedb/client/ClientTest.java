package io.ferritedb.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The driver against a real server. */
class ClientTest {
    private static TestServer server;
    private static Client client;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer("--partitions", "3");
        client = Client.to(server.address()).connect();
        client.query("CREATE TABLE things (id BIGINT NOT NULL, small SMALLINT, ratio FLOAT, amount DECIMAL, name VARCHAR(64), data VARBINARY(64),"
                + " made_at TIMESTAMP, place GEOGRAPHY_POINT, area GEOGRAPHY, PRIMARY KEY (id))");
        client.query("PARTITION TABLE things ON COLUMN id");
        client.query("CREATE PROCEDURE CountName PARTITION ON TABLE things COLUMN id AS SELECT COUNT(*) FROM things WHERE id = ? AND name = ?");
        client.query("CREATE PROCEDURE CountOthers PARTITION ON TABLE things COLUMN id AS SELECT COUNT(*) FROM things WHERE id <> ? AND name = ?");
        client.query("CREATE PROCEDURE Named PARTITION ON TABLE things COLUMN id AS SELECT id, name, made_at FROM things WHERE id = ?");
    }

    @AfterAll
    static void stop() throws Exception {
        client.close();
        server.close();
    }

    record Thing(long id, String name, Instant madeAt) {}

    interface Things {
        long countName(long id, String name);

        @Procedure("Named")
        Thing byId(long id);

        @Procedure("Named")
        CompletableFuture<List<Thing>> allById(long id);

        default String greeting() {
            return "hello";
        }
    }

    private static void insert(Client by, long id, String name) {
        by.callSync("THINGS.upsert", id, null, null, null, name, null, Instant.EPOCH, null, null);
    }

    @Test
    void everyTypeGoesThereAndBack() {
        Instant at = Instant.ofEpochSecond(1500000000, 123456000);
        Polygon area = new Polygon(List.of(List.of(new Point(0, 0), new Point(1, 0), new Point(1, 1))));
        assertEquals(1, client.callSync("THINGS.insert", Long.MAX_VALUE, (short) -3, 1.5, new BigDecimal("-12345678901234567890.123456789012"), "hé",
                new byte[] {0, -1}, at, new Point(-71.25, 42.5), area).scalarLong());
        Row row = client.query("SELECT * FROM things WHERE id = ?", Long.MAX_VALUE).iterator().next();
        assertEquals(Long.MAX_VALUE, row.getLong("id"));
        assertEquals(-3, row.getLong("small"));
        assertEquals(1.5, row.getDouble("ratio"));
        assertEquals(new BigDecimal("-12345678901234567890.123456789012"), row.getDecimal("amount"));
        assertEquals("hé", row.getString("name"));
        assertArrayEquals(new byte[] {0, -1}, row.getBytes("data"));
        assertEquals(at, row.getInstant("made_at"));
        assertEquals(new Point(-71.25, 42.5), row.get("place"));
        assertEquals(1, ((Polygon) row.get("area")).rings().get(0).get(1).longitude(), 1e-9);
    }

    @Test
    void recordsAndTypedInterfaces() {
        insert(client, 7, "seven");
        Things things = client.procedures(Things.class);
        assertEquals(1, things.countName(7, "seven"));
        assertEquals(new Thing(7, "seven", Instant.EPOCH), things.byId(7));
        assertEquals(null, things.byId(-7));
        assertEquals(List.of(new Thing(7, "seven", Instant.EPOCH)), things.allById(7).join());
        assertEquals("hello", things.greeting());
        assertThrows(IllegalArgumentException.class, () -> client.procedures(Wrong.class));
        record Missing(long id, String nothing) {}
        assertThrows(IllegalArgumentException.class, () -> client.query("SELECT id FROM things WHERE id = 7").as(Missing.class));
    }

    interface Wrong {
        Thread thread();
    }

    @Test
    void errorsSayWhatHappenedToTheTransaction() {
        insert(client, 3, "three");
        CallException twice = assertThrows(CallException.class, () -> client.callSync("THINGS.insert", 3L, null, null, null, null, null, null, null, null));
        assertEquals(Status.GRACEFUL_FAILURE, twice.status());
        assertEquals(CallException.Outcome.FAILED, twice.outcome());
        assertEquals("THINGS.insert", twice.procedure());
        CallException missing = assertThrows(CallException.class, () -> client.callSync("NoSuchThing"));
        assertTrue(Arrays.stream(missing.getStackTrace()).anyMatch(frame -> frame.getClassName().equals(ClientTest.class.getName())));
        assertInstanceOf(CallException.class, missing.getCause());
        assertThrows(CallException.class, () -> client.query("SELEC 1"));
        assertThrows(IllegalArgumentException.class, () -> client.callSync("THINGS.insert", new Object()));
        client.callSync("@Ping");
    }

    @Test
    void callsOnEveryPartition() {
        var results = client.callAllPartitions("CountName", "nobody").join();
        assertEquals(Set.of(0, 1, 2), results.keySet());
        assertEquals(0, results.get(0).scalarLong());
    }

    @Test
    void roomIsWaitedForOrRefused() {
        AtomicInteger changes = new AtomicInteger();
        ConnectionListener counting = new ConnectionListener() {
            @Override
            public void backPressure(boolean full) {
                changes.incrementAndGet();
            }
        };
        try (Client narrow = Client.to(server.address()).maxOutstanding(2).listener(counting).connect()) {
            List<CompletableFuture<CallResult>> calls = new ArrayList<>();
            for (int at = 0; at < 1000; at++) calls.add(narrow.call("@Ping"));
            calls.forEach(CompletableFuture::join);
            assertEquals(0, narrow.outstanding());
        }
        try (Client strict = Client.to(server.address()).maxOutstanding(1).whenFull(ClientOptions.WhenFull.REJECT).connect()) {
            int refused = 0;
            List<CompletableFuture<CallResult>> calls = new ArrayList<>();
            for (int at = 0; at < 1000; at++) calls.add(strict.call("@Ping"));
            for (var call : calls) {
                try {
                    call.join();
                } catch (CompletionException failed) {
                    assertEquals(CallException.Outcome.NOT_SENT, assertInstanceOf(CallException.class, failed.getCause()).outcome());
                    refused += 1;
                }
            }
            assertTrue(refused > 0 && refused < 1000, refused + " refused");
        }
    }

    @Test
    void theRateIsKept() {
        try (Client slow = Client.to(server.address()).rate(2000).connect()) {
            long began = System.nanoTime();
            List<CompletableFuture<CallResult>> calls = new ArrayList<>();
            for (int at = 0; at < 200; at++) calls.add(slow.call("@Ping"));
            calls.forEach(CompletableFuture::join);
            double seconds = (System.nanoTime() - began) / 1e9;
            assertTrue(seconds >= 0.099, seconds + " s for 200 calls at 2000 a second");
        }
    }

    @Test
    void aLatencyTargetKeepsCallsFew() {
        try (Client tuned = Client.to(server.address()).latencyTarget(Duration.ofNanos(1)).maxOutstanding(1000).connect()) {
            // No call can be that fast, so the number of calls outstanding goes down to the least.
            while (tuned.statistics().outstandingLimit() > 1) tuned.callSync("@Ping");
            tuned.callSync("@Ping");
        }
    }

    @Test
    void aCallWithoutAnAnswerInTimeEndsAsUnknown() throws Exception {
        byte[] login = java.util.HexFormat.of().parseHex("0000001f" + "00" + "00" + "00000000" + "0000000000000001" + "0000018bcfe56800" + "7f000001" + "00000001" + "31");
        try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
            Thread accepting = new Thread(() -> {
                try {
                    var socket = silent.accept();
                    socket.getOutputStream().write(login);
                    while (socket.getInputStream().read() >= 0) {}
                } catch (java.io.IOException over) {
                    // The test is over.
                }
            });
            accepting.setDaemon(true);
            accepting.start();
            try (Client waiting = Client.to("127.0.0.1:" + silent.getLocalPort()).affinity(false).discover(false).connect()) {
                var call = waiting.call(Duration.ofMillis(40), "Vote");
                CallException failed = assertInstanceOf(CallException.class, assertThrows(CompletionException.class, call::join).getCause());
                assertEquals(CallException.Outcome.UNKNOWN, failed.outcome());
                assertEquals(Status.RESPONSE_TIMEOUT, failed.status());
                assertEquals(1, waiting.statistics().total().unknown());
                assertEquals(0, waiting.outstanding());
                waiting.close(Duration.ZERO);
            }
        }
    }

    @Test
    void statisticsAsTotalsAndIntervals() {
        try (Client counting = Client.to(server.address()).connect()) {
            for (int at = 0; at < 10; at++) counting.callSync("@Ping");
            assertThrows(CallException.class, () -> counting.callSync("NoSuchThing"));
            ClientStatistics first = counting.intervalStatistics();
            assertEquals(10, first.total().succeeded());
            assertEquals(1, first.total().failed());
            assertTrue(first.total().percentile(99.999) >= first.total().percentile(50));
            assertEquals(0, counting.intervalStatistics().total().succeeded());
            assertEquals(10, counting.statistics().procedures().get("@Ping").succeeded());
            assertTrue(counting.statistics().connections().get(0).bytesSent() > 0);
            var registry = new io.micrometer.core.instrument.simple.SimpleMeterRegistry();
            new FerriteMetrics(counting, List.of()).bindTo(registry);
            assertEquals(10, registry.get("ferrite.client.calls").tag("outcome", "success").functionCounter().count());
            // One to each node.
            assertEquals(counting.statistics().connections().size(), registry.get("ferrite.client.connections").gauge().value());
        }
    }

    @Test
    void closeWaitsForAnswersAndRefusesWhatComesLater() {
        Client closing = Client.to(server.address()).connect();
        List<CompletableFuture<CallResult>> calls = new ArrayList<>();
        for (int at = 0; at < 500; at++) calls.add(closing.call("@Ping"));
        closing.close();
        calls.forEach(CompletableFuture::join);
        var late = closing.call("@Ping");
        assertTrue(late.isCompletedExceptionally());
    }

    @Test
    void rowsInBulk() throws Exception {
        var refused = new ConcurrentLinkedQueue<List<Object>>();
        try (BulkLoader loader = client.loader("THINGS").onRefused((row, reason) -> refused.add(row))) {
            for (long id = 100_000; id < 102_000; id++) loader.add(id, null, null, null, "bulk", null, null, null, null);
            loader.add(100_000L, null, null, null, "twice", null, null, null, null);
            loader.flush();
            assertEquals(2000, loader.loaded());
            assertEquals(1, loader.failed());
        }
        assertEquals("twice", refused.peek().get(4));
        assertEquals(2000, client.callAllPartitions("CountOthers", "bulk").join().values().stream().mapToLong(CallResult::scalarLong).sum());
    }

    @Test
    void noServerThere() {
        ConnectException failed = assertThrows(ConnectException.class, () -> Client.to("127.0.0.1:1").connect());
        assertTrue(failed.getMessage().contains("no server could be reached"), failed.getMessage());
        assertTrue(failed.getMessage().endsWith("; check that a server listens there"), failed.getMessage());
        failed = assertThrows(ConnectException.class, () -> Client.to("nosuchhost.invalid").connect());
        assertTrue(failed.getMessage().endsWith("nosuchhost.invalid:21212: unknown host; check the host's name"), failed.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Client.to("what is this:x"));
        var port = assertThrows(IllegalArgumentException.class, () -> Client.to("localhost:99999"));
        assertTrue(port.getMessage().contains("a port from 1 to 65535"), port.getMessage());
    }

    /** A guard against hanging, which says nothing about speed. */
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private static void waitUntil(BooleanSupplier condition) {
        Instant deadline = Instant.now().plus(PATIENCE);
        while (!condition.getAsBoolean()) {
            assertTrue(Instant.now().isBefore(deadline), "nothing came within " + PATIENCE);
            LockSupport.parkNanos(1_000_000);
        }
    }

    @Test
    void aServerKilledAndStartedAgain() throws Exception {
        try (TestServer own = new TestServer()) {
            AtomicInteger downs = new AtomicInteger();
            ConnectionListener listener = new ConnectionListener() {
                @Override
                public void down(String address, String reason) {
                    downs.incrementAndGet();
                }
            };
            try (Client caller = Client.to(own.address()).reconnect(Duration.ofMillis(10), Duration.ofMillis(100)).timeout(Duration.ofSeconds(20)).listener(listener).connect()) {
                caller.query("CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY)");
                Set<Long> acknowledged = java.util.concurrent.ConcurrentHashMap.newKeySet();
                AtomicInteger made = new AtomicInteger();
                AtomicInteger ended = new AtomicInteger();
                AtomicInteger unknown = new AtomicInteger();
                AtomicBoolean running = new AtomicBoolean(true);
                CountDownLatch done = new CountDownLatch(1);
                Thread producer = new Thread(() -> {
                    List<CompletableFuture<?>> all = new ArrayList<>();
                    for (long id = 0; running.get(); id++) {
                        long mine = id;
                        made.incrementAndGet();
                        all.add(caller.call("KEPT.insert", id).handle((result, failure) -> {
                            ended.incrementAndGet();
                            if (failure == null) acknowledged.add(mine);
                            else if (failure instanceof CallException reason && reason.outcome() == CallException.Outcome.UNKNOWN) unknown.incrementAndGet();
                            return null;
                        }));
                    }
                    all.forEach(CompletableFuture::join);
                    done.countDown();
                });
                producer.start();
                for (int round = 0; round < 3; round++) {
                    int goal = acknowledged.size() + 2000;
                    waitUntil(() -> acknowledged.size() >= goal);
                    own.kill();
                    own.start();
                }
                int goal = acknowledged.size() + 1000;
                waitUntil(() -> acknowledged.size() >= goal);
                running.set(false);
                assertTrue(done.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
                assertEquals(made.get(), ended.get());
                assertTrue(downs.get() >= 3);
                Set<Long> there = new HashSet<>();
                for (Row row : caller.query("SELECT id FROM kept")) there.add(row.getLong(0));
                assertTrue(there.containsAll(acknowledged));
                assertTrue(there.size() <= acknowledged.size() + unknown.get());
                assertFalse(acknowledged.isEmpty());
            }
        }
    }
}

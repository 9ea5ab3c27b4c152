package io.ferritedb.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Connections to all nodes, where a call goes, how many may be on their way, and what is counted.
 * Safe for many threads; an application needs one.
 *
 * <pre>{@code
 * try (Client client = Client.to("localhost").connect()) {
 *     long answer = client.callSync("Vote", 6175551234L, 1, 2L).scalarLong();
 * }
 * }</pre>
 */
public final class Client implements AutoCloseable {
    private static final long TICK = 20_000_000L;
    private static final long PING_AFTER = 10_000_000_000L;
    private static final long SILENCE = 30_000_000_000L;
    /**
     * Refused calls ask who leads no more often than this: while a leader is elected everybody
     * asks.
     */
    private static final long ASK_PAUSE = 100_000_000L;

    private static final RowMapping NO_MAPPING = new RowMapping() {
        @Override
        public <T> java.util.function.Function<Row, T> mapper(Class<T> type) {
            return null;
        }
    };

    private final ClientOptions options;
    private final List<Node> nodes = new CopyOnWriteArrayList<>();
    private volatile Connection[] live = new Connection[0];
    private volatile Map<Integer, Connection> byHost = Map.of();
    private final AtomicInteger next = new AtomicInteger();
    private final ConcurrentHashMap<String, byte[]> names = new ConcurrentHashMap<>();
    private final Topology topology = new Topology();
    private final Connection.Owner owner = new Owner();
    /** A connection whose answer was that its node does not lead, until another was asked. */
    private volatile Connection doubted;
    private int askNext;
    private final Admission admission;
    private volatile boolean closed;
    private boolean pressure;
    final ClientStatistics.Recorder statistics = new ClientStatistics.Recorder();
    /**
     * Latencies since the number of calls outstanding was set the last time; null without a target.
     */
    private volatile ClientStatistics.Growing tuning;

    /**
     * Begins with servers: {@code Client.to("db1,db2").connect()}. Never null.
     *
     * @throws IllegalArgumentException if one of them is not {@code host}, {@code host:port} or
     *     {@code [address]:port}
     */
    public static ClientOptions to(String servers) {
        return new ClientOptions().servers(servers);
    }

    Client(ClientOptions options) {
        this.options = options;
        tuning = options.latencyTarget == null ? null : new ClientStatistics.Growing();
        admission = new Admission(options.latencyTarget == null ? options.maxOutstanding : Math.min(options.maxOutstanding, 64), options.callsPerSecond);
        List<Node> first = new ArrayList<>();
        for (var server : options.servers) {
            for (int at = 0; at < options.connectionsPerServer; at++) first.add(new Node(server, false));
        }
        nodes.addAll(first);
        first.forEach(Node::start);
        List<String> reasons = new ArrayList<>();
        ConnectException refused = null;
        boolean any = false;
        for (Node node : first) {
            try {
                node.firstAttempt.join();
                any = true;
            } catch (CompletionException failed) {
                reasons.add(failed.getCause().getMessage());
                if (failed.getCause() instanceof ConnectException reason) refused = refused == null ? reason : refused;
            }
        }
        if (!any) {
            close(Duration.ZERO);
            throw new ConnectException("no server could be reached: " + String.join("; ", reasons), refused == null ? "08001" : refused.code(), false, refused);
        }
        new Connection.DriverThread(this::tick, "ferrite-ticks").start();
    }

    /**
     * Calls a procedure; parameters may be null for NULL. The future, never null, ends with its
     * result, with a {@link CallException}, or with an {@link IllegalArgumentException} if a
     * parameter cannot be sent.
     */
    public CompletableFuture<CallResult> call(String procedure, Object... parameters) {
        return call(options.timeout, procedure, parameters);
    }

    /** As {@link #call(String, Object...)}, with a time of its own. */
    public CompletableFuture<CallResult> call(Duration timeout, String procedure, Object... parameters) {
        return submit(procedure, parameters, -1, timeout, false);
    }

    /**
     * Calls a procedure and waits for its result; never null.
     *
     * @throws CallException if it failed, with the stack trace of this call; its cause has what the
     *     server said, and {@link CallException#code} the SQLSTATE
     * @throws IllegalArgumentException if a parameter cannot be sent
     */
    public CallResult callSync(String procedure, Object... parameters) {
        return await(call(procedure, parameters));
    }

    /**
     * Runs SQL with {@code ?} for parameters and waits for its last table; never null.
     *
     * @throws CallException if it failed
     * @throws java.util.NoSuchElementException if the statement returned no table
     * @throws IllegalArgumentException if a parameter cannot be sent
     */
    public Table query(String sql, Object... parameters) {
        Object[] all = new Object[parameters.length + 1];
        all[0] = sql;
        System.arraycopy(parameters, 0, all, 1, parameters.length);
        List<Table> tables = callSync("@AdHoc", all).tables();
        if (tables.isEmpty()) throw new java.util.NoSuchElementException("the statement returned no table");
        return tables.get(tables.size() - 1);
    }

    /**
     * An interface whose methods are procedures, see {@link Procedure}; never null.
     *
     * @throws IllegalArgumentException if a method returns something that rows cannot become
     */
    public <T> T procedures(Class<T> type) {
        return procedures(type, NO_MAPPING);
    }

    /** As {@link #procedures(Class)}, with objects made of rows as the mapping says. */
    public <T> T procedures(Class<T> type, RowMapping mapping) {
        return ProcedureProxy.make(this, type, mapping);
    }

    /**
     * Calls a single-partition procedure once on every partition; its first parameter is the
     * partitioning one and is put in here.
     */
    public CompletableFuture<Map<Integer, CallResult>> callAllPartitions(String procedure, Object... parameters) {
        return call("@GetPartitionKeys", "INTEGER").thenCompose(keys -> {
            Map<Integer, CompletableFuture<CallResult>> legs = new HashMap<>();
            for (Row row : keys.table()) {
                Object[] all = new Object[parameters.length + 1];
                all[0] = (int) row.getLong(1);
                System.arraycopy(parameters, 0, all, 1, parameters.length);
                int partition = (int) row.getLong(0);
                legs.put(partition, submit(procedure, all, partition, options.timeout, false));
            }
            return CompletableFuture.allOf(legs.values().toArray(CompletableFuture[]::new)).thenApply(done -> {
                Map<Integer, CallResult> results = new HashMap<>();
                legs.forEach((partition, leg) -> results.put(partition, leg.join()));
                return results;
            });
        });
    }

    /** Rows for a table, inserted many at a time, see {@link BulkLoader}. */
    public BulkLoader loader(String table) {
        return new BulkLoader(this, table);
    }

    /** Waits for a future of this driver and throws what it ended with. */
    static <T> T await(CompletableFuture<T> future) {
        try {
            return future.join();
        } catch (CompletionException failed) {
            if (failed.getCause() instanceof CallException reason) throw reason.here();
            if (failed.getCause() instanceof RuntimeException reason) throw reason;
            throw failed;
        }
    }

    /** Everything since the client was made. */
    public ClientStatistics statistics() {
        return statistics.total(connectionStatistics(), admission);
    }

    /** What was counted since this was called the last time. */
    public ClientStatistics intervalStatistics() {
        return statistics.interval(connectionStatistics(), admission);
    }

    private List<ClientStatistics.ConnectionStatistics> connectionStatistics() {
        return nodes.stream().map(Node::statistics).toList();
    }

    /** Whether a connection is up at this moment. */
    public boolean connected() {
        return live.length > 0;
    }

    /** Calls without an answer. */
    public int outstanding() {
        return admission.outstanding();
    }

    /** Waits up to two minutes for answers that are missing, then closes. */
    @Override
    public void close() {
        close(Duration.ofMinutes(2));
    }

    /**
     * No new calls; waits for the answers that are missing, at most so long; then closes. Calls
     * without an answer end as unknown.
     */
    public void close(Duration longest) {
        closed = true;
        long until = System.nanoTime() + longest.toNanos();
        try {
            for (Connection connection : live) connection.drain(until);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        for (Node node : nodes) {
            Connection connection = node.connection;
            if (connection != null) connection.end("the client was closed");
            node.thread.interrupt();
        }
    }

    // --- calls ---

    private CompletableFuture<CallResult> submit(String procedure, Object[] parameters, int partition, Duration timeout, boolean internal) {
        long deadline = System.nanoTime() + Math.min(timeout.toNanos(), Long.MAX_VALUE / 4);
        Call call = new Call(this, procedure, deadline, internal);
        boolean own = Thread.currentThread() instanceof Connection.DriverThread;
        String refusal = closed ? "the client is closed" : internal ? null : admit(own, deadline);
        if (refusal != null) {
            call.completeExceptionally(CallException.notSent(refusal, procedure, closed ? "08003" : "54000"));
            return call;
        }
        byte[] name = names.computeIfAbsent(procedure, text -> text.getBytes(StandardCharsets.UTF_8));
        try {
            while (true) {
                Connection connection = choose(procedure, parameters, partition);
                if (connection != null && connection.send(call, name, parameters, partition)) return call;
                for (Connection other : live) {
                    if (other != connection && other.send(call, name, parameters, partition)) return call;
                }
                if (closed) throw CallException.notSent("the client is closed", procedure, "08003");
                boolean wait = options.whenFull == ClientOptions.WhenFull.BLOCK && !own && System.nanoTime() - deadline < 0;
                if (!wait) throw CallException.notSent("no connection to any server", procedure, "08003");
                synchronized (nodes) {
                    if (live.length == 0) nodes.wait(10);
                }
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            complete(call, null, CallException.notSent("interrupted while waiting for a connection", procedure, "57014"));
        } catch (RuntimeException error) {
            complete(call, null, error);
        }
        return call;
    }

    /** Takes room and a turn under the rate; a reason if there is none. */
    private String admit(boolean own, long deadline) {
        boolean mayWait = options.whenFull == ClientOptions.WhenFull.BLOCK && !own;
        if (admission.limitsRate() && !admission.turn(mayWait, deadline)) return "the rate is used up";
        if (admission.tryEnter()) return null;
        if (own) {
            admission.force();
            return null;
        }
        pressure(true);
        if (!mayWait) return admission.limit() + " calls are outstanding already";
        try {
            return admission.enter(deadline) ? null : "no room within the call's time: " + admission.limit() + " calls are outstanding";
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return "interrupted while waiting for room";
        }
    }

    private void pressure(boolean full) {
        if (pressure == full) return;
        pressure = full;
        for (var listener : options.listeners) listener.backPressure(full);
    }

    private Connection choose(String procedure, Object[] parameters, int partition) {
        Connection[] connections = live;
        if (connections.length == 0) return null;
        if (connections.length == 1) return connections[0];
        if (options.affinity) {
            Integer host = partition >= 0 ? topology.leader(partition) : topology.host(procedure, parameters);
            Connection local = host == null ? null : byHost.get(host);
            if (local != null) return local;
        }
        return connections[Math.floorMod(next.getAndIncrement(), connections.length)];
    }

    /** Ends a call once. The first to come decides. */
    void complete(Call call, CallResult result, RuntimeException failure) {
        if (options.executor == null || call.internal) finish(call, result, failure);
        else options.executor.execute(() -> finish(call, result, failure));
    }

    /** An answer came in time. */
    void counted(String procedure, CallException.Outcome outcome, long nanoseconds) {
        statistics.answered(procedure, outcome, nanoseconds);
        ClientStatistics.Growing tuned = tuning;
        if (tuned != null) tuned.answered(outcome, nanoseconds);
    }

    private void finish(Call call, CallResult result, RuntimeException failure) {
        if (call.claim() && !call.internal) release();
        if (failure == null) call.complete(result);
        else call.completeExceptionally(failure);
    }

    /** The caller cancelled a call: its room is free, its answer will be late. */
    void given(Call call) {
        if (call.claim() && !call.internal) release();
    }

    private void release() {
        admission.leave();
        if (pressure && admission.outstanding() < admission.limit()) pressure(false);
    }

    void late(String procedure) {
        statistics.late(procedure);
        for (var listener : options.listeners) listener.late(procedure);
    }

    // --- connections ---

    private void tick() {
        long tuned = System.nanoTime();
        long asked = tuned - ASK_PAUSE;
        while (!closed) {
            LockSupport.parkNanos(TICK);
            long now = System.nanoTime();
            Connection inDoubt = doubted;
            if (inDoubt != null && now - asked >= ASK_PAUSE) {
                asked = now;
                doubted = null;
                askAnother(inDoubt);
            }
            for (Connection connection : live) {
                connection.tick(now, SILENCE);
                if (connection.wantsPing(now, PING_AFTER)) ask(connection, "@Ping", result -> connection.pinged());
            }
            if (options.latencyTarget != null && now - tuned > 200_000_000L) {
                tuned = now;
                tune();
            }
        }
    }

    /**
     * Additive increase, multiplicative decrease of the calls outstanding, by the p99 of the last
     * fifth of a second.
     */
    private void tune() {
        var counts = tuning.counts();
        tuning = new ClientStatistics.Growing();
        if (counts.succeeded() + counts.failed() < 20) return;
        double target = options.latencyTarget.toNanos() / 1e3;
        int limit = admission.limit();
        if (counts.percentile(99) > target) admission.limit(Math.max(1, limit * 8 / 10));
        else if (admission.outstanding() >= limit * 3 / 4) admission.limit(Math.min(options.maxOutstanding, limit + Math.max(1, limit / 10)));
    }

    private void ask(Connection connection, String procedure, java.util.function.Consumer<CallResult> then, Object... parameters) {
        Call call = new Call(this, procedure, System.nanoTime() + options.connectTimeout.toNanos(), true);
        call.thenAccept(then).exceptionally(failed -> null); // Without an answer calls go anywhere, which is right if slower.
        connection.send(call, procedure.getBytes(StandardCharsets.UTF_8), parameters, -1);
    }

    private synchronized void regroup() {
        List<Connection> connections = new ArrayList<>();
        Map<Integer, Connection> hosts = new HashMap<>();
        for (Node node : nodes) {
            Connection connection = node.connection;
            if (connection == null) continue;
            connections.add(connection);
            hosts.putIfAbsent(connection.login.hostId(), connection);
        }
        live = connections.toArray(Connection[]::new);
        byHost = hosts;
        synchronized (nodes) {
            nodes.notifyAll();
        }
    }

    /**
     * Takes a connection in that has just logged in. False: its node was found and is connected
     * under another address.
     *
     * @throws ConnectException if its node does not belong to the cluster of the others: nodes of
     *     two clusters must not answer the calls of one client
     */
    private synchronized boolean admit(Node node, Connection opened) {
        if (!nodes.contains(node)) {
            opened.end("not a node any more");
            return false;
        }
        for (Node other : nodes) {
            Connection connection = other.connection;
            // What is at the same address may just have been founded anew.
            if (connection == null || other.address.equals(node.address)) continue;
            if (connection.login.clusterStart() != opened.login.clusterStart() || connection.login.leaderAddress() != opened.login.leaderAddress()) {
                opened.end("another cluster");
                throw new ConnectException(node.address + " belongs to another cluster than " + other.address, "08004", false, null);
            }
            if (connection.login.hostId() != opened.login.hostId()) continue;
            if (node.found) {
                nodes.remove(node);
                opened.end("a second address of a node");
                return false;
            }
            // The address that the caller has named stays, unless the other has calls.
            if (other.found && connection.outstanding() == 0) {
                nodes.remove(other);
                connection.end("a second address of a node");
            }
        }
        node.lastHost = opened.login.hostId();
        node.connection = opened;
        regroup();
        return true;
    }

    /** Connects to nodes that there are no connections to; lets go of those that are no more. */
    private synchronized void discover(CallResult overview) {
        List<Topology.Host> hosts = Topology.hosts(overview.table());
        for (Node node : nodes) {
            boolean listed = hosts.stream().anyMatch(host -> host.address().equals(node.address));
            if (node.found && node.connection == null && !listed) {
                nodes.remove(node);
                node.thread.interrupt();
            }
        }
        for (Topology.Host host : hosts) {
            // A node that was named is waited for where the caller has said.
            boolean known = nodes.stream().anyMatch(node -> node.address.equals(host.address()) || node.lastHost == host.id() && (node.connection != null || !node.found));
            for (int at = 0; at < options.connectionsPerServer && !known && !closed; at++) {
                Node node = new Node(host.address(), true);
                nodes.add(node);
                node.start();
            }
        }
    }

    /** Asks to be told of changes, and for what is so now. */
    private void subscribe(Connection connection) {
        ask(connection, "@Subscribe", result -> {}, "TOPOLOGY");
        ask(connection, "@SystemCatalog", result -> learn(connection, false, result.tables()), "PROCEDURES");
        askLeaders(connection);
    }

    private void askLeaders(Connection connection) {
        ask(connection, "@Statistics", result -> learn(connection, true, result.tables()), "TOPO", 0);
    }

    private void learn(Connection by, boolean leaders, List<Table> tables) {
        try {
            if (!leaders) {
                topology.learnProcedures(tables);
                return;
            }
            Set<Integer> deposed = topology.leading();
            boolean changed = topology.learnLeaders(tables);
            if (changed) {
                deposed.removeAll(topology.leading());
                for (Connection connection : live) {
                    if (deposed.contains(connection.login.hostId())) connection.doubt(System.nanoTime());
                }
                for (var listener : options.listeners) listener.topologyChanged();
            }
            if (options.discover && !byHost.keySet().containsAll(topology.hosts())) ask(by, "@SystemInformation", this::discover, "OVERVIEW");
        } catch (RuntimeException unexpected) {
            // An answer of another shape: this server is called without affinity.
        }
    }

    /**
     * Asks who leads, not the node that has just said that it does not if there is another: it may
     * be cut off and know less than they do. A different one each time.
     */
    private void askAnother(Connection doubted) {
        Connection[] connections = live;
        Connection asked = doubted;
        for (int step = 0; step < connections.length; step++) {
            Connection other = connections[Math.floorMod(askNext++, connections.length)];
            if (other.login.hostId() == doubted.login.hostId()) continue;
            asked = other;
            break;
        }
        askLeaders(asked);
    }

    /** Hears of what is not the business of one call. */
    private final class Owner implements Connection.Owner {
        @Override
        public void pushed(Connection by, boolean leaders, List<Table> tables) {
            learn(by, leaders, tables);
        }

        @Override
        public void failed(Connection by, int status) {
            boolean moved = status == Status.SERVER_UNAVAILABLE || status == Status.RESPONSE_UNKNOWN;
            if (moved && topology.hosts().size() > 1) doubted = by;
        }

        @Override
        public void unsent(Connection by, Call call, byte[] frame) {
            if (call.isDone()) return;
            for (Connection other : live) {
                if (other != by && !call.internal && !closed && other.send(call, frame)) return;
            }
            call.ended(CallException.notSent("the connection to " + by.address + " was lost before the call was sent", call.procedure, "08003"));
        }
    }

    /**
     * One node: its thread connects, reads answers until the connection breaks, pauses, connects
     * again.
     */
    private final class Node {
        final ClientOptions.Address address;
        /** Not named by the caller. */
        final boolean found;
        final CompletableFuture<Void> firstAttempt = new CompletableFuture<>();
        final Thread thread;
        volatile Connection connection;
        volatile long reconnects;
        /** The host that it was connected to the last time. */
        volatile int lastHost = -1;

        Node(ClientOptions.Address address, boolean found) {
            this.address = address;
            this.found = found;
            this.thread = new Connection.DriverThread(this::run, "ferrite-reader-" + address);
        }

        void start() {
            thread.start();
        }

        ClientStatistics.ConnectionStatistics statistics() {
            Connection now = connection;
            return now == null
                    ? new ClientStatistics.ConnectionStatistics(address.toString(), false, -1, 0, 0, 0, reconnects)
                    : new ClientStatistics.ConnectionStatistics(address.toString(), true, now.login.hostId(), now.outstanding(), now.bytesSent.sum(), now.bytesReceived.sum(), reconnects);
        }

        private void run() {
            long pause = options.reconnectFirst.toMillis();
            while (!closed && nodes.contains(this)) {
                try {
                    Connection opened = new Connection(options, address, owner);
                    if (!admit(this, opened)) return;
                    pause = options.reconnectFirst.toMillis();
                    for (var listener : options.listeners) listener.up(address.toString());
                    if (options.affinity || options.discover) subscribe(opened);
                    firstAttempt.complete(null);
                    String reason = opened.read();
                    connection = null;
                    regroup();
                    if (closed) return;
                    reconnects += 1;
                    for (var listener : options.listeners) listener.down(address.toString(), reason);
                } catch (ConnectException failed) {
                    firstAttempt.completeExceptionally(failed);
                    if (closed) return;
                    for (var listener : options.listeners) listener.connectFailed(address.toString(), failed);
                    if (failed.permanent()) return;
                }
                try {
                    Thread.sleep(pause / 2 + ThreadLocalRandom.current().nextLong(pause / 2 + 1));
                } catch (InterruptedException interrupted) {
                    return;
                }
                pause = Math.min(pause * 2, options.reconnectLast.toMillis());
            }
        }
    }
}

package io.ferritedb.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import javax.net.ssl.SSLContext;

/** How a {@link Client} is to behave. Defaults suit an application beside its server. */
public final class ClientOptions {
    /** What a call does when all room is taken. */
    public enum WhenFull {
        /** The calling thread waits, at most as long as the call's timeout. */
        BLOCK,
        /** The call ends at once as not sent. */
        REJECT
    }

    record Address(String host, int port) {
        @Override
        public String toString() {
            return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
        }
    }

    final List<Address> servers = new ArrayList<>();
    String user = "";
    String password = "";
    SSLContext tls;
    int maxOutstanding = 3000;
    WhenFull whenFull = WhenFull.BLOCK;
    double callsPerSecond = Double.POSITIVE_INFINITY;
    Duration latencyTarget;
    Duration timeout = Duration.ofMinutes(2);
    Duration connectTimeout = Duration.ofSeconds(10);
    int connectionsPerServer = 1;
    boolean affinity = true;
    boolean discover = true;
    Duration reconnectFirst = Duration.ofMillis(50);
    Duration reconnectLast = Duration.ofSeconds(5);
    Executor executor;
    final List<ConnectionListener> listeners = new ArrayList<>();

    ClientOptions() {}

    /**
     * {@code host}, {@code host:port} or {@code [v6]:port}; several with commas between, or by
     * several calls. The port is 21212 unless given.
     *
     * @throws IllegalArgumentException if one of them is none of these
     */
    public ClientOptions servers(String list) {
        for (String server : list.split(",")) servers.add(parse(server.trim()));
        return this;
    }

    static Address parse(String server) {
        var match = java.util.regex.Pattern.compile("(?:\\[([^\\]]+)\\]|([^:\\s]+))(?::(\\d{1,5}))?").matcher(server);
        int port = 0;
        if (match.matches()) port = match.group(3) == null ? 21212 : Integer.parseInt(match.group(3));
        if (port < 1 || port > 65535) {
            throw new IllegalArgumentException("'" + server + "' is not a server: write host, host:port or [address]:port, with a port from 1 to 65535");
        }
        return new Address(match.group(1) != null ? match.group(1) : match.group(2), port);
    }

    /** User and password; neither may be null. Default: both empty. */
    public ClientOptions credentials(String user, String password) {
        this.user = Objects.requireNonNull(user);
        this.password = Objects.requireNonNull(password);
        return this;
    }

    /** TLS for all connections. */
    public ClientOptions tls(SSLContext context) {
        tls = context;
        return this;
    }

    /**
     * Calls without an answer at any time, all connections together. Default 3000.
     *
     * @throws IllegalArgumentException if less than 1
     */
    public ClientOptions maxOutstanding(int calls) {
        if (calls < 1) throw new IllegalArgumentException("maxOutstanding must be at least 1");
        maxOutstanding = calls;
        return this;
    }

    /** What a call does when all room is taken. Default {@link WhenFull#BLOCK}. */
    public ClientOptions whenFull(WhenFull what) {
        whenFull = what;
        return this;
    }

    /**
     * At most so many calls a second, evenly spaced: the calling thread waits, or with REJECT the
     * call ends as not sent.
     *
     * @throws IllegalArgumentException if not above 0
     */
    public ClientOptions rate(double callsPerSecond) {
        if (!(callsPerSecond > 0)) throw new IllegalArgumentException("the rate must be above 0");
        this.callsPerSecond = callsPerSecond;
        return this;
    }

    /**
     * Finds by itself how many calls may be outstanding so that p99 stays at this; {@link
     * #maxOutstanding} is the upper bound.
     */
    public ClientOptions latencyTarget(Duration p99) {
        latencyTarget = p99;
        return this;
    }

    /** How long a call waits for its answer, and before that for room. Default two minutes. */
    public ClientOptions timeout(Duration timeout) {
        this.timeout = timeout;
        return this;
    }

    /** How long connecting to a server and logging in may take. Default ten seconds. */
    public ClientOptions connectTimeout(Duration timeout) {
        connectTimeout = timeout;
        return this;
    }

    /**
     * Connections to each server. Default 1.
     *
     * @throws IllegalArgumentException if less than 1
     */
    public ClientOptions connectionsPerServer(int count) {
        if (count < 1) throw new IllegalArgumentException("connectionsPerServer must be at least 1");
        connectionsPerServer = count;
        return this;
    }

    /** Send calls to the node that leads their partition. Default true. */
    public ClientOptions affinity(boolean on) {
        affinity = on;
        return this;
    }

    /** Connect to the cluster's other nodes too. Default true. */
    public ClientOptions discover(boolean on) {
        discover = on;
        return this;
    }

    /**
     * Pause before connecting again: exponential backoff with jitter, from the first to the last.
     */
    public ClientOptions reconnect(Duration first, Duration last) {
        reconnectFirst = first;
        reconnectLast = last;
        return this;
    }

    /**
     * Where futures are completed. Default: on the thread that read the answer, which is fastest
     * and must not be held up; a call made there is never blocked.
     */
    public ClientOptions executor(Executor executor) {
        this.executor = executor;
        return this;
    }

    /** Adds a listener, not null, that hears of connections. It must not block. */
    public ClientOptions listener(ConnectionListener listener) {
        listeners.add(listener);
        return this;
    }

    /**
     * Connects to the servers named; one that answers is enough. The others are tried again and
     * again. Never null.
     *
     * @throws ConnectException if no server could be reached or took the login; {@link
     *     ConnectException#code} says which
     */
    public Client connect() {
        if (servers.isEmpty()) servers("localhost");
        return new Client(this);
    }
}

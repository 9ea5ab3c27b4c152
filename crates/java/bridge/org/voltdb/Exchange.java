package org.voltdb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import org.voltdb.exceptions.ConstraintFailureException;
import org.voltdb.exceptions.SQLException;

/**
 * What a thread of the server and Java hand each other: two buffers outside of Java's heap. Used by
 * that thread only.
 */
final class Exchange {
    final int slot;
    /** A request buffer that a large call has made grow beyond this is not kept for small ones. */
    private static final int REQUEST_BYTES_KEPT = 1 << 20;
    /** 0: procedures, 1: functions, which a procedure's statements may call. */
    private final int purpose;
    /** A function's value. */
    final Bytes value = new Bytes(64);
    final Thread thread = Thread.currentThread();
    final String serverThread;
    /** What is called, while a call goes on. */
    Object running;
    /**
     * Counts beginnings and ends: odd while a call goes on. Written by this thread alone, read by
     * {@link Watch}.
     */
    private long calls;
    private static final VarHandle CALLS = calls();
    /** Told by {@link Watch} of the call with this count. */
    private volatile String stuck;
    private volatile long stuckCall;
    private ByteBuffer request;
    private ByteBuffer response;
    private int generation;
    /** A batch is being executed, from these buffers. */
    private boolean executing;
    String failure;

    Exchange(int slot, int purpose, String serverThread, ByteBuffer request, ByteBuffer response) {
        this.slot = slot;
        this.serverThread = serverThread;
        this.purpose = purpose;
        this.request = request;
        this.response = response;
    }

    private static VarHandle calls() {
        try {
            return MethodHandles.lookup().findVarHandle(Exchange.class, "calls", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    void begin(Object what) {
        running = what;
        CALLS.setRelease(this, calls + 1);
    }

    void end() {
        CALLS.setRelease(this, calls + 1);
        running = null;
    }

    long callsNow() {
        return (long) CALLS.getAcquire(this);
    }

    void stuck(long call, String words) {
        stuck = words;
        stuckCall = call;
    }

    /** The failure of the call that goes on, with what was told of it before. */
    void fail(String words) {
        String told = stuck;
        if (told != null) {
            stuck = null;
            if (stuckCall == calls) {
                words += "\n" + told;
            }
        }
        failure = words;
    }

    void send(Bytes bytes) {
        int room = request.capacity();
        if (bytes.length > room || (room > REQUEST_BYTES_KEPT && bytes.length <= REQUEST_BYTES_KEPT)) {
            request = Bridge.request(purpose, bytes.length);
        }
        request.put(0, bytes.array, 0, bytes.length);
    }

    /**
     * Bytes in the response buffer: how many, and above that (from bit 32) the buffer's generation.
     */
    byte[] receive(long sent) {
        int now = (int) (sent >>> 32);
        if (now != generation) {
            response = Bridge.response(purpose);
            generation = now;
        }
        int length = (int) sent;
        byte[] bytes = new byte[length];
        response.get(0, bytes, 0, length);
        return bytes;
    }

    /**
     * Runs the batch; its results, encoded. Whoever must not is told so before the buffers are
     * touched: the server may be reading them for the procedure's own thread, or for the statement
     * that has called the function that asks.
     */
    byte[] execute(Bytes batch) {
        if (Thread.currentThread() != thread) {
            throw new IllegalStateException("voltExecuteSQL was called outside of a procedure's run, or by another thread");
        }
        if (executing) {
            throw new IllegalStateException("voltExecuteSQL was called by a function that a statement of the same procedure calls");
        }
        executing = true;
        try {
            send(batch);
            long answer = Bridge.execute(batch.length);
            if (answer < 0) {
                if (answer == Long.MIN_VALUE) {
                    throw new IllegalStateException("voltExecuteSQL was called outside of a procedure's run, or by another thread");
                }
                String words = Bridge.error();
                throw words.startsWith("C") ? new ConstraintFailureException(words.substring(1)) : new SQLException(words.substring(1));
            }
            return receive(answer);
        } finally {
            executing = false;
        }
    }
}

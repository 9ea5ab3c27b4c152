package io.ferritedb.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/**
 * One connection: login, calls out, answers in. Callers write their calls into one buffer under the
 * lock; the writer thread sends what has gathered in one system call; the reader thread takes the
 * lock once for all answers that one read brought. A call that was handed over ends exactly once.
 */
final class Connection {
    /** Who hears of what is not the business of one call. */
    interface Owner {
        /** Who leads, or how procedures are partitioned, has changed. */
        void pushed(Connection by, boolean leaders, List<Table> tables);

        /** A call was answered with this status, which is not success. */
        void failed(Connection by, int status);

        /** The connection was lost before this call was written to its socket. */
        void unsent(Connection by, Call call, byte[] frame);
    }

    private static final long PUSHED_TOPOLOGY = Long.MAX_VALUE - 1;
    private static final long PUSHED_PROCEDURES = Long.MAX_VALUE - 2;
    private static final long GENERATIONS = 1 << 30;
    /**
     * Ticks for which a server may be silent in whose place another leads, two seconds. Those that
     * a process misses that stands still do not count.
     */
    private static final int DOUBT_TICKS = 100;

    final ClientOptions.Address address;
    final Decoder.Login login;
    final LongAdder bytesSent = new LongAdder();
    final LongAdder bytesReceived = new LongAdder();
    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;
    private final Owner owner;

    // Under the lock of this object.
    private Encoder filling = new Encoder(1 << 16);
    private Call[] slots = new Call[1024];
    private long[] handles = new long[1024];
    private int[] free = new int[1024];
    private int freeCount = 1024;
    private boolean writerWaits;
    private boolean closed;
    private boolean draining;

    private volatile int outstanding;
    private volatile boolean pinging;
    private volatile boolean doubted;
    private volatile long doubtedAt;
    /** Since then. Of the thread that ticks. */
    private int silentTicks;
    private volatile long lastReceived = System.nanoTime();

    /** Connects and logs in. */
    Connection(ClientOptions options, ClientOptions.Address address, Owner owner) {
        this.address = address;
        this.owner = owner;
        for (int at = 0; at < free.length; at++) free[at] = at;
        Socket opened = null;
        try {
            opened = options.tls == null ? new Socket() : options.tls.getSocketFactory().createSocket();
            int timeout = (int) Math.min(Integer.MAX_VALUE, options.connectTimeout.toMillis());
            opened.connect(new InetSocketAddress(address.host(), address.port()), timeout);
            opened.setTcpNoDelay(true);
            opened.setSoTimeout(timeout);
            in = opened.getInputStream();
            out = opened.getOutputStream();
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(options.password.getBytes(StandardCharsets.UTF_8));
            out.write(Encoder.login(options.user, digest));
            out.flush();
            byte[] head = in.readNBytes(4);
            int length = head.length < 4 ? -1 : ByteBuffer.wrap(head).getInt();
            if (length < 2 || length > 1 << 16) throw new ConnectException(address + ": the server closed the connection during the login", "08001", false, null);
            byte[] body = in.readNBytes(length);
            if (body.length < length) throw new ConnectException(address + ": the server closed the connection during the login", "08001", false, null);
            login = Decoder.login(body);
            String reason = login.reason() == null ? Decoder.refusal(login.refused()) : login.reason();
            if (login.refused() != 0) throw new ConnectException(address + ": " + reason, Decoder.codeOf(login.refused()), Decoder.permanent(login.refused()), null);
            opened.setSoTimeout(0);
            socket = opened;
        } catch (IOException error) {
            close(opened);
            throw new ConnectException(address + ": " + reason(error), "08001", false, error);
        } catch (ProtocolException error) {
            close(opened);
            throw new ConnectException(address + ": " + error.getMessage(), error.code(), true, error);
        } catch (ConnectException error) {
            close(opened);
            throw error;
        } catch (NoSuchAlgorithmException unreachable) {
            throw new IllegalStateException(unreachable);
        }
        Thread writer = new DriverThread(this::write, "ferrite-writer-" + address);
        writer.start();
    }

    private static String reason(IOException error) {
        // Its message is the name alone.
        if (error instanceof UnknownHostException) return "unknown host; check the host's name";
        if (error instanceof java.net.ConnectException) return error.getMessage() + "; check that a server listens there";
        return error.getMessage();
    }

    int outstanding() {
        return outstanding;
    }

    /**
     * Takes a call. False if the connection is over. Throws if the parameters cannot be sent; then
     * the call never was here.
     */
    boolean send(Call call, byte[] name, Object[] parameters, int partition) {
        synchronized (this) {
            if (closed || draining) return false;
            long handle = nextHandle();
            call.sentAt = System.nanoTime();
            filling.call(name, handle, parameters, partition);
            taken(call, handle);
            return true;
        }
    }

    /** The same for a call that another connection has encoded, and not sent. */
    boolean send(Call call, byte[] frame) {
        synchronized (this) {
            if (closed || draining) return false;
            long handle = nextHandle();
            call.sentAt = System.nanoTime();
            filling.encoded(frame, handle);
            taken(call, handle);
            return true;
        }
    }

    private long nextHandle() {
        if (freeCount == 0) grow();
        int slot = free[freeCount - 1];
        long handle = (handles[slot] >>> 32) + 1 << 32 | slot;
        return handle >>> 32 >= GENERATIONS ? slot : handle;
    }

    private void taken(Call call, long handle) {
        int slot = (int) handle;
        freeCount -= 1;
        handles[slot] = handle;
        slots[slot] = call;
        outstanding += 1;
        if (writerWaits) {
            writerWaits = false;
            notifyAll();
        }
    }

    private void grow() {
        int size = slots.length;
        slots = Arrays.copyOf(slots, size * 2);
        handles = Arrays.copyOf(handles, size * 2);
        free = Arrays.copyOf(free, size * 2);
        for (int at = 0; at < size; at++) free[at] = size + at;
        freeCount = size;
    }

    private void write() {
        Encoder empty = new Encoder(1 << 16);
        try {
            while (true) {
                Encoder full;
                synchronized (this) {
                    while (filling.length() == 0 && !closed) {
                        writerWaits = true;
                        wait();
                    }
                    if (filling.length() == 0) return;
                    full = filling;
                    filling = empty;
                }
                out.write(full.array(), 0, full.length());
                bytesSent.add(full.length());
                full.clear();
                empty = full;
            }
        } catch (IOException error) {
            end("the connection broke: " + error.getMessage());
        } catch (InterruptedException interrupted) {
            end("the driver's thread was interrupted");
        }
    }

    /** Reads answers until the connection is over; says why it is. */
    String read() {
        byte[] buffer = new byte[1 << 17];
        int filled = 0;
        List<Decoder.Response> responses = new ArrayList<>();
        Call[] calls = new Call[256];
        try {
            while (true) {
                int count = in.read(buffer, filled, buffer.length - filled);
                if (count < 0) return end("the server closed the connection");
                bytesReceived.add(count);
                filled += count;
                long now = System.nanoTime();
                lastReceived = now;
                int at = 0;
                int wanted = 0;
                while (filled - at >= 4) {
                    int length = ByteBuffer.wrap(buffer).getInt(at);
                    if (length <= 0 || length > Encoder.MESSAGE_MAX) throw new ProtocolException("a message of " + length + " bytes");
                    if (filled - at - 4 < length) {
                        wanted = 4 + length;
                        break;
                    }
                    at += 4 + length;
                }
                // Tables keep the bytes that they are in: those of whole answers are copied out
                // once, in one piece.
                byte[] whole = Arrays.copyOf(buffer, at);
                responses.clear();
                for (int start = 0; start < at; ) {
                    int length = ByteBuffer.wrap(whole).getInt(start);
                    responses.add(Decoder.response(whole, start + 4, start + 4 + length));
                    start += 4 + length;
                }
                if (calls.length < responses.size()) calls = new Call[responses.size() * 2];
                take(responses, calls);
                for (int index = 0; index < responses.size(); index++) {
                    Decoder.Response response = responses.get(index);
                    if (calls[index] == null) {
                        owner.pushed(this, response.handle() == PUSHED_TOPOLOGY, response.tables());
                        continue;
                    }
                    calls[index].answered(response, now);
                    calls[index] = null;
                    if (response.status() != Status.SUCCESS) owner.failed(this, response.status());
                }
                filled -= at;
                byte[] next = wanted <= buffer.length ? buffer : new byte[wanted];
                System.arraycopy(buffer, at, next, 0, filled);
                buffer = next;
            }
        } catch (IOException error) {
            return end("the connection broke: " + error.getMessage());
        } catch (ProtocolException error) {
            return end("what the server sent is not the protocol: " + error.getMessage(), error.code());
        }
    }

    /** Finds the calls of answers; none for what was pushed. */
    private void take(List<Decoder.Response> responses, Call[] calls) {
        synchronized (this) {
            for (int index = 0; index < responses.size(); index++) {
                long handle = responses.get(index).handle();
                if (handle == PUSHED_TOPOLOGY || handle == PUSHED_PROCEDURES) continue;
                int slot = (int) handle;
                if (slot < 0 || slot >= slots.length || slots[slot] == null || handles[slot] != handle) {
                    throw new ProtocolException("an answer to a call that was not made");
                }
                calls[index] = slots[slot];
                slots[slot] = null;
                free[freeCount++] = slot;
                outstanding -= 1;
            }
            if (draining && outstanding == 0) notifyAll();
        }
    }

    /**
     * Ends calls whose time is over; their places stay taken until their answers come, or the
     * connection ends.
     */
    void tick(long now, long silence) {
        List<Call> late = null;
        boolean waiting = false;
        synchronized (this) {
            for (Call call : slots) {
                if (call == null || call.isDone()) continue;
                waiting = true;
                if (call.deadline - now < 0) {
                    if (late == null) late = new ArrayList<>();
                    late.add(call);
                }
            }
        }
        if (late != null) {
            for (Call call : late) {
                call.ended(CallException.unknown("no answer from " + address + " in time; the transaction may have committed", call.procedure, "HYT00", Status.RESPONSE_TIMEOUT));
            }
        }
        if (doubted && lastReceived - doubtedAt > 0) doubted = false;
        silentTicks = doubted ? silentTicks + 1 : 0;
        if (silentTicks == DOUBT_TICKS) giveUp("it does not lead any more, and answers nothing");
        if (waiting && now - lastReceived > silence) giveUp("the server has been silent for " + (now - lastReceived) / 1_000_000_000L + " s");
    }

    /** Nothing was received for long, and nobody has asked yet whether the server is there. */
    boolean wantsPing(long now, long after) {
        if (pinging || !doubted && now - lastReceived <= after) return false;
        pinging = true;
        return true;
    }

    /**
     * Another node leads in the place of this one, which may be dead or cut off: it is asked
     * whether it is there, and not waited for as long as others.
     */
    void doubt(long now) {
        doubtedAt = now;
        doubted = true;
    }

    void pinged() {
        pinging = false;
    }

    /** Waits until every call has its answer, at most until a moment. */
    void drain(long until) throws InterruptedException {
        synchronized (this) {
            draining = true;
            // Calls that have ended by their timeout are not waited for; nobody tells when one
            // does, so look now and then.
            while (!closed && Arrays.stream(slots).anyMatch(call -> call != null && !call.isDone())) {
                long left = (until - System.nanoTime()) / 1_000_000;
                if (left <= 0) return;
                wait(Math.min(left, 20));
            }
        }
    }

    /**
     * Ends the connection to a server that is silent. What the system has of calls that end with it
     * must not reach the server later, when whoever called has looked whether they took place.
     */
    private void giveUp(String why) {
        try {
            socket.setSoLinger(true, 0);
        } catch (IOException ended) {
            // Then nothing is sent any more.
        }
        end(why);
    }

    /**
     * Ends the connection, which is lost, and every call on it. What the writer has not taken was
     * not sent: its owner may send it elsewhere.
     */
    String end(String why) {
        return end(why, "08007");
    }

    private String end(String why, String code) {
        Call[] left;
        Map<Long, byte[]> frames;
        synchronized (this) {
            if (closed) return why;
            closed = true;
            left = slots;
            slots = new Call[slots.length];
            outstanding = 0;
            frames = filling.calls();
            filling.clear();
            notifyAll();
        }
        close(socket);
        for (int slot = 0; slot < left.length; slot++) {
            Call call = left[slot];
            if (call == null) continue;
            byte[] frame = frames.get(handles[slot]);
            if (frame != null) owner.unsent(this, call, frame);
            else call.ended(CallException.unknown(why + " (" + address + "); the transaction may have committed", call.procedure, code, Status.CONNECTION_LOST));
        }
        return why;
    }

    private static void close(Socket socket) {
        try {
            if (socket != null) socket.close();
        } catch (IOException ignored) {
            // It is over either way.
        }
    }

    /** A thread of the driver: calls made on it never wait for room. */
    static final class DriverThread extends Thread {
        DriverThread(Runnable work, String name) {
            super(work, name);
            setDaemon(true);
        }
    }
}

package org.voltdb;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/**
 * One call of a procedure whose calls are futures. Its code runs on the threads of {@link
 * WorkerPool}, which may wait; the server's threads only come by to take the calls that it wants
 * and to bring the answers, and are rung for when there is something to take. It ends when its
 * result is there and all calls that it made are answered.
 */
final class FutureCall extends StagedCall implements CallContext {
    private static final int WRAPPINGS_MAX = 100;
    private static final byte NOT_SET = ClientResponse.UNINITIALIZED_APP_STATUS_CODE;

    /** A call that has not been taken. */
    private static final class Wanted {
        final String procedure;
        final int partition;
        final Bytes parameters;
        final CompletableFuture<ClientResponse> future = new CompletableFuture<>();

        Wanted(String procedure, int partition, Bytes parameters) {
            this.procedure = procedure;
            this.partition = partition;
            this.parameters = parameters;
        }
    }

    private final ProcedureClass procedure;
    private final VoltNonTransactionalProcedure object;
    /** Calls that may go on at a time; others wait until one of them is answered. */
    private final int callsMax;
    private final long waker;
    private Object[] values;
    private boolean begun;
    private final ArrayDeque<Wanted> wanted = new ArrayDeque<>();
    /** Those that go on, by their numbers. */
    private final Map<Long, CompletableFuture<ClientResponse>> going = new HashMap<>();
    private long taken;
    /** Answers whose futures are being completed. */
    private int arriving;
    /** Somebody was rung for and has not come yet. */
    private boolean rung;
    private boolean done;
    private boolean over;
    private Object result;
    private Throwable failure;
    private byte statusCode = NOT_SET;
    private String statusString;
    /** Who is in {@code run}. */
    private Thread running;

    FutureCall(ProcedureClass procedure, VoltNonTransactionalProcedure object, Object[] values, int callsMax, long waker) {
        this.procedure = procedure;
        this.object = object;
        this.values = values;
        this.callsMax = callsMax;
        this.waker = waker;
    }

    @Override
    int stage(Exchange exchange, long answers) throws Throwable {
        Answers received = new Answers(exchange.receive(answers));
        Bytes out = new Bytes(256);
        synchronized (this) {
            rung = false;
            if (!begun) {
                begun = true;
                WorkerPool.begin(this::run);
            }
            while (received.left > 0) {
                ClientResponse response = received.next();
                CompletableFuture<ClientResponse> future = going.remove(received.call);
                if (future != null) {
                    arriving++;
                    WorkerPool.execute(() -> arrive(future, response));
                }
            }
            if (finished()) {
                over = true;
                if (failure != null) {
                    throw failure;
                }
                putEnd(out);
            } else {
                putCalls(out);
            }
        }
        exchange.send(out);
        return out.length;
    }

    private boolean finished() {
        return done && wanted.isEmpty() && going.isEmpty() && arriving == 0;
    }

    private void putCalls(Bytes out) {
        out.putByte(RESTS);
        int count = Math.min(wanted.size(), callsMax - going.size());
        out.putShort(count);
        for (int i = 0; i < count; i++) {
            Wanted call = wanted.poll();
            going.put(taken++, call.future);
            out.putString(call.procedure);
            out.putInt(call.partition);
            out.putInt(call.parameters.length);
            out.put(call.parameters.array, 0, call.parameters.length);
        }
    }

    private void putEnd(Bytes out) {
        if (!(result instanceof ClientResponse)) {
            out.putByte(COMPLETED);
            Runner.putAnswer(out, statusCode, statusString, result);
            return;
        }
        ClientResponse response = (ClientResponse) result;
        out.putByte(ANSWERED);
        out.putByte(response.getStatus());
        String words = response.getStatusString();
        out.putString(words == null ? "" : words);
        String sqlState = response instanceof CompoundResponse ? ((CompoundResponse) response).code : null;
        out.putString(sqlState == null ? "" : sqlState);
        byte code = statusCode == NOT_SET ? response.getAppStatus() : statusCode;
        String text = statusString == null ? response.getAppStatusString() : statusString;
        Runner.putAnswer(out, code, text, response.getResults());
    }

    /** On one of the pool's threads. */
    private void run() {
        Object[] parameters;
        synchronized (this) {
            if (over) {
                return;
            }
            parameters = values;
            values = null;
            running = Thread.currentThread();
        }
        object.context = this;
        try {
            Object returned = procedure.call(object, parameters);
            if (!procedure.returnsFuture) {
                finish(returned, null);
            } else if (returned == null) {
                throw new NullPointerException("method run of class " + procedure.name + " returned null in the place of a future");
            } else {
                ((CompletionStage<?>) returned).whenComplete(this::finish);
            }
        } catch (Throwable e) {
            finish(null, e);
        } finally {
            synchronized (this) {
                running = null;
            }
        }
    }

    private void finish(Object value, Throwable e) {
        synchronized (this) {
            if (done) {
                return;
            }
            done = true;
            result = value;
            failure = e == null ? misfit(value) : reason(e);
        }
        ring();
    }

    /** What has happened, without what futures wrap it into. */
    private static Throwable reason(Throwable e) {
        // No deeper than any wrapping goes: causes may go in a circle.
        for (int i = 0; i < WRAPPINGS_MAX && (e instanceof CompletionException || e instanceof ExecutionException); i++) {
            Throwable cause = Failure.cause(e);
            if (cause == null) {
                break;
            }
            e = cause;
        }
        return e;
    }

    private Throwable misfit(Object value) {
        if (value == null || value instanceof ClientResponse || value instanceof VoltTable || value instanceof VoltTable[]
                || ProcedureClass.isNumber(value.getClass())) {
            return null;
        }
        return new IllegalStateException("the future of class " + procedure.name + " was completed with an object of type "
                + value.getClass().getTypeName() + ", which is no procedure's result");
    }

    /** Completes a future, which runs what depends on it. */
    private void arrive(CompletableFuture<ClientResponse> future, ClientResponse response) {
        try {
            future.complete(response);
        } finally {
            synchronized (this) {
                arriving--;
            }
            ring();
        }
    }

    /** Rings, when there is something to take. */
    private void ring() {
        synchronized (this) {
            if (over || rung || !(finished() || (!wanted.isEmpty() && going.size() < callsMax))) {
                return;
            }
            rung = true;
        }
        Bridge.wake(waker);
    }

    @Override
    void over() {
        List<CompletableFuture<ClientResponse>> left = new ArrayList<>();
        Thread stays;
        synchronized (this) {
            over = true;
            left.addAll(going.values());
            wanted.forEach(call -> left.add(call.future));
            going.clear();
            wanted.clear();
            values = null;
            stays = running;
        }
        if (!left.isEmpty()) {
            // Whoever waits for them waits no longer.
            WorkerPool.execute(() -> left.forEach(future -> future.completeExceptionally(ended())));
        } else if (stays != null) {
            Bridge.stillRuns(procedure.name, Failure.frames(stays.getStackTrace()));
        }
    }

    private IllegalStateException ended() {
        return new IllegalStateException("the call of " + procedure + " has ended");
    }

    private CompletableFuture<ClientResponse> want(Wanted call) {
        synchronized (this) {
            if (over) {
                throw ended();
            }
            wanted.add(call);
        }
        ring();
        return call.future;
    }

    @Override
    public CompletableFuture<ClientResponse> call(String name, Object[] parameters) {
        if (name == null) {
            throw new IllegalArgumentException("callProcedure was given null for a procedure's name");
        }
        Bytes bytes = new Bytes(64);
        putParameters(bytes, parameters);
        return want(new Wanted(name, ANYWHERE, bytes));
    }

    @Override
    public CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitions(String name, Object[] parameters) {
        if (name == null) {
            throw new IllegalArgumentException("callAllPartitionProcedure was given null for a procedure's name");
        }
        // With room for the key in front. What does not fit is thrown here, not when the keys are
        // there.
        Object[] withKey = new Object[1 + (parameters == null ? 1 : parameters.length)];
        if (parameters != null) {
            System.arraycopy(parameters, 0, withKey, 1, parameters.length);
        }
        putParameters(new Bytes(64), withKey);
        return call("@GetPartitionKeys", new Object[] {"INTEGER"}).thenCompose(keys -> callEach(name, withKey, keys));
    }

    private CompletableFuture<ClientResponseWithPartitionKey[]> callEach(String name, Object[] withKey, ClientResponse keys) {
        if (keys.getStatus() != ClientResponse.SUCCESS) {
            throw new IllegalStateException("the partitions cannot be told: " + keys.getStatusString());
        }
        VoltTable table = keys.getResults()[0];
        int count = table.getRowCount();
        ClientResponseWithPartitionKey[] answers = new ClientResponseWithPartitionKey[count];
        CompletableFuture<?>[] calls = new CompletableFuture<?>[count];
        for (int i = 0; i < count; i++) {
            table.advanceToRow(i);
            int place = i;
            int partition = (int) table.getLong(0);
            Integer key = (int) table.getLong(1);
            Object[] parameters = withKey.clone();
            parameters[0] = key;
            Bytes bytes = new Bytes(64);
            putParameters(bytes, parameters);
            calls[i] = want(new Wanted(name, partition, bytes)).thenAccept(
                    response -> answers[place] = new ClientResponseWithPartitionKey(key, response, partition));
        }
        return CompletableFuture.allOf(calls).thenApply(all -> {
            Arrays.sort(answers, Comparator.comparingInt(answer -> answer.partitionId));
            return answers;
        });
    }

    @Override
    public synchronized void statusCode(byte code) {
        statusCode = code;
    }

    @Override
    public synchronized void statusString(String text) {
        statusString = text;
    }
}

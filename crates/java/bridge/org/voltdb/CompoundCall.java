package org.voltdb;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltCompoundProcedure.CompoundProcAbortException;
import org.voltdb.VoltCompoundProcedure.Stage;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/**
 * One call of a compound procedure: its object, and how far it is. Its stages come one after the
 * other, perhaps from different threads.
 */
final class CompoundCall extends StagedCall implements CompoundContext {
    private static final ClientResponse[] NONE = new ClientResponse[0];

    private final ProcedureClass procedure;
    private final VoltCompoundProcedure object;
    private final int callsMax;
    private Stage[] stages;
    private int next;
    /** Stages that have run, also those of lists that others took the place of. */
    private int ran;
    /** Whose code runs now: a thread, in run or in a stage. */
    private Thread running;
    private boolean inStage;
    /** What kind of answer it is, a count, then the calls. */
    private final Bytes calls = new Bytes(256);
    private int queued;
    private boolean completed;
    private Object result;
    private CompoundProcAbortException wish;
    private byte statusCode = ClientResponse.UNINITIALIZED_APP_STATUS_CODE;
    private String statusString;

    CompoundCall(ProcedureClass procedure, VoltCompoundProcedure object, int callsMax) {
        this.procedure = procedure;
        this.object = object;
        this.callsMax = callsMax;
    }

    /** Runs {@code run}. */
    synchronized void begin(Object[] values) throws Throwable {
        object.context = this;
        running = Thread.currentThread();
        try {
            procedure.call(object, values);
        } finally {
            running = null;
        }
        if (wish != null) {
            throw wish;
        }
        if (stages == null && !completed) {
            throw new IllegalStateException("method run of class " + procedure.name
                    + " has set up no stages: newStageList(...).then(...).build()");
        }
    }

    /** Runs the next stage. */
    @Override
    synchronized int stage(Exchange exchange, long answers) {
        calls.length = 0;
        calls.putByte(CALLS);
        calls.putShort(0);
        queued = 0;
        if (!completed) {
            ClientResponse[] responses = responses(exchange.receive(answers));
            running = Thread.currentThread();
            inStage = true;
            ran++;
            try {
                stages[next++].body.accept(responses);
            } finally {
                running = null;
                inStage = false;
            }
            if (wish != null) {
                throw wish;
            }
        }
        if (completed) {
            if (queued > 0) {
                throw new IllegalStateException("stage " + ran + " of " + procedure.name
                        + " has queued calls and completed the procedure: nobody would see their answers; none was sent");
            }
            calls.length = 0;
            calls.putByte(COMPLETED);
            Runner.putAnswer(calls, statusCode, statusString, result);
        } else if (next == stages.length) {
            throw new IllegalStateException("the last stage of " + procedure.name + " has not called completeProcedure"
                    + (queued > 0 ? "; the calls that it has queued were not sent" : ""));
        } else {
            calls.setShort(1, queued);
        }
        exchange.send(calls);
        return calls.length;
    }

    /** They come in the order of the calls. */
    private static ClientResponse[] responses(byte[] bytes) {
        Answers answers = new Answers(bytes);
        if (answers.left == 0) {
            return NONE;
        }
        ClientResponse[] responses = new ClientResponse[answers.left];
        for (int i = 0; i < responses.length; i++) {
            responses[i] = answers.next();
        }
        return responses;
    }

    private void check(boolean stage, String method) {
        if (running != Thread.currentThread()) {
            throw new IllegalStateException(method + " was called by a thread that runs no stage of the procedure");
        }
        if (stage && !inStage) {
            throw new IllegalStateException(method + " belongs into a stage, not into run");
        }
    }

    @Override
    public void stages(List<Stage> list) {
        check(false, "build");
        if (stages != null && !inStage) {
            throw new IllegalStateException("method run has set up stages already");
        }
        // In a stage: those that have not run are left out, and these come in their place.
        stages = list.toArray(new Stage[0]);
        next = 0;
    }

    @Override
    public void queue(String name, Object[] values) {
        check(true, "queueProcedureCall");
        if (name == null) {
            throw new IllegalArgumentException("queueProcedureCall was given null for a procedure's name");
        }
        if (queued == callsMax) {
            throw new IllegalStateException("a stage may queue " + callsMax + " calls (--limit compound-stage-calls)");
        }
        int start = calls.length;
        try {
            calls.putString(name);
            calls.putInt(ANYWHERE);
            int at = calls.length;
            calls.putInt(0);
            putParameters(calls, values);
            calls.setInt(at, calls.length - at - 4);
        } catch (RuntimeException e) {
            calls.length = start;
            throw e;
        }
        queued++;
    }

    @Override
    public CompletableFuture<ClientResponse> call(String name, Object[] values) {
        throw new IllegalStateException("a compound procedure calls in its stages: queueProcedureCall, not callProcedure");
    }

    @Override
    public CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitions(String name, Object[] values) {
        throw new IllegalStateException("a compound procedure calls in its stages: queueProcedureCall, not callAllPartitionProcedure");
    }

    @Override
    public void complete(Object value) {
        check(false, "completeProcedure");
        // Existing procedures complete with an error code, and then once more on the way out.
        if (completed) {
            return;
        }
        completed = true;
        result = value;
    }

    @Override
    public void abort(CompoundProcAbortException why) {
        check(false, "abortProcedure");
        wish = why;
    }

    @Override
    public void statusCode(byte code) {
        check(false, "setAppStatusCode");
        statusCode = code;
    }

    @Override
    public void statusString(String text) {
        check(false, "setAppStatusString");
        statusString = text;
    }
}

package io.ferritedb.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicIntegerFieldUpdater;

/**
 * A call from its making to its end. Whoever completes it first decides how it ended; room is given
 * back once.
 */
final class Call extends CompletableFuture<CallResult> {
    final Client client;
    final String procedure;
    final long deadline;
    /** Calls of the driver itself take no room and are not counted. */
    final boolean internal;
    volatile long sentAt;
    private static final AtomicIntegerFieldUpdater<Call> OVER = AtomicIntegerFieldUpdater.newUpdater(Call.class, "over");
    @SuppressWarnings("unused") // Through OVER.
    private volatile int over;

    Call(Client client, String procedure, long deadline, boolean internal) {
        this.client = client;
        this.procedure = procedure;
        this.deadline = deadline;
        this.internal = internal;
    }

    /**
     * True for the first who asks: whoever ends the call gives its room back, before anyone hears
     * of the end.
     */
    boolean claim() {
        return OVER.compareAndSet(this, 0, 1);
    }

    /** The answer, as it came. */
    void answered(Decoder.Response response, long now) {
        boolean success = response.status() == Status.SUCCESS;
        var outcome = success ? null : CallException.outcomeOf(response.status());
        if (isDone()) {
            if (!internal) client.late(procedure);
            return;
        }
        if (!internal) client.counted(procedure, outcome, now - sentAt);
        client.complete(this, success ? response.result() : null, success ? null : response.failure(procedure));
    }

    /** No answer will be waited for. */
    void ended(CallException reason) {
        if (isDone()) return;
        if (!internal && reason.outcome() == CallException.Outcome.UNKNOWN) client.statistics.unknown(procedure);
        client.complete(this, null, reason);
    }

    @Override
    public boolean cancel(boolean mayInterrupt) {
        boolean cancelled = super.cancel(mayInterrupt);
        if (cancelled) client.given(this);
        return cancelled;
    }
}

package io.ferritedb.client;

import java.util.concurrent.CompletableFuture;

/** A call from its making to its end. Whoever completes it first decides how it ended; room is given back once. */
final class Call extends CompletableFuture<CallResult> {
    final Client client;
    final String procedure;
    final long deadline;
    /** Calls of the driver itself take no room and are not counted. */
    final boolean internal;
    volatile long sentAt;

    Call(Client client, String procedure, long deadline, boolean internal) {
        this.client = client;
        this.procedure = procedure;
        this.deadline = deadline;
        this.internal = internal;
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

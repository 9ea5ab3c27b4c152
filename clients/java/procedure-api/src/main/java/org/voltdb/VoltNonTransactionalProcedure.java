package org.voltdb;

import java.util.concurrent.CompletableFuture;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/**
 * A procedure that is no transaction and calls procedures, each of which is one. A subclass has a
 * public constructor without parameters and one public method {@code run}, which returns a number,
 * a {@link VoltTable}, a {@code VoltTable[]}, or a {@code CompletableFuture} of one of these or of
 * a {@link ClientResponse}. It may wait for the answers to its calls, or say what is to be done
 * with them when they come:
 *
 * <pre>
 * public CompletableFuture&lt;ClientResponse&gt; run(long id) {
 *     return callProcedure("Lookup", id)
 *             .thenCompose(found -&gt; callProcedure("Store", found.getResults()[0]));
 * }
 * </pre>
 *
 * <p>What was called stays, whatever comes after it. Each call has an object of its own. {@link
 * VoltCompoundProcedure} is the same in stages.
 */
public abstract class VoltNonTransactionalProcedure {
    /** What the server gives; null outside of it. */
    CallContext context;

    public VoltNonTransactionalProcedure() {
    }

    CallContext context() {
        if (context == null) {
            throw new IllegalStateException("a procedure runs in a server only, and not in its own constructor");
        }
        return context;
    }

    /**
     * Calls a procedure. The future is completed with its answer, a failure's too, which its status
     * tells.
     */
    public CompletableFuture<ClientResponse> callProcedure(String procedure, Object... values) {
        return context().call(procedure, values);
    }

    /**
     * Calls a procedure once on each partition, as the client's method of the same name does: it is
     * partitioned by its first parameter, which is added in front of these, or it is directed. The
     * answers are in the order of the partitions.
     */
    public CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitionProcedure(String procedure, Object... values) {
        return context().callAllPartitions(procedure, values);
    }

    public int getClusterId() {
        context();
        return 0;
    }

    /** A status of the procedure's own, which its caller receives. */
    public void setAppStatusCode(byte code) {
        context().statusCode(code);
    }

    public void setAppStatusString(String text) {
        context().statusString(text);
    }
}

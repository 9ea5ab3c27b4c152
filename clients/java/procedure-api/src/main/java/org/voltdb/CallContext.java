package org.voltdb;

import java.util.concurrent.CompletableFuture;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.ClientResponseWithPartitionKey;

/**
 * What the server does for a procedure that runs outside of transactions. Not for use by
 * procedures, which call their own methods.
 */
interface CallContext {
    CompletableFuture<ClientResponse> call(String procedure, Object[] values);

    CompletableFuture<ClientResponseWithPartitionKey[]> callAllPartitions(String procedure, Object[] values);

    void statusCode(byte code);

    void statusString(String text);
}

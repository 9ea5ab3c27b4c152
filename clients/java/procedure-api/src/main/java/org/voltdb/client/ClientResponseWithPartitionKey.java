package org.voltdb.client;

/** One partition's answer to a call on all of them. */
public class ClientResponseWithPartitionKey {
    /** The key that the partition was called with. */
    public final Object partitionKey;
    public final ClientResponse response;
    /** -1: not told. */
    public final int partitionId;

    public ClientResponseWithPartitionKey(Object partitionKey, ClientResponse response) {
        this(partitionKey, response, -1);
    }

    public ClientResponseWithPartitionKey(Object partitionKey, ClientResponse response, int partitionId) {
        this.partitionKey = partitionKey;
        this.response = response;
        this.partitionId = partitionId;
    }
}

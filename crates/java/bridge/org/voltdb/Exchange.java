package org.voltdb;

import java.nio.ByteBuffer;

/** What a thread of the server and Java hand each other: two buffers outside of Java's heap. Used by that thread only. */
final class Exchange {
    final int slot;
    private ByteBuffer request;
    private ByteBuffer response;
    private int generation;
    String failure;

    Exchange(int slot, ByteBuffer request, ByteBuffer response) {
        this.slot = slot;
        this.request = request;
        this.response = response;
    }

    void send(Bytes bytes) {
        if (bytes.length > request.capacity()) {
            request = Bridge.request(bytes.length);
        }
        request.put(0, bytes.array, 0, bytes.length);
    }

    /** Bytes in the response buffer: how many, and above that (from bit 32) the buffer's generation. */
    byte[] receive(long sent) {
        int now = (int) (sent >>> 32);
        if (now != generation) {
            response = Bridge.response();
            generation = now;
        }
        int length = (int) sent;
        byte[] bytes = new byte[length];
        response.get(0, bytes, 0, length);
        return bytes;
    }

    /** Runs the batch; its results, encoded. */
    byte[] execute(Bytes batch) {
        send(batch);
        long answer = Bridge.execute(batch.length);
        if (answer < 0) {
            if (answer == Long.MIN_VALUE) {
                throw new IllegalStateException("voltExecuteSQL was called outside of a procedure's run, or by another thread");
            }
            throw new SQLFailureException(Bridge.error());
        }
        return receive(answer);
    }
}

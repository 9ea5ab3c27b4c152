package io.ferritedb.client;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;

/**
 * Puts many rows into a table: each goes to its partition by the table's own insert (or upsert)
 * procedure, as many at a time as the client lets out; a row that is refused is given back with its
 * reason and holds up nothing. Close waits for the last answer.
 */
public final class BulkLoader implements AutoCloseable {
    private final Client client;
    private final String table;
    private boolean upsert;
    private BiConsumer<List<Object>, RuntimeException> refused = (row, reason) -> {};
    private final AtomicInteger pending = new AtomicInteger();
    private final LongAdder loaded = new LongAdder();
    private final LongAdder failed = new LongAdder();

    BulkLoader(Client client, String table) {
        this.client = client;
        this.table = table;
    }

    /** Rows whose key is there replace the one that is there. */
    public BulkLoader upsert() {
        upsert = true;
        return this;
    }

    /** Called with each row that was not loaded, on a thread of the driver. */
    public BulkLoader onRefused(BiConsumer<List<Object>, RuntimeException> refused) {
        this.refused = refused;
        return this;
    }

    /**
     * Adds a row, values in column order; null for NULL. Waits when too many are on their way.
     *
     * @throws IllegalArgumentException if a value cannot be sent
     */
    public void add(Object... values) {
        pending.incrementAndGet();
        client.call(table + (upsert ? ".upsert" : ".insert"), values).whenComplete((result, failure) -> {
            if (failure == null) loaded.increment();
            else {
                failed.increment();
                RuntimeException reason = failure instanceof RuntimeException given ? given : new IllegalStateException(failure);
                refused.accept(java.util.Arrays.asList(values), reason);
            }
            if (pending.decrementAndGet() == 0) {
                synchronized (pending) {
                    pending.notifyAll();
                }
            }
        });
    }

    /**
     * Waits until every row that was added has been answered.
     *
     * @throws InterruptedException if the thread is interrupted; the rows are still on their way
     */
    public void flush() throws InterruptedException {
        synchronized (pending) {
            while (pending.get() > 0) pending.wait();
        }
    }

    /** How many rows the server has taken. */
    public long loaded() {
        return loaded.sum();
    }

    /** How many rows were not loaded, or may not have been. */
    public long failed() {
        return failed.sum();
    }

    /** {@link #flush}; an interrupt ends the wait and stays set. */
    @Override
    public void close() {
        try {
            flush();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}

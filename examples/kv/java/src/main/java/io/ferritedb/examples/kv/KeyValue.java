package io.ferritedb.examples.kv;

import io.ferritedb.client.BulkLoader;
import io.ferritedb.client.CallException;
import io.ferritedb.client.CallResult;
import io.ferritedb.client.Client;
import io.ferritedb.client.Table;
import io.ferritedb.examples.Arguments;
import io.ferritedb.examples.Load;
import java.io.IOException;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * The key-value application in Java: reads and writes values by key for as long as it is told, and
 * checks what comes back.
 */
public final class KeyValue implements Load.Application {
    /** What one kind of call has come to. */
    private static final class Tally {
        final LongAdder done = new LongAdder();
        final LongAdder misses = new LongAdder();
        final LongAdder failed = new LongAdder();
        final LongAdder bytes = new LongAdder();
        final LongAdder plainBytes = new LongAdder();

        void print(String name, double seconds) {
            System.out.printf(Locale.ROOT, "%s: %,d done, %,d misses, %,d failed; %.1f MB stored, %.1f MB uncompressed, %.3f Gbps%n", name, done.sum(), misses.sum(),
                    failed.sum(), bytes.sum() / 1048576.0, plainBytes.sum() / 1048576.0, bytes.sum() * 8 / 1e9 / seconds);
        }
    }

    private record Next(boolean read, String procedure, String key, byte[] value, int plainLength) {
        Object[] parameters() {
            return read ? new Object[] {key} : new Object[] {key, value};
        }
    }

    private final Client client;
    private final Values values;
    private final long poolSize;
    private final long offset;
    private final double reads;
    private final double everywhere;
    private final boolean mustBeThere;
    private final Tally gets = new Tally();
    private final Tally puts = new Tally();
    private final LongAdder wrong = new LongAdder();
    private final LongAdder serverMilliseconds = new LongAdder();

    private KeyValue(Client client, Arguments arguments) {
        this.client = client;
        poolSize = arguments.integer("poolsize", 1, Integer.MAX_VALUE);
        offset = arguments.integer("offset", 0, Integer.MAX_VALUE);
        reads = arguments.share("getputratio");
        everywhere = arguments.share("multisingleratio");
        mustBeThere = arguments.flag("preload");
        int valueMaximum = arguments.integer("maxvaluesize", 1, 1_048_576);
        int digits = Long.toString(offset + poolSize).length();
        values = new Values(arguments.integer("keysize", digits + 1, 250), arguments.integer("minvaluesize", 1, valueMaximum), valueMaximum,
                arguments.integer("entropy", 1, 256), arguments.flag("usecompression"));
    }

    public static void main(String[] given) {
        Arguments.main(() -> {
            Arguments arguments = new Arguments(given,
                    new String[] {"poolsize", "100000", "keys"},
                    new String[] {"offset", "0", "number of the first key"},
                    new String[] {"preload", "true", "write every key once before the warm-up"},
                    new String[] {"multisingleratio", "0.0", "share of the calls on the table that every partition has"},
                    new String[] {"getputratio", "0.90", "share of the calls that read"},
                    new String[] {"keysize", "32", "bytes of a key"},
                    new String[] {"minvaluesize", "1024", "bytes of the smallest value"},
                    new String[] {"maxvaluesize", "1024", "bytes of the largest value"},
                    new String[] {"entropy", "127", "how many different bytes values have, 1 to 256"},
                    new String[] {"usecompression", "false", "compress values in this program"},
                    new String[] {"duration", "120", "seconds that are measured"},
                    new String[] {"warmup", "5", "seconds of load before that"},
                    new String[] {"threads", "8", "threads with --mode=sync"});
            try (Client client = arguments.connect()) {
                return new KeyValue(client, arguments).run(arguments);
            }
        });
    }

    private boolean run(Arguments arguments) throws IOException, InterruptedException {
        if (mustBeThere) {
            preload("STORE");
            if (everywhere > 0) preload("STORER");
        }
        long began = System.nanoTime();
        Load.run(client, arguments, this);
        double seconds = (System.nanoTime() - began) / 1e9;
        gets.print("GET", seconds);
        puts.print("PUT", seconds);
        System.out.printf(Locale.ROOT, "Together: %.3f Gbps, warm-up included%n", (gets.bytes.sum() + puts.bytes.sum()) * 8 / 1e9 / seconds);
        boolean missed = mustBeThere && gets.misses.sum() > 0;
        if (missed) System.out.println("wrong: keys were missed, though each was written");
        if (wrong.sum() > 0) System.out.printf("wrong: %d answers were not what was asked for%n", wrong.sum());
        boolean right = !missed && wrong.sum() == 0;
        if (right) System.out.println("right: what was read are values as they were written");
        return right && gets.failed.sum() + puts.failed.sum() == 0;
    }

    private void preload(String table) throws InterruptedException {
        try (BulkLoader loader = client.loader(table).upsert()) {
            for (long number = offset; number < offset + poolSize; number++) loader.add(values.key(number), values.value());
            loader.flush();
            if (loader.failed() > 0) throw new Arguments.Refused(loader.failed() + " keys could not be written before the start");
            System.out.printf(Locale.ROOT, "%,d keys in %s%n", loader.loaded(), table);
        }
    }

    private Next next() {
        var random = ThreadLocalRandom.current();
        String key = values.key(offset + random.nextLong(poolSize));
        boolean replicated = random.nextDouble() < everywhere;
        if (random.nextDouble() < reads) return new Next(true, replicated ? "selectR" : "STORE.select", key, null, 0);
        byte[] value = values.value();
        return new Next(false, replicated ? "STORER.upsert" : "STORE.upsert", key, value, values.plainLength(value));
    }

    @Override
    public CompletableFuture<?> callWithoutWaiting() {
        Next next = next();
        return client.call(next.procedure(), next.parameters()).handle((result, failure) -> {
            count(next, result, failure);
            return null;
        });
    }

    @Override
    public void callAndWait() {
        Next next = next();
        try {
            count(next, client.callSync(next.procedure(), next.parameters()), null);
        } catch (CallException failure) {
            count(next, null, failure);
        }
    }

    private void count(Next next, CallResult result, Throwable failure) {
        Tally tally = next.read() ? gets : puts;
        if (failure != null) {
            tally.failed.increment();
            return;
        }
        tally.done.increment();
        serverMilliseconds.add(result.serverMilliseconds());
        if (!next.read()) {
            if (result.scalarLong() != 1) wrong.increment();
            tally.bytes.add(next.value().length);
            tally.plainBytes.add(next.plainLength());
            return;
        }
        Table found = result.table();
        if (found.rowCount() == 0) {
            tally.misses.increment();
            return;
        }
        var row = found.iterator().next();
        byte[] value = row.getBytes(1);
        try {
            if (!row.getString(0).equals(next.key())) throw new IllegalStateException("another key");
            tally.plainBytes.add(values.plainLength(value));
            tally.bytes.add(value.length);
        } catch (IllegalStateException notOurs) {
            wrong.increment();
        }
    }

    @Override
    public long serverMilliseconds() {
        return serverMilliseconds.sum();
    }
}

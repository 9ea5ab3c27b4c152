import java.lang.management.ManagementFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * One thread of votes through some client, and what they cost this process. Prints its counts as
 * JSON.
 */
abstract class Load {
    private static final long[] AREAS = {205, 212, 213, 312, 415, 617, 702, 808, 907, 971};

    final LongAdder succeeded = new LongAdder();
    final LongAdder failed = new LongAdder();
    final LongAdder accepted = new LongAdder();
    private long sent;

    /**
     * Sends a vote, or waits until there is room for one; counts its end with {@link #answered}.
     */
    abstract void vote(long phone, int contestant) throws Exception;

    /** Returns when every call has ended. */
    abstract void drain() throws Exception;

    final void answered(boolean success, long answer) {
        if (!success) {
            failed.increment();
            return;
        }
        if (answer == 0) accepted.increment();
        succeeded.increment();
    }

    final void run(double warmup, double seconds) throws Exception {
        until(warmup);
        long before = succeeded.sum() + failed.sum(), good = succeeded.sum(), cpu = cpu(), began = System.nanoTime();
        until(seconds);
        double measured = (System.nanoTime() - began) / 1e9;
        long used = cpu() - cpu, transactions = succeeded.sum() - good, answered = succeeded.sum() + failed.sum() - before;
        drain();
        // A client may be done with an answer a moment before it has told.
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (succeeded.sum() + failed.sum() < sent && System.nanoTime() - deadline < 0) Thread.onSpinWait();
        if (succeeded.sum() + failed.sum() != sent) throw new IllegalStateException(sent + " votes were sent, " + (succeeded.sum() + failed.sum()) + " ended");
        System.out.printf(
                java.util.Locale.ROOT,
                "{\"transactions\": %d, \"answered\": %d, \"seconds\": %.6f, \"cpu_microseconds\": %.3f, \"accepted\": %d, \"failed\": %d}%n",
                transactions, answered, measured, used / 1e3, accepted.sum(), failed.sum());
    }

    private void until(double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        var random = ThreadLocalRandom.current();
        while (System.nanoTime() < end) {
            for (int call = 0; call < 16; call++) {
                vote(AREAS[random.nextInt(AREAS.length)] * 10_000_000 + random.nextInt(10_000_000), 1 + random.nextInt(6));
                sent += 1;
            }
        }
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}

package io.ferritedb.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.HdrHistogram.Histogram;

/**
 * What the client has counted over a span of time. Latencies in microseconds, from handing over a
 * call to reading its answer.
 */
public record ClientStatistics(
        double seconds,
        Counts total,
        Map<String, Counts> procedures,
        List<ConnectionStatistics> connections,
        int outstanding,
        int outstandingLimit) {

    /** Calls by their end. */
    public record Counts(long succeeded, long failed, long unknown, long late, Histogram latency) {
        /**
         * The latency in microseconds that this percentage (0 to 100) of the calls did not exceed.
         */
        public double percentile(double percent) {
            return latency.getValueAtPercentile(percent);
        }
    }

    /** One connection, as it is now. */
    public record ConnectionStatistics(String address, boolean connected, int hostId, int outstanding, long bytesSent, long bytesReceived, long reconnects) {}

    /** Calls that succeeded, per second. */
    public double transactionsPerSecond() {
        return seconds > 0 ? total.succeeded() / seconds : 0;
    }

    @Override
    public String toString() {
        return String.format(java.util.Locale.ROOT, "%,.0f calls/s over %.1f s: %,d succeeded, %,d failed, %,d unknown; latency p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms",
                transactionsPerSecond(), seconds, total.succeeded(), total.failed(), total.unknown(), total.percentile(50) / 1e3,
                total.percentile(99) / 1e3, total.percentile(99.9) / 1e3, total.latency().getMaxValue() / 1e3);
    }

    /** Counts while they grow: one per procedure and span. */
    static final class Growing {
        private static final long LARGEST = 3_600_000_000L;
        private long succeeded;
        private long failed;
        private long unknown;
        private long late;
        private Histogram latency = new Histogram(LARGEST, 3);

        synchronized void answered(CallException.Outcome outcome, long nanoseconds) {
            if (outcome == null) succeeded += 1;
            else if (outcome == CallException.Outcome.FAILED) failed += 1;
            else unknown += 1;
            latency.recordValue(Math.min(LARGEST, Math.max(0, nanoseconds / 1000)));
        }

        synchronized void unknown() {
            unknown += 1;
        }

        synchronized void late() {
            late += 1;
        }

        synchronized Counts counts() {
            return new Counts(succeeded, failed, unknown, late, latency.copy());
        }
    }

    /** All procedures' counts, as totals and since the last interval was taken. */
    static final class Recorder {
        private final long began = System.nanoTime();
        private final ConcurrentHashMap<String, Growing> total = new ConcurrentHashMap<>();
        private volatile ConcurrentHashMap<String, Growing> interval = new ConcurrentHashMap<>();
        private long intervalBegan = System.nanoTime();

        void answered(String procedure, CallException.Outcome outcome, long nanoseconds) {
            total.computeIfAbsent(procedure, name -> new Growing()).answered(outcome, nanoseconds);
            interval.computeIfAbsent(procedure, name -> new Growing()).answered(outcome, nanoseconds);
        }

        void unknown(String procedure) {
            total.computeIfAbsent(procedure, name -> new Growing()).unknown();
            interval.computeIfAbsent(procedure, name -> new Growing()).unknown();
        }

        void late(String procedure) {
            total.computeIfAbsent(procedure, name -> new Growing()).late();
            interval.computeIfAbsent(procedure, name -> new Growing()).late();
        }

        ClientStatistics total(List<ConnectionStatistics> connections, Admission admission) {
            return report((System.nanoTime() - began) / 1e9, total, connections, admission);
        }

        /**
         * What was counted since the last time. A call that is being counted just now may land in
         * neither of two intervals, but in the total.
         */
        synchronized ClientStatistics interval(List<ConnectionStatistics> connections, Admission admission) {
            var taken = interval;
            interval = new ConcurrentHashMap<>();
            long now = System.nanoTime();
            double seconds = (now - intervalBegan) / 1e9;
            intervalBegan = now;
            return report(seconds, taken, connections, admission);
        }

        private static ClientStatistics report(double seconds, Map<String, Growing> growing, List<ConnectionStatistics> connections, Admission admission) {
            Map<String, Counts> procedures = new TreeMap<>();
            new HashMap<>(growing).forEach((name, counts) -> procedures.put(name, counts.counts()));
            Histogram all = new Histogram(Growing.LARGEST, 3);
            long[] sums = new long[4];
            for (Counts counts : procedures.values()) {
                sums[0] += counts.succeeded();
                sums[1] += counts.failed();
                sums[2] += counts.unknown();
                sums[3] += counts.late();
                all.add(counts.latency());
            }
            return new ClientStatistics(seconds, new Counts(sums[0], sums[1], sums[2], sums[3], all), procedures, new ArrayList<>(connections),
                    admission.outstanding(), admission.limit());
        }
    }
}

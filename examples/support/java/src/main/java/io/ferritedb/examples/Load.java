package io.ferritedb.examples;

import io.ferritedb.client.Client;
import io.ferritedb.client.ClientStatistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.HdrHistogram.Histogram;

/**
 * Makes an application's calls for as long as it should and prints figures, all of which the driver
 * has counted.
 */
public final class Load {
    /** Calls, made one way or the other. */
    public interface Application {
        /**
         * Makes a call. The future ends when the call's end has been counted, and never with a
         * failure.
         */
        CompletableFuture<?> callWithoutWaiting();

        /** Makes a call, waits for its end and counts it. */
        void callAndWait();

        /**
         * Milliseconds that the server says it spent on the calls, all together; negative if nobody
         * counts them.
         */
        default long serverMilliseconds() {
            return -1;
        }
    }

    private final Client client;
    private final Arguments arguments;
    private final Histogram latency = new Histogram(3_600_000_000L, 3);
    private long succeeded;
    private long failed;
    private long unknown;
    private double seconds;

    private Load(Client client, Arguments arguments) {
        this.client = client;
        this.arguments = arguments;
    }

    /** Runs the warm-up and the measured time; returns when every call has ended. */
    public static void run(Client client, Arguments arguments, Application application) throws InterruptedException, IOException {
        new Load(client, arguments).run(application);
    }

    private void run(Application application) throws InterruptedException, IOException {
        long warmup = arguments.integer("warmup", 0, 1_000_000);
        long measuredFrom = System.nanoTime() + warmup * 1_000_000_000L;
        long until = measuredFrom + arguments.integer("duration", 1, 1_000_000) * 1_000_000_000L;
        boolean latencies = arguments.flag("latencyreport");
        CountDownLatch over = new CountDownLatch(1);
        LongAdder made = new LongAdder();
        Thread reporter = new Thread(() -> {
            try {
                if (over.await(measuredFrom - System.nanoTime(), TimeUnit.NANOSECONDS)) return;
                client.intervalStatistics();
                while (!over.await(arguments.integer("displayinterval", 1, 86_400), TimeUnit.SECONDS)) System.out.println(line(add(), latencies));
                add();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }, "reporter");
        reporter.start();
        if (arguments.synchronous()) callAndWait(application, until, made);
        else callWithoutWaiting(application, until, made);
        over.countDown();
        reporter.join();
        report(latencies, application.serverMilliseconds(), made.sum());
    }

    private static void callWithoutWaiting(Application application, long until, LongAdder made) throws InterruptedException {
        // One more than the calls that have not ended, until no further one is made.
        AtomicInteger pending = new AtomicInteger(1);
        CountDownLatch allEnded = new CountDownLatch(1);
        Runnable end = () -> {
            if (pending.decrementAndGet() == 0) allEnded.countDown();
        };
        while (System.nanoTime() < until) {
            pending.incrementAndGet();
            made.increment();
            application.callWithoutWaiting().whenComplete((ended, never) -> end.run());
        }
        end.run();
        allEnded.await();
    }

    private void callAndWait(Application application, long until, LongAdder made) throws InterruptedException {
        List<Thread> callers = new ArrayList<>();
        for (int at = arguments.integer("threads", 1, 10_000); at > 0; at--) {
            Thread caller = new Thread(() -> {
                while (System.nanoTime() < until) {
                    made.increment();
                    application.callAndWait();
                }
            }, "caller-" + at);
            callers.add(caller);
            caller.start();
        }
        for (Thread caller : callers) caller.join();
    }

    private ClientStatistics add() {
        ClientStatistics interval = client.intervalStatistics();
        succeeded += interval.total().succeeded();
        failed += interval.total().failed();
        unknown += interval.total().unknown();
        seconds += interval.seconds();
        latency.add(interval.total().latency());
        return interval;
    }

    private static String line(ClientStatistics interval, boolean latencies) {
        String line = String.format(Locale.ROOT, "%s Throughput %.0f/s, Aborts/Failures %d/%d", LocalTime.now().format(DateTimeFormatter.ofPattern("HH:mm:ss")),
                interval.transactionsPerSecond(), interval.total().failed(), interval.total().unknown());
        if (!latencies) return line;
        return line + String.format(Locale.ROOT, ", Avg/95%% Latency %.2f/%.2fms", interval.total().latency().getMean() / 1e3, interval.total().percentile(95) / 1e3);
    }

    private void report(boolean latencies, long serverMilliseconds, long made) throws IOException {
        System.out.printf(Locale.ROOT, "Average throughput: %.0f/s over %.1f s, Aborts/Failures %d/%d%n", succeeded / seconds, seconds, failed, unknown);
        if (latencies) {
            System.out.printf(Locale.ROOT, "Average latency: %.2f ms%n", latency.getMean() / 1e3);
            for (double percent : new double[] {10, 25, 50, 75, 90, 95, 99, 99.5, 99.9}) {
                System.out.printf(Locale.ROOT, "%8s %% of the calls within %10.2f ms%n", percent, latency.getValueAtPercentile(percent) / 1e3);
            }
            if (serverMilliseconds >= 0) System.out.printf(Locale.ROOT, "Average within the server: %.3f ms, as it says%n", (double) serverMilliseconds / Math.max(1, made));
            System.out.println("Calls by latency:");
            for (var bucket : latency.logarithmicBucketValues(1000, 2)) {
                double share = (double) bucket.getCountAddedInThisIterationStep() / Math.max(1, latency.getTotalCount());
                if (share > 0) System.out.printf(Locale.ROOT, "%10.0f ms %6.2f %% %s%n", bucket.getValueIteratedTo() / 1e3, share * 100, "#".repeat((int) Math.ceil(share * 50)));
            }
        }
        if (arguments.text("statsfile").isEmpty()) return;
        long milliseconds = (long) (seconds * 1000);
        StringBuilder line = new StringBuilder().append(System.currentTimeMillis() - milliseconds).append(',').append(milliseconds).append(',').append(succeeded);
        for (double percent : new double[] {0, 100, 95, 99, 99.9, 99.99, 99.999}) line.append(String.format(Locale.ROOT, ",%.2f", latency.getValueAtPercentile(percent) / 1e3));
        line.append(",0,").append(failed).append(',').append(unknown).append(System.lineSeparator());
        Files.writeString(Path.of(arguments.text("statsfile")), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}

package io.ferritedb.client;

import java.lang.management.ManagementFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * Voter from one thread: calls a second, and what each costs this process. Arguments: host:port,
 * seconds, calls outstanding.
 */
final class VoterBenchmark {
    private static final long[] AREAS = {205, 212, 213, 312, 415, 617, 702, 808, 907, 971};

    public static void main(String[] arguments) {
        int seconds = Integer.parseInt(arguments[1]);
        try (Client client = Client.to(arguments[0]).maxOutstanding(Integer.parseInt(arguments[2])).connect()) {
            LongAdder failed = new LongAdder();
            run(client, 3, failed);
            client.intervalStatistics();
            long cpu = cpu();
            run(client, seconds, failed);
            long used = cpu() - cpu;
            ClientStatistics counted = client.intervalStatistics();
            System.out.println(counted);
            System.out.printf("%.2f CPU-us each in this process, %d failed%n", used / 1e3 / counted.total().succeeded(), failed.sum());
        }
    }

    private static void run(Client client, int seconds, LongAdder failed) {
        long until = System.nanoTime() + seconds * 1_000_000_000L;
        var random = ThreadLocalRandom.current();
        while (System.nanoTime() < until) {
            long phone = AREAS[random.nextInt(AREAS.length)] * 10_000_000 + random.nextInt(10_000_000);
            client.call("Vote", phone, 1 + random.nextInt(6), 2L).whenComplete((result, failure) -> {
                if (failure != null) failed.increment();
            });
        }
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}

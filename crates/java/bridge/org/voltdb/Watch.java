package org.voltdb;

import java.util.ArrayList;
import java.util.List;

/**
 * Looks for calls that run longer than they may, and reports where they are: to the operator at
 * once, and in their error when they end. Threads count their calls as they begin and
 * end, so that a call pays nothing for a clock.
 */
final class Watch extends Thread {
    private static final long LIMIT_NANOS = Long.getLong("ferrite.procedure.time.max.ms", 10_000) * 1_000_000L;
    private static final long LOOK_MS = Math.max(10, Math.min(250, LIMIT_NANOS / 4_000_000L));
    private static final Watch INSTANCE = new Watch();

    /** What is known of a thread's call. */
    private static final class Seen {
        final Exchange exchange;
        long calls;
        long since;
        boolean told;

        Seen(Exchange exchange) {
            this.exchange = exchange;
        }
    }

    private final List<Seen> watched = new ArrayList<>();

    private Watch() {
        super("procedure-watch");
        setDaemon(true);
        start();
    }

    static void add(Exchange exchange) {
        synchronized (INSTANCE.watched) {
            INSTANCE.watched.add(new Seen(exchange));
        }
    }

    @Override
    public void run() {
        while (true) {
            try {
                Thread.sleep(LOOK_MS);
                synchronized (watched) {
                    long now = System.nanoTime();
                    watched.forEach(seen -> look(seen, now));
                }
            } catch (Throwable e) {
                // Without memory nothing can be told now; perhaps the next time.
                continue;
            }
        }
    }

    private static void look(Seen seen, long now) {
        Exchange exchange = seen.exchange;
        long calls = exchange.callsNow();
        if (calls != seen.calls) {
            seen.calls = calls;
            seen.since = now;
            seen.told = false;
            return;
        }
        // Even: no call goes on.
        if ((calls & 1) == 0 || seen.told || now - seen.since < LIMIT_NANOS) {
            return;
        }
        seen.told = true;
        String stack = Failure.frames(exchange.thread.getStackTrace());
        // The call may end meanwhile.
        String routine = String.valueOf(exchange.running);
        long elapsed = now - seen.since;
        exchange.stuck(calls, routine + " has run for " + elapsed / 1_000_000_000L + " s and is here:" + stack);
        Bridge.runsLong(routine, exchange.serverThread, elapsed / 1_000_000L, stack);
    }
}

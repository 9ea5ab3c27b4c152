package org.voltdb;

import java.util.ArrayDeque;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;

/**
 * The threads on which the code of procedures with futures runs. Such code may wait for a future:
 * another thread then takes its place, which is what a {@link ForkJoinPool} does by itself. Some
 * thread can always run, so that answers arrive: where too many wait, the next that wants to is
 * told so.
 */
final class WorkerPool {
    private static final int THREADS = Math.max(8, Runtime.getRuntime().availableProcessors());
    /**
     * Methods run that go on at a time, waiting or not. Further ones begin when one of them is
     * over.
     */
    private static final int RUNS_MAX = 128;
    /** Threads that wait: all that may be in run, and as many in what depends on futures. */
    private static final int WAITING_MAX = 2 * RUNS_MAX;
    private static final ForkJoinPool POOL = new ForkJoinPool(THREADS, ForkJoinPool.defaultForkJoinWorkerThreadFactory, null, true,
            THREADS, THREADS + WAITING_MAX, THREADS, WorkerPool::full, 60, TimeUnit.SECONDS);
    private static final ArrayDeque<Runnable> LATER = new ArrayDeque<>();
    private static int runs;

    private WorkerPool() {
    }

    private static boolean full(ForkJoinPool pool) {
        throw new IllegalStateException("too many threads wait for futures in procedures that are not transactions: "
                + "chain them (thenApply, thenCompose) instead of waiting");
    }

    static void execute(Runnable code) {
        POOL.execute(code);
    }

    /** Runs it, now or when there is room. */
    static void begin(Runnable run) {
        synchronized (LATER) {
            if (runs == RUNS_MAX) {
                LATER.add(run);
                return;
            }
            runs++;
        }
        POOL.execute(() -> run(run));
    }

    private static void run(Runnable run) {
        try {
            run.run();
        } finally {
            Runnable next;
            synchronized (LATER) {
                next = LATER.poll();
                if (next == null) {
                    runs--;
                }
            }
            if (next != null) {
                POOL.execute(() -> run(next));
            }
        }
    }
}

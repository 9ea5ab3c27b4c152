package io.ferritedb.client;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * How many calls may be out, and how fast they may leave. Entering and leaving are one atomic
 * addition each while there is room.
 */
final class Admission {
    private final AtomicInteger outstanding = new AtomicInteger();
    private final AtomicInteger waiting = new AtomicInteger();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition room = lock.newCondition();
    private final long nanosBetween;
    private long nextSend;
    private volatile int limit;

    Admission(int limit, double callsPerSecond) {
        this.limit = limit;
        this.nanosBetween = callsPerSecond == Double.POSITIVE_INFINITY ? 0 : (long) (1e9 / callsPerSecond);
        this.nextSend = System.nanoTime();
    }

    int outstanding() {
        return outstanding.get();
    }

    int limit() {
        return limit;
    }

    void limit(int limit) {
        this.limit = limit;
        signal();
    }

    /** Takes room if there is some. */
    boolean tryEnter() {
        if (outstanding.incrementAndGet() <= limit) return true;
        outstanding.decrementAndGet();
        return false;
    }

    /** Takes room whether there is some or not: for calls made on the driver's own threads. */
    void force() {
        outstanding.incrementAndGet();
    }

    /** Waits for room until a moment of {@link System#nanoTime}. */
    boolean enter(long until) throws InterruptedException {
        if (tryEnter()) return true;
        lock.lockInterruptibly();
        waiting.incrementAndGet();
        try {
            while (!tryEnter()) {
                long left = until - System.nanoTime();
                if (left <= 0) return false;
                room.awaitNanos(left);
            }
            return true;
        } finally {
            waiting.decrementAndGet();
            lock.unlock();
        }
    }

    void leave() {
        outstanding.decrementAndGet();
        signal();
    }

    private void signal() {
        if (waiting.get() > 0) {
            lock.lock();
            try {
                room.signalAll();
            } finally {
                lock.unlock();
            }
        }
    }

    boolean limitsRate() {
        return nanosBetween > 0;
    }

    /**
     * Waits for this call's turn under the rate; false if that would be after `until`, or now for
     * those who cannot wait.
     */
    boolean turn(boolean mayWait, long until) {
        long mine;
        synchronized (this) {
            long now = System.nanoTime();
            // What was not used is not saved up: a pause is followed by the rate, not by a burst.
            mine = Math.max(nextSend, now - nanosBetween);
            if (mine > now && (!mayWait || mine > until)) return false;
            nextSend = mine + nanosBetween;
        }
        for (long left = mine - System.nanoTime(); left > 0; left = mine - System.nanoTime()) LockSupport.parkNanos(this, left);
        return true;
    }
}

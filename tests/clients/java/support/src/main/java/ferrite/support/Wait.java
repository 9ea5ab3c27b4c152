package ferrite.support;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waiting for what a server pushes by itself: nothing in the client tells when it has come. */
public final class Wait {
    private static final long SECONDS_MAX = 10;

    private Wait() {}

    public static void until(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(what + " did not come within " + SECONDS_MAX + " s");
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
    }
}

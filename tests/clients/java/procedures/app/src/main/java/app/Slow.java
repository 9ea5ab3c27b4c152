package app;

import org.voltdb.VoltProcedure;

/** Takes so many milliseconds. */
public class Slow extends VoltProcedure {
    public long run(long milliseconds) throws InterruptedException {
        Thread.sleep(milliseconds);
        return milliseconds;
    }
}

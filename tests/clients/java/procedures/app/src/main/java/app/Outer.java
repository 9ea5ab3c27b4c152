package app;

import org.voltdb.VoltProcedure;

/** Nested procedures. */
public final class Outer {
    private Outer() {
    }

    public static class Nested extends VoltProcedure {
        public long run() {
            return 42;
        }
    }
}

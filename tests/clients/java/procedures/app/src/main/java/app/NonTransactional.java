package app;

import org.voltdb.VoltNonTransactionalProcedure;

/** Calls nothing. */
public class NonTransactional extends VoltNonTransactionalProcedure {
    public long run() {
        return 7;
    }
}

package app;

import org.voltdb.VoltNonTransactionalProcedure;

/** No procedure here. */
public class NonTransactional extends VoltNonTransactionalProcedure {
    public long run() {
        return 0;
    }
}

package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltCompoundProcedure;

/** No procedure: a compound one runs no SQL of its own. */
public class WithStatement extends VoltCompoundProcedure {
    public final SQLStmt statement = new SQLStmt("SELECT id FROM accounts");

    public long run() {
        return 0;
    }
}

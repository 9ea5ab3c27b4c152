package app;

import org.voltdb.DeprecatedProcedureAPIAccess;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Inserts tables at once, as old benchmarks do. Its own statement does not write. */
public class Loads extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM one");

    public VoltTable[] run(VoltTable accounts, VoltTable ones) {
        voltQueueSQL(count);
        DeprecatedProcedureAPIAccess.voltLoadTable(this, "accounts", accounts);
        DeprecatedProcedureAPIAccess.voltLoadTable(this, "ONE", ones);
        if (DeprecatedProcedureAPIAccess.getTransactionId(this) != getUniqueId()) {
            throw new VoltAbortException("one transaction has one number");
        }
        return voltExecuteSQL(true);
    }
}

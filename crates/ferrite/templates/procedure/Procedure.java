package procedures;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Adds to a counter, which begins with 0, and answers what it is then. */
public class @NAME@ extends VoltProcedure {
    public final SQLStmt add = new SQLStmt("UPDATE counters SET value = value + ? WHERE name = ?");
    public final SQLStmt begin = new SQLStmt("INSERT INTO counters (name, value) VALUES (?, ?)");
    public final SQLStmt read = new SQLStmt("SELECT value FROM counters WHERE name = ?");

    public long run(String name, long amount) {
        if (amount < 0) {
            throw new VoltAbortException("a counter does not go back");
        }
        voltQueueSQL(add, amount, name);
        boolean known = voltExecuteSQL()[0].asScalarLong() == 1;
        if (!known) {
            voltQueueSQL(begin, name, amount);
        }
        voltQueueSQL(read, EXPECT_SCALAR_LONG, name);
        VoltTable[] results = voltExecuteSQL(true);
        return results[results.length - 1].asScalarLong();
    }
}

package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Returns a table. */
public class Open extends VoltProcedure {
    public static final SQLStmt INSERT = new SQLStmt("INSERT INTO accounts (id, balance) VALUES (?, ?)");
    public final SQLStmt all = new SQLStmt("SELECT id, balance FROM accounts WHERE id = ?");

    public VoltTable run(long id, Long balance) {
        voltQueueSQL(INSERT, id, balance == null ? 0L : balance);
        voltQueueSQL(all, EXPECT_ONE_ROW, id);
        return voltExecuteSQL(true)[1];
    }
}

package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** A procedure whose statements call functions, while its own buffers are in use. */
public class UsesFunctions extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO accounts (id, balance) VALUES (?, f_add(?, 1))");
    public final SQLStmt select = new SQLStmt("SELECT f_text('x', ?), balance FROM accounts WHERE f_add(id, 0) = ? AND id = ?");

    public VoltTable run(long id, int times) {
        voltQueueSQL(insert, id, 41);
        voltQueueSQL(select, EXPECT_ONE_ROW, times, id, id);
        return voltExecuteSQL()[1];
    }
}

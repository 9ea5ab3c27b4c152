package app;

import org.voltdb.SQLStmt;

/** Over several partitions, in several rounds; sees its own writes. */
public class Transfer extends Base {
    public final SQLStmt add = new SQLStmt("UPDATE accounts SET balance = balance + ? WHERE id = ?");
    public final SQLStmt total = new SQLStmt("SELECT SUM(balance) FROM accounts");

    public long run(long from, long to, long amount, boolean fail) {
        voltQueueSQL(total, EXPECT_SCALAR);
        long before = voltExecuteSQL()[0].fetchRow(0).getLong(0);
        voltQueueSQL(add, EXPECT_SCALAR_MATCH(1), -amount, from);
        voltExecuteSQL();
        if (balance(from) < 0) {
            throw new VoltAbortException("account " + from + " would be overdrawn");
        }
        voltQueueSQL(add, EXPECT_SCALAR_MATCH(1), amount, to);
        voltQueueSQL(total, EXPECT_SCALAR_MATCH(before));
        voltExecuteSQL();
        if (fail) {
            throw new IllegalStateException("failed on purpose, after all was written");
        }
        return balance(to);
    }
}

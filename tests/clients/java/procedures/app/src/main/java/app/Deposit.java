package app;

import org.voltdb.SQLStmt;

/** Inherits a statement and uses a helper class; a constraint of the table may stop it. */
public class Deposit extends Base {
    public final SQLStmt add = new SQLStmt("UPDATE accounts SET balance = balance + ? WHERE id = ?");

    public long run(long id, long amount) {
        if (amount == 0) {
            throw new VoltAbortException("nothing to deposit");
        }
        voltQueueSQL(add, EXPECT_SCALAR_MATCH(1), amount, id);
        voltExecuteSQL();
        return Helper.same(balance(id));
    }
}

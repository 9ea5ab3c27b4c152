package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** What the procedures over accounts share: an inherited statement, and a helper. */
public abstract class Base extends VoltProcedure {
    protected final SQLStmt balanceOf = new SQLStmt("SELECT balance FROM accounts WHERE id = ?");

    protected long balance(long id) {
        voltQueueSQL(balanceOf, EXPECT_SCALAR_LONG, id);
        return voltExecuteSQL()[0].asScalarLong();
    }
}

package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Arrays that may be null, and a batch of many statements. */
public class Nulls extends VoltProcedure {
    public final SQLStmt one = new SQLStmt("SELECT id FROM one");

    public long run(long[] ids, String[] texts, VoltTable[] tables, byte[][] bytes, int statements) {
        for (int i = 0; i < statements; i++) {
            voltQueueSQL(one, EXPECT_SCALAR_LONG);
        }
        long answered = voltExecuteSQL().length;
        long nulls = (ids == null ? 1 : 0) + (texts == null ? 1 : 0) + (tables == null ? 1 : 0) + (bytes == null ? 1 : 0);
        return answered * 10 + nulls;
    }
}

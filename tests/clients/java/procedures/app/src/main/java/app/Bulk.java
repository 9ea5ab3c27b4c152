package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Large batches, large results: buffers grow and go back. */
public class Bulk extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO texts (key, number, words) VALUES (?, ?, ?)");
    public final SQLStmt all = new SQLStmt("SELECT number, words FROM texts WHERE key = ? ORDER BY number");

    public VoltTable run(int key, int rows, int size) {
        String words = "x".repeat(size);
        for (int i = 0; i < rows; i++) {
            voltQueueSQL(insert, EXPECT_SCALAR_MATCH(1), key, i, words);
            if (i % 500 == 499) {
                voltExecuteSQL();
            }
        }
        voltExecuteSQL();
        voltQueueSQL(all, EXPECT_NON_EMPTY, key);
        return voltExecuteSQL()[0];
    }
}

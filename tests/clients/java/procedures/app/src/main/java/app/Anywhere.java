package app;

import java.util.HashMap;
import java.util.Map;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Uses the clock, random numbers and hash order, which is safe: what is logged is rows. */
public class Anywhere extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO texts (key, number, words) VALUES (?, ?, ?)");

    public VoltTable[] run(int key) {
        Map<Object, Long> values = new HashMap<>();
        for (int i = 0; i < 10; i++) {
            values.put(new Object(), System.nanoTime() ^ (long) (Math.random() * 1e15));
        }
        int number = 0;
        for (Map.Entry<Object, Long> entry : values.entrySet()) {
            voltQueueSQL(insert, key, number++, entry.getValue() + " " + System.identityHashCode(entry.getKey()));
        }
        return voltExecuteSQL(true);
    }
}

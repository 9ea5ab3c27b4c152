package app;

import java.math.BigDecimal;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** Arrays as parameters, and for IN. */
public class Arrays extends VoltProcedure {
    public final SQLStmt some = new SQLStmt("SELECT COUNT(*) FROM accounts WHERE id IN ?");

    public VoltTable run(long[] ids, int[] ints, String[] texts, double[] reals, BigDecimal[] decimals, byte[][] bytes) {
        voltQueueSQL(some, EXPECT_SCALAR_LONG, (Object) ids);
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("WHAT", VoltType.STRING), new VoltTable.ColumnInfo("N", VoltType.BIGINT));
        table.addRow("found", voltExecuteSQL()[0].asScalarLong());
        long sum = 0;
        for (int one : ints) {
            sum += one;
        }
        table.addRow("ints", sum);
        table.addRow(String.join("|", texts), (long) texts.length);
        table.addRow("reals", (long) java.util.Arrays.stream(reals).sum());
        table.addRow("decimals", decimals[0].add(decimals[1]).longValue());
        table.addRow("bytes", (long) bytes[1].length);
        return table;
    }
}

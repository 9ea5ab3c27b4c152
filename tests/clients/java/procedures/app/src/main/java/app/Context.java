package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** What a transaction knows of itself, and its status. */
public class Context extends VoltProcedure {
    public final SQLStmt now = new SQLStmt("SELECT NOW FROM one");

    public VoltTable run(long key) {
        setAppStatusCode((byte) 7);
        setAppStatusString("seven");
        voltQueueSQL(now);
        long sqlTime = voltExecuteSQL()[0].fetchRow(0).getTimestampAsLong(0);
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("ID", VoltType.BIGINT), new VoltTable.ColumnInfo("MS", VoltType.BIGINT),
                new VoltTable.ColumnInfo("SQLMS", VoltType.BIGINT), new VoltTable.ColumnInfo("RANDOM", VoltType.BIGINT),
                new VoltTable.ColumnInfo("PARTITION", VoltType.INTEGER), new VoltTable.ColumnInfo("RESOURCE", VoltType.STRING));
        table.addRow(getUniqueId(), getTransactionTime().getTime(), sqlTime / 1000, getSeededRandomNumberGenerator().nextLong(),
                getPartitionId(), Helper.resource());
        return table;
    }
}

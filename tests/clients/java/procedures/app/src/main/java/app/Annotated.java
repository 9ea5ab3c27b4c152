package app;

import org.voltdb.ProcInfo;
import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;

/** Partitioned by the annotation of older programs. */
@ProcInfo(partitionInfo = "ACCOUNTS.ID: 1", singlePartition = true)
public class Annotated extends VoltProcedure {
    public final SQLStmt count = new SQLStmt("SELECT COUNT(*) FROM accounts WHERE id = ?");

    public long run(String ignored, long id) {
        voltQueueSQL(count, EXPECT_SCALAR_LONG, id);
        return voltExecuteSQL()[0].asScalarLong() * 100_000 + getPartitionId();
    }
}

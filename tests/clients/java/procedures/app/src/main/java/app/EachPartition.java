package app;

import java.util.concurrent.CompletableFuture;
import org.voltdb.VoltNonTransactionalProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponseWithPartitionKey;

/** What a procedure says on each partition: status and number. */
public class EachPartition extends VoltNonTransactionalProcedure {
    public CompletableFuture<VoltTable> run(String procedure, VoltTable parameters) {
        Object[] values = parameters.advanceRow() ? parameters.getRowObjects() : new Object[0];
        return callAllPartitionProcedure(procedure, values).thenApply(EachPartition::table);
    }

    private static VoltTable table(ClientResponseWithPartitionKey[] answers) {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("PARTITION", VoltType.INTEGER), new VoltTable.ColumnInfo("KEY", VoltType.BIGINT),
                new VoltTable.ColumnInfo("STATUS", VoltType.TINYINT), new VoltTable.ColumnInfo("NUMBER", VoltType.BIGINT));
        for (ClientResponseWithPartitionKey answer : answers) {
            VoltTable[] results = answer.response.getResults();
            Long number = results.length == 0 ? null : (Long) results[0].asScalarLong();
            table.addRow(answer.partitionId, ((Number) answer.partitionKey).longValue(), answer.response.getStatus(), number);
        }
        return table;
    }
}

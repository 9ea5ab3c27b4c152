package app;

import org.voltdb.VoltCompoundProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;

/**
 * Moves money between accounts on perhaps two partitions: looks both up, changes both, and says
 * what they have then.
 */
public class Move extends VoltCompoundProcedure {
    private long from;
    private long to;
    private long amount;

    public long run(long from, long to, long amount) {
        this.from = from;
        this.to = to;
        this.amount = amount;
        newStageList(this::lookUp).then(this::change).then(this::finish).build();
        return 0;
    }

    private void lookUp(ClientResponse[] none) {
        if (none.length != 0) {
            throw new AssertionError("the first stage gets no answers");
        }
        queueProcedureCall("ACCOUNTS.select", from);
        queueProcedureCall("ACCOUNTS.select", to);
    }

    private void change(ClientResponse[] found) {
        for (ClientResponse one : found) {
            if (one.getResults()[0].getRowCount() == 0) {
                throw new CompoundProcAbortException("there is no such account");
            }
        }
        VoltTable account = found[0].getResults()[0];
        account.advanceRow();
        if (account.getLong("BALANCE") < amount) {
            setAppStatusCode((byte) 9);
            abortProcedure("account " + account.getLong("ID") + " has only " + account.getLong("BALANCE"));
        }
        queueProcedureCall("Deposit", from, -amount);
        queueProcedureCall("Deposit", to, amount);
    }

    private void finish(ClientResponse[] changed) {
        VoltTable balances = new VoltTable(new VoltTable.ColumnInfo("ID", VoltType.BIGINT),
                new VoltTable.ColumnInfo("BALANCE", VoltType.BIGINT));
        balances.addRow(from, changed[0].getResults()[0].asScalarLong());
        balances.addRow(to, changed[1].getResults()[0].asScalarLong());
        setAppStatusCode((byte) 3);
        setAppStatusString("moved " + amount);
        completeProcedure(balances);
    }
}

package app;

import org.voltdb.SQLStmt;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;

/** Tables as parameters, and as JSON. */
public class Tables extends VoltProcedure {
    public final SQLStmt insert = new SQLStmt("INSERT INTO accounts (id, balance) VALUES (?, ?)");

    public VoltTable[] run(VoltTable rows, VoltTable[] more, String json) {
        if (rows == null) {
            return new VoltTable[0];
        }
        while (rows.advanceRow()) {
            voltQueueSQL(insert, rows.get(0), rows.get(1));
        }
        for (VoltTable table : more) {
            while (table.advanceRow()) {
                voltQueueSQL(insert, table.getLong("ID"), table.getLong("BALANCE"));
            }
            rows.addTable(table);
        }
        voltExecuteSQL(true);
        VoltTable read = VoltTable.fromJSONString(json);
        if (!VoltTable.fromJSONString(read.toJSONString()).hasSameContents(read)) {
            throw new VoltAbortException("a table is not what its JSON says");
        }
        for (String type : new String[] {"6", "9", "11", "21", "22", "23"}) {
            refuse("{\"schema\":[{\"name\":\"A\",\"type\":" + type + "}],\"data\":[[[1]]]}");
        }
        refuse("{\"schema\":[{\"name\":\"A\",\"type\":22}],\"data\":[[1E999999999]]}");
        return new VoltTable[] {rows, read};
    }

    private static void refuse(String json) {
        try {
            VoltTable.fromJSONString(json);
        } catch (IllegalArgumentException e) {
            return;
        }
        throw new VoltAbortException("this is no table, and was read as one: " + json);
    }
}

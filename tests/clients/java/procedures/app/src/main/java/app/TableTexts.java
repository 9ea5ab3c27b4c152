package app;

import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;

/** {@link TableLines}, as they are within the server. */
public class TableTexts extends VoltProcedure {
    public VoltTable run() {
        VoltTable lines = new VoltTable(new VoltTable.ColumnInfo("LINE", VoltType.STRING));
        TableLines.lines().forEach(lines::addRow);
        return lines;
    }
}

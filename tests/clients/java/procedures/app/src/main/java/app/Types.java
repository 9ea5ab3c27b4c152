package app;

import java.math.BigDecimal;
import org.voltdb.VoltProcedure;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** Every type in and out. */
public class Types extends VoltProcedure {
    public VoltTable[] run(byte tiny, short small, int integer, long big, double real, String text, byte[] bytes, BigDecimal decimal,
            TimestampType time, GeographyPointValue point, GeographyValue polygon, java.util.Date date,
            java.sql.Timestamp sqlTime, Integer boxed) {
        VoltTable table = new VoltTable(
                new VoltTable.ColumnInfo("TINY", VoltType.TINYINT), new VoltTable.ColumnInfo("SMALL", VoltType.SMALLINT),
                new VoltTable.ColumnInfo("INT", VoltType.INTEGER), new VoltTable.ColumnInfo("BIG", VoltType.BIGINT),
                new VoltTable.ColumnInfo("REAL", VoltType.FLOAT), new VoltTable.ColumnInfo("TEXT", VoltType.STRING),
                new VoltTable.ColumnInfo("BYTES", VoltType.VARBINARY), new VoltTable.ColumnInfo("DEC", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("TIME", VoltType.TIMESTAMP), new VoltTable.ColumnInfo("POINT", VoltType.GEOGRAPHY_POINT),
                new VoltTable.ColumnInfo("POLYGON", VoltType.GEOGRAPHY));
        table.addRow(tiny, small, integer, big, real, text, bytes, decimal, time, point, polygon);
        VoltTable second = new VoltTable(new VoltTable.ColumnInfo("DATE", VoltType.TIMESTAMP),
                new VoltTable.ColumnInfo("SQLTIME", VoltType.TIMESTAMP), new VoltTable.ColumnInfo("BOXED", VoltType.INTEGER));
        second.addRow(date, sqlTime, boxed);
        VoltTable copy = new VoltTable(second.getTableSchema());
        second.resetRowPosition();
        while (second.advanceRow()) {
            copy.add(second);
        }
        copy.addTable(second);
        return new VoltTable[] {table, copy};
    }
}

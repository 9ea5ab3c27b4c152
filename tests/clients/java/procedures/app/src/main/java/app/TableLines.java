package app;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.voltdb.VoltTable;
import org.voltdb.VoltTableRow;
import org.voltdb.VoltType;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.TimestampType;

/**
 * What tables do, line by line: the same within the server and where the published client brings
 * the classes.
 */
public final class TableLines {
    private TableLines() {
    }

    public static List<String> lines() {
        List<String> lines = new ArrayList<>();
        VoltTable table = table();
        lines.add(table.toFormattedString());
        lines.add(table.toFormattedString(false));
        lines.add(table.toString());
        lines.add(table.toJSONString());
        lines.add(table.clone(0).toFormattedString());
        lines.add(table.getTableCheckSum(true) + " " + table.getTableCheckSum(false));
        VoltTable turned = table.clone(0);
        for (int row = table.getRowCount(); row-- > 0;) {
            turned.add(table.fetchRow(row));
        }
        lines.add(turned.hasSameContents(table) + " " + turned.hasSameContents(table, false) + " " + turned.hasSameContents(table, true));
        lines.add(Boolean.toString(turned.getTableCheckSum(false) == table.getTableCheckSum(false)));
        lines.add(VoltTable.varbinaryToPrintableString(new byte[] {1, -1}));
        for (int row = 0; row < table.getRowCount(); row++) {
            VoltTableRow at = table.fetchRow(row);
            for (int column = 0; column < table.getColumnCount(); column++) {
                int here = column;
                lines.add(row + "," + column + ": " + said(() -> at.get(here) instanceof byte[] ? "bytes" : at.get(here)) + " " + at.wasNull());
                lines.add(said(() -> at.get(here, at.getColumnType(here)) instanceof byte[] ? "bytes" : at.get(here, at.getColumnType(here))));
            }
            lines.add(row + ": " + java.util.Arrays.asList(at.getRowObjects()).subList(0, 7));
            for (VoltType type : new VoltType[] {VoltType.TINYINT, VoltType.SMALLINT, VoltType.INTEGER, VoltType.BIGINT}) {
                lines.add(row + " as " + type.getName() + ": " + said(() -> at.get(3, type)) + " " + at.wasNull());
            }
            // Of another type than asked for.
            lines.add(said(() -> at.getString(0)) + said(() -> at.getLong(4)) + said(() -> at.getTimestampAsTimestamp(6)) + said(() -> at.getVarbinary(0)));
        }
        for (Object value : new Object[] {1.5, -3.9, 300.7, 1e20, Double.NaN, 1.5f, 1L << 40}) {
            for (VoltType type : new VoltType[] {VoltType.TINYINT, VoltType.INTEGER, VoltType.BIGINT, VoltType.FLOAT}) {
                VoltTable one = new VoltTable(new VoltTable.ColumnInfo("A", type));
                lines.add(value + " in " + type.getName() + ": " + said(() -> {
                    one.addRow(value);
                    return one.fetchRow(0).get(0);
                }));
            }
        }
        return lines;
    }

    private static String said(Callable<Object> call) {
        try {
            return String.valueOf(call.call());
        } catch (Exception e) {
            return e.getClass().getName();
        }
    }

    private static VoltTable table() {
        VoltTable table = new VoltTable(new VoltTable.ColumnInfo("A", VoltType.TINYINT), new VoltTable.ColumnInfo("b", VoltType.SMALLINT),
                new VoltTable.ColumnInfo("COUNT_OF_ALL", VoltType.INTEGER), new VoltTable.ColumnInfo("D", VoltType.BIGINT),
                new VoltTable.ColumnInfo("E", VoltType.FLOAT), new VoltTable.ColumnInfo("F", VoltType.DECIMAL),
                new VoltTable.ColumnInfo("G", VoltType.STRING), new VoltTable.ColumnInfo("H", VoltType.VARBINARY),
                new VoltTable.ColumnInfo("I", VoltType.TIMESTAMP), new VoltTable.ColumnInfo("J", VoltType.GEOGRAPHY_POINT));
        table.addRow((byte) 1, (short) 2, 3, 4L, 5.5, new BigDecimal("6.5"), "seven", new byte[] {8}, new TimestampType(9_000_000L),
                new GeographyPointValue(1, 2));
        table.addRow(null, null, null, null, null, null, null, null, null, null);
        table.addRow(-1, -2, -3, -4, -5.0, new BigDecimal("-6.25"), "", new byte[0], new TimestampType(10), null);
        return table;
    }
}

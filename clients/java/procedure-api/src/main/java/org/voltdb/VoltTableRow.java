package org.voltdb;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * A row of a table, or a cursor over its rows: values are decoded when they are asked for. Not for
 * use by several threads at a time.
 */
public abstract class VoltTableRow {
    public static final int MAX_TUPLE_LENGTH = 2_097_152;
    public static final String MAX_TUPLE_LENGTH_STR = "2M";

    /** Position of the row that values are read from; -1 before the first. */
    int activeRow = -1;
    /** Where the active row's cells begin in the table's bytes. */
    int rowStart = -1;
    private boolean wasNull;
    /**
     * Where the cells of the active row begin, as far as they have been sought: a cell can only be
     * reached past those before it.
     */
    private int[] offsets;
    private int offsetsKnown;
    private int offsetsOf = -1;

    /** The table that the row belongs to. */
    abstract VoltTable table();

    public abstract VoltType getColumnType(int index);

    /** Without regard to case. */
    public abstract int getColumnIndex(String name);

    public abstract int getColumnCount();

    public abstract VoltTableRow cloneRow();

    /** Back to before the first row. */
    public void resetRowPosition() {
        activeRow = -1;
        rowStart = -1;
    }

    public int getActiveRowIndex() {
        return activeRow;
    }

    /** To the next row; false when there is none. */
    public boolean advanceRow() {
        return advanceToRow(activeRow + 1);
    }

    public boolean advanceToRow(int row) {
        VoltTable table = table();
        if (row < 0 || row >= table.getRowCount()) {
            return false;
        }
        rowStart = table.startOfRow(row, activeRow, rowStart);
        activeRow = row;
        return true;
    }

    /** Whether the value read last was NULL. */
    public final boolean wasNull() {
        return wasNull;
    }

    private byte[] bytes() {
        return table().bytes();
    }

    private int seek(int column) {
        if (rowStart < 0) {
            throw new RuntimeException("VoltTableRow is not at a row: call advanceRow() or fetchRow() first");
        }
        VoltType[] types = table().types();
        if (column < 0 || column >= types.length) {
            throw new IndexOutOfBoundsException("column " + column + " of a table with " + types.length);
        }
        if (offsetsOf != rowStart) {
            if (offsets == null) {
                offsets = new int[types.length];
            }
            offsets[0] = rowStart;
            offsetsKnown = 0;
            offsetsOf = rowStart;
        }
        byte[] bytes = bytes();
        while (offsetsKnown < column) {
            int at = offsets[offsetsKnown];
            int fixed = types[offsetsKnown].getLengthInBytesForFixedTypesWithoutCheck();
            offsets[++offsetsKnown] = fixed >= 0 ? at + fixed : at + 4 + Math.max(0, Bytes.intAt(bytes, at));
        }
        return offsets[column];
    }

    private int column(String name) {
        int column = getColumnIndex(name);
        if (column < 0) {
            throw new IllegalArgumentException("No Column named '" + name + "' exists in the table");
        }
        return column;
    }

    private IllegalArgumentException notA(String what, int column) {
        return new IllegalArgumentException("the column " + table().getColumnName(column) + " of type " + getColumnType(column).getName()
                + " cannot be read as " + what);
    }

    /** Of a column of any integer type or a timestamp; the type's null value when it is NULL. */
    public final long getLong(int column) {
        int at = seek(column);
        byte[] bytes = bytes();
        long value;
        switch (getColumnType(column)) {
            case BIGINT:
            case TIMESTAMP:
                value = Bytes.longAt(bytes, at);
                wasNull = value == VoltType.NULL_BIGINT;
                return value;
            case INTEGER:
                value = Bytes.intAt(bytes, at);
                wasNull = value == VoltType.NULL_INTEGER;
                return value;
            case SMALLINT:
                value = Bytes.shortAt(bytes, at);
                wasNull = value == VoltType.NULL_SMALLINT;
                return value;
            case TINYINT:
                value = bytes[at];
                wasNull = value == VoltType.NULL_TINYINT;
                return value;
            case BOOLEAN:
                value = bytes[at];
                wasNull = value == 127;
                return wasNull ? VoltType.NULL_TINYINT : value;
            default:
                throw notA("a long", column);
        }
    }

    public final long getLong(String column) {
        return getLong(column(column));
    }

    public final double getDouble(int column) {
        if (getColumnType(column) == VoltType.DECIMAL) {
            BigDecimal value = getDecimalAsBigDecimal(column);
            return value == null ? VoltType.NULL_FLOAT : value.doubleValue();
        }
        if (getColumnType(column) != VoltType.FLOAT) {
            throw notA("a double", column);
        }
        double value = Bytes.doubleAt(bytes(), seek(column));
        wasNull = value <= VoltType.NULL_FLOAT;
        return value;
    }

    public final double getDouble(String column) {
        return getDouble(column(column));
    }

    private byte[] variable(int column) {
        int at = seek(column);
        byte[] bytes = bytes();
        int length = Bytes.intAt(bytes, at);
        wasNull = length < 0;
        return wasNull ? null : Arrays.copyOfRange(bytes, at + 4, at + 4 + length);
    }

    /** Of a VARCHAR column. */
    public final String getString(int column) {
        if (getColumnType(column) != VoltType.STRING) {
            throw notA("a string", column);
        }
        int at = seek(column);
        byte[] bytes = bytes();
        int length = Bytes.intAt(bytes, at);
        wasNull = length < 0;
        return wasNull ? null : new String(bytes, at + 4, length, StandardCharsets.UTF_8);
    }

    public final String getString(String column) {
        return getString(column(column));
    }

    /** The string's UTF-8. */
    public final byte[] getStringAsBytes(int column) {
        if (getColumnType(column) != VoltType.STRING) {
            throw notA("a string", column);
        }
        return variable(column);
    }

    public final byte[] getStringAsBytes(String column) {
        return getStringAsBytes(column(column));
    }

    public final byte[] getVarbinary(int column) {
        VoltType type = getColumnType(column);
        if (type != VoltType.VARBINARY && type != VoltType.GEOGRAPHY) {
            throw notA("bytes", column);
        }
        return variable(column);
    }

    public final byte[] getVarbinary(String column) {
        return getVarbinary(column(column));
    }

    /** How many bytes {@link #getVarbinary(int)} would give; -1 for NULL. */
    public final int getVarbinaryLen(int column) {
        if (getColumnType(column) != VoltType.VARBINARY) {
            throw notA("bytes", column);
        }
        int length = Bytes.intAt(bytes(), seek(column));
        wasNull = length < 0;
        return length;
    }

    public final GeographyPointValue getGeographyPointValue(int column) {
        if (getColumnType(column) != VoltType.GEOGRAPHY_POINT) {
            throw notA("a point", column);
        }
        GeographyPointValue value = Bytes.pointAt(bytes(), seek(column));
        wasNull = value == null;
        return value;
    }

    public final GeographyPointValue getGeographyPointValue(String column) {
        return getGeographyPointValue(column(column));
    }

    public final GeographyValue getGeographyValue(int column) {
        if (getColumnType(column) != VoltType.GEOGRAPHY) {
            throw notA("a polygon", column);
        }
        byte[] encoded = variable(column);
        return encoded == null ? null : GeographyValue.fromBytes(encoded);
    }

    public final GeographyValue getGeographyValue(String column) {
        return getGeographyValue(column(column));
    }

    /** Microseconds since 1970. */
    public final long getTimestampAsLong(int column) {
        if (getColumnType(column) != VoltType.TIMESTAMP) {
            throw notA("a timestamp", column);
        }
        return getLong(column);
    }

    public final long getTimestampAsLong(String column) {
        return getTimestampAsLong(column(column));
    }

    public final TimestampType getTimestampAsTimestamp(int column) {
        long micros = getTimestampAsLong(column);
        return wasNull ? null : new TimestampType(micros);
    }

    public final TimestampType getTimestampAsTimestamp(String column) {
        return getTimestampAsTimestamp(column(column));
    }

    public final java.sql.Timestamp getTimestampAsSqlTimestamp(int column) {
        TimestampType value = getTimestampAsTimestamp(column);
        return value == null ? null : value.asJavaTimestamp();
    }

    public java.sql.Timestamp getTimestampAsSqlTimestamp(String column) {
        return getTimestampAsSqlTimestamp(column(column));
    }

    public final BigDecimal getDecimalAsBigDecimal(int column) {
        if (getColumnType(column) != VoltType.DECIMAL) {
            throw notA("a decimal", column);
        }
        BigDecimal value = Bytes.decimalAt(bytes(), seek(column));
        wasNull = value == null;
        return value;
    }

    public BigDecimal getDecimalAsBigDecimal(String column) {
        return getDecimalAsBigDecimal(column(column));
    }

    /**
     * The value as an object of its type's class; integers as the type asked for. For NULL the
     * number that means it in the column, and null where no number does: {@link #wasNull} tells.
     */
    public final Object get(int column, VoltType type) {
        VoltType own = getColumnType(column);
        if (own != type && !(own.isBackendIntegerType() && type.isBackendIntegerType())
                && !(own == VoltType.BOOLEAN && type.isAnyIntegerType())) {
            throw notA(type.getName(), column);
        }
        long number;
        switch (type) {
            case TINYINT:
                return (byte) getLong(column);
            case SMALLINT:
                return (short) getLong(column);
            case INTEGER:
                return (int) getLong(column);
            case BIGINT:
                return getLong(column);
            case BOOLEAN:
                number = getLong(column);
                return wasNull ? null : (Object) (number != 0);
            case FLOAT:
                return getDouble(column);
            case STRING:
                return getString(column);
            case TIMESTAMP:
                number = getLong(column);
                return wasNull ? null : new TimestampType(number);
            case DECIMAL:
                return getDecimalAsBigDecimal(column);
            case VARBINARY:
                return getVarbinary(column);
            case GEOGRAPHY_POINT:
                return getGeographyPointValue(column);
            case GEOGRAPHY:
                return getGeographyValue(column);
            default:
                throw notA(type.getName(), column);
        }
    }

    public final Object get(String column, VoltType type) {
        return get(column(column), type);
    }

    /** The value as an object of the column type's class; null for NULL. */
    public final Object get(int column) {
        Object value = get(column, getColumnType(column));
        return wasNull ? null : value;
    }

    public final Object[] getRowObjects() {
        Object[] row = new Object[getColumnCount()];
        for (int column = 0; column < row.length; column++) {
            row[column] = get(column);
        }
        return row;
    }

    /** The row's values as text, for people. */
    public String getRow() {
        StringBuilder out = new StringBuilder();
        for (int column = 0; column < getColumnCount(); column++) {
            out.append(column == 0 ? "" : ",").append(VoltTable.cellText(this, column));
        }
        return out.append("\n").toString();
    }
}

package org.voltdb;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * A table of rows in memory: what a statement gives and a procedure returns. It is kept as the
 * protocol encodes it, so that a result that is passed on costs one copy, and a result that is not
 * looked at costs nothing. As a row it is a cursor over its rows.
 */
public final class VoltTable extends VoltTableRow {
    public static final int MAX_SERIALIZED_TABLE_LENGTH = 52_428_800;
    public static final String MAX_SERIALIZED_TABLE_LENGTH_STR = "50M";
    private static final int STATUS_NOT_SET = -128;

    /** A column of a table to be made. */
    public static class ColumnInfo implements Cloneable {
        final String name;
        final VoltType type;

        public ColumnInfo(String name, VoltType type) {
            this.name = name;
            this.type = type;
        }

        @Override
        public ColumnInfo clone() {
            return new ColumnInfo(name, type);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof ColumnInfo && ((ColumnInfo) other).name.equals(name)
                    && ((ColumnInfo) other).type == type;
        }

        @Override
        public int hashCode() {
            return name.hashCode() * 31 + type.hashCode();
        }

        @Override
        public String toString() {
            return name + " " + type;
        }
    }

    /**
     * The table from `start`: header length, status, columns, row count, rows. Its own length is
     * not part of it.
     */
    private byte[] bytes;
    private int start;
    private int end;
    private int rowCount;
    /** Where the rows begin. */
    private int rowsStart;
    /** Read from the header when first needed. */
    private VoltType[] types;
    private String[] names;
    private byte status;

    /**
     * A table as the server encoded it, without its length. The bytes are not copied until the
     * table is changed.
     */
    VoltTable(byte[] bytes, int start, int end) {
        over(bytes, start, end);
    }

    // The published client reaches these four where it finds this class before its own: an
    // application whose class path has both jars.

    /** To be filled by {@link #initFromBuffer}. */
    VoltTable() {
    }

    /** A table without its length: what lies between the buffer's position and its limit. */
    VoltTable(ByteBuffer buffer, boolean readOnly) {
        byte[] copy = rest(buffer, buffer.remaining());
        over(copy, 0, copy.length);
    }

    VoltTable(ByteBuffer buffer, boolean readOnly, boolean ignored) {
        this(buffer, readOnly);
    }

    /** Reads a table with its length in front. */
    void initFromBuffer(ByteBuffer buffer) {
        byte[] copy = rest(buffer, buffer.getInt());
        over(copy, 0, copy.length);
    }

    /** Its bytes are an array of their own already. */
    void convertToHeapBuffer() {
    }

    private static byte[] rest(ByteBuffer buffer, int length) {
        if (length < 0 || length > buffer.remaining()) {
            throw new IllegalArgumentException("a table of " + length + " bytes is cut to " + buffer.remaining());
        }
        byte[] copy = new byte[length];
        buffer.get(copy);
        return copy;
    }

    private void over(byte[] bytes, int start, int end) {
        this.bytes = bytes;
        this.start = start;
        this.end = end;
        int headerBytes = Bytes.intAt(bytes, start);
        status = bytes[start + 4];
        rowsStart = start + 4 + headerBytes + 4;
        rowCount = Bytes.intAt(bytes, rowsStart - 4);
    }

    public VoltTable(ColumnInfo[] columns, int columnCount) {
        this(Arrays.copyOf(columns, columnCount));
    }

    public VoltTable(ColumnInfo first, ColumnInfo... others) {
        this(prepend(first, others));
    }

    public VoltTable(ColumnInfo[] columns) {
        if (columns.length == 0) {
            throw new IllegalArgumentException("a table has at least one column");
        }
        Bytes out = new Bytes(64);
        types = new VoltType[columns.length];
        names = new String[columns.length];
        out.putInt(0);
        out.putByte(STATUS_NOT_SET);
        out.putShort(columns.length);
        for (int i = 0; i < columns.length; i++) {
            types[i] = columns[i].type;
            names[i] = columns[i].name;
            out.putByte(types[i].getValue());
        }
        for (String name : names) {
            out.putString(name);
        }
        out.setInt(0, out.length - 4);
        out.putInt(0);
        bytes = out.array;
        start = 0;
        end = out.length;
        rowsStart = end;
        status = STATUS_NOT_SET;
    }

    private static ColumnInfo[] prepend(ColumnInfo first, ColumnInfo[] others) {
        ColumnInfo[] all = new ColumnInfo[others.length + 1];
        all[0] = first;
        System.arraycopy(others, 0, all, 1, others.length);
        return all;
    }

    @Override
    VoltTable table() {
        return this;
    }

    byte[] bytes() {
        return bytes;
    }

    VoltType[] types() {
        if (types == null) {
            int count = Bytes.shortAt(bytes, start + 5);
            VoltType[] read = new VoltType[count];
            for (int i = 0; i < count; i++) {
                read[i] = VoltType.get(bytes[start + 7 + i]);
            }
            types = read;
        }
        return types;
    }

    private String[] names() {
        if (names == null) {
            int count = types().length;
            String[] read = new String[count];
            int at = start + 7 + count;
            for (int i = 0; i < count; i++) {
                int length = Bytes.intAt(bytes, at);
                read[i] = new String(bytes, at + 4, length, StandardCharsets.UTF_8);
                at += 4 + length;
            }
            names = read;
        }
        return names;
    }

    /** Where the cells of a row begin, found from a row that is known. */
    int startOfRow(int row, int knownRow, int knownStart) {
        int at = rowsStart;
        int current = 0;
        if (knownRow >= 0 && knownRow <= row) {
            at = knownStart - 4;
            current = knownRow;
        }
        while (current < row) {
            at += 4 + Bytes.intAt(bytes, at);
            current++;
        }
        return at + 4;
    }

    private void checkColumn(int index) {
        if (index < 0 || index >= getColumnCount()) {
            throw new IllegalArgumentException("Not a valid column index: " + index);
        }
    }

    public final int getRowCount() {
        return rowCount;
    }

    @Override
    public final int getColumnCount() {
        return types().length;
    }

    public final String getColumnName(int index) {
        checkColumn(index);
        return names()[index];
    }

    @Override
    public final VoltType getColumnType(int index) {
        checkColumn(index);
        return types[index];
    }

    @Override
    public final int getColumnIndex(String name) {
        String[] all = names();
        for (int i = 0; i < all.length; i++) {
            if (all[i].equalsIgnoreCase(name)) {
                return i;
            }
        }
        throw new IllegalArgumentException("No Column named '" + name + "' exists in the table");
    }

    public ColumnInfo[] getTableSchema() {
        ColumnInfo[] columns = new ColumnInfo[getColumnCount()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = new ColumnInfo(getColumnName(i), getColumnType(i));
        }
        return columns;
    }

    public byte getStatusCode() {
        return status;
    }

    public void setStatusCode(byte code) {
        own();
        status = code;
        bytes[start + 4] = code;
    }

    /** A row apart from the table's own cursor. */
    private static final class Row extends VoltTableRow {
        private final VoltTable table;

        Row(VoltTable table) {
            this.table = table;
        }

        @Override
        VoltTable table() {
            return table;
        }

        @Override
        public VoltType getColumnType(int index) {
            return table.getColumnType(index);
        }

        @Override
        public int getColumnIndex(String name) {
            return table.getColumnIndex(name);
        }

        @Override
        public int getColumnCount() {
            return table.getColumnCount();
        }

        @Override
        public VoltTableRow cloneRow() {
            Row row = new Row(table);
            row.activeRow = activeRow;
            row.rowStart = rowStart;
            return row;
        }
    }

    public final VoltTableRow fetchRow(int index) {
        if (index < 0 || index >= rowCount) {
            throw new IndexOutOfBoundsException("index = " + index + "; rows = " + rowCount);
        }
        Row row = new Row(this);
        row.advanceToRow(index);
        return row;
    }

    @Override
    public VoltTableRow cloneRow() {
        Row row = new Row(this);
        row.activeRow = activeRow;
        row.rowStart = rowStart;
        return row;
    }

    /** Before a change: bytes of its own, each where it was, because rows know where they begin. */
    private void own() {
        if (shared) {
            bytes = Arrays.copyOf(bytes, end);
            shared = false;
        }
    }

    /** The bytes are those of a batch's results, other tables among them. */
    private boolean shared;

    static VoltTable ofResult(byte[] bytes, int start, int end) {
        VoltTable table = new VoltTable(bytes, start, end);
        table.shared = true;
        return table;
    }

    /** A table that a client sent: it may have left room behind the rows. */
    static VoltTable ofParameter(byte[] bytes, int start, int end) {
        VoltTable table = ofResult(bytes, start, end);
        table.end = table.rowCount == 0 ? table.rowsStart : table.startOfRow(table.rowCount, -1, -1) - 4;
        return table;
    }

    /** Writes rows at the end, and takes them back when that fails. */
    private Bytes appending() {
        own();
        Bytes out = new Bytes(0);
        out.array = bytes;
        out.length = end;
        return out;
    }

    private void appended(Bytes out, int rows) {
        if (out.length - start > MAX_SERIALIZED_TABLE_LENGTH) {
            throw new VoltOverflowException("a table cannot be larger than " + MAX_SERIALIZED_TABLE_LENGTH + " bytes");
        }
        bytes = out.array;
        end = out.length;
        rowCount += rows;
        out.setInt(rowsStart - 4, rowCount);
    }

    public final void clearRowData() {
        own();
        end = rowsStart;
        rowCount = 0;
        Bytes out = appending();
        out.setInt(rowsStart - 4, 0);
        resetRowPosition();
    }

    /** A row of values that fit the columns; an array of objects is taken for all of them. */
    public final void addRow(Object... values) {
        VoltType[] columns = types();
        if (values.length != columns.length) {
            if (values.length == 1 && values[0] instanceof Object[]) {
                addRow((Object[]) values[0]);
                return;
            }
            throw new IllegalArgumentException(
                    "Expected " + columns.length + " arguments, but received " + values.length);
        }
        Bytes out = appending();
        int at = out.length;
        out.putInt(0);
        for (int i = 0; i < columns.length; i++) {
            out.putCell(columns[i], values[i]);
        }
        if (out.length - at - 4 > MAX_TUPLE_LENGTH) {
            throw new VoltOverflowException("a row cannot be larger than " + MAX_TUPLE_LENGTH + " bytes");
        }
        out.setInt(at, out.length - at - 4);
        appended(out, 1);
    }

    private void checkSameColumns(VoltTable other) {
        if (!Arrays.equals(types(), other.types())) {
            throw new IllegalArgumentException("the other table's columns are of other types");
        }
    }

    public final void add(VoltTableRow row) {
        VoltTable from = row.table();
        checkSameColumns(from);
        if (row.rowStart < 0) {
            throw new IllegalStateException("the row is not at a row of its table");
        }
        byte[] source = from.bytes;
        int at = row.rowStart - 4;
        int length = 4 + Bytes.intAt(source, at);
        Bytes out = appending();
        out.put(source, at, length);
        appended(out, 1);
    }

    public void addTable(VoltTable other) {
        checkSameColumns(other);
        byte[] source = other.bytes;
        int from = other.rowsStart;
        int length = other.end - from;
        int rows = other.rowCount;
        Bytes out = appending();
        out.put(source, from, length);
        appended(out, rows);
    }

    public void addTables(Collection<VoltTable> tables) {
        for (VoltTable table : tables) {
            addTable(table);
        }
    }

    /** The value of a table of one row and one column of an integer type. */
    public final long asScalarLong() {
        if (rowCount != 1) {
            throw new IllegalStateException("table must contain exactly one tuple, it has " + rowCount);
        }
        if (getColumnCount() != 1) {
            throw new IllegalStateException("table must contain exactly one column, it has " + getColumnCount());
        }
        return fetchRow(0).getLong(0);
    }

    /** A table with the same columns and no rows. */
    public final VoltTable clone(int extraBytes) {
        return new VoltTable(getTableSchema());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VoltTable && hasSameContents((VoltTable) other, false);
    }

    @Override
    public int hashCode() {
        return rowCount * 31 + Arrays.hashCode(types());
    }

    /** Same columns, same rows in any order. */
    public boolean hasSameContents(VoltTable other) {
        return hasSameContents(other, true);
    }

    public boolean hasSameContents(VoltTable other, boolean anyOrder) {
        if (rowCount != other.rowCount || !Arrays.equals(types(), other.types())
                || !Arrays.equals(names(), other.names())) {
            return false;
        }
        if (!anyOrder) {
            return Arrays.equals(bytes, rowsStart, end, other.bytes, other.rowsStart, other.end);
        }
        byte[][] mine = rows();
        byte[][] others = other.rows();
        Arrays.sort(mine, Arrays::compare);
        Arrays.sort(others, Arrays::compare);
        return Arrays.deepEquals(mine, others);
    }

    private byte[][] rows() {
        byte[][] rows = new byte[rowCount][];
        int at = rowsStart;
        for (int i = 0; i < rowCount; i++) {
            int length = Bytes.intAt(bytes, at);
            rows[i] = Arrays.copyOfRange(bytes, at + 4, at + 4 + length);
            at += 4 + length;
        }
        return rows;
    }

    /** Bytes that {@link #flattenToBuffer} writes. */
    public int getSerializedSize() {
        return 4 + end - start;
    }

    /** The table in the protocol's encoding, its length in front. */
    public void flattenToBuffer(ByteBuffer out) {
        out.putInt(end - start);
        out.put(bytes, start, end - start);
    }

    /** The table in the protocol's encoding, without its length. */
    public ByteBuffer getBuffer() {
        return ByteBuffer.wrap(Arrays.copyOfRange(bytes, start, end)).asReadOnlyBuffer();
    }

    void writeTo(Bytes out) {
        out.putInt(end - start);
        out.put(bytes, start, end - start);
    }

    /** With a checksum, so that long ones can be told apart. */
    public static String varbinaryToPrintableString(byte[] value) {
        return "bin[crc:" + crc(value, 0, value.length) + ",value:0x" + hex(value) + "]";
    }

    private static long crc(byte[] bytes, int from, int to) {
        CRC32 crc = new CRC32();
        crc.update(bytes, from, to - from);
        return crc.getValue();
    }

    /** The same for the same rows in any order; with the names and types of the columns, too. */
    public long getTableCheckSum(boolean includeHeader) {
        long sum = includeHeader ? crc(bytes, start, rowsStart) : 0;
        int at = rowsStart;
        for (int i = 0; i < rowCount; i++) {
            int next = at + 4 + Bytes.intAt(bytes, at);
            sum += crc(bytes, at, next);
            at = next;
        }
        return sum;
    }

    static String cellText(VoltTableRow row, int column) {
        Object value = row.get(column);
        if (row.wasNull()) {
            return "NULL";
        }
        return value instanceof byte[] ? varbinaryToPrintableString((byte[]) value) : value.toString();
    }

    private static String hex(byte[] value) {
        return HexFormat.of().withUpperCase().formatHex(value);
    }

    @Override
    public String toString() {
        StringBuilder out = new StringBuilder();
        out.append(" header size: ").append(Bytes.intAt(bytes, start)).append("\n status code: ").append(status);
        out.append(" column count: ").append(getColumnCount()).append("\n");
        for (int i = 0; i < getColumnCount(); i++) {
            out.append("(").append(getColumnName(i)).append(":").append(getColumnType(i).getName()).append("), ");
        }
        out.append(" rows -\n");
        VoltTableRow row = new Row(this);
        while (row.advanceRow()) {
            out.append("  ").append(row.getRow());
        }
        return out.toString();
    }

    public String toFormattedString() {
        return toFormattedString(true);
    }

    /** Aligned columns, for people: numbers to the right. */
    public String toFormattedString(boolean withNames) {
        int columns = getColumnCount();
        String[][] cells = new String[rowCount][columns];
        int[] widths = new int[columns];
        for (int i = 0; i < columns; i++) {
            widths[i] = getColumnName(i).length();
        }
        VoltTableRow row = new Row(this);
        for (int r = 0; row.advanceRow(); r++) {
            for (int i = 0; i < columns; i++) {
                boolean bytes = getColumnType(i) == VoltType.VARBINARY && row.getVarbinary(i) != null;
                cells[r][i] = bytes ? hex(row.getVarbinary(i)) : cellText(row, i);
                widths[i] = Math.max(widths[i], cells[r][i].length());
            }
        }
        StringBuilder out = new StringBuilder();
        if (withNames) {
            for (int i = 0; i < columns; i++) {
                pad(out, i, getColumnName(i), widths[i] + 1, false);
            }
            for (int i = 0; i < columns; i++) {
                pad(out, i, "-".repeat(widths[i] + 1), widths[i] + 1, false);
            }
        }
        for (String[] line : cells) {
            for (int i = 0; i < columns; i++) {
                pad(out, i, line[i], widths[i] + 1, getColumnType(i).isNumber());
            }
        }
        return out.toString();
    }

    private void pad(StringBuilder out, int column, String text, int width, boolean right) {
        String room = " ".repeat(width - text.length());
        out.append(right ? room : "").append(text).append(right ? "" : room);
        out.append(column + 1 == getColumnCount() ? "\n" : " ");
    }

    /** As the HTTP interface gives it. */
    public String toJSONString() {
        StringBuilder out = new StringBuilder("{\"status\":").append(status).append(",\"schema\":[");
        for (int i = 0; i < getColumnCount(); i++) {
            out.append(i == 0 ? "{\"name\":" : ",{\"name\":");
            quote(out, getColumnName(i));
            out.append(",\"type\":").append(getColumnType(i).getValue()).append("}");
        }
        out.append("],\"data\":[");
        VoltTableRow row = new Row(this);
        for (int r = 0; row.advanceRow(); r++) {
            out.append(r == 0 ? "[" : ",[");
            for (int i = 0; i < getColumnCount(); i++) {
                out.append(i == 0 ? "" : ",");
                Object value = getColumnType(i) == VoltType.TIMESTAMP ? (Object) row.getLong(i) : row.get(i);
                if (row.wasNull()) {
                    out.append("null");
                } else if (value instanceof Double && (Double) value == Math.rint((Double) value) && Math.abs((Double) value) < 1e15) {
                    out.append((long) (double) (Double) value);
                } else if (value instanceof byte[]) {
                    quote(out, hex((byte[]) value));
                } else if (value instanceof Number && !(value instanceof BigDecimal)) {
                    out.append(value);
                } else {
                    quote(out, cellText(row, i));
                }
            }
            out.append("]");
        }
        return out.append("]}").toString();
    }

    /**
     * The table that {@link #toJSONString} gave this text for; {@link IllegalArgumentException} for
     * any other text.
     */
    public static VoltTable fromJSONString(String text) {
        Object read = Json.read(text);
        List<?> schema = member(read, "schema");
        List<?> rows = member(read, "data");
        ColumnInfo[] columns = new ColumnInfo[schema.size()];
        for (int i = 0; i < columns.length; i++) {
            Map<?, ?> column = schema.get(i) instanceof Map ? (Map<?, ?>) schema.get(i) : Map.of();
            if (!(column.get("name") instanceof String) || !(column.get("type") instanceof BigDecimal)) {
                throw new IllegalArgumentException("column " + i + " of a table in JSON has no name or no type");
            }
            columns[i] = new ColumnInfo((String) column.get("name"), VoltType.get(((BigDecimal) column.get("type")).byteValue()));
        }
        VoltTable table = new VoltTable(columns);
        for (Object row : rows) {
            List<?> cells = row instanceof List ? (List<?>) row : List.of();
            if (cells.size() != columns.length) {
                throw new IllegalArgumentException("row " + table.rowCount + " of a table in JSON has not " + columns.length + " values");
            }
            Object[] values = new Object[columns.length];
            for (int i = 0; i < values.length; i++) {
                values[i] = fromJson(columns[i].type, cells.get(i));
            }
            try {
                table.addRow(values);
            } catch (VoltTypeException | ClassCastException e) {
                throw new IllegalArgumentException("row " + table.rowCount + " of a table in JSON: " + e.getMessage(), e);
            }
        }
        Object status = ((Map<?, ?>) read).get("status");
        if (status instanceof BigDecimal) {
            table.setStatusCode(((BigDecimal) status).byteValue());
        }
        return table;
    }

    private static List<?> member(Object read, String name) {
        Object value = read instanceof Map ? ((Map<?, ?>) read).get(name) : null;
        if (!(value instanceof List)) {
            throw new IllegalArgumentException("a table in JSON has an array named " + name);
        }
        return (List<?>) value;
    }

    /** What {@link #addRow} takes, from what stands in JSON. */
    private static Object fromJson(VoltType type, Object value) {
        if (value instanceof BigDecimal && type == VoltType.FLOAT) {
            return ((BigDecimal) value).doubleValue();
        }
        if (value instanceof BigDecimal && type == VoltType.BOOLEAN) {
            return ((BigDecimal) value).signum() != 0;
        }
        if (value instanceof String) {
            String text = (String) value;
            switch (type) {
                case DECIMAL:
                    return new BigDecimal(text);
                case FLOAT:
                    return Double.valueOf(text);
                case BOOLEAN:
                    return Boolean.valueOf(text);
                case TIMESTAMP:
                    return new TimestampType(text);
                case GEOGRAPHY_POINT:
                    return GeographyPointValue.fromWKT(text);
                case GEOGRAPHY:
                    return GeographyValue.fromWKT(text);
                default:
                    return text;
            }
        }
        return value;
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}

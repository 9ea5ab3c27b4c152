package io.ferritedb.client;

import java.math.BigDecimal;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A row of a {@link Table}: a cursor that is valid until the table's iterator moves on. */
public final class Row {
    private final Table table;
    private final ByteBuffer in;
    private final int[] starts;
    private int found;
    private int end;

    Row(Table table) {
        this.table = table;
        this.in = ByteBuffer.wrap(table.bytes());
        this.starts = new int[table.columnCount() + 1];
    }

    void moveTo(int start, int end) {
        starts[0] = start;
        found = 0;
        this.end = end;
        in.limit(end);
    }

    private void seek(int column) {
        // Cells of variable length: where one begins is known when those before it have been
        // passed.
        while (found < column) {
            in.position(starts[found]);
            int size = switch (table.columnType(found)) {
                case TINYINT, BOOLEAN -> 1;
                case SMALLINT -> 2;
                case INTEGER, DATE -> 4;
                case BIGINT, FLOAT, TIMESTAMP -> 8;
                case DECIMAL, GEOGRAPHY_POINT -> 16;
                default -> 4 + Math.max(0, in.getInt());
            };
            if (size > end - starts[found]) throw new ProtocolException("a value ends after its row");
            starts[found + 1] = starts[found] + size;
            found += 1;
        }
        in.position(starts[column]);
    }

    /**
     * The value of a column by its position from 0; null for NULL.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public Object get(int column) {
        java.util.Objects.checkIndex(column, table.columnCount());
        try {
            seek(column);
            return Table.read(table.columnType(column), in, end);
        } catch (BufferUnderflowException | IllegalArgumentException early) {
            throw new ProtocolException("a row ends early");
        }
    }

    /**
     * The value of a column by its name, whatever its case; null for NULL.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     */
    public Object get(String column) {
        return get(table.column(column));
    }

    /**
     * An integer of any width, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not an integer
     */
    public long getLong(int column) {
        if (table.columnType(column) == SqlType.BIGINT) {
            // The usual case, without a box.
            seek(column);
            long value = in.getLong();
            if (value != Long.MIN_VALUE) return value;
        } else if (get(column) instanceof Number number && !(number instanceof Double) && !(number instanceof BigDecimal)) {
            return number.longValue();
        }
        throw wrong(column, "an integer");
    }

    /**
     * An integer of any width, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not an integer
     */
    public long getLong(String column) {
        return getLong(table.column(column));
    }

    /**
     * A number of any type, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not a number
     */
    public double getDouble(int column) {
        if (get(column) instanceof Number number) return number.doubleValue();
        throw wrong(column, "a number");
    }

    /**
     * A number of any type, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not a number
     */
    public double getDouble(String column) {
        return getDouble(table.column(column));
    }

    /**
     * Text; other types as they print; null for NULL, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public String getString(int column) {
        Object value = get(column);
        return value == null ? null : value.toString();
    }

    /**
     * Text; other types as they print; null for NULL, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     */
    public String getString(String column) {
        return getString(table.column(column));
    }

    /**
     * A DECIMAL; null for NULL, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     * @throws ClassCastException if it is not a DECIMAL
     */
    public BigDecimal getDecimal(int column) {
        Object value = get(column);
        if (value == null || value instanceof BigDecimal) return (BigDecimal) value;
        throw wrong(column, "a DECIMAL");
    }

    /**
     * A DECIMAL; null for NULL, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     * @throws ClassCastException if it is not a DECIMAL
     */
    public BigDecimal getDecimal(String column) {
        return getDecimal(table.column(column));
    }

    /**
     * A TIMESTAMP; null for NULL, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     * @throws ClassCastException if it is not a TIMESTAMP
     */
    public Instant getInstant(int column) {
        Object value = get(column);
        if (value == null || value instanceof Instant) return (Instant) value;
        throw wrong(column, "a TIMESTAMP");
    }

    /**
     * A TIMESTAMP; null for NULL, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     * @throws ClassCastException if it is not a TIMESTAMP
     */
    public Instant getInstant(String column) {
        return getInstant(table.column(column));
    }

    /**
     * A VARBINARY; null for NULL, by position from 0.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     * @throws ClassCastException if it is not a VARBINARY
     */
    public byte[] getBytes(int column) {
        Object value = get(column);
        if (value == null || value instanceof byte[]) return (byte[]) value;
        throw wrong(column, "a VARBINARY");
    }

    /**
     * A VARBINARY; null for NULL, by name, whatever its case.
     *
     * @throws java.util.NoSuchElementException if there is no such column
     * @throws ClassCastException if it is not a VARBINARY
     */
    public byte[] getBytes(String column) {
        return getBytes(table.column(column));
    }

    /**
     * Whether a column, by its position from 0, is NULL.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public boolean isNull(int column) {
        return get(column) == null;
    }

    /** All values in column order, null for NULL; they stay valid. The list cannot be changed. */
    public List<Object> toList() {
        List<Object> values = new ArrayList<>(table.columnCount());
        for (int column = 0; column < table.columnCount(); column++) values.add(get(column));
        return Collections.unmodifiableList(values);
    }

    private RuntimeException wrong(int column, String wanted) {
        Object value = get(column);
        String name = table.columnName(column).isEmpty() ? String.valueOf(column) : table.columnName(column);
        return value == null
                ? new NullPointerException("column " + name + " is NULL")
                : new ClassCastException("column " + name + " is " + table.columnType(column) + ", not " + wanted);
    }
}

package io.ferritedb.client;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.NoSuchElementException;

/**
 * One result table. Rows are decoded when they are read. Iterate with {@code for (Row row :
 * table)}, map with {@link #as}, or take a {@link #scalar}. May be read by several threads.
 */
public final class Table implements Iterable<Row> {
    private static final double DEGREES = 180 / Math.PI;

    private final byte[] bytes;
    private final int rowsAt;
    private final int end;
    private final int rowCount;
    private final Integer status;
    private final String[] names;
    private final SqlType[] types;

    Table(byte[] bytes, int start, int end) {
        this.bytes = bytes;
        this.end = end;
        ByteBuffer in = ByteBuffer.wrap(bytes, 0, end);
        in.position(start);
        try {
            int header = in.getInt();
            int body = in.position() + header;
            byte given = in.get();
            status = given == Byte.MIN_VALUE ? null : (int) given;
            int columns = in.getShort();
            if (columns < 0 || header < 0 || body < 0 || body > end) throw new ProtocolException("the head of a table is wrong");
            types = new SqlType[columns];
            for (int at = 0; at < columns; at++) types[at] = SqlType.of(in.get());
            names = new String[columns];
            for (int at = 0; at < columns; at++) names[at] = string(in, end);
            in.position(body);
            rowCount = in.getInt();
            if (rowCount < 0) throw new ProtocolException("a table with a negative number of rows");
            rowsAt = in.position();
        } catch (java.nio.BufferUnderflowException | IllegalArgumentException early) {
            throw new ProtocolException("a table ends early");
        }
    }

    /** Status that the procedure gave the table, or null. */
    public Integer status() {
        return status;
    }

    /** How many rows there are. */
    public int rowCount() {
        return rowCount;
    }

    /** How many columns there are. */
    public int columnCount() {
        return names.length;
    }

    /**
     * The name of a column by its position from 0; never null, perhaps empty.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public String columnName(int column) {
        return names[column];
    }

    /**
     * The type of a column by its position from 0; never null.
     *
     * @throws IndexOutOfBoundsException if there is no such column
     */
    public SqlType columnType(int column) {
        return types[column];
    }

    /**
     * Position of a column by its name, whatever its case.
     *
     * @throws NoSuchElementException if there is no such column
     */
    public int column(String name) {
        for (int at = 0; at < names.length; at++) {
            if (names[at].equalsIgnoreCase(name)) return at;
        }
        throw new NoSuchElementException("there is no column " + name + "; there are " + String.join(", ", names));
    }

    /**
     * Rows as records: components are matched with columns by name, whatever case, underscores left
     * out. Never null.
     *
     * @throws IllegalArgumentException if there is no column for a component
     * @throws ClassCastException if a value cannot become the component's type without loss
     * @throws NullPointerException if a component is primitive and the value NULL
     */
    public <T extends Record> List<T> as(Class<T> type) {
        RecordMapper<T> mapper = RecordMapper.of(type, names);
        List<T> mapped = new ArrayList<>(rowCount);
        for (Row row : this) mapped.add(mapper.map(row));
        return mapped;
    }

    /** First column of the first row, null if there is none. */
    public Object scalar() {
        Iterator<Row> rows = iterator();
        return rows.hasNext() && names.length > 0 ? rows.next().get(0) : null;
    }

    /**
     * {@link #scalar} as a number.
     *
     * @throws NoSuchElementException if there is no row
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not an integer
     */
    public long scalarLong() {
        Iterator<Row> rows = iterator();
        if (!rows.hasNext()) throw new NoSuchElementException("the table has no row");
        return rows.next().getLong(0);
    }

    /**
     * A row is valid until the next one is asked for: a cursor. {@link Row#toList} keeps its
     * values.
     */
    @Override
    public Iterator<Row> iterator() {
        return new Iterator<>() {
            private int left = rowCount;
            private int at = rowsAt;
            private final Row row = new Row(Table.this);

            @Override
            public boolean hasNext() {
                return left > 0;
            }

            @Override
            public Row next() {
                if (left == 0) throw new NoSuchElementException();
                if (end - at < 4) throw new ProtocolException("a table ends early");
                int length = ByteBuffer.wrap(bytes).getInt(at);
                if (length < 0 || length > end - at - 4) throw new ProtocolException("a row ends after its table");
                row.moveTo(at + 4, at + 4 + length);
                at += 4 + length;
                left -= 1;
                return row;
            }
        };
    }

    byte[] bytes() {
        return bytes;
    }

    /** Reads a value of a type; null for NULL. */
    static Object read(SqlType type, ByteBuffer in, int end) {
        switch (type) {
            case TINYINT -> {
                byte value = in.get();
                return value == Byte.MIN_VALUE ? null : (Object) value;
            }
            case SMALLINT -> {
                short value = in.getShort();
                return value == Short.MIN_VALUE ? null : (Object) value;
            }
            case INTEGER -> {
                int value = in.getInt();
                return value == Integer.MIN_VALUE ? null : (Object) value;
            }
            case BIGINT -> {
                long value = in.getLong();
                return value == Long.MIN_VALUE ? null : (Object) value;
            }
            case FLOAT -> {
                double value = in.getDouble();
                return value <= -1.7e308 ? null : (Object) value;
            }
            case VARCHAR -> {
                return string(in, end);
            }
            case VARBINARY -> {
                return binary(in, end);
            }
            case TIMESTAMP -> {
                long value = in.getLong();
                return value == Long.MIN_VALUE ? null : instant(value);
            }
            case DATE -> {
                int value = in.getInt();
                return value == Integer.MIN_VALUE ? null : LocalDate.of(value >> 16, value >> 8 & 0xff, value & 0xff);
            }
            case BOOLEAN -> {
                byte value = in.get();
                return value == Byte.MAX_VALUE ? null : (Object) (value != 0);
            }
            case DECIMAL -> {
                long high = in.getLong();
                long low = in.getLong();
                if (high == Long.MIN_VALUE && low == 0) return null;
                BigInteger scaled = BigInteger.valueOf(high).shiftLeft(64).add(new BigInteger(Long.toUnsignedString(low)));
                return new BigDecimal(scaled, 12);
            }
            case GEOGRAPHY_POINT -> {
                double longitude = in.getDouble();
                double latitude = in.getDouble();
                return longitude == 360 && latitude == 360 ? null : new Point(longitude, latitude);
            }
            case GEOGRAPHY -> {
                byte[] polygon = binary(in, end);
                return polygon == null ? null : polygon(polygon);
            }
            default -> throw new ProtocolException("a column of type " + type + " in a result");
        }
    }

    static Instant instant(long microseconds) {
        return Instant.ofEpochSecond(Math.floorDiv(microseconds, 1_000_000L), Math.floorMod(microseconds, 1_000_000L) * 1000L);
    }

    static String string(ByteBuffer in, int end) {
        int length = in.getInt();
        if (length == -1) return null;
        if (length < 0 || length > end - in.position()) throw new ProtocolException("a text ends after its row");
        String text = new String(in.array(), in.position(), length, StandardCharsets.UTF_8);
        in.position(in.position() + length);
        return text;
    }

    private static byte[] binary(ByteBuffer in, int end) {
        int length = in.getInt();
        if (length == -1) return null;
        if (length < 0 || length > end - in.position()) throw new ProtocolException("a value ends after its row");
        byte[] data = new byte[length];
        in.get(data);
        return data;
    }

    private static Polygon polygon(byte[] data) {
        ByteBuffer in = ByteBuffer.wrap(data);
        in.position(3);
        int count = in.getInt();
        List<List<Point>> rings = new ArrayList<>();
        for (int ring = 0; ring < count; ring++) {
            in.get();
            int vertices = in.getInt();
            if (vertices < 0 || vertices > data.length / 24) throw new ProtocolException("a polygon with more vertices than bytes");
            List<Point> points = new ArrayList<>(vertices);
            for (int vertex = 0; vertex < vertices; vertex++) {
                double x = in.getDouble();
                double y = in.getDouble();
                double z = in.getDouble();
                points.add(new Point(Math.atan2(y, x) * DEGREES, Math.atan2(z, Math.hypot(x, y)) * DEGREES));
            }
            in.get();
            int depth = in.getInt();
            in.position(in.position() + 33);
            if (depth % 2 == 1) java.util.Collections.reverse(points.subList(1, points.size()));
            rings.add(points);
        }
        return new Polygon(rings);
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(String.join(" | ", names));
        for (Row row : this) {
            if (text.length() > 10_000) return text.append("\n...").toString();
            text.append('\n').append(String.join(" | ", row.toList().stream().map(value -> String.format(Locale.ROOT, "%s", value)).toList()));
        }
        return text.toString();
    }
}

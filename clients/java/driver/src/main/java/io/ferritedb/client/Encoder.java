package io.ferritedb.client;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.Arrays;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Calls as bytes, one after the other in a growing array. Knows no sockets. One thread at a time.
 */
final class Encoder {
    static final int MESSAGE_MAX = 52_428_800;
    private static final int ELEMENTS_MAX = Short.MAX_VALUE;
    private static final long NULL_DOUBLE = 0xffee42d130773b76L;
    private static final BigInteger DECIMAL_LIMIT = BigInteger.TEN.pow(38);
    private static final double RADIANS = Math.PI / 180;

    private byte[] bytes;
    private ByteBuffer out;

    Encoder(int capacity) {
        bytes = new byte[capacity];
        out = ByteBuffer.wrap(bytes);
    }

    int length() {
        return out.position();
    }

    byte[] array() {
        return bytes;
    }

    void clear() {
        out.clear();
        if (bytes.length > 4 << 20) {
            bytes = new byte[1 << 16];
            out = ByteBuffer.wrap(bytes);
        }
    }

    private void room(int count) {
        if (out.remaining() < count) {
            int position = out.position();
            bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, position + count));
            out = ByteBuffer.wrap(bytes);
            out.position(position);
        }
    }

    /** The frame of one call. Leaves no trace if a parameter cannot be sent. */
    void call(byte[] name, long handle, Object[] parameters, int partition) {
        int start = out.position();
        try {
            room(4 + 1 + 4 + name.length + 8 + 16 + 2);
            out.putInt(0);
            if (partition < 0) {
                out.put((byte) 0).putInt(name.length).put(name).putLong(handle);
            } else {
                out.put((byte) 2).putInt(name.length).put(name).putLong(handle).put((byte) 2);
                out.put((byte) 2).put((byte) 0).put((byte) 3).put((byte) 3).putInt(partition);
            }
            if (parameters.length > ELEMENTS_MAX) {
                throw new IllegalArgumentException(parameters.length + " parameters; a call can have " + ELEMENTS_MAX);
            }
            out.putShort((short) parameters.length);
            for (int index = 0; index < parameters.length; index++) parameter(parameters[index], index);
            int size = out.position() - start - 4;
            if (size > MESSAGE_MAX) throw new IllegalArgumentException("the call has " + size + " bytes; a message can have " + MESSAGE_MAX);
            out.putInt(start, size);
        } catch (RuntimeException error) {
            out.position(start);
            throw error;
        }
    }

    /** A call that was encoded elsewhere, with another handle. */
    void encoded(byte[] frame, long handle) {
        room(frame.length);
        int start = out.position();
        out.put(frame);
        // Length, layout, name.
        out.putLong(start + 9 + out.getInt(start + 5), handle);
    }

    /** What was encoded since the last {@link #clear}: the frame of each call by its handle. */
    Map<Long, byte[]> calls() {
        Map<Long, byte[]> calls = new LinkedHashMap<>();
        for (int start = 0; start < out.position(); ) {
            int end = start + 4 + out.getInt(start);
            calls.put(out.getLong(start + 9 + out.getInt(start + 5)), Arrays.copyOfRange(bytes, start, end));
            start = end;
        }
        return calls;
    }

    static byte[] login(String user, byte[] digest) {
        byte[] name = user.getBytes(StandardCharsets.UTF_8);
        ByteBuffer frame = ByteBuffer.allocate(4 + 2 + 12 + 4 + name.length + digest.length);
        frame.putInt(frame.capacity() - 4).put((byte) 1).put((byte) 1);
        frame.putInt(8).put("database".getBytes(StandardCharsets.US_ASCII));
        return frame.putInt(name.length).put(name).put(digest).array();
    }

    private void parameter(Object value, int index) {
        room(9);
        if (value instanceof Long number) {
            notNull(number != Long.MIN_VALUE, value, index);
            out.put(SqlType.BIGINT.code).putLong(number);
        } else if (value instanceof Integer number) {
            notNull(number != Integer.MIN_VALUE, value, index);
            out.put(SqlType.INTEGER.code).putInt(number);
        } else if (value instanceof String text) {
            out.put(SqlType.VARCHAR.code);
            string(text);
        } else if (value == null) {
            out.put(SqlType.NULL.code);
        } else if (value instanceof byte[] data) {
            out.put(SqlType.VARBINARY.code);
            binary(data);
        } else if (value.getClass().isArray() || value instanceof Collection<?>) {
            array(value, index);
        } else {
            SqlType type = typeOf(value, index);
            out.put(type.code);
            element(type, value, index);
        }
    }

    private static SqlType typeOf(Object value, int index) {
        if (value instanceof Long) return SqlType.BIGINT;
        if (value instanceof Integer) return SqlType.INTEGER;
        if (value instanceof Short) return SqlType.SMALLINT;
        if (value instanceof Byte || value instanceof Boolean) return SqlType.TINYINT;
        if (value instanceof Double || value instanceof Float) return SqlType.FLOAT;
        if (value instanceof BigDecimal || value instanceof BigInteger) return SqlType.DECIMAL;
        if (value instanceof CharSequence || value instanceof Character || value instanceof Enum<?>) return SqlType.VARCHAR;
        if (value instanceof byte[]) return SqlType.VARBINARY;
        if (value instanceof LocalDate || value instanceof java.sql.Date) return SqlType.DATE;
        if (value instanceof Instant || value instanceof Date || value instanceof OffsetDateTime || value instanceof ZonedDateTime
                || value instanceof LocalDateTime) return SqlType.TIMESTAMP;
        if (value instanceof Point) return SqlType.GEOGRAPHY_POINT;
        if (value instanceof Polygon) return SqlType.GEOGRAPHY;
        throw new IllegalArgumentException("parameter " + index + ": a " + value.getClass().getName()
                + " cannot be sent; give a number, a text, a byte[], a time, a point, a polygon or an array of these");
    }

    private void array(Object value, int index) {
        Object[] elements;
        SqlType type = null;
        if (value instanceof Collection<?> collection) elements = collection.toArray();
        else if (value instanceof Object[] objects) elements = objects;
        else if (value instanceof long[] numbers) {
            elements = Arrays.stream(numbers).boxed().toArray();
            type = SqlType.BIGINT;
        } else if (value instanceof int[] numbers) {
            elements = Arrays.stream(numbers).boxed().toArray();
            type = SqlType.INTEGER;
        } else if (value instanceof double[] numbers) {
            elements = Arrays.stream(numbers).boxed().toArray();
            type = SqlType.FLOAT;
        } else if (value instanceof short[] numbers) {
            elements = new Object[numbers.length];
            for (int at = 0; at < numbers.length; at++) elements[at] = numbers[at];
            type = SqlType.SMALLINT;
        } else {
            throw new IllegalArgumentException("parameter " + index + ": a " + value.getClass().getSimpleName() + " cannot be sent");
        }
        for (Object element : elements) {
            if (element == null) continue;
            SqlType found = typeOf(element, index);
            if (type == null) type = found;
            else if (type != found) {
                throw new IllegalArgumentException("parameter " + index + ": the elements are of the types " + type + " and " + found);
            }
        }
        if (type == null) type = SqlType.INTEGER;
        room(7);
        out.put(SqlType.ARRAY.code).put(type.code);
        if (type == SqlType.TINYINT) out.putInt(elements.length);
        else if (elements.length > ELEMENTS_MAX) {
            throw new IllegalArgumentException("parameter " + index + ": an array can have " + ELEMENTS_MAX + " elements, this one has " + elements.length);
        } else out.putShort((short) elements.length);
        for (Object element : elements) element(type, element, index);
    }

    /** A value in the layout of its type, without the type code. */
    private void element(SqlType type, Object value, int index) {
        room(16);
        switch (type) {
            case TINYINT -> {
                byte number = value == null ? Byte.MIN_VALUE : value instanceof Boolean flag ? (byte) (flag ? 1 : 0) : (Byte) value;
                notNull(value == null || number != Byte.MIN_VALUE, value, index);
                out.put(number);
            }
            case SMALLINT -> {
                notNull(value == null || (Short) value != Short.MIN_VALUE, value, index);
                out.putShort(value == null ? Short.MIN_VALUE : (Short) value);
            }
            case INTEGER -> {
                notNull(value == null || (Integer) value != Integer.MIN_VALUE, value, index);
                out.putInt(value == null ? Integer.MIN_VALUE : (Integer) value);
            }
            case BIGINT -> {
                notNull(value == null || (Long) value != Long.MIN_VALUE, value, index);
                out.putLong(value == null ? Long.MIN_VALUE : (Long) value);
            }
            case FLOAT -> {
                if (value == null) out.putLong(NULL_DOUBLE);
                else {
                    double number = ((Number) value).doubleValue();
                    notNull(number > -1.7e308, value, index);
                    out.putDouble(number);
                }
            }
            case DECIMAL -> decimal(value, index);
            case VARCHAR -> string(value == null ? null : value.toString());
            case VARBINARY -> binary((byte[]) value);
            case TIMESTAMP -> out.putLong(value == null ? Long.MIN_VALUE : microseconds(value));
            case DATE -> {
                LocalDate date = value == null ? null : value instanceof java.sql.Date old ? old.toLocalDate() : (LocalDate) value;
                out.putInt(date == null ? Integer.MIN_VALUE : date.getYear() << 16 | date.getMonthValue() << 8 | date.getDayOfMonth());
            }
            case GEOGRAPHY_POINT -> {
                Point point = value == null ? new Point(360, 360) : (Point) value;
                out.putDouble(point.longitude()).putDouble(point.latitude());
            }
            case GEOGRAPHY -> polygon((Polygon) value);
            default -> throw new IllegalArgumentException("parameter " + index + ": " + type + " cannot be sent");
        }
    }

    private static void notNull(boolean fine, Object value, int index) {
        if (!fine) throw new IllegalArgumentException("parameter " + index + ": " + value + " cannot be sent, it means NULL; use null");
    }

    static long microseconds(Object value) {
        Instant instant;
        if (value instanceof Instant given) instant = given;
        else if (value instanceof java.sql.Timestamp given) instant = given.toInstant();
        else if (value instanceof Date given) return Math.multiplyExact(given.getTime(), 1000L);
        else if (value instanceof OffsetDateTime given) instant = given.toInstant();
        else if (value instanceof ZonedDateTime given) instant = given.toInstant();
        else instant = ((LocalDateTime) value).toInstant(ZoneOffset.UTC);
        return Math.addExact(Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), instant.getNano() / 1000);
    }

    private void decimal(Object value, int index) {
        if (value == null) {
            out.putLong(Long.MIN_VALUE).putLong(0);
            return;
        }
        BigDecimal number = value instanceof BigInteger whole ? new BigDecimal(whole) : (BigDecimal) value;
        if (number.signum() == 0) number = BigDecimal.ZERO;
        // By its size first: 1E-999999999 is a short text, and a gigabyte when its digits are made.
        long digitsBeforePoint = (long) number.precision() - number.scale();
        if (digitsBeforePoint > 26) {
            throw new IllegalArgumentException("parameter " + index + ": " + number + " is too large for DECIMAL: at most 26 digits before the point");
        }
        if (digitsBeforePoint < -12) throw tooFine(number, index);
        BigInteger scaled;
        try {
            scaled = number.setScale(12, RoundingMode.UNNECESSARY).unscaledValue();
        } catch (ArithmeticException e) {
            throw tooFine(number, index);
        }
        if (scaled.abs().compareTo(DECIMAL_LIMIT) >= 0) {
            throw new IllegalArgumentException("parameter " + index + ": " + number + " is too large for DECIMAL");
        }
        out.putLong(scaled.shiftRight(64).longValue()).putLong(scaled.longValue());
    }

    private static IllegalArgumentException tooFine(BigDecimal number, int index) {
        return new IllegalArgumentException("parameter " + index + ": " + number + " has more than 12 digits after the point; round it before sending");
    }

    @SuppressWarnings("deprecation") // getBytes(int, int, byte[], int) is the fast way for ASCII, which was checked.
    private void string(String text) {
        if (text == null) {
            room(4);
            out.putInt(-1);
            return;
        }
        int length = text.length();
        if (length < 64) {
            boolean ascii = true;
            for (int at = 0; at < length && ascii; at++) ascii = text.charAt(at) < 128;
            if (ascii) {
                room(4 + length);
                out.putInt(length);
                text.getBytes(0, length, bytes, out.position());
                out.position(out.position() + length);
                return;
            }
        }
        binary(text.getBytes(StandardCharsets.UTF_8));
    }

    private void binary(byte[] data) {
        room(4 + (data == null ? 0 : data.length));
        if (data == null) out.putInt(-1);
        else out.putInt(data.length).put(data);
    }

    private void polygon(Polygon polygon) {
        if (polygon == null) {
            out.putInt(-1);
            return;
        }
        int vertices = polygon.rings().stream().mapToInt(java.util.List::size).sum();
        int size = 40 + polygon.rings().size() * 43 + vertices * 24;
        room(4 + size);
        out.putInt(size).put((byte) 0).put((byte) 1).put((byte) (polygon.rings().size() > 1 ? 1 : 0)).putInt(polygon.rings().size());
        for (int depth = 0; depth < polygon.rings().size(); depth++) {
            var ring = polygon.rings().get(depth);
            out.put((byte) 0).putInt(ring.size());
            for (int at = 0; at < ring.size(); at++) {
                // Holes are clockwise for people and reversed behind their first vertex on the
                // wire.
                Point point = ring.get(depth == 0 || at == 0 ? at : ring.size() - at);
                double longitude = point.longitude() * RADIANS;
                double latitude = point.latitude() * RADIANS;
                out.putDouble(Math.cos(latitude) * Math.cos(longitude));
                out.putDouble(Math.cos(latitude) * Math.sin(longitude));
                out.putDouble(Math.sin(latitude));
            }
            out.put((byte) 0).putInt(depth == 0 ? 0 : 1);
            noBound();
        }
        noBound();
    }

    /** Clients leave bounds to the server. */
    private void noBound() {
        out.put((byte) 0);
        for (int side = 0; side < 4; side++) out.putDouble(360.0);
    }
}

package org.voltdb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * A growing array of bytes in the protocol's encoding, and the readers of single values.
 * Parameters, table cells and whole tables are written with it; nothing in it is shared between
 * threads.
 */
final class Bytes {
    private static final VarHandle SHORT = view(short[].class);
    private static final VarHandle INT = view(int[].class);
    private static final VarHandle LONG = view(long[].class);
    static final byte CODE_ARRAY = -99;
    private static final BigInteger DECIMAL_MAX = BigInteger.TEN.pow(38).subtract(BigInteger.ONE);

    byte[] array;
    int length;

    Bytes(int capacity) {
        array = new byte[capacity];
    }

    private static VarHandle view(Class<?> type) {
        return MethodHandles.byteArrayViewVarHandle(type, ByteOrder.BIG_ENDIAN);
    }

    static short shortAt(byte[] bytes, int at) {
        return (short) SHORT.get(bytes, at);
    }

    static int intAt(byte[] bytes, int at) {
        return (int) INT.get(bytes, at);
    }

    static long longAt(byte[] bytes, int at) {
        return (long) LONG.get(bytes, at);
    }

    static double doubleAt(byte[] bytes, int at) {
        return Double.longBitsToDouble(longAt(bytes, at));
    }

    /** Sixteen bytes; null for NULL. */
    static BigDecimal decimalAt(byte[] bytes, int at) {
        long high = longAt(bytes, at);
        long low = longAt(bytes, at + 8);
        if (high == Long.MIN_VALUE && low == 0) {
            return null;
        }
        if (high == low >> 63) {
            return BigDecimal.valueOf(low, 12);
        }
        return new BigDecimal(new BigInteger(Arrays.copyOfRange(bytes, at, at + 16)), 12);
    }

    static GeographyPointValue pointAt(byte[] bytes, int at) {
        double longitude = doubleAt(bytes, at);
        double latitude = doubleAt(bytes, at + 8);
        return longitude == 360.0 && latitude == 360.0 ? null : new GeographyPointValue(longitude, latitude);
    }

    /**
     * Where so many new bytes begin. It may replace the array, so that it must be called before the
     * array is looked at.
     */
    private int room(int bytes) {
        int at = length;
        if (array.length - at < bytes) {
            array = Arrays.copyOf(array, Math.max(array.length * 2, Math.addExact(at, bytes)));
        }
        length = at + bytes;
        return at;
    }

    void putByte(int value) {
        int at = room(1);
        array[at] = (byte) value;
    }

    void putShort(int value) {
        int at = room(2);
        SHORT.set(array, at, (short) value);
    }

    void putInt(int value) {
        int at = room(4);
        INT.set(array, at, value);
    }

    void putLong(long value) {
        int at = room(8);
        LONG.set(array, at, value);
    }

    void putDouble(double value) {
        putLong(Double.doubleToRawLongBits(value));
    }

    void put(byte[] bytes, int from, int count) {
        int at = room(count);
        System.arraycopy(bytes, from, array, at, count);
    }

    void setShort(int at, int value) {
        SHORT.set(array, at, (short) value);
    }

    void setInt(int at, int value) {
        INT.set(array, at, value);
    }

    /** With its length in front. */
    void putBytes(byte[] bytes) {
        putInt(bytes.length);
        put(bytes, 0, bytes.length);
    }

    void putString(String text) {
        int count = text.length();
        int at = room(4 + count);
        for (int i = 0; i < count; i++) {
            char c = text.charAt(i);
            if (c >= 0x80) {
                length = at;
                putBytes(text.getBytes(StandardCharsets.UTF_8));
                return;
            }
            array[at + 4 + i] = (byte) c;
        }
        INT.set(array, at, count);
    }

    void putDecimal(BigDecimal value) {
        // By its size first: 1E999999999 is a short text, and a gigabyte when its digits are made.
        long digitsBeforePoint = (long) value.precision() - value.scale();
        if (digitsBeforePoint > 26 && value.signum() != 0) {
            throw tooLarge(value);
        }
        BigDecimal near = digitsBeforePoint < -12 ? BigDecimal.ZERO : value;
        BigInteger unscaled = near.setScale(12, RoundingMode.HALF_UP).unscaledValue();
        if (unscaled.abs().compareTo(DECIMAL_MAX) > 0) {
            throw tooLarge(value);
        }
        if (unscaled.bitLength() < 64) {
            long low = unscaled.longValue();
            putLong(low >> 63);
            putLong(low);
            return;
        }
        byte[] digits = unscaled.toByteArray();
        int at = room(16);
        Arrays.fill(array, at, at + 16, (byte) (unscaled.signum() < 0 ? -1 : 0));
        System.arraycopy(digits, 0, array, at + 16 - digits.length, digits.length);
    }

    private static VoltTypeException tooLarge(BigDecimal value) {
        return new VoltTypeException("the decimal " + value + " has more than 26 digits before the point");
    }

    void putPoint(GeographyPointValue point) {
        putDouble(point.getLongitude());
        putDouble(point.getLatitude());
    }

    static long micros(Object value) {
        if (value instanceof TimestampType) {
            return ((TimestampType) value).getTime();
        }
        if (value instanceof java.sql.Timestamp) {
            java.sql.Timestamp time = (java.sql.Timestamp) value;
            return Math.floorDiv(time.getTime(), 1000L) * 1_000_000L + time.getNanos() / 1000;
        }
        return ((java.util.Date) value).getTime() * 1000L;
    }

    /** A parameter with its type code. */
    void putParameter(Object value) {
        if (value instanceof Long) {
            putByte(6);
            putLong((Long) value);
        } else if (value instanceof Integer) {
            putByte(5);
            putInt((Integer) value);
        } else if (value instanceof String) {
            putByte(9);
            putString((String) value);
        } else if (value == null) {
            putByte(1);
        } else if (value.getClass().isArray() && !(value instanceof byte[]) && !(value instanceof Byte[])) {
            putArray(value);
        } else {
            VoltType type = VoltType.typeFromClass(value.getClass());
            if (type == VoltType.BOOLEAN) {
                putByte(3);
                putByte((Boolean) value ? 1 : 0);
                return;
            }
            if (VoltType.isVoltNullValue(value)) {
                putByte(1);
                return;
            }
            putByte(type.getValue());
            putCell(type, value);
        }
    }

    private void putArray(Object array) {
        int count = java.lang.reflect.Array.getLength(array);
        VoltType type = elementType(array, count);
        putByte(CODE_ARRAY);
        putByte(type.getValue());
        if (type == VoltType.TINYINT) {
            putInt(count);
        } else {
            if (count > Short.MAX_VALUE) {
                throw new VoltTypeException("an array parameter has " + count + " elements, more than 32767");
            }
            putShort(count);
        }
        for (int i = 0; i < count; i++) {
            putCell(type, java.lang.reflect.Array.get(array, i));
        }
    }

    private static VoltType elementType(Object array, int count) {
        Class<?> component = array.getClass().getComponentType();
        if (component != Object.class && component != Number.class) {
            return VoltType.typeFromClass(component);
        }
        VoltType type = null;
        for (int i = 0; i < count; i++) {
            Object element = java.lang.reflect.Array.get(array, i);
            if (element == null) {
                continue;
            }
            VoltType own = VoltType.typeFromClass(element.getClass());
            if (own.isAnyIntegerType()) {
                own = VoltType.BIGINT;
            }
            if (type == null || type == own) {
                type = own;
            } else if (type.isNumber() && own.isNumber()) {
                type = type == VoltType.DECIMAL || own == VoltType.DECIMAL ? VoltType.DECIMAL : VoltType.FLOAT;
            } else {
                throw new VoltTypeException("an array holds values of type " + type + " and of type " + own);
            }
        }
        return type == null ? VoltType.INTEGER : type;
    }

    /** A value as a cell of a column; fitting values of other types are converted. */
    void putCell(VoltType type, Object value) {
        if (VoltType.isVoltNullValue(value)) {
            putNull(type);
            return;
        }
        switch (type) {
            case TINYINT:
                if (value instanceof Boolean) {
                    putByte((Boolean) value ? 1 : 0);
                } else {
                    putByte((int) integer(type, value, Byte.MIN_VALUE, Byte.MAX_VALUE));
                }
                break;
            case SMALLINT:
                putShort((int) integer(type, value, Short.MIN_VALUE, Short.MAX_VALUE));
                break;
            case INTEGER:
                putInt((int) integer(type, value, Integer.MIN_VALUE, Integer.MAX_VALUE));
                break;
            case BIGINT:
                putLong(value instanceof Long ? (Long) value : integer(type, value, Long.MIN_VALUE, Long.MAX_VALUE));
                break;
            case BOOLEAN:
                putByte((Boolean) value ? 1 : 0);
                break;
            case FLOAT:
                if (!(value instanceof Number)) {
                    throw misfit(type, value);
                }
                putDouble(((Number) value).doubleValue());
                break;
            case DECIMAL:
                if (value instanceof BigDecimal) {
                    putDecimal((BigDecimal) value);
                } else if (value instanceof Double || value instanceof Float) {
                    putDecimal(BigDecimal.valueOf(((Number) value).doubleValue()));
                } else if (value instanceof Number) {
                    putDecimal(BigDecimal.valueOf(((Number) value).longValue()));
                } else {
                    throw misfit(type, value);
                }
                break;
            case TIMESTAMP:
                if (value instanceof TimestampType || value instanceof java.util.Date) {
                    putLong(micros(value));
                } else {
                    putLong(integer(type, value, Long.MIN_VALUE, Long.MAX_VALUE));
                }
                break;
            case STRING:
                if (value instanceof byte[]) {
                    putBytes((byte[]) value);
                } else if (value instanceof String) {
                    putString((String) value);
                } else {
                    throw misfit(type, value);
                }
                break;
            case VARBINARY:
                if (value instanceof String) {
                    putBytes(fromHex((String) value));
                } else if (value instanceof byte[]) {
                    putBytes((byte[]) value);
                } else if (value instanceof Byte[]) {
                    Byte[] boxed = (Byte[]) value;
                    putInt(boxed.length);
                    for (Byte one : boxed) {
                        if (one == null) {
                            throw new VoltTypeException("a Byte[] with a null in it is no value for a " + type.getName());
                        }
                        putByte(one);
                    }
                } else {
                    throw misfit(type, value);
                }
                break;
            case GEOGRAPHY_POINT:
                if (!(value instanceof GeographyPointValue)) {
                    throw misfit(type, value);
                }
                putPoint((GeographyPointValue) value);
                break;
            case GEOGRAPHY:
                if (!(value instanceof GeographyValue)) {
                    throw misfit(type, value);
                }
                putBytes(((GeographyValue) value).toBytes());
                break;
            case VOLTTABLE:
                ((VoltTable) value).writeTo(this);
                break;
            default:
                throw misfit(type, value);
        }
    }

    private static byte[] fromHex(String text) {
        if (text.length() % 2 != 0) {
            throw new VoltTypeException("\"" + text + "\" is not an even number of hexadecimal digits");
        }
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            int high = Character.digit(text.charAt(2 * i), 16);
            int low = Character.digit(text.charAt(2 * i + 1), 16);
            if (high < 0 || low < 0) {
                throw new VoltTypeException("\"" + text + "\" is not hexadecimal");
            }
            bytes[i] = (byte) (high << 4 | low);
        }
        return bytes;
    }

    private static long integer(VoltType type, Object value, long smallest, long largest) {
        if (value instanceof BigDecimal) {
            try {
                value = ((BigDecimal) value).longValueExact();
            } catch (ArithmeticException e) {
                throw misfit(type, value);
            }
        }
        boolean whole = value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte
                || value instanceof java.util.concurrent.atomic.AtomicLong;
        // What a double has behind the point is cut off, as in a cast: a cell of a table is the
        // procedure's own affair.
        whole |= value instanceof Double || value instanceof Float;
        if (!whole) {
            throw misfit(type, value);
        }
        long number = ((Number) value).longValue();
        if (number <= smallest || number > largest) {
            throw new VoltTypeException("the value " + number + " is out of range for " + type.getName());
        }
        return number;
    }

    private static VoltTypeException misfit(VoltType type, Object value) {
        return new VoltTypeException("a " + value.getClass().getSimpleName() + " is no value for a " + type.getName());
    }

    void putNull(VoltType type) {
        switch (type) {
            case TINYINT:
                putByte(VoltType.NULL_TINYINT);
                break;
            case BOOLEAN:
                putByte(127);
                break;
            case SMALLINT:
                putShort(VoltType.NULL_SMALLINT);
                break;
            case INTEGER:
                putInt(VoltType.NULL_INTEGER);
                break;
            case BIGINT:
            case TIMESTAMP:
                putLong(VoltType.NULL_BIGINT);
                break;
            case FLOAT:
                putDouble(VoltType.NULL_FLOAT);
                break;
            case DECIMAL:
                putLong(Long.MIN_VALUE);
                putLong(0);
                break;
            case GEOGRAPHY_POINT:
                putDouble(360.0);
                putDouble(360.0);
                break;
            case STRING:
            case VARBINARY:
            case GEOGRAPHY:
                putInt(-1);
                break;
            default:
                throw new VoltTypeException("there is no NULL of type " + type);
        }
    }
}

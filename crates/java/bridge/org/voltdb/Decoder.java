package org.voltdb;

import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * How one parameter of a run method is made from the server's bytes: a type code and a value,
 * integers always of 8 bytes.
 */
final class Decoder {
    final VoltType type;
    final boolean array;
    private final Class<?> target;
    /** What a primitive parameter gets for NULL; an object gets null. */
    private final Object ifNull;

    private Decoder(VoltType type, boolean array, Class<?> target) {
        this.type = type;
        this.array = array;
        this.target = target;
        if (!target.isPrimitive()) {
            ifNull = null;
        } else if (target == boolean.class) {
            ifNull = Boolean.FALSE;
        } else if (target == float.class) {
            ifNull = (float) VoltType.NULL_FLOAT;
        } else {
            ifNull = type.getNullValue();
        }
    }

    /** Null when a procedure cannot have such a parameter. */
    static Decoder of(Class<?> target) {
        boolean isArray = target.isArray() && !isBinary(target);
        Class<?> element = isArray ? target.getComponentType() : target;
        if (element.isArray() && !isBinary(element)) {
            return null;
        }
        VoltType type;
        try {
            type = VoltType.typeFromClass(element);
        } catch (VoltTypeException e) {
            return null;
        }
        boolean known = element.isPrimitive() || element == String.class || isBinary(element)
                || element == BigDecimal.class || element == TimestampType.class || element == java.util.Date.class
                || element == java.sql.Date.class || element == java.sql.Timestamp.class
                || element == GeographyPointValue.class || element == GeographyValue.class || element == VoltTable.class
                || Number.class.isAssignableFrom(element) || element == Boolean.class;
        return known && type != VoltType.NULL ? new Decoder(type, isArray, element) : null;
    }

    private static boolean isBinary(Class<?> type) {
        return type == byte[].class || type == Byte[].class;
    }

    /** Reads from `in.at` on, and moves it. */
    Object read(Input in) {
        byte code = in.bytes[in.at++];
        if (!array) {
            return code == 1 ? ifNull : value(in, code);
        }
        if (code == 1) {
            return null;
        }
        int count = Bytes.intAt(in.bytes, in.at);
        in.at += 4;
        Object values = Array.newInstance(target, count);
        for (int i = 0; i < count; i++) {
            byte element = in.bytes[in.at++];
            Array.set(values, i, element == 1 ? ifNull : value(in, element));
        }
        return values;
    }

    /** Bytes and a place in them. */
    static final class Input {
        byte[] bytes;
        int at;
    }

    private Object value(Input in, byte code) {
        byte[] bytes = in.bytes;
        int at = in.at;
        switch (code) {
            case 6:
                in.at = at + 8;
                return integer(Bytes.longAt(bytes, at));
            case 23:
                in.at = at + 1;
                return integer(bytes[at]);
            case 8:
                in.at = at + 8;
                double number = Bytes.doubleAt(bytes, at);
                return target == float.class || target == Float.class ? (Object) (float) number : (Object) number;
            case 11:
                in.at = at + 8;
                return time(Bytes.longAt(bytes, at));
            case 22:
                in.at = at + 16;
                return Bytes.decimalAt(bytes, at);
            case 26:
                in.at = at + 16;
                return Bytes.pointAt(bytes, at);
            default:
                int length = Bytes.intAt(bytes, at);
                int end = at + 4 + length;
                in.at = end;
                switch (code) {
                    case 9:
                        return new String(bytes, at + 4, length, StandardCharsets.UTF_8);
                    case 27:
                        return GeographyValue.fromBytes(Arrays.copyOfRange(bytes, at + 4, end));
                    case 21:
                        return VoltTable.ofParameter(bytes, at + 4, end);
                    default:
                        return binary(Arrays.copyOfRange(bytes, at + 4, end));
                }
        }
    }

    private Object integer(long number) {
        switch (type) {
            case TINYINT:
                return (byte) number;
            case SMALLINT:
                return (short) number;
            case INTEGER:
                return (int) number;
            case BOOLEAN:
                return number != 0;
            default:
                return number;
        }
    }

    private Object time(long micros) {
        if (target == TimestampType.class) {
            return new TimestampType(micros);
        }
        if (target == java.sql.Timestamp.class) {
            return new TimestampType(micros).asJavaTimestamp();
        }
        long millis = Math.floorDiv(micros, 1000L);
        return target == java.sql.Date.class ? new java.sql.Date(millis) : new java.util.Date(millis);
    }

    private Object binary(byte[] value) {
        if (target != Byte[].class) {
            return value;
        }
        Byte[] boxed = new Byte[value.length];
        for (int i = 0; i < boxed.length; i++) {
            boxed[i] = value[i];
        }
        return boxed;
    }
}

package io.ferritedb.client;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.RecordComponent;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Locale;

/**
 * Rows as records. Components are matched with columns by name once per table, values converted
 * where nothing is lost.
 */
final class RecordMapper<T extends Record> {
    private final Class<T> type;
    private final RecordComponent[] components;
    private final int[] columns;
    private final MethodHandle constructor;

    private RecordMapper(Class<T> type, RecordComponent[] components, int[] columns, MethodHandle constructor) {
        this.type = type;
        this.components = components;
        this.columns = columns;
        this.constructor = constructor;
    }

    static <T extends Record> RecordMapper<T> of(Class<T> type, String[] names) {
        RecordComponent[] components = type.getRecordComponents();
        int[] columns = new int[components.length];
        for (int at = 0; at < components.length; at++) {
            String wanted = plain(components[at].getName());
            int column = -1;
            for (int candidate = 0; candidate < names.length && column < 0; candidate++) {
                if (plain(names[candidate]).equals(wanted)) column = candidate;
            }
            if (column < 0) {
                throw new IllegalArgumentException(type.getSimpleName() + " needs a column " + components[at].getName()
                        + "; the columns are " + String.join(", ", names));
            }
            columns[at] = column;
        }
        try {
            Class<?>[] types = Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
            var canonical = type.getDeclaredConstructor(types);
            canonical.setAccessible(true);
            MethodHandle handle = MethodHandles.lookup().unreflectConstructor(canonical);
            return new RecordMapper<>(type, components, columns, handle.asSpreader(Object[].class, components.length));
        } catch (ReflectiveOperationException unreachable) {
            throw new IllegalArgumentException("the constructor of " + type.getName() + " cannot be called from here", unreachable);
        }
    }

    private static String plain(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }

    T map(Row row) {
        Object[] values = new Object[components.length];
        for (int at = 0; at < values.length; at++) values[at] = convert(row.get(columns[at]), components[at].getType(), components[at].getName());
        try {
            return type.cast(constructor.invoke(values));
        } catch (RuntimeException | Error thrown) {
            throw thrown;
        } catch (Throwable thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    /** A value as a type; refuses what would lose something. */
    static Object convert(Object value, Class<?> wanted, String name) {
        if (value == null) {
            if (wanted.isPrimitive()) throw new NullPointerException(name + " is a " + wanted + ", but the column is NULL");
            return null;
        }
        if (wanted.isInstance(value)) return value;
        if (value instanceof Number number) {
            boolean whole = value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long;
            if (whole) {
                long exact = number.longValue();
                if (wanted == long.class || wanted == Long.class) return exact;
                if ((wanted == int.class || wanted == Integer.class) && exact == (int) exact) return (int) exact;
                if ((wanted == short.class || wanted == Short.class) && exact == (short) exact) return (short) exact;
                if ((wanted == byte.class || wanted == Byte.class) && exact == (byte) exact) return (byte) exact;
                if ((wanted == boolean.class || wanted == Boolean.class) && (exact == 0 || exact == 1)) return exact == 1;
                if (wanted == BigDecimal.class) return BigDecimal.valueOf(exact);
            }
            if (wanted == double.class || wanted == Double.class) return number.doubleValue();
        }
        if (value instanceof Boolean && wanted == boolean.class) return value;
        if (value instanceof Instant instant) {
            if (wanted == OffsetDateTime.class) return instant.atOffset(ZoneOffset.UTC);
            if (wanted == LocalDateTime.class) return LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
            if (wanted == java.util.Date.class) return java.util.Date.from(instant);
        }
        if (value instanceof String text && wanted.isEnum()) {
            for (Object constant : wanted.getEnumConstants()) {
                if (((Enum<?>) constant).name().equals(text)) return constant;
            }
        }
        if (wanted == String.class) return value.toString();
        throw new ClassCastException(name + " is a " + wanted.getSimpleName() + ", but the column has " + value + " (" + value.getClass().getSimpleName() + ")");
    }
}

package org.voltdb;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.sql.Types;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/**
 * The types of columns and parameters, with their codes in the protocol and the values that mean
 * NULL.
 */
public enum VoltType {
    INVALID(0, null),
    NULL(1, null),
    NUMERIC(2, null),
    TINYINT(3, Byte.class),
    SMALLINT(4, Short.class),
    INTEGER(5, Integer.class),
    BIGINT(6, Long.class),
    FLOAT(8, Double.class),
    STRING(9, String.class),
    TIMESTAMP(11, TimestampType.class),
    VOLTTABLE(21, VoltTable.class),
    DECIMAL(22, BigDecimal.class),
    BOOLEAN(23, Boolean.class),
    VARBINARY(25, byte[].class),
    GEOGRAPHY_POINT(26, GeographyPointValue.class),
    GEOGRAPHY(27, GeographyValue.class);

    public static final int MAX_VALUE_LENGTH = 1_048_576;
    public static final int MAX_VALUE_LENGTH_IN_CHARACTERS = MAX_VALUE_LENGTH / 4;
    public static final int NULL_STRING_LENGTH = -1;

    public static final byte NULL_TINYINT = Byte.MIN_VALUE;
    public static final short NULL_SMALLINT = Short.MIN_VALUE;
    public static final int NULL_INTEGER = Integer.MIN_VALUE;
    public static final long NULL_BIGINT = Long.MIN_VALUE;
    /** Every double at or below this is read as NULL. */
    public static final double NULL_FLOAT = -1.7E+308;
    public static final NullTimestampSigil NULL_TIMESTAMP = new NullTimestampSigil();
    public static final NullStringOrVarbinarySigil NULL_STRING_OR_VARBINARY = new NullStringOrVarbinarySigil();
    public static final NullDecimalSigil NULL_DECIMAL = new NullDecimalSigil();
    public static final NullPointSigil NULL_POINT = new NullPointSigil();
    public static final NullGeographySigil NULL_GEOGRAPHY = new NullGeographySigil();

    static final BigDecimal DECIMAL_UNIT = BigDecimal.TEN.pow(12);

    /** The class of {@link VoltType#NULL_TIMESTAMP}. */
    public static final class NullTimestampSigil {
        private NullTimestampSigil() {
        }
    }

    /** The class of {@link VoltType#NULL_STRING_OR_VARBINARY}. */
    public static final class NullStringOrVarbinarySigil {
        private NullStringOrVarbinarySigil() {
        }
    }

    /** The class of {@link VoltType#NULL_DECIMAL}. */
    public static final class NullDecimalSigil {
        private NullDecimalSigil() {
        }
    }

    /** The class of {@link VoltType#NULL_POINT}. */
    public static final class NullPointSigil {
        private NullPointSigil() {
        }
    }

    /** The class of {@link VoltType#NULL_GEOGRAPHY}. */
    public static final class NullGeographySigil {
        private NullGeographySigil() {
        }
    }

    private static final VoltType[] BY_CODE = new VoltType[32];

    static {
        for (VoltType type : values()) {
            BY_CODE[type.code] = type;
        }
    }

    private final byte code;
    private final Class<?> javaClass;

    VoltType(int code, Class<?> javaClass) {
        this.code = (byte) code;
        this.javaClass = javaClass;
    }

    /** The protocol's code. */
    public byte getValue() {
        return code;
    }

    /** The class whose objects stand for values of this type. */
    public Class<?> classFromType() {
        if (javaClass == null) {
            throw new RuntimeException("no class stands for the type " + this);
        }
        return javaClass;
    }

    public static VoltType get(byte code) {
        VoltType type = code >= 0 && code < BY_CODE.length ? BY_CODE[code] : null;
        if (type == null) {
            throw new IllegalArgumentException("Unknown type: " + code);
        }
        return type;
    }

    /** By name as in SQL; VARCHAR is STRING. */
    public static VoltType typeFromString(String name) {
        String word = name.trim().toUpperCase();
        if (word.startsWith("VOLTTYPE.")) {
            word = word.substring("VOLTTYPE.".length());
        }
        switch (word) {
            case "VARCHAR":
                return STRING;
            case "DOUBLE":
                return FLOAT;
            default:
                return valueOf(word);
        }
    }

    public static VoltType typeFromObject(Object value) {
        if (value == null) {
            return NULL;
        }
        return typeFromClass(value.getClass());
    }

    /**
     * The type for values of a class, primitive or boxed; for a class of arrays that of the
     * elements.
     */
    public static VoltType typeFromClass(Class<?> type) {
        if (type == byte[].class || type == Byte[].class || type == NullStringOrVarbinarySigil.class) {
            return type == NullStringOrVarbinarySigil.class ? STRING : VARBINARY;
        }
        if (type == byte.class || type == Byte.class) {
            return TINYINT;
        }
        if (type == short.class || type == Short.class) {
            return SMALLINT;
        }
        if (type == int.class || type == Integer.class) {
            return INTEGER;
        }
        if (type == long.class || type == Long.class || type == java.util.concurrent.atomic.AtomicLong.class) {
            return BIGINT;
        }
        if (type == double.class || type == Double.class || type == float.class || type == Float.class) {
            return FLOAT;
        }
        if (type == boolean.class || type == Boolean.class) {
            return BOOLEAN;
        }
        if (type == String.class) {
            return STRING;
        }
        if (type == BigDecimal.class || type == NullDecimalSigil.class) {
            return DECIMAL;
        }
        if (type == TimestampType.class || java.util.Date.class.isAssignableFrom(type)
                || type == NullTimestampSigil.class) {
            return TIMESTAMP;
        }
        if (type == GeographyPointValue.class || type == NullPointSigil.class) {
            return GEOGRAPHY_POINT;
        }
        if (type == GeographyValue.class || type == NullGeographySigil.class) {
            return GEOGRAPHY;
        }
        if (VoltTable.class.isAssignableFrom(type)) {
            return VOLTTABLE;
        }
        if (type.isArray()) {
            return typeFromClass(type.getComponentType());
        }
        throw new VoltTypeException("Unimplemented Object Type: " + type);
    }

    public String getName() {
        return name();
    }

    public boolean isVariableLength() {
        return this == STRING || this == VARBINARY || this == GEOGRAPHY;
    }

    /** Bytes of a value; -1 for types without a fixed length. */
    public int getLengthInBytesForFixedTypesWithoutCheck() {
        switch (this) {
            case TINYINT:
            case BOOLEAN:
                return 1;
            case SMALLINT:
                return 2;
            case INTEGER:
                return 4;
            case BIGINT:
            case FLOAT:
            case TIMESTAMP:
                return 8;
            case DECIMAL:
            case GEOGRAPHY_POINT:
                return 16;
            default:
                return -1;
        }
    }

    public int getLengthInBytesForFixedTypes() {
        int length = getLengthInBytesForFixedTypesWithoutCheck();
        if (length < 0) {
            throw new RuntimeException("values of type " + this + " have no fixed length");
        }
        return length;
    }

    public String toSQLString() {
        return this == STRING ? "varchar" : name().toLowerCase();
    }

    public boolean isExactNumeric() {
        return isAnyIntegerType() || this == DECIMAL;
    }

    public boolean isBackendIntegerType() {
        return isAnyIntegerType() || this == TIMESTAMP;
    }

    public boolean isAnyIntegerType() {
        return this == TINYINT || this == SMALLINT || this == INTEGER || this == BIGINT;
    }

    public boolean isNumber() {
        return isExactNumeric() || this == FLOAT;
    }

    /** The name of the class that JDBC gives; null: there is none. */
    public String getJdbcClass() {
        switch (this) {
            case TIMESTAMP:
                return "java.sql.Timestamp";
            case VARBINARY:
                return "java.lang.Byte[]";
            default:
                return javaClass == null || this == VOLTTABLE ? null : javaClass.getName();
        }
    }

    /** One of {@link java.sql.Types}. */
    public int getJdbcSqlType() {
        switch (this) {
            case TINYINT:
                return Types.TINYINT;
            case SMALLINT:
                return Types.SMALLINT;
            case INTEGER:
                return Types.INTEGER;
            case BIGINT:
                return Types.BIGINT;
            case FLOAT:
                return Types.FLOAT;
            case STRING:
                return Types.VARCHAR;
            case TIMESTAMP:
                return Types.TIMESTAMP;
            case DECIMAL:
                return Types.DECIMAL;
            case BOOLEAN:
                return Types.BOOLEAN;
            case VARBINARY:
                return Types.VARBINARY;
            default:
                return Types.OTHER;
        }
    }

    /** Digits behind the point; null: that says nothing of this type. */
    public Integer getMaximumScale() {
        if (isAnyIntegerType() || this == BOOLEAN) {
            return 0;
        }
        return this == DECIMAL ? 12 : null;
    }

    /** Precision and radix of numbers, bytes of texts; null where there is none. */
    public Integer[] getTypePrecisionAndRadix() {
        if (isVariableLength()) {
            return new Integer[] {MAX_VALUE_LENGTH, null};
        }
        switch (this) {
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
            case TIMESTAMP:
                return new Integer[] {8 * getLengthInBytesForFixedTypes() - 1, 2};
            case FLOAT:
                return new Integer[] {53, 2};
            case DECIMAL:
                return new Integer[] {38, 10};
            default:
                return new Integer[] {null, null};
        }
    }

    public boolean isCaseSensitive() {
        return this == STRING;
    }

    /** Null: not a number. */
    public Boolean isUnsigned() {
        return isNumber() ? Boolean.FALSE : null;
    }

    /** Of a parameter: primitive where there is one, without its package. */
    public String getMostCompatibleJavaTypeName() {
        switch (this) {
            case TINYINT:
                return "byte";
            case SMALLINT:
                return "short";
            case INTEGER:
                return "int";
            case BIGINT:
                return "long";
            case FLOAT:
                return "double";
            case BOOLEAN:
                return "boolean";
            default:
                return javaClass == null ? "(unknown?)" : javaClass.getSimpleName();
        }
    }

    /** What the value of a partitioning column is hashed by. */
    public static byte[] valueToBytes(Object value) {
        if (value instanceof byte[]) {
            return (byte[]) value;
        }
        if (value instanceof String) {
            return ((String) value).getBytes(StandardCharsets.UTF_8);
        }
        if (value == null) {
            return null;
        }
        boolean whole = value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte;
        long number = whole ? ((Number) value).longValue() : 0;
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array();
    }

    /** The value that {@link #valueToBytes} gave these bytes for. */
    public Object bytesToValue(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        switch (this) {
            case NULL:
                return null;
            case TINYINT:
                return in.get();
            case SMALLINT:
                return in.getShort();
            case INTEGER:
                return in.getInt();
            case BIGINT:
                return in.getLong();
            case STRING:
                return new String(bytes, StandardCharsets.UTF_8);
            case VARBINARY:
                return bytes;
            default:
                throw new RuntimeException("no table is partitioned by values of type " + this);
        }
    }

    /** The object that means NULL where null itself cannot. */
    public Object getNullValue() {
        switch (this) {
            case TINYINT:
                return NULL_TINYINT;
            case SMALLINT:
                return NULL_SMALLINT;
            case INTEGER:
                return NULL_INTEGER;
            case BIGINT:
                return NULL_BIGINT;
            case FLOAT:
                return NULL_FLOAT;
            case STRING:
            case VARBINARY:
                return NULL_STRING_OR_VARBINARY;
            case TIMESTAMP:
                return NULL_TIMESTAMP;
            case DECIMAL:
                return NULL_DECIMAL;
            case GEOGRAPHY_POINT:
                return NULL_POINT;
            case GEOGRAPHY:
                return NULL_GEOGRAPHY;
            case NULL:
                return null;
            default:
                throw new VoltTypeException("no NULL of type " + this);
        }
    }

    /** Whether a value means NULL. */
    public static boolean isVoltNullValue(Object value) {
        return value == null || value == NULL_TIMESTAMP || value == NULL_STRING_OR_VARBINARY || value == NULL_DECIMAL
                || value == NULL_POINT || value == NULL_GEOGRAPHY
                || (value instanceof Byte && (Byte) value == NULL_TINYINT)
                || (value instanceof Short && (Short) value == NULL_SMALLINT)
                || (value instanceof Integer && (Integer) value == NULL_INTEGER)
                || (value instanceof Long && (Long) value == NULL_BIGINT)
                || (value instanceof Double && (Double) value <= NULL_FLOAT);
    }
}

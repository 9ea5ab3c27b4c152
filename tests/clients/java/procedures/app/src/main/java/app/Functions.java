package app;

import java.math.BigDecimal;
import org.voltdb.types.GeographyPointValue;
import org.voltdb.types.GeographyValue;
import org.voltdb.types.TimestampType;

/** User-defined functions: every type, NULL in and out, failures. */
public class Functions extends FunctionsBase {
    private long calls;

    public long add(long a, Long b) {
        return b == null || a == Long.MIN_VALUE ? Long.MIN_VALUE : a + b;
    }

    public byte tiny(byte value) {
        return value;
    }

    public Short small(Short value) {
        return value;
    }

    public int integer(int value) {
        return value;
    }

    public double real(double value) {
        return value * 2;
    }

    public String text(String words, int times) {
        return words == null ? null : words.repeat(times);
    }

    public byte[] reversed(byte[] bytes) {
        byte[] out = new byte[bytes.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = bytes[bytes.length - 1 - i];
        }
        return out;
    }

    public Byte[] boxed(Byte[] bytes, int more) {
        if (bytes == null) {
            return null;
        }
        Byte[] out = java.util.Arrays.copyOf(bytes, bytes.length + more);
        java.util.Arrays.fill(out, bytes.length, Math.min(out.length, bytes.length + 2), Byte.MIN_VALUE);
        return out;
    }

    public BigDecimal decimal(BigDecimal value) {
        return value == null ? null : value.negate();
    }

    public BigDecimal number(String digits) {
        return new BigDecimal(digits);
    }

    public TimestampType later(TimestampType time) {
        return new TimestampType(time.getTime() + 1);
    }

    public GeographyPointValue point(GeographyPointValue point) {
        return point;
    }

    public GeographyValue polygon(GeographyValue polygon) {
        return polygon;
    }

    public String isNull(Integer value) {
        return value == null ? "NULL" : "a number";
    }

    /** An object is kept from call to call. */
    public long calls() {
        return ++calls;
    }

    public long intrudes() {
        return Intruded.intrude();
    }

    public int fails(int how) {
        if (how == 1) {
            throw new IllegalArgumentException("failed on purpose");
        }
        return how == 2 ? fails(how) : how;
    }
}

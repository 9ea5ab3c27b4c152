package org.voltdb.types;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Date;
import java.util.TimeZone;

/** A moment, in microseconds since 1970 in UTC. */
public class TimestampType implements Comparable<TimestampType> {
    private static final DateTimeFormatter FORMAT = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");
    private final long micros;

    public TimestampType(long microseconds) {
        micros = microseconds;
    }

    public TimestampType(Date date) {
        if (date instanceof java.sql.Timestamp) {
            java.sql.Timestamp time = (java.sql.Timestamp) date;
            micros = Math.floorDiv(time.getTime(), 1000L) * 1_000_000L + time.getNanos() / 1000;
        } else {
            micros = date.getTime() * 1000L;
        }
    }

    /** {@code YYYY-MM-DD[ HH:MM:SS[.ffffff]]}, as a moment of the JVM's time zone. */
    public TimestampType(String text) {
        this(java.sql.Timestamp.valueOf(text.trim().length() == 10 ? text.trim() + " 00:00:00" : text.trim()));
    }

    /** Now. */
    /**
     * Milliseconds of a text {@code yyyy-mm-dd hh:mm:ss[.fff]} in the JVM's time zone; {@link
     * IllegalArgumentException} for other texts, those with microseconds among them.
     */
    public static long millisFromJDBCformat(String text) {
        java.sql.Timestamp time = java.sql.Timestamp.valueOf(text);
        if (time.getNanos() % 1_000_000 != 0) {
            throw new IllegalArgumentException("'" + text + "' has microseconds, which a Date cannot hold");
        }
        return time.getTime();
    }

    public TimestampType() {
        Instant now = Instant.now();
        micros = now.getEpochSecond() * 1_000_000L + now.getNano() / 1000;
    }

    public long getTime() {
        return micros;
    }

    /** The microseconds within the millisecond. */
    public short getUSec() {
        return (short) Math.floorMod(micros, 1000L);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TimestampType && ((TimestampType) other).micros == micros;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(micros);
    }

    @Override
    public int compareTo(TimestampType other) {
        return Long.compare(micros, other.micros);
    }

    @Override
    public String toString() {
        return toString(TimeZone.getDefault());
    }

    public String toString(TimeZone zone) {
        return FORMAT.format(LocalDateTime.ofInstant(instant(), zone.toZoneId()));
    }

    public String toJSONString() {
        return Long.toString(micros);
    }

    private Instant instant() {
        return Instant.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), Math.floorMod(micros, 1_000_000L) * 1000L);
    }

    /** To the millisecond, rounded down. */
    public Date asApproximateJavaDate() {
        return new Date(Math.floorDiv(micros, 1000L));
    }

    /** Refused when there are microseconds within the millisecond. */
    public Date asExactJavaDate() {
        if (getUSec() != 0) {
            throw new RuntimeException("Can't convert to java.util.Date: the timestamp has microseconds");
        }
        return asApproximateJavaDate();
    }

    public java.sql.Date asExactJavaSqlDate() {
        return new java.sql.Date(asExactJavaDate().getTime());
    }

    public java.sql.Timestamp asJavaTimestamp() {
        java.sql.Timestamp time = new java.sql.Timestamp(Math.floorDiv(micros, 1000L));
        time.setNanos((int) (Math.floorMod(micros, 1_000_000L) * 1000L));
        return time;
    }

}

package org.voltdb.types;

import java.nio.ByteBuffer;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A point on the earth, in degrees. */
public class GeographyPointValue {
    static final double NULL_COORDINATE = 360.0;
    private static final String NUMBER = "([-+]?[0-9]*\\.?[0-9]+(?:[eE][-+]?[0-9]+)?)";
    private static final Pattern WKT =
            Pattern.compile("\\s*point\\s*\\(\\s*" + NUMBER + "\\s+" + NUMBER + "\\s*\\)\\s*", Pattern.CASE_INSENSITIVE);
    private final double longitude;
    private final double latitude;

    public GeographyPointValue(double longitude, double latitude) {
        if (!(longitude >= -180.0 && longitude <= 180.0)) {
            throw new IllegalArgumentException("Longitude out of range: " + longitude);
        }
        if (!(latitude >= -90.0 && latitude <= 90.0)) {
            throw new IllegalArgumentException("Latitude out of range: " + latitude);
        }
        this.longitude = longitude + 0.0;
        this.latitude = latitude + 0.0;
    }

    /** {@code POINT(longitude latitude)} */
    public static GeographyPointValue fromWKT(String text) {
        Matcher matcher = WKT.matcher(text);
        if (!matcher.matches()) {
            throw new IllegalArgumentException("Cannot construct GeographyPointValue value from \"" + text + "\"");
        }
        return new GeographyPointValue(Double.parseDouble(matcher.group(1)), Double.parseDouble(matcher.group(2)));
    }

    public double getLatitude() {
        return latitude;
    }

    public double getLongitude() {
        return longitude;
    }

    static String coordinate(double value) {
        String text = String.format(java.util.Locale.ROOT, "%.12f", value);
        int end = text.length();
        while (text.charAt(end - 1) == '0' && text.charAt(end - 2) != '.') {
            end--;
        }
        return text.substring(0, end);
    }

    String coordinates() {
        return coordinate(longitude) + " " + coordinate(latitude);
    }

    public String toWKT() {
        return "POINT (" + coordinates() + ")";
    }

    @Override
    public String toString() {
        return toWKT();
    }

    /** As far as it is written: vertices of polygons come back from their vectors with an error. */
    private static long written(double coordinate) {
        return Math.round(coordinate * 1e12);
    }

    private boolean isPole() {
        return Math.abs(written(latitude)) == written(90.0);
    }

    /** The antimeridian has two longitudes, a pole all of them. */
    private long writtenLongitude() {
        long value = written(longitude);
        return isPole() ? 0 : value == written(-180.0) ? -value : value;
    }

    /** Points are equal if they agree to twelve digits, as {@link #toWKT} has them. */
    @Override
    public boolean equals(Object other) {
        if (!(other instanceof GeographyPointValue)) {
            return false;
        }
        GeographyPointValue that = (GeographyPointValue) other;
        return written(latitude) == written(that.latitude) && writtenLongitude() == that.writtenLongitude();
    }

    @Override
    public int hashCode() {
        return Objects.hash(written(latitude), writtenLongitude());
    }

    /** Characters of {@link #toWKT} at most. */
    public static int getValueDisplaySize() {
        return 42;
    }

    public static int getLengthInBytes() {
        return 16;
    }

    public void flattenToBuffer(ByteBuffer out) {
        out.putDouble(longitude);
        out.putDouble(latitude);
    }

    public static void serializeNull(ByteBuffer out) {
        out.putDouble(NULL_COORDINATE);
        out.putDouble(NULL_COORDINATE);
    }

    /** Null for the null point. */
    public static GeographyPointValue unflattenFromBuffer(ByteBuffer in) {
        double longitude = in.getDouble();
        double latitude = in.getDouble();
        boolean isNull = longitude == NULL_COORDINATE && latitude == NULL_COORDINATE;
        return isNull ? null : new GeographyPointValue(longitude, latitude);
    }
}

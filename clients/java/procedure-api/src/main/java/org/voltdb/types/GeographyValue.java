package org.voltdb.types;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A polygon on the earth: an outer ring, counter-clockwise, and holes. Rings repeat their first
 * point at their end.
 */
public class GeographyValue {
    public static final int DEFAULT_LENGTH = 32_768;
    public static final int MIN_SERIALIZED_LENGTH = 155;
    public static final int MAX_SERIALIZED_LENGTH = 1_048_576;
    private static final int BOUND_BYTES = 33;
    private static final Pattern POLYGON = Pattern.compile("\\s*polygon\\s*\\((.*)\\)\\s*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private final List<List<GeographyPointValue>> rings;

    public GeographyValue(List<List<GeographyPointValue>> rings) {
        if (rings.isEmpty()) {
            throw new IllegalArgumentException("Expected a polygon with at least one ring");
        }
        List<List<GeographyPointValue>> copy = new ArrayList<>();
        for (List<GeographyPointValue> ring : rings) {
            if (ring.size() < 4) {
                throw new IllegalArgumentException("A polygon ring must contain at least 4 points (including repeated closing vertex)");
            }
            if (!ring.get(0).equals(ring.get(ring.size() - 1))) {
                throw new IllegalArgumentException("closing points of ring are not equal: \"" + ring.get(0) + "\" != \""
                        + ring.get(ring.size() - 1) + "\"");
            }
            copy.add(Collections.unmodifiableList(new ArrayList<>(ring)));
        }
        this.rings = Collections.unmodifiableList(copy);
    }

    public GeographyValue(String text) {
        this(parse(text));
    }

    /** {@code POLYGON((longitude latitude, ...), ...)} */
    public static GeographyValue fromWKT(String text) {
        return new GeographyValue(text);
    }

    private static List<List<GeographyPointValue>> parse(String text) {
        Matcher matcher = POLYGON.matcher(text);
        if (!matcher.matches()) {
            throw new IllegalArgumentException("Cannot construct GeographyValue from \"" + text + "\"");
        }
        List<List<GeographyPointValue>> rings = new ArrayList<>();
        for (String ring : matcher.group(1).trim().split("\\)\\s*,\\s*\\(")) {
            List<GeographyPointValue> points = new ArrayList<>();
            for (String point : ring.replaceAll("[()]", " ").split(",")) {
                points.add(GeographyPointValue.fromWKT("POINT(" + point + ")"));
            }
            rings.add(points);
        }
        return rings;
    }

    public List<List<GeographyPointValue>> getRings() {
        return rings;
    }

    public String toWKT() {
        StringBuilder out = new StringBuilder("POLYGON (");
        for (int r = 0; r < rings.size(); r++) {
            out.append(r == 0 ? "(" : ", (");
            List<GeographyPointValue> ring = rings.get(r);
            for (int i = 0; i < ring.size(); i++) {
                out.append(i == 0 ? "" : ", ").append(ring.get(i).coordinates());
            }
            out.append(")");
        }
        return out.append(")").toString();
    }

    @Override
    public String toString() {
        return toWKT();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof GeographyValue && rings.equals(((GeographyValue) other).rings);
    }

    @Override
    public int hashCode() {
        return rings.hashCode();
    }

    public int getLengthInBytes() {
        int length = 7 + BOUND_BYTES;
        for (List<GeographyPointValue> ring : rings) {
            length += 10 + BOUND_BYTES + 24 * (ring.size() - 1);
        }
        return length;
    }

    /** In the protocol's encoding. */
    public byte[] toBytes() {
        ByteBuffer out = ByteBuffer.allocate(getLengthInBytes());
        flattenToBuffer(out);
        return out.array();
    }

    public void flattenToBuffer(ByteBuffer out) {
        out.put((byte) 0);
        out.put((byte) 1);
        out.put((byte) (rings.size() > 1 ? 1 : 0));
        out.putInt(rings.size());
        for (int r = 0; r < rings.size(); r++) {
            List<GeographyPointValue> ring = rings.get(r);
            int vertices = ring.size() - 1;
            out.put((byte) 0);
            out.putInt(vertices);
            for (int i = 0; i < vertices; i++) {
                // Holes are turned round, their first vertex staying the first.
                GeographyPointValue point = ring.get(r == 0 || i == 0 ? i : vertices - i);
                double longitude = Math.toRadians(point.getLongitude());
                double latitude = Math.toRadians(point.getLatitude());
                out.putDouble(Math.cos(latitude) * Math.cos(longitude));
                out.putDouble(Math.cos(latitude) * Math.sin(longitude));
                out.putDouble(Math.sin(latitude));
            }
            out.put((byte) 0);
            out.putInt(r == 0 ? 0 : 1);
            putBound(out);
        }
        putBound(out);
    }

    private static void putBound(ByteBuffer out) {
        out.put((byte) 0);
        for (int i = 0; i < 4; i++) {
            out.putDouble(GeographyPointValue.NULL_COORDINATE);
        }
    }

    /** From the protocol's encoding. */
    public static GeographyValue fromBytes(byte[] bytes) {
        return unflattenFromBuffer(ByteBuffer.wrap(bytes));
    }

    public static GeographyValue unflattenFromBuffer(ByteBuffer in) {
        in.position(in.position() + 3);
        int count = in.getInt();
        List<List<GeographyPointValue>> rings = new ArrayList<>();
        for (int r = 0; r < count; r++) {
            in.get();
            int vertices = in.getInt();
            List<GeographyPointValue> ring = new ArrayList<>();
            for (int i = 0; i < vertices; i++) {
                double x = in.getDouble();
                double y = in.getDouble();
                double z = in.getDouble();
                double latitude = Math.toDegrees(Math.atan2(z, Math.sqrt(x * x + y * y)));
                ring.add(new GeographyPointValue(Math.toDegrees(Math.atan2(y, x)), latitude));
            }
            in.position(in.position() + 5 + BOUND_BYTES);
            if (r > 0) {
                Collections.reverse(ring.subList(1, ring.size()));
            }
            ring.add(ring.get(0));
            rings.add(ring);
        }
        in.position(in.position() + BOUND_BYTES);
        return new GeographyValue(rings);
    }
}

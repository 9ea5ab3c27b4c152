package io.ferritedb.client;

import java.util.List;

/**
 * Rings of points without the repeated last one. The first ring is the outer one,
 * counter-clockwise; the others are holes, clockwise.
 */
public record Polygon(List<List<Point>> rings) {
    /**
     * Takes copies of the rings.
     *
     * @throws IllegalArgumentException without a ring, or if one has fewer than three points
     */
    public Polygon {
        rings = rings.stream().map(List::copyOf).toList();
        if (rings.isEmpty() || rings.stream().anyMatch(ring -> ring.size() < 3)) {
            throw new IllegalArgumentException("a polygon has at least one ring, a ring at least three points");
        }
    }
}

package io.ferritedb.client;

import java.util.function.Function;

/**
 * An application's own way from rows to its objects, for {@link Client#procedures(Class,
 * RowMapping)}.
 */
public interface RowMapping {
    /**
     * How a row becomes such an object; null if this mapping does not know, so that records are
     * made by the names of their columns.
     */
    <T> Function<Row, T> mapper(Class<T> type);
}

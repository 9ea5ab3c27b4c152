package io.ferritedb.client;

import java.util.List;
import java.util.NoSuchElementException;

/** What a successful call gave. */
public final class CallResult {
    private final List<Table> tables;
    private final String statusText;
    private final Integer applicationStatus;
    private final String applicationStatusText;
    private final int serverMilliseconds;

    CallResult(List<Table> tables, String statusText, Integer applicationStatus, String applicationStatusText, int serverMilliseconds) {
        this.tables = tables;
        this.statusText = statusText;
        this.applicationStatus = applicationStatus;
        this.applicationStatusText = applicationStatusText;
        this.serverMilliseconds = serverMilliseconds;
    }

    /** The tables of the answer, in order; never null, perhaps empty. */
    public List<Table> tables() {
        return tables;
    }

    /**
     * The first table; never null.
     *
     * @throws NoSuchElementException if there is none
     */
    public Table table() {
        if (tables.isEmpty()) throw new NoSuchElementException("the procedure returned no table");
        return tables.get(0);
    }

    /**
     * First column of the first row of the first table: what a procedure returned, or how many rows
     * a statement changed.
     *
     * @throws NoSuchElementException if there is no table or no row
     * @throws NullPointerException if it is NULL
     * @throws ClassCastException if it is not an integer
     */
    public long scalarLong() {
        return table().scalarLong();
    }

    /**
     * Rows of the first table as records; never null. See {@link Table#as}.
     *
     * @throws NoSuchElementException if there is no table
     * @throws IllegalArgumentException if the table lacks a column for a component
     */
    public <T extends Record> List<T> as(Class<T> type) {
        return table().as(type);
    }

    /** What the server said beside the result, or null. */
    public String statusText() {
        return statusText;
    }

    /** Status that the procedure set, or null. */
    public Integer applicationStatus() {
        return applicationStatus;
    }

    /** Text that the procedure set, or null. */
    public String applicationStatusText() {
        return applicationStatusText;
    }

    /** Milliseconds that the server spent on the call. */
    public int serverMilliseconds() {
        return serverMilliseconds;
    }

    @Override
    public String toString() {
        return tables.toString();
    }
}

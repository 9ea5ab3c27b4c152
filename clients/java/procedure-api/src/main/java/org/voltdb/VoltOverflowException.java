package org.voltdb;

/** A table that would become too large. */
public class VoltOverflowException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public VoltOverflowException(String message) {
        super(message);
    }
}

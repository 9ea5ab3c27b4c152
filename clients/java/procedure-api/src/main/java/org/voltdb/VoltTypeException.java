package org.voltdb;

/** A value that is not of the type it should be. */
public class VoltTypeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public VoltTypeException() {
    }

    public VoltTypeException(String message) {
        super(message);
    }

    public VoltTypeException(Throwable cause) {
        super(cause);
    }

    public VoltTypeException(String message, Throwable cause) {
        super(message, cause);
    }
}

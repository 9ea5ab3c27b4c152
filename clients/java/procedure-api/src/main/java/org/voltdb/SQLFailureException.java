package org.voltdb;

/**
 * A batch of statements could not be carried out: a constraint, an overflow, a limit. None of its statements has happened. A procedure
 * may catch it and go on; uncaught it rolls the procedure back.
 */
public class SQLFailureException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public SQLFailureException(String message) {
        super(message);
    }
}

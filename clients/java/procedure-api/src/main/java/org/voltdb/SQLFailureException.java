package org.voltdb;

import org.voltdb.exceptions.SerializableException;

/**
 * A batch of statements could not be carried out: a constraint, an overflow, a limit. None of its
 * statements has happened. A procedure may catch it, as the {@link
 * VoltProcedure.VoltAbortException} that it is too, and go on; uncaught it rolls the procedure
 * back.
 */
public class SQLFailureException extends SerializableException {
    private static final long serialVersionUID = 1L;

    public SQLFailureException(String message) {
        super(message);
    }
}

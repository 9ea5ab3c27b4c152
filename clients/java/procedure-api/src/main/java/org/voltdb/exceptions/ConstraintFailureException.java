package org.voltdb.exceptions;

/** A batch of statements would have violated a constraint. */
public class ConstraintFailureException extends SQLException {
    private static final long serialVersionUID = 1L;

    public ConstraintFailureException(String message) {
        super(message);
    }
}

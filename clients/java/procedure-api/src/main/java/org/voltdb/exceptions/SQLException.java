package org.voltdb.exceptions;

import org.voltdb.SQLFailureException;

/** A batch of statements could not be carried out. */
public class SQLException extends SQLFailureException {
    private static final long serialVersionUID = 1L;

    public SQLException(String message) {
        super(message);
    }
}

package org.voltdb.exceptions;

import org.voltdb.VoltProcedure;

/** What the server throws within a procedure. */
public class SerializableException extends VoltProcedure.VoltAbortException {
    private static final long serialVersionUID = 1L;

    public SerializableException(String message) {
        super(message);
    }
}

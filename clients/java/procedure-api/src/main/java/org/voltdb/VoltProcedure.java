package org.voltdb;

import java.util.Date;
import java.util.Random;

/**
 * A stored procedure. A subclass has a public constructor without parameters, fields of type {@link
 * SQLStmt}, and one public method {@code run} that returns long, {@link VoltTable}, an array of it,
 * or an object form of long. Each call is a transaction: all of it happens, or after an exception
 * nothing.
 *
 * <p>An object is used by one thread at a time and kept from call to call; what its fields hold
 * outlives the call.
 */
public abstract class VoltProcedure {
    public static final Expectation EXPECT_EMPTY = new Expectation(Expectation.Kind.EMPTY);
    public static final Expectation EXPECT_ONE_ROW = new Expectation(Expectation.Kind.ONE_ROW);
    public static final Expectation EXPECT_ZERO_OR_ONE_ROW = new Expectation(Expectation.Kind.ZERO_OR_ONE_ROW);
    public static final Expectation EXPECT_NON_EMPTY = new Expectation(Expectation.Kind.NON_EMPTY);
    public static final Expectation EXPECT_SCALAR = new Expectation(Expectation.Kind.SCALAR);
    public static final Expectation EXPECT_SCALAR_LONG = new Expectation(Expectation.Kind.SCALAR_LONG);

    /** What the server gives; null outside of it. */
    ProcedureContext context;

    /** Rolls the procedure back, by its own wish. */
    public static class VoltAbortException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        public VoltAbortException() {
        }

        public VoltAbortException(String message) {
            super(message);
        }

        public VoltAbortException(Throwable cause) {
            super(cause);
        }

        public VoltAbortException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    public VoltProcedure() {
    }

    ProcedureContext context() {
        if (context == null) {
            throw new IllegalStateException("a procedure runs in a server only, and not in its own constructor");
        }
        return context;
    }

    public static Expectation EXPECT_SCALAR_MATCH(long value) {
        return new Expectation(Expectation.Kind.SCALAR_MATCH, value);
    }

    /** Adds a statement to the batch, with values for its {@code ?}. */
    public void voltQueueSQL(SQLStmt statement, Object... values) {
        context().queue(statement, null, values);
    }

    /** Adds a statement whose result is checked. */
    public void voltQueueSQL(SQLStmt statement, Expectation expectation, Object... values) {
        context().queue(statement, expectation, values);
    }

    /** Runs the batch: a result for each statement, in their order. */
    public VoltTable[] voltExecuteSQL() {
        return context().execute(false);
    }

    /** Runs the batch; true promises that no other follows. */
    public VoltTable[] voltExecuteSQL(boolean isFinalSQL) {
        return context().execute(isFinalSQL);
    }

    /** A number that no other transaction has. */
    public long getUniqueId() {
        return context().uniqueId();
    }

    /** When the transaction began. */
    public Date getTransactionTime() {
        return new Date(Math.floorDiv(context().transactionTimeMicros(), 1000L));
    }

    /** Random numbers that follow from {@link #getUniqueId()}. */
    public Random getSeededRandomNumberGenerator() {
        return context().random();
    }

    /** A status of the procedure's own, which its caller receives. */
    public void setAppStatusCode(byte code) {
        context().statusCode(code);
    }

    public void setAppStatusString(String text) {
        context().statusString(text);
    }

    public int getClusterId() {
        context();
        return 0;
    }

    /** The partition that the procedure runs on; 16383 when it runs on all of them. */
    public int getPartitionId() {
        return context().partition();
    }
}

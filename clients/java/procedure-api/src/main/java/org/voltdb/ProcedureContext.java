package org.voltdb;

import java.util.Random;

/**
 * What the server does for a procedure. Not for use by procedures, which call the methods of {@link
 * VoltProcedure}.
 */
interface ProcedureContext {
    void queue(SQLStmt statement, Expectation expectation, Object[] values);

    void queueText(String sql, Object[] values);

    void load(String table, VoltTable rows);

    VoltTable[] execute(boolean last);

    long uniqueId();

    long transactionTimeMicros();

    Random random();

    void statusCode(byte code);

    void statusString(String text);

    int partition();
}

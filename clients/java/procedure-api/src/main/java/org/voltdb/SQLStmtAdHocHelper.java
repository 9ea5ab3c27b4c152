package org.voltdb;

/**
 * Statements that a procedure makes up. They are compiled in each call, so an {@link SQLStmt} is
 * better wherever the text is known.
 */
public abstract class SQLStmtAdHocHelper {
    private SQLStmtAdHocHelper() {
    }

    /** Adds a statement to the procedure's batch, with values for its {@code ?}. */
    public static void voltQueueSQLExperimental(VoltProcedure procedure, String sql, Object... values) {
        procedure.context().queueText(sql, values);
    }
}
